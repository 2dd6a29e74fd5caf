"""Defences of codes: what leaves a site, what it costs, what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cofill.completion import load_model
from cofill.cooperate import CodeDefence, CooperativeReconstruction, fit_many
from cofill.cooperate._encode import ANNOUNCE, ENCODE, SEND_CODES, encode_rows
from cofill.cooperate._needs import NARROW, best_directions
from cofill.errors import DataError, SettingError
from cofill.metrics import r2_per_feature
from cofill.nets import TrainSettings
from cofill.privacy import (
    Budget,
    Gate,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    Needs,
    epsilon,
    rows_of,
)
from cofill.protocol import run_steps
from cofill.views import MultiView


def sent(model: CooperativeReconstruction, sender: str, receiver: str):
    """The codes that a receiver got when the system learned."""
    return model.sites_[receiver].peer_codes[sender]


def plain(model: CooperativeReconstruction, sender: str, receiver: str) -> np.ndarray:
    """What the encoder makes of the same people's rows."""
    site = model.sites_[sender]
    return encode_rows(site, rows_of(site.tokens, sent(model, sender, receiver).tokens))


def linear_r2(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """R² per feature of a fresh attacker with half of the pairs, over the other half."""
    half = len(codes) // 2
    inputs = np.hstack([codes, codes**2, np.ones((len(codes), 1))])
    penalty = 0.1 * np.eye(inputs.shape[1])
    taught = np.linalg.solve(
        inputs[:half].T @ inputs[:half] + penalty, inputs[:half].T @ rows[:half]
    )
    return r2_per_feature(rows[half:], inputs[half:] @ taught)


@pytest.fixture(scope="module")
def views(related) -> MultiView:
    return related(160)


@pytest.fixture(scope="module")
def fitted(quick, views) -> dict[str, CooperativeReconstruction]:
    """One system a defence, fitted together."""
    defences = {
        "default": None,
        "none": CodeDefence(),
        "narrow": CodeDefence(width=2),
        "share": CodeDefence(width=0.34),
        "bits": CodeDefence(bits=2),
        "noise": CodeDefence(epsilon=50.0),
        "noisy bits": CodeDefence(epsilon=50.0, bits=3),
        "needs": CodeDefence(pilot=40, price=0.5),
    }
    models = {name: quick(defence=d) for name, d in defences.items()}
    fit_many(list(models.values()), [views] * len(models))
    return models


# --- no defence ---------------------------------------------------------------------------------


def test_without_a_defence_codes_are_the_encoders_own(fitted):
    model = fitted["default"]
    for sender, receiver in ("ab", "ba", "ca"):
        codes = sent(model, sender, receiver)
        assert codes.event is None
        assert codes.codes.dtype == np.float32
        assert np.array_equal(codes.codes, plain(model, sender, receiver))


def test_the_empty_defence_changes_nothing(fitted, views):
    one, other = fitted["default"], fitted["none"]
    assert one.ledger_.head == other.ledger_.head
    assert np.array_equal(one.reconstruct(views, "a"), other.reconstruct(views, "a"))


# --- width and levels ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["narrow", "share"])
def test_narrow_codes_have_the_width(fitted, name):
    assert sent(fitted[name], "a", "b").codes.shape == (160, 2)
    assert sent(fitted[name], "a", "b").spec.width == 2


@pytest.mark.parametrize(("name", "levels"), [("bits", 4), ("noisy bits", 8)])
def test_rounded_codes_have_few_levels(fitted, name, levels):
    codes = sent(fitted[name], "a", "b").codes
    assert all(2 <= len(np.unique(column)) <= levels for column in codes.T)
    assert len(np.unique(codes)) <= levels


def test_levels_are_near_the_code(fitted):
    codes = sent(fitted["bits"], "a", "b").codes
    assert np.abs(codes - plain(fitted["bits"], "a", "b")).max() <= 0.25 + 1e-6


# --- noise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0.5, 4.0, 50.0])
def test_gaussian_noise_is_the_accountants(wanted):
    defence = CodeDefence(epsilon=wanted, delta=1e-6, clip=0.7)
    # One person replaced by any other moves the clipped code by at most 1.4.
    event = GaussianEvent(defence.scale(5) / 1.4)
    assert epsilon(event, 1e-6) == pytest.approx(wanted, rel=1e-6)
    assert defence.guarantee(5).epsilon == pytest.approx(wanted, rel=1e-6)


def test_laplace_noise_is_the_accountants():
    defence = CodeDefence(epsilon=2.0, noise="laplace", clip=0.7)
    assert epsilon(LaplaceEvent(defence.scale(5) / 1.4), 0) == pytest.approx(2.0)
    assert defence.guarantee(5).delta == 0


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_drawn_noise_has_the_scale(kind):
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(4000, 5))
    defence = CodeDefence(epsilon=5.0, noise=kind, clip=0.5)
    noisy = defence.add_noise(codes, rng)
    order = 1 if kind == "laplace" else 2
    clipped = codes * np.minimum(1, 0.5 / np.linalg.norm(codes, ord=order, axis=1))[:, None]
    deviation = defence.scale(5) * (math.sqrt(2) if kind == "laplace" else 1)
    assert (noisy - clipped).std() == pytest.approx(deviation, rel=0.02)
    assert np.abs((noisy - clipped).mean(axis=0)).max() < 4 * deviation / math.sqrt(4000)


def test_a_noisy_code_is_drawn_once_and_paid_once(fitted, views):
    model = fitted["noise"]
    to_b, to_c = sent(model, "a", "b"), sent(model, "a", "c")
    at = rows_of(to_c.tokens, to_b.tokens)
    assert np.array_equal(to_b.codes, to_c.codes[at])
    assert not np.allclose(to_b.codes, plain(model, "a", "b"), atol=0.1)
    model.complete(views.hide({"b": np.arange(160) < 50}))
    assert Gate(model.ledger_).spent("a") == pytest.approx(50.0, rel=1e-6)
    asked = [e for e in model.ledger_ if e.sender == "a" and e.kind == "codes"]
    assert len(asked) > 2
    assert all(e.event == asked[0].event for e in asked)
    # The encoder was trained on the same rows: no release claims an ε as a whole.
    assert all(e.epsilon is None for e in asked)


def test_a_changed_row_is_not_told(fitted, views):
    model = fitted["noise"]
    hidden = views.hide({"b": np.arange(160) < 50})
    other = MultiView.from_arrays(
        {n: v.cells + (5.0 if n == "a" else 0.0) for n, v in views.items()}
    ).hide({"b": np.arange(160) < 50})
    before, after = (model.reconstruct(v, "b") for v in (hidden, other))
    assert np.array_equal(before, after)


def test_a_release_beyond_the_budget_is_refused(quick, views):
    defence = CodeDefence(epsilon=50.0)
    model = quick(defence=defence, budget=Budget(49.0))
    with pytest.raises(SettingError, match=r"codes from .* is refused.*ε = 50 of 49"):
        model.fit(views)
    assert not hasattr(model, "federation_")


def test_noise_on_codes_does_not_pay_for_the_encoder(fitted):
    codes = sent(fitted["noise"], "a", "b")
    strict = Gate(Ledger(), {"a": Budget(99.0, only_guaranteed=True)})
    with pytest.raises(SettingError, match="encoder training have no guarantee"):
        strict.pass_on(codes, "send codes")


# --- needs --------------------------------------------------------------------------------------


def test_a_pilot_goes_first_and_needs_come_back(fitted):
    model = fitted["needs"]
    steps = [(e.step, e.kind, e.individuals) for e in model.ledger_]
    pilot = [s for s in steps if s[0] == "send the pilot's codes"]
    assert pilot == [("send the pilot's codes", "codes", 40)] * 6
    assert [s[1] for s in steps if s[0] == "state needs"] == ["needs"] * 6
    assert {s[2] for s in steps if s[0] == "send codes"} == {160}
    # Two common factors: a third direction is of use to nobody.
    assert all(site.encoder.spec.width <= 2 for site in model.sites_.values())


def test_codes_do_not_leave_before_the_pilot(quick, views):
    started = quick(defence=CodeDefence(pilot=40)).start(views)
    with pytest.raises(SettingError, match="may not send codes before its pilot"):
        run_steps((ENCODE, ANNOUNCE, SEND_CODES), [started])


def test_needs_of_other_codes_are_refused(fitted):
    model = fitted["needs"]
    site = model.sites_["a"]
    site = replace(site, encoder=replace(site.encoder, awaits_needs=True))
    wrong = Needs(
        sender="b",
        receiver="a",
        spec=replace(site.encoder.spec, version="other"),
        directions=np.ones((site.encoder.spec.width, 1)),
        people=40,
    )
    with pytest.raises(DataError, match="needs from 'b' to 'a' are about other codes"):
        NARROW.run([site], [(wrong,)], lambda share: None)


def test_no_other_code_is_worth_more():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    rows = codes @ rng.normal(size=(6, 4)) + rng.normal(size=(300, 4))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    needs = 0.3 * rng.normal(size=(6, 2))
    centred = codes - codes.mean(axis=0)

    def worth(directions: np.ndarray) -> float:
        """What receivers explain by a code less the price of what an attacker does."""
        code = centred @ directions
        guess = code @ np.linalg.lstsq(code, centred, rcond=None)[0]
        leaked = code @ np.linalg.lstsq(code, rows, rcond=None)[0]
        return float(((guess @ needs) ** 2).mean(axis=0).sum() - 0.8 * (leaked**2).mean())

    kept, _ = best_directions(codes, rows, needs, price=0.8)
    best = worth(kept)
    assert best > 0
    for trial in range(200):
        other = np.random.default_rng(trial).normal(size=(6, 1 + trial % 6))
        assert worth(other) <= best + 1e-9


def test_a_saved_model_keeps_its_defence(fitted, views, tmp_path):
    model = fitted["needs"]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.defence == CodeDefence(pilot=40, price=0.5)
    assert np.allclose(loaded.reconstruct(views, "a"), model.reconstruct(views, "a"))


# --- an opponent --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_and_shared() -> MultiView:
    """Views that share one factor; the other columns of "a" are nobody else's business."""
    rng = np.random.default_rng(0)
    shared, private = rng.normal(size=(300, 1)), rng.normal(size=(300, 3))
    a = np.hstack([shared + 0.1 * rng.normal(size=(300, 1)), private])
    return MultiView.from_arrays({"a": a, "b": shared @ np.ones((1, 2)) + 0.1 * private[:, :2]})


@pytest.mark.parametrize(
    "defence",
    [
        pytest.param(CodeDefence(pilot=60, price=0.5, adversary=True), id="needs"),
        pytest.param(
            CodeDefence(width=2, price=1.0, adversary=True), id="alone", marks=pytest.mark.full
        ),
    ],
)
def test_an_opposed_encoder_tells_a_fresh_attacker_less(quick, own_and_shared, defence):
    views = own_and_shared
    training = TrainSettings(epochs=40, learning_rate=1e-2)
    models = [quick(encoder_training=training, defence=d) for d in (None, defence)]
    fit_many(models, [views] * 2)
    leak = []
    for model in models:
        codes = sent(model, "a", "b")
        site = model.sites_["a"]
        rows = site.encoded()[rows_of(site.tokens, codes.tokens)]
        leak.append(linear_r2(codes.codes.astype(np.float64), rows))
    assert leak[0].mean() > 0.9
    assert leak[1].mean() < 0.7
    if defence.pilot:
        assert leak[1][0] > 0.8  # what the receiver needs is kept
        assert leak[1][1:].mean() < 0.4


# --- bad settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("defence_settings", "words"),
    [
        ({"width": 0}, "width must be"),
        ({"width": 1.5}, "width must be"),
        ({"width": True}, "width must be"),
        ({"pilot": 1}, "pilot must be"),
        ({"pilot": -3}, "pilot must be"),
        ({"price": 1.0}, "price goes with"),
        ({"price": 0.0, "adversary": True}, "price must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta must be above 0"),
        ({"epsilon": 1.0, "clip": 0.0}, "clip must be"),
        ({"clip": 1.0}, "clip goes with epsilon"),
        ({"bits": 0}, "bits must be"),
        ({"bits": 17}, "bits must be at most"),
    ],
)
def test_bad_settings_are_named_in_one_sentence(defence_settings, words):
    with pytest.raises(SettingError, match=words) as caught:
        CodeDefence(**defence_settings)
    assert "\n" not in str(caught.value)


def test_a_pilot_must_teach_links(quick, views):
    with pytest.raises(SettingError, match="pilot must be at least min_overlap"):
        quick(defence=CodeDefence(pilot=10)).fit(views)


def test_codes_without_noise_have_no_guarantee():
    with pytest.raises(SettingError, match="epsilon must be set"):
        CodeDefence(width=2).guarantee(2)
