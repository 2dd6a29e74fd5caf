"""The network driver without a network: equal results, gate and ledger, resuming, refusals."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from cofill.cooperate import CooperativeReconstruction
from cofill.errors import DataError, SettingError, StoreError
from cofill.network._messages import read_message, write_message
from cofill.network._order import RunOrder, Schedule, new_run
from cofill.network._policy import PlainRule
from cofill.network._site_runner import SiteRunner
from cofill.privacy import (
    BlindedIds,
    Codes,
    Ledger,
    MessageAddress,
    ModelWeights,
    Release,
    RunFigures,
    Update,
    decode_releases,
    encode_releases,
)
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Federation,
    LocalData,
    SiteResult,
    Step,
    run_protocol,
)
from cofill.views import FilledTable, MultiView

from .conftest import OPEN, advance, run_in_process

FAST = {
    "alignment": "hash",  # as in one process, and quick
    "fusion": {"hidden": [], "folds": 3},
    "encoder_training": {"epochs": 30, "learning_rate": 0.01},
}


def completed(federation, name: str) -> np.ndarray:
    table = pq.read_table(federation.results(name) / f"{name}.parquet")
    order = np.argsort(table.column("id").to_pylist())
    cells = [table.column(c).to_numpy() for c in table.column_names if c != "id"]
    return np.stack(cells, axis=1)[order]


def run_all(federation, **sites):
    places = {name: federation.place(name, **sites) for name in federation.federation.names}
    office = federation.office()
    run_in_process(office, places)
    return office


def until(federation, step: int):
    """Run up to a step and return post office and places."""
    office = federation.office()
    places = {name: federation.place(name) for name in federation.federation.names}
    while office.next < step:
        for name in office.schedule.actors(office.next):
            office.receive(name, places[name].act(office.next, office.messages_for(name)))
        office.advance()
    return office, places


# --- the same result --------------------------------------------------------------------------


def test_places_complete_what_the_estimator_completes(here, whole):
    federation = here()
    federation.is_reproducible = True
    office = run_all(federation)
    for name in federation.views:
        np.testing.assert_allclose(completed(federation, name), whole.cells[name], rtol=1e-9)
    assert set(office.metrics) == set(federation.views)
    for name, figures in office.metrics.items():
        assert figures["reconstructed_rows"] == whole.counts(name)["reconstructed_rows"] > 0
        assert figures["unnamed_rows"] == 0


def test_a_site_may_hold_two_views(here, whole):
    federation = here(sites={"one": ("a", "b"), "two": ("c",)})
    federation.is_reproducible = True
    run_all(federation)
    for site, name in (("one", "a"), ("one", "b"), ("two", "c")):
        table = pq.read_table(federation.results(site) / f"{name}.parquet").sort_by("id")
        cells = np.stack([table.column(c).to_numpy() for c in table.column_names if c != "id"], 1)
        np.testing.assert_allclose(cells, whole.cells[name], rtol=1e-9)
    # What goes from view to view inside a site has not left it.
    crossed = Ledger.load(federation.ledger("one"))
    assert {e.receiver for e in crossed} == {"c", "coordinator"}


def test_without_a_list_of_people_rows_of_others_have_no_name(here):
    federation = here()
    run_all(federation, people=None)
    named = pq.read_table(federation.results("a") / "a.parquet").column("id").to_pylist()
    assert sorted(named) == federation.views["a"].ids.tolist()
    unnamed = pq.read_table(federation.results("a") / "a_unnamed.parquet")
    assert len(unnamed) == federation.views.n_individuals - len(federation.views["a"])
    assert not any("CANARY" in token for token in unnamed.column("token").to_pylist())


def test_the_secret_is_common_new_in_each_run_and_not_the_seeds(here):
    federation = here()
    secrets = []
    for run in (new_run(), new_run()):
        federation.order = RunOrder(run, "cooperate", federation.order.settings)
        _, places = until(federation, 2)
        found = {p.parties[n].secret for n, p in places.items()}
        assert len(found) == 1
        secrets += found
    assert secrets[0] != secrets[1]
    started = CooperativeReconstruction().start(federation.views)
    assert next(iter(started.sites.values())).secret not in secrets


def test_with_an_intersection_the_result_is_the_same(here, whole):
    federation = here()
    federation.is_reproducible = True
    federation.order = RunOrder(new_run(), "cooperate", {**FAST, "alignment": "psi"})
    office, _ = until(federation, 5)
    strict = replace(OPEN, keyed_hashes=False)
    resumed = {name: federation.place(name, policy=strict) for name in "abc"}
    run_in_process(office, resumed)
    for name in federation.views:
        np.testing.assert_allclose(completed(federation, name), whole.cells[name], rtol=1e-9)


def test_with_an_intersection_a_site_hears_only_of_people_it_can_name(here):
    federation = here()
    federation.order = RunOrder(new_run(), "cooperate", {**FAST, "alignment": "psi"})
    # Site a has no list of people: it can name those of its own view.
    federation.configs["a"] = replace(federation.configs["a"], people=None)
    _, places = until(federation, 9)
    heard = places["a"].parties["a"].peer_tokens
    own = set(places["a"].parties["a"].tokens.tolist())
    for peer in "bc":
        assert set(heard[peer].tolist()) < own
        assert len(heard[peer]) == federation.views.overlaps()["a", peer]
    everyone = set(places["b"].parties["b"].peer_tokens["c"].tolist())
    assert len(everyone) == len(federation.views["c"])
    kept = places["a"].folder.state.read_bytes()
    assert b"CANARY" not in kept


def test_a_site_may_insist_on_the_intersection(here):
    with pytest.raises(SettingError, match="order the run with --set alignment=psi"):
        here().place("a", policy=replace(OPEN, keyed_hashes=False))


@pytest.mark.parametrize("alignment", ["hash", "psi"])
def test_one_protocol_object_gives_the_same_bits_in_both_drivers(here, alignment):
    federation = here()
    federation.order = RunOrder(new_run(), "cooperate", {**FAST, "alignment": alignment})
    # The secret and the noise follow from the seed, so that even the tokens are the same.
    federation.is_reproducible = True
    schedule = federation.schedule()
    protocol, people = schedule.protocol, federation.views.ids
    data = {n: LocalData(n, {n: view}, people) for n, view in federation.views.items()}
    in_process = Federation({n: protocol.start_site(data[n])[n] for n in data})
    run_protocol(protocol, [in_process])

    run_all(federation)
    for name in data:
        result = protocol.finish(in_process.sites[name], data[name])
        for stem, table in result.tables.items():
            written = pq.read_table(federation.results(name) / f"{stem}.parquet")
            table = table.to_arrow() if isinstance(table, FilledTable) else table
            at = table.column_names[0] if "id" not in table.column_names else "id"
            assert written.sort_by(at).to_pydict() == table.sort_by(at).to_pydict()
        sent = [e for e in in_process.ledger if e.sender == name]
        crossed = [e for e in Ledger.load(federation.ledger(name)) if e.receiver != COORDINATOR]
        assert [(e.kind, e.receiver, e.bytes, e.individuals) for e in crossed] == [
            (e.kind, e.receiver, e.bytes, e.individuals) for e in sent
        ]


# --- gate and ledger --------------------------------------------------------------------------


def test_ledgers_list_exactly_the_releases_in_the_messages(here):
    federation = here()
    office, places = until(federation, federation.schedule().report)
    sent: dict[str, list[Release]] = {name: [] for name in places}
    for path in sorted(office.folder.messages.rglob("*.sealed")):
        sender, _, receiver = path.stem.partition("--")
        address = MessageAddress(federation.order.run, int(path.parent.name), sender, receiver)
        content = read_message(
            path.read_bytes(), address, federation.identities[receiver], limit=2**30
        )
        sent[sender] += decode_releases(content, sender)
    for name, releases in sent.items():
        ledger = Ledger.load(federation.ledger(name))
        assert len(ledger) == len(releases) == 12
        assert sorted(e.kind for e in ledger) == sorted(r.kind for r in releases)
        assert sum(e.bytes for e in ledger) == sum(r.n_bytes for r in releases)


def test_a_policy_that_names_receivers_refuses_others(here):
    federation = here()
    # Allowed, so that the run begins, and to somebody else, so that the gate refuses it.
    plain = {**OPEN.without_guarantee, "blinded-ids": PlainRule(people=1, to=("z",))}
    elsewhere = replace(OPEN, without_guarantee=plain)
    place = federation.place("a", policy=elsewhere)
    office, _ = until(federation, 3)
    place = SiteRunner(office.schedule, federation.identities["a"], place.config, place.home.path)
    with pytest.raises(SettingError, match="no guarantee and the site's budget"):
        place.act(3, office.messages_for("a"))
    assert len(Ledger.load(federation.ledger("a"))) == 2
    assert place.done == 2


def test_two_runs_write_to_one_ledger(here):
    federation = here()
    until(federation, 4)
    first = federation.order
    federation.order = RunOrder(new_run(), "cooperate", federation.order.settings)
    until(federation, 4)
    ledger = Ledger.load(federation.ledger("a"))
    assert sum(first.run in e.step for e in ledger) == 4
    assert sum(federation.order.run in e.step for e in ledger) == 4


def test_a_damaged_ledger_lets_nothing_out(here):
    federation = here()
    office, places = until(federation, 3)
    path = federation.ledger("a")
    path.write_text(path.read_text().replace('"bytes":32', '"bytes":31', 1))
    with pytest.raises(StoreError, match="changed"):
        places["a"].act(3, office.messages_for("a"))


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [pytest.param(k, marks=() if k in (3, 6, 9) else pytest.mark.full) for k in range(11)]
)
def test_a_run_goes_on_from_the_last_step_to_the_same_result(here, whole, step):
    federation = here()
    federation.is_reproducible = True
    office, places = until(federation, step)
    # One site had ended the next step when everything stopped.
    first = places["b"].act(step, office.messages_for("b"))
    before = federation.ledger("b").read_text()
    again = {name: federation.place(name) for name in federation.federation.names}
    assert again["b"].act(step, office.messages_for("b")) == first
    assert federation.ledger("b").read_text() == before  # not released and charged twice
    resumed = federation.office()
    assert resumed.next == step
    run_in_process(resumed, again)
    for name in federation.views:
        np.testing.assert_allclose(completed(federation, name), whole.cells[name], rtol=1e-9)
    assert {len(Ledger.load(federation.ledger(n))) for n in "abc"} == {13}


def test_nothing_of_others_is_kept_after_the_run(here):
    federation = here()
    office = run_all(federation)
    place = federation.place("a")
    assert place.parties == {}
    assert set(place.sent) == {COORDINATOR}
    assert not office.folder.messages.exists()
    again = federation.office()
    assert again.next > again.schedule.report
    assert again.metrics == office.metrics


def test_changed_rows_and_other_settings_do_not_go_on(here):
    federation = here()
    until(federation, 3)
    source = federation.configs["a"].views["a"].source
    table = pq.read_table(source)
    pq.write_table(table.slice(1), source)
    with pytest.raises(StoreError, match=r"rows of site 'a' have changed.*start a new run"):
        federation.place("a")
    federation.order = RunOrder(federation.order.run, "cooperate", {})
    with pytest.raises(SettingError, match="ordered with other settings"):
        federation.office()


def test_a_damaged_state_is_named(here):
    federation = here()
    _, places = until(federation, 3)
    path = places["a"].folder.state
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError):
        federation.place("a")


def test_a_site_that_lost_its_state_cannot_skip_steps(here):
    federation = here()
    office, places = until(federation, 4)
    places["a"].folder.state.unlink()
    with pytest.raises(StoreError, match=r"has not done step 0 .* cannot go on with step 4"):
        federation.place("a").act(4, office.messages_for("a"))


# --- refusals ---------------------------------------------------------------------------------


def forged(federation, place, step: int, releases: list[Release], sender: str = "b") -> bytes:
    address = MessageAddress(federation.order.run, step, sender, place.name)
    return write_message(
        encode_releases(releases), address, federation.identities[sender], limit=2**30
    )


def test_a_missing_message_and_one_too_many_are_refused(here):
    federation = here()
    office, places = until(federation, 4)
    mail = office.messages_for("a")
    lacking = {k: v for k, v in mail.items() if k[1] != "b"}
    with pytest.raises(DataError, match="no message from b"):
        places["a"].act(4, lacking)
    with pytest.raises(DataError, match="a message too many"):
        places["a"].act(4, {**mail, (0, "b"): mail[3, "b"]})
    assert places["a"].done == 3


def test_a_message_of_an_earlier_step_is_refused(here):
    federation = here()
    office, places = until(federation, 4)
    old = office.folder.message(2, "b", "a").read_bytes()
    with pytest.raises(DataError, match=r"another one came \(of step 2"):
        places["a"].act(4, {**office.messages_for("a"), (3, "b"): old})


def test_a_site_cannot_send_as_another_or_to_a_third(here):
    federation = here()
    office, places = until(federation, 4)
    tokens = places["b"].parties["b"].tokens
    for sender, receiver, words in (
        ("c", "a", "site 'b' may not send as 'c'"),
        ("b", "c", "for 'c', which is not at site 'a'"),
    ):
        lie = BlindedIds(sender=sender, receiver=receiver, tokens=tokens, purpose="present")
        message = forged(federation, places["a"], 3, [lie])
        with pytest.raises(DataError, match=words):
            places["a"].act(4, {**office.messages_for("a"), (3, "b"): message})


def test_codes_for_people_never_asked_for_change_nothing(here):
    federation = here()
    office, places = until(federation, 9)
    honest = {(8, s): office.messages_for("a")[8, s] for s in "bc"}
    address = MessageAddress(federation.order.run, 8, "b", "a")
    content = read_message(honest[8, "b"], address, federation.identities["a"], limit=2**30)
    (codes,) = decode_releases(content, "b")
    assert isinstance(codes, Codes)
    strangers = np.array([f"{k:032x}".encode() for k in range(5)])
    more = replace(
        codes,
        tokens=np.concatenate([codes.tokens, strangers]),
        codes=np.concatenate([codes.codes, codes.codes[:5]]),
    )
    message = forged(federation, places["a"], 8, [more])
    places["a"].act(9, {**honest, (8, "b"): message})
    places["a"].act(10, {})
    named = pq.read_table(federation.results("a") / "a.parquet").column("id").to_pylist()
    assert set(named) == set(federation.views.ids.tolist())


def test_what_a_site_does_not_agree_to_is_refused(here):
    federation = here()
    with pytest.raises(SettingError, match="does not allow the experiment 'cooperate'"):
        federation.place("a", policy=replace(OPEN, experiments={}))


@pytest.mark.parametrize("number", [-1, 99])
def test_a_step_that_is_none_is_refused(here, number):
    federation = here()
    with pytest.raises(SettingError, match="is no step of site 'a'"):
        federation.place("a").act(number, {})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"speed": 3}, "no setting 'speed'"),
        ({"alignment": "guess"}, "alignment must be one of 'hash', 'psi'"),
        ({"method": "magic"}, "method must be one of"),
        ({"encoder_training": {"epochs": "many"}}, "must"),
        ({"encoder_training": {"nonsense": 1}}, "encoder_training has no setting 'nonsense'"),
        ({"seed": "x"}, "seed must be a whole number, got 'x'"),
        ({"fusion": "x"}, "fusion must be a table of"),
    ],
)
def test_a_wrong_order_is_refused(here, settings, words):
    federation = here()
    federation.order = RunOrder(new_run(), "cooperate", settings)
    with pytest.raises(SettingError, match=words):
        federation.schedule()


@pytest.mark.parametrize(
    "order",
    [
        {"run": "../../etc", "experiment": "cooperate"},
        {"run": new_run(), "experiment": "steal"},
    ],
)
def test_an_order_must_have_a_sound_name(order):
    with pytest.raises(SettingError, match="must be"):
        RunOrder(**order)


def test_the_coordinator_refuses_what_a_site_does_not_owe(here):
    federation = here()
    office = federation.office()
    messages = federation.place("a").act(0, {})
    for sender, given, words in (
        ("a", {k: v for k, v in messages.items() if k != "b"}, "must send 2 messages"),
        ("b", messages, "must send 2 messages|not the message"),
        ("a", {**messages, "b": messages["c"]}, "sent a message that is not"),
        ("a", {**messages, "b": b"rows"}, "no message of cofill"),
        ("z", messages, "must send"),
    ):
        with pytest.raises(DataError, match=words):
            office.receive(sender, given)
    assert not office.folder.messages.exists()
    office.receive("a", messages)


def test_what_the_coordinator_keeps_tells_no_id_and_no_cell(here):
    federation = here()
    office, _ = until(federation, federation.schedule().report)
    kept = b"".join(p.read_bytes() for p in office.folder.path.rglob("*") if p.is_file())
    assert len(kept) > 10_000
    assert b"CANARY" not in kept
    for view in federation.views.values():
        for row in view.cells:
            assert row.tobytes() not in kept
    assert json.loads(office.folder.note.read_text())["metrics"] == {}


def test_views_are_read_in_the_federations_order(here):
    federation = here(MultiView(list(few().values())))
    assert list(federation.place("c").protocol.members.view_sites) == ["a", "b", "c"]
    assert federation.place("b").parties["b"].peers == ("a", "c")


def few() -> MultiView:
    rng = np.random.default_rng(1)
    ids = [f"CANARY-{k:03d}" for k in range(30)]
    return MultiView.from_arrays({n: rng.normal(size=(30, 2)) for n in "abc"}, ids=ids)


# --- a protocol with a coordinator's step -----------------------------------------------------


class Averaging(AbstractProtocol):
    """Two rounds: the coordinator hands a model out, sites add their number, it averages."""

    name = "cooperate"

    def __init__(self, members):
        self.members = members

    @classmethod
    def from_settings(cls, settings, members):
        return cls(members)

    @property
    def steps(self):
        def invite(parties, inboxes, report_progress):
            (weights,) = parties
            out = [
                ModelWeights(sender=COORDINATOR, receiver=n, round=0, weights=weights)
                for n in "abc"
            ]
            return [(weights, out)]

        def train(parties, inboxes, report_progress):
            found = []
            for (name, number), (model,) in zip(parties, inboxes, strict=True):
                update = Update(
                    sender=name,
                    receiver=COORDINATOR,
                    round=0,
                    change=model.weights + number,
                    rows=1,
                )
                found.append(((name, number), [update]))
            return found

        def aggregate(parties, inboxes, report_progress):
            assert [r.sender for r in inboxes[0]] == ["a", "b", "c"]
            return [(np.mean([r.change for r in inboxes[0]], axis=0), [])]

        one = (
            Step("invite", invite, at="coordinator"),
            Step("train", train),
            Step("aggregate", aggregate, at="coordinator"),
        )
        return one * 2

    def start_coordinator(self):
        return np.zeros(2)

    def start_site(self, data):
        return {name: (name, float(len(view))) for name, view in data.views.items()}

    def state_of(self, party):
        return party

    def restore_party(self, name, state, data):
        return state

    def finish(self, party, data):
        counts = {"n": party[1]}
        figures = RunFigures(sender=party[0], receiver=COORDINATOR, rows=1, figures=counts)
        return SiteResult({}, {}, figures)

    def summarise(self, coordinator):
        return {"mean": coordinator.tolist()}


@pytest.mark.parametrize("stop", [0, 1, 2, 3, 4, 5])
def test_a_coordinators_steps_run_at_the_coordinator_and_resume(here, stop):
    federation = here()
    protocol = Averaging(federation.federation.membership)
    federation.schedule = lambda: Schedule(federation.order, protocol, federation.federation)
    office = federation.office()
    places = {name: federation.place(name) for name in "abc"}
    advance(office, places, stop=stop)
    resumed = federation.office()
    run_in_process(resumed, {name: federation.place(name) for name in "abc"})
    expected = 2 * np.mean([len(view) for view in federation.views.values()])
    np.testing.assert_allclose(resumed.result["mean"], expected)
    assert {e.kind for e in Ledger.load(federation.ledger("a"))} == {"update", "figures"}
    handed = Ledger.load(federation.ledger(COORDINATOR))
    assert [e.kind for e in handed] == ["model"] * 6
