"""What crosses a border, what stays at a site, what the ledger says, what is refused."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from cofill.cooperate import fit_many
from cofill.cooperate._align import AGREE, OFFER, common_secret
from cofill.cooperate._learn import LEARN
from cofill.cooperate._predict import COMPLETE
from cofill.errors import DataError, SettingError
from cofill.privacy import BlindedIds, Codes, CodeSpec, Gate, Release, blind
from cofill.protocol import Federation, Step, run_steps
from cofill.views import MultiView, View

N = 120
CANARY = 7_700_000.0
"""Raw cells are above this; no code, scaled cell or count is near it."""


def marked(text_ids: bool) -> MultiView:
    """Three related views whose ids and cells can be recognised wherever they turn up."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 2))
    ids = (
        np.array([f"CANARY-{k:05d}" for k in range(N)])
        if text_ids
        else 77_000_000_000 + np.arange(N)
    )
    views = []
    for k, name in enumerate("abc"):
        there = np.arange(N) % 4 != k
        cells = CANARY + 1000 * (z @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(N, 3)))
        views.append(View(name, ids[there], cells[there]))
    return MultiView(views)


@pytest.fixture(scope="module", params=["text ids", "number ids"])
def exchange(request, quick):
    """A whole fit and complete, and every release that passed the gate with its step."""
    views = marked(request.param == "text ids")
    passed: list[tuple[str, Release]] = []
    original = Gate.pass_on

    def record(self: Gate, release: Release, step: str) -> Release:
        passed.append((step, release))
        return original(self, release, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gate, "pass_on", record)
        model = quick(method="auto").fit(views)
        done = model.complete(views)
    return model, views, passed, done


@pytest.fixture
def fitted(exchange):
    """The fitted estimator alone, for tests that leave it as it was."""
    return exchange[0]


def contents(thing: Any) -> list[Any]:
    """Everything in a value that is no container: arrays, texts, numbers."""
    if isinstance(thing, Mapping):
        return [x for pair in thing.items() for part in pair for x in contents(part)]
    if isinstance(thing, (tuple, list, set, frozenset)):
        return [x for part in thing for x in contents(part)]
    if is_dataclass(thing) and not isinstance(thing, type):
        return [x for f in fields(thing) for x in contents(getattr(thing, f.name, None))]
    return [thing]


def arrays(thing: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in contents(thing) if hasattr(x, "dtype") and hasattr(x, "shape")]


def raw_bytes(thing: Any) -> bytes:
    """Everything in a value as it would be sent: bytes of arrays, numbers and texts."""
    parts = []
    for x in contents(thing):
        if hasattr(x, "dtype") and hasattr(x, "shape"):
            parts.append(np.asarray(x).tobytes())
        parts.append(x if isinstance(x, bytes) else str(x).encode())
    return b"\0".join(parts)


def scaled(model: Any, views: MultiView, name: str) -> np.ndarray:
    return model.sites_[name].scaler.encode_view(views[name])[0]


def holds_rows(values: list[np.ndarray], cells: np.ndarray) -> bool:
    """Whether some cells of a table are among values, beyond what chance could bring."""
    # A few float32 numbers around 0 coincide by chance; a row or a column would not.
    return any(
        a.dtype.kind == "f" and np.isin(cells.astype(a.dtype), a).mean() > 0.01 for a in values
    )


# --- what crosses -----------------------------------------------------------------------------


def test_only_blinded_ids_and_codes_cross(exchange):
    _, _, passed, _ = exchange
    assert {type(release) for _, release in passed} == {BlindedIds, Codes}
    assert {r.kind for _, r in passed} == {"blinded-ids", "codes"}


def test_no_id_crosses(exchange):
    _, views, passed, _ = exchange
    sent = b"".join(raw_bytes(release) for _, release in passed)
    for one in views.ids:
        assert str(one).encode() not in sent
        assert one.tobytes() not in sent
        assert str(one).encode("utf-32-le") not in sent


def test_no_cell_and_no_row_crosses(exchange):
    model, views, passed, _ = exchange
    for _, release in passed:
        values = [a for a in arrays(release) if a.dtype.kind in "fiu"]
        sent = raw_bytes(release)
        for name in views:
            cells = views[name].cells
            for kind in (np.float64, np.float32):
                assert not any(np.isin(cells.astype(kind), a).any() for a in values)
                assert not any(row.astype(kind).tobytes() in sent for row in cells)
            assert not holds_rows(values, scaled(model, views, name))
        assert all(np.abs(a).max(initial=0) < CANARY / 2 for a in values)


def test_no_code_holds_a_scaled_cell_of_its_own_row(exchange):
    model, views, passed, _ = exchange
    for _, release in passed:
        if isinstance(release, Codes):
            site = model.sites_[release.sender]
            rows = [site.tokens.tolist().index(t) for t in release.tokens.tolist()]
            rows_sent = scaled(model, views, release.sender)[rows].astype(np.float32)
            same = release.codes.astype(np.float32)[:, :, None] == rows_sent[:, None, :]
            assert not same.any()


def test_tokens_are_sent_in_an_order_that_tells_nothing(exchange):
    _, _, passed, _ = exchange
    for _, release in passed:
        tokens = release.tokens.tolist()
        assert tokens == sorted(tokens)
        assert len(set(tokens)) == len(tokens)


def test_a_link_is_trained_on_codes_of_shared_individuals_alone(exchange):
    model, views, passed, _ = exchange
    sent = [r for step, r in passed if step == "send codes"]
    assert {(r.sender, r.receiver) for r in sent} == {
        (a, b) for a in "abc" for b in "abc" if a != b
    }
    for release in sent:
        shared = views.ids[views.present(release.sender) & views.present(release.receiver)]
        tokens = blind(shared, model.sites_[release.sender].secret)
        assert set(release.tokens.tolist()) == set(tokens.tolist())


def test_an_answer_holds_what_was_asked_and_nothing_else(exchange):
    model, views, passed, _ = exchange
    asked = {(r.sender, r.receiver): r for step, r in passed if step == "ask"}
    answers = [r for step, r in passed if step == "answer"]
    assert len(answers) == len(asked) == 6
    for answer in answers:
        request = asked[answer.receiver, answer.sender]
        assert answer.tokens.tolist() == request.tokens.tolist()
        lacking = ~views.present(answer.receiver) & views.present(answer.sender)
        tokens = blind(views.ids[lacking], model.sites_[answer.sender].secret)
        assert set(answer.tokens.tolist()) == set(tokens.tolist())


# --- what stays -------------------------------------------------------------------------------


def test_a_site_holds_no_row_and_no_id_of_another(exchange):
    model, views, _, _ = exchange
    for name, site in model.sites_.items():
        values, everything = arrays(site), raw_bytes(site)
        assert holds_rows(values, views[name].cells)  # the check sees what is there
        for other in views:
            if other != name:
                assert not holds_rows(values, views[other].cells)
                assert not holds_rows(values, scaled(model, views, other))
                for row in views[other].cells:
                    assert row.tobytes() not in everything
                theirs = np.setdiff1d(views[other].ids, views[name].ids)
                assert len(theirs)
                for one in theirs:
                    assert str(one).encode() not in everything
                    assert one.tobytes() not in everything


def test_a_site_knows_no_network_of_another(exchange):
    model, *_ = exchange
    for name, site in model.sites_.items():
        weights = [a for a in arrays(site) if a.ndim == 2]
        for other, peer in model.sites_.items():
            if other != name:
                for theirs in arrays(peer.encoder.network):
                    if theirs.ndim == 2:
                        assert not any(np.array_equal(theirs, a) for a in weights)


# --- the secret -------------------------------------------------------------------------------


def test_sites_agree_on_one_secret(quick):
    started = quick().start(marked(text_ids=True))
    for k, (name, site) in enumerate(started.sites.items()):
        started.sites[name] = replace(site, secret=bytes([k]) * 32)
    run_steps([OFFER, AGREE], [started])
    wanted = common_secret({name: bytes([k]) * 32 for k, name in enumerate(started.sites)})
    assert {site.secret for site in started.sites.values()} == {wanted}


def test_a_site_that_offers_no_secret_is_named(quick):
    started = quick().start(marked(text_ids=True))
    with pytest.raises(DataError, match="site 'b' must offer 32 bytes to site 'a'"):
        AGREE.run([started.sites["a"]], [()], lambda share: None)


# --- the ledger -------------------------------------------------------------------------------


def test_the_ledger_lists_exactly_what_crossed(exchange):
    model, _, passed, _ = exchange
    assert len(model.ledger_) == len(passed) > 0
    for entry, (step, release) in zip(model.ledger_, passed, strict=True):
        values = sum(a.nbytes for a in arrays(release))
        assert (entry.step, entry.kind) == (step, release.kind)
        assert (entry.sender, entry.receiver) == (release.sender, release.receiver)
        assert entry.individuals == len(release.tokens)
        assert entry.bytes == values


def test_the_ledger_shows_no_id_no_token_and_no_cell(exchange):
    model, views, passed, _ = exchange
    shown = repr(model.ledger_) + repr(model.ledger_.to_list()) + repr(list(model.ledger_))
    for one in (*views.ids.tolist(), *passed[0][1].tokens.tolist()):
        assert (one.decode() if isinstance(one, bytes) else str(one)) not in shown


def test_completing_adds_to_the_ledger(exchange):
    model, views, _, _ = exchange
    before = model.ledger_.to_list()
    model.complete(views)
    after = model.ledger_.to_list()
    assert after[: len(before)] == before
    assert {e["step"] for e in after[len(before) :]} == {"align", "ask", "answer"}


# --- errors leave everything as it was --------------------------------------------------------


def state(model: Any) -> tuple[Any, ...]:
    return dict(model.sites_), model.ledger_.to_list(), model.trained_, dict(model.features_)


@pytest.fixture
def broken_line(monkeypatch):
    """The third release from now on does not get through."""
    original, count = Gate.pass_on, [0]

    def fail(self: Gate, release: Release, step: str) -> Release:
        count[0] += 1
        if count[0] == 3:
            raise ConnectionError("the line is down")
        return original(self, release, step)

    monkeypatch.setattr(Gate, "pass_on", fail)


def test_an_error_while_completing_changes_nothing(exchange, broken_line):
    model, views, _, done = exchange
    before = state(model)
    with pytest.raises(ConnectionError):
        model.complete(views)
    assert state(model) == before
    again = model.complete(views)
    for name in views:
        np.testing.assert_array_equal(again.cells[name], done.cells[name])


def test_an_error_while_a_view_joins_or_leaves_changes_nothing(exchange, broken_line, monkeypatch):
    model, views, *_ = exchange
    before = state(model)
    joining = View("d", views["a"].ids, views["a"].cells)
    with pytest.raises(ConnectionError):
        model.add_view(joining)
    assert state(model) == before
    monkeypatch.setattr(Gate, "pass_on", _refuse)
    with pytest.raises(ConnectionError):
        model.remove_view("c")
    assert state(model) == before


def _refuse(self: Gate, release: Release, step: str) -> Release:
    raise ConnectionError("the line is down")


@pytest.mark.parametrize("again", ["fit", "fit_many"])
def test_an_error_while_fitting_again_leaves_the_old_fit(quick, monkeypatch, again):
    views = marked(text_ids=True)
    model = quick(method="masked").fit(views)
    before, done = state(model), model.complete(views)
    crossed = len(model.ledger_)
    monkeypatch.setattr(Gate, "pass_on", _refuse)
    with pytest.raises(ConnectionError):
        model.fit(views.select(["a", "b"])) if again == "fit" else fit_many([model], [views])
    monkeypatch.undo()
    assert (state(model)[0], state(model)[2:]) == (before[0], before[2:])
    assert len(model.ledger_) == crossed
    np.testing.assert_array_equal(model.complete(views).cells["a"], done.cells["a"])


# --- unsound codes ----------------------------------------------------------------------------


def sound_codes(model: Any, **changes: Any) -> Codes:
    """Sound codes from b to a, of b's first thirty individuals, with changes."""
    sender, receiver = model.sites_["b"], model.sites_["a"]
    spec = sender.encoder.spec
    values = {
        "sender": "b",
        "receiver": "a",
        "spec": spec,
        "tokens": np.intersect1d(sender.tokens, receiver.tokens)[:30],
        "codes": np.full((30, spec.width), 0.123456, np.float32),
    }
    return Codes(**{**values, **changes})


def deliver(model: Any, release: Codes, step: Step[Any]) -> Federation[Any]:
    """Run a step at the sites of a copy of the federation, with the release in a's inbox."""
    trial = Federation(dict(model.sites_))

    def send(sites, inboxes, report_progress):
        return [(s, [release] if s.name == release.sender else []) for s in sites]

    before = dict(trial.sites)
    try:
        run_steps([Step("send", send), step], [trial])
    except Exception:
        assert trial.sites == before
        assert len(trial.ledger) == 0
        raise
    return trial


def wide(model: Any, more: int) -> dict[str, Any]:
    return {"codes": np.zeros((30, model.sites_["b"].encoder.spec.width + more), np.float32)}


def other_spec(model: Any, **changes: Any) -> dict[str, Any]:
    return {"spec": replace(model.sites_["b"].encoder.spec, **changes)}


UNSOUND = {
    "nan": (lambda m: {"codes": sound_codes(m).codes * np.nan}, "30 codes are not finite"),
    "infinite": (lambda m: {"codes": sound_codes(m).codes * np.inf}, "30 codes are not finite"),
    "too wide": (lambda m: wide(m, 1), "announced were"),
    "too narrow": (lambda m: wide(m, -1), "announced were"),
    "unknown view": (lambda m: other_spec(m, view="z"), "view 'z', which is not known here"),
    "too few codes": (
        lambda m: {"codes": sound_codes(m).codes[:-1]},
        "30 individuals for 29 codes",
    ),
}
ONLY_COMPLETE = {
    "other version": (lambda m: other_spec(m, version="0" * 16), "another version of the encoder"),
    "other width": (
        lambda m: {**wide(m, 1), **other_spec(m, width=m.sites_["b"].encoder.spec.width + 1)},
        "the links were trained on",
    ),
}


@pytest.mark.parametrize(
    ("step", "change", "words"),
    [
        *((LEARN, *case) for case in UNSOUND.values()),
        *((COMPLETE, *case) for case in (UNSOUND | ONLY_COMPLETE).values()),
    ],
    ids=[f"learn, {n}" for n in UNSOUND] + [f"complete, {n}" for n in UNSOUND | ONLY_COMPLETE],
)
def test_unsound_codes_are_refused_and_change_nothing(fitted, step, change, words):
    before = state(fitted)
    release = sound_codes(fitted, **change(fitted))
    with pytest.raises(DataError, match=words) as caught:
        deliver(fitted, release, step)
    message = str(caught.value)
    assert "refused" in message
    assert "0.123" not in message
    assert not any(t.decode() in message for t in release.tokens.tolist())
    assert state(fitted) == before


def test_sound_codes_are_taken(fitted):
    rows = deliver(fitted, sound_codes(fitted), COMPLETE).sites["a"].reconstructed
    assert len(rows.tokens) == 30
    assert np.isfinite(rows.expected).all()


def test_codes_of_a_view_that_was_no_link_are_refused(fitted):
    # A site that joined behind the receiver's back.
    stranger = replace(fitted.sites_["b"], name="z")
    release = sound_codes(fitted, sender="z", spec=CodeSpec("z", 4, "v"), codes=np.ones((30, 4)))
    trial = Federation({**fitted.sites_, "z": stranger})
    send = Step("send", lambda s, i, t: [(x, [release] if x.name == "z" else []) for x in s])
    with pytest.raises(DataError, match="not known here; refused"):
        run_steps([send, COMPLETE], [trial])


# --- what may not be sent ---------------------------------------------------------------------


class _Rows(Release):
    """It has no kind, so it is not registered."""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: _Rows(sender="b", receiver="a"), "_Rows is no declared type of release"),
        (lambda m: replace(sound_codes(m), sender="c"), "'b' may not send as 'c'"),
        (lambda m: replace(sound_codes(m), receiver="nobody"), "no other site 'nobody'"),
        (lambda m: replace(sound_codes(m), receiver="b"), "no other site 'b'"),
    ],
)
def test_a_site_cannot_send_what_it_may_not(fitted, make, words):
    release = make(fitted)
    trial = Federation(dict(fitted.sites_))
    send = Step("send", lambda s, i, t: [(x, [release] if x.name == "b" else []) for x in s])
    with pytest.raises(SettingError, match=words):
        run_steps([send, COMPLETE], [trial])
    assert trial.sites == dict(fitted.sites_)
    assert len(trial.ledger) == 0
