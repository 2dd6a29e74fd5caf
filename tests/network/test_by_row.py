"""Rounds, groups and means by the network driver without a network: the in-process results."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from cofill.cluster import DeepClustering, FederatedKMeans, NetworkSettings
from cofill.codec import encode
from cofill.errors import DataError, SettingError, StoreError
from cofill.federate import FederatedCompletion
from cofill.network._messages import read_message, write_message
from cofill.network._order import RunOrder, new_run
from cofill.network._policy import SitePolicy, Spending
from cofill.privacy import (
    Ledger,
    MaskedVector,
    MessageAddress,
    SentLog,
    Update,
    decode_releases,
    encode_releases,
)
from cofill.protocol import COORDINATOR, Federation, LocalData, run_protocol
from cofill.views import FilledTable

from .conftest import CANARY, ROUNDS, estimator_for, row_sites, run_in_process

TRAIN = (6, 9, 12)  # steps


def mask_step(federation) -> int:
    """The step of the only round in which masked vectors are sent; the survey has one before."""
    names = [step.name for step in federation.schedule().protocol.steps]
    return len(names) - 1 - names[::-1].index("mask")


def places_of(federation) -> dict:
    return {name: federation.place(name) for name in federation.federation.names}


def drive(federation, office=None, places=None, *, stop=None, absent=(), sent=None):
    """Run steps, some sites left out of some, or with other messages than they made."""
    office = office or federation.office()
    places = places or places_of(federation)
    while office.next <= office.schedule.report and office.next != stop:
        number = office.next
        for name in office.actors:
            if name == COORDINATOR:
                office.act()
            elif (number, name) in absent:
                office.leave_out(name, "was lost")
            else:
                messages = places[name].act(number, office.messages_for(name))
                if sent and (number, name) in sent:
                    messages = sent[number, name](messages)
                try:
                    office.receive(name, messages)
                except DataError as error:
                    office.leave_out(name, f"sent what is refused: {error}")
        office.advance()
    return office


@pytest.fixture(scope="module")
def fitted() -> FederatedCompletion:
    """The estimator over the same sites, trained one by one in this process."""
    return estimator_for(ROUNDS).fit_sites(row_sites())


def completed(federation, site: str, view: str) -> np.ndarray:
    table = pq.read_table(federation.results(site) / f"{view}.parquet").sort_by("id")
    return np.stack([table.column(c).to_numpy() for c in table.column_names if c != "id"], axis=1)


def require_equal(federation, held, estimator) -> None:
    for site, done in estimator.complete_sites(held).items():
        for view in done.views:
            np.testing.assert_array_equal(completed(federation, site, view), done.cells[view])


# --- rounds -----------------------------------------------------------------------------------


def run_both_drivers(federation):
    """Run one protocol object in the process and through the network's driver."""
    protocol, held = federation.schedule().protocol, row_sites()
    data = {site: LocalData(site, dict(views)) for site, views in held.items()}
    local = Federation(
        {site: protocol.start_site(data[site])[site] for site in held},
        coordinator=protocol.start_coordinator(),
    )
    run_protocol(protocol, [local])
    office = federation.office()
    run_in_process(office, places_of(federation))
    return protocol, data, local, office


@pytest.mark.parametrize("secure", [False, True])
def test_both_drivers_run_the_same_protocol_to_the_same_bits(rows_here, secure):
    federation = rows_here(settings={**ROUNDS, "rounds": 2, "secure": secure})
    protocol, data, local, office = run_both_drivers(federation)
    # Sites train one by one in both: as one batch, sums in another order differ by 1e-6.
    assert protocol.summarise(local.coordinator) == office.result
    for site, party in local.sites.items():
        result = protocol.finish(party, data[site])
        assert result.figures.figures.items() <= office.metrics[site].items()
        for name, table in result.tables.items():
            table = table.to_arrow() if isinstance(table, FilledTable) else table
            written = pq.read_table(federation.results(site) / f"{name}.parquet")
            assert table.sort_by("id").equals(written.sort_by("id"))


@pytest.mark.parametrize("secure", [False, True])
def test_rounds_make_the_very_model_that_one_process_makes(rows_here, fitted, secure):
    # A secure sum is exact: what leaves differs, the result does not differ beyond its rounding.
    federation = rows_here(settings={**ROUNDS, "secure": secure})
    office = drive(federation)
    held = row_sites()
    require_equal(
        federation,
        held,
        estimator_for({**ROUNDS, "secure": True}).fit_sites(held) if secure else fitted,
    )
    assert office.metrics["a"]["reconstructed_rows"] == 12
    assert office.result["curve"][-1]["sites"] == 3
    assert office.all_notes == []
    kinds = {e.kind for e in Ledger.load(federation.ledger("a"))}
    masked = {"public-keys", "sealed-shares", "masked-vector", "revealed-shares"}
    assert kinds == {"columns", "figures"} | (masked if secure else {"column-summary", "update"})


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["fedprox", "fedadam", "fedyogi", "scaffold"])
def test_every_strategy_makes_the_model_that_one_process_makes(rows_here, strategy):
    moments = "reset" if strategy == "scaffold" else "keep"  # its steps are plain
    settings = {**ROUNDS, "strategy": strategy, "secure": True, "local": {"moments": moments}}
    federation = rows_here(settings=settings)
    drive(federation)
    held = row_sites()
    wanted = estimator_for(settings).fit_sites(held)
    require_equal(federation, held, wanted)


@pytest.mark.full
def test_pre_training_and_private_steps_run_over_places(rows_here):
    settings = {**ROUNDS, "rounds": 2, "model": "best"}
    dp = {"clip_norm": 1.0, "noise_multiplier": 1.0}
    federation = rows_here(settings={**settings, "local": {"dp": dp}})
    drive(federation, stop=9)
    drive(federation)
    spent = [e for e in Ledger.load(federation.ledger("a")) if e.kind == "update"]
    assert len(spent) == 2
    assert all(e.epsilon is not None for e in spent)


def test_a_site_may_lack_a_view(rows_here):
    held = row_sites()
    views = {"a": ("u", "v"), "b": ("u",), "c": ("u", "v")}
    federation = rows_here(views=views)
    drive(federation)
    # Site b has nobody with two views: it teaches nothing, and is completed all the same.
    assert len(completed(federation, "b", "v")) == len(held["b"]["u"])
    assert np.isfinite(completed(federation, "b", "v")).all()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(k, marks=() if k in (6, 10) else pytest.mark.full)
        for k in (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16)
    ],
)
def test_rounds_go_on_from_the_last_step_to_the_same_result(rows_here, fitted, step):
    federation = rows_here()
    office = drive(federation, stop=step)
    if COORDINATOR in office.schedule.actors(step):
        office.runner.act(step, office.messages_for(COORDINATOR))  # and then it was killed
    else:
        first = places_of(federation)["b"].act(step, office.messages_for("b"))
        before = federation.ledger("b").read_text()
        assert federation.place("b").act(step, office.messages_for("b")) == first
        assert federation.ledger("b").read_text() == before  # not released and charged twice
    drive(federation)
    require_equal(federation, row_sites(), fitted)
    kinds = [e.kind for e in Ledger.load(federation.ledger("b"))]
    assert kinds == ["columns", "column-summary", *["update"] * 3, "figures"]


@pytest.mark.full
@pytest.mark.parametrize("step", range(2, 21))
def test_a_secure_round_goes_on_from_the_last_step_to_the_same_result(rows_here, step):
    federation = rows_here(settings={**ROUNDS, "secure": True})
    drive(federation, stop=step)
    drive(federation)
    held = row_sites()
    require_equal(federation, held, estimator_for({**ROUNDS, "secure": True}).fit_sites(held))


def test_a_site_that_misses_rounds_is_named_and_completed(rows_here):
    federation = rows_here()
    office = drive(federation, absent={(TRAIN[0], "b"), (TRAIN[1], "b")})
    assert [n for n in office.all_notes if "'b' was lost; left out" in n]
    assert "round 1: site 'b' did not answer; left out" in office.result["notes"]
    assert [entry["sites"] for entry in office.result["curve"]] == [2, 2, 3]
    assert set(office.metrics) == {"a", "b", "c"}
    assert np.isfinite(completed(federation, "b", "v")).all()


def test_a_secure_sum_survives_a_site_that_leaves_after_sharing(rows_here):
    held = row_sites(sites="abcd")
    federation = rows_here(settings={**ROUNDS, "rounds": 1, "secure": True}, held=held)
    office = drive(federation, absent={(mask_step(federation), "b")})
    assert office.result["curve"][0]["sites"] == 3
    assert any("site 'b' did not answer" in note for note in office.result["notes"])


@pytest.mark.parametrize("step", ["share", "mask", "reveal"])
def test_a_site_that_leaves_the_survey_is_in_the_rounds(rows_here, step):
    held = row_sites(sites="abcd")
    federation = rows_here(settings={**ROUNDS, "rounds": 1, "secure": True}, held=held)
    names = [step.name for step in federation.schedule().protocol.steps]
    office = drive(federation, absent={(names.index(step), "b")})
    assert office.result["curve"][0]["sites"] == 4
    noted = "survey: site 'b' did not answer; left out" in office.result["notes"]
    assert noted == (step != "reveal")  # by then its vector is in the sum
    assert np.isfinite(completed(federation, "b", "v")).all()


def test_a_secure_round_with_too_few_sites_fails_and_is_resumed(rows_here):
    federation = rows_here(settings={**ROUNDS, "rounds": 1, "secure": True})
    with pytest.raises(DataError, match=r"round 1: no secure sum.*'b' did not answer"):
        drive(federation, absent={(mask_step(federation), "b")})
    # Site b is back: it is asked for the step that it had missed, and the round goes through.
    office = drive(federation)
    assert office.result["curve"][0]["sites"] == 3
    # One in the survey, one in the round.
    assert sum(e.kind == "masked-vector" for e in Ledger.load(federation.ledger("a"))) == 2


def test_of_a_secure_round_the_coordinator_gets_no_sites_update(rows_here):
    federation = rows_here(settings={**ROUNDS, "rounds": 1, "secure": True})
    mask = mask_step(federation)
    office = drive(federation, stop=mask)
    places = places_of(federation)
    update = places["a"].parties["a"].update
    messages = places["a"].act(mask, office.messages_for("a"))
    address = MessageAddress(federation.order.run, mask, "a", COORDINATOR)
    key = federation.identities[COORDINATOR]
    content = read_message(messages[COORDINATOR], address, key, limit=2**30)
    (sent,) = decode_releases(content, "a")
    assert isinstance(sent, MaskedVector)
    for kind in ("<f4", "<f8"):
        values = (update.change * update.rows).astype(kind)
        assert not any(v.tobytes() in content for v in values[np.abs(values) > 0])
    # Words under masks fill their whole range.
    assert sent.words.max() > 2**62 > sent.words.min()


def lie(federation, number: int, change) -> object:
    """Return what puts another update into b's message of a step."""
    address = MessageAddress(federation.order.run, number, "b", COORDINATOR)
    keys = federation.identities

    def forge(messages):
        content = read_message(messages[COORDINATOR], address, keys[COORDINATOR], limit=2**30)
        (update,) = decode_releases(content, "b")
        assert isinstance(update, Update)
        broken = object.__new__(Update)
        for name, value in vars(update).items():
            object.__setattr__(broken, name, change(update).get(name, value))
        return {
            COORDINATOR: write_message(
                encode([broken], format="cofill.releases"), address, keys["b"], limit=2**30
            )
        }

    return forge


UNSOUND = {
    "nan": (lambda u: {"change": np.full_like(u.change, np.nan)}, "not finite"),
    "infinite": (lambda u: {"change": np.full_like(u.change, np.inf)}, "not finite"),
    "too long": (lambda u: {"change": np.tile(u.change, 2)}, "of shape"),
    "empty": (lambda u: {"change": u.change[:0]}, "of shape"),
    "whole numbers": (lambda u: {"change": u.change.astype(np.uint64)}, "of type uint64"),
    "a text": (lambda u: {"change": "rows"}, "'change' is not of the right type"),
    "an old round": (lambda u: {"round": 0}, "answered another round"),
    "no rows": (lambda u: {"rows": -5}, "'rows' is not of the right type"),
    "many rows": (lambda u: {"rows": 2**60}, "individuals"),
    "another's name": (lambda u: {"sender": "a"}, "may not send as 'a'"),
}


@pytest.mark.parametrize(("change", "words"), UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_update_is_named_and_the_round_goes_on(rows_here, change, words):
    federation = rows_here(settings={**ROUNDS, "rounds": 1})
    office = drive(federation, sent={(6, "b"): lie(federation, 6, change)})
    (entry,) = office.result["curve"]
    assert entry["sites"] == 2
    named = [n for n in (*office.all_notes, *office.result["notes"]) if words in n and "'b'" in n]
    assert len(named) == 1
    assert np.isfinite(completed(federation, "b", "v")).all()


def test_oversized_malformed_and_replayed_answers_are_named_and_left_out(rows_here):
    federation = rows_here()
    old: dict[str, bytes] = {}

    def remember(messages):
        old.update(messages)
        return messages

    sent = {
        (6, "b"): remember,
        (9, "b"): lambda messages: old,
        (9, "c"): lambda messages: {COORDINATOR: messages[COORDINATOR] + b"x"},
        (12, "c"): lambda messages: {
            COORDINATOR: bytes(federation.federation.limits.message_bytes + 1)
        },
    }
    office = drive(federation, sent=sent)
    told = "; ".join(office.all_notes)
    assert (
        "step 9 (train): site 'b' sent what is refused: site 'b' sent a message that is not" in told
    )
    assert "step 9 (train): site 'c' sent what is refused: the bytes are no message" in told
    assert "larger than" in told
    assert [entry["sites"] for entry in office.result["curve"]] == [3, 1, 2]


def test_a_site_cannot_go_on_without_its_beginning(rows_here):
    federation = rows_here()
    office = drive(federation, stop=6)
    federation.place("b").folder.state.unlink()
    with pytest.raises(StoreError, match=r"'b' has not done step 0 \(describe columns\)"):
        federation.place("b").act(6, office.messages_for("b"))


def test_sites_with_other_columns_are_named(rows_here):
    held = row_sites()
    odd = held["c"]["u"]
    names = [replace(f, name=f"{f.name}x") for f in odd.features]
    other = type(odd)("u", odd.ids, odd.cells, names)
    held["c"] = type(held["c"])([other, held["c"]["v"]])
    with pytest.raises(DataError, match=r"site 'c': 'u' has other columns .* than at site 'a'"):
        drive(rows_here(held=held))


def test_nothing_of_a_run_stays_at_the_coordinator(rows_here):
    federation = rows_here()
    office = drive(federation)
    office.end()
    assert sorted(p.name for p in office.folder.path.iterdir()) == ["run.json", "times.jsonl"]
    assert federation.place("a").parties == {}


def test_a_run_whose_end_nobody_heard_of_is_told_again(rows_here):
    federation = rows_here()
    office = drive(federation)
    office.end()
    again = federation.office()  # the coordinator was killed before it could say so
    assert again.next > again.schedule.report
    assert (again.metrics, again.result) == (office.metrics, office.result)


def test_old_messages_are_not_kept(rows_here):
    federation = rows_here()
    office = drive(federation, stop=14)
    assert sorted(int(p.name) for p in office.folder.messages.iterdir()) == [11, 12]


def test_a_full_disk_is_one_sentence_and_the_run_is_resumed(rows_here, fitted, monkeypatch):
    import resource

    federation = rows_here()
    office = drive(federation, stop=9)
    place = federation.place("b")
    before = federation.ledger("b").read_bytes()
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (len(before) + 50, len(before) + 600):  # in the ledger's line, in the state
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most[1]))
        try:
            with pytest.raises(StoreError, match=r"File too large|disk is full"):
                place.act(9, office.messages_for("b"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        Ledger.load(federation.ledger("b"))  # no half line
        assert place.done == 6
    # The very process goes on once there is room: a step that failed has changed nothing.
    drive(federation, office, {**places_of(federation), "b": place})
    require_equal(federation, row_sites(), fitted)


@pytest.mark.parametrize(
    ("experiment", "settings", "words"),
    [
        ("federate", {"speed": 3}, "federate has no setting 'speed'"),
        ("federate", {"model": "magic"}, "there is no model 'magic'"),
        ("federate", {"strategy": "magic"}, "there is no strategy 'magic'"),
        ("federate", {"strategy": {"name": "fedprox", "x": 1}}, "'fedprox' has no setting 'x'"),
        ("federate", {"rounds": 0}, "rounds must be at least 1"),
        ("federate", {"rounds": "many"}, "rounds must be a whole number, got 'many'"),
        ("federate", {"min_sites": 4}, "min_sites must be at most"),
        ("federate", {"patience": -1}, "patience must be a number above 0 or null"),
        ("federate", {"local": {"speed": 1}}, "local has no setting 'speed'"),
        ("cluster", {}, "cluster needs the number of groups"),
        ("cluster", {"k": 1}, "k must be at least 2"),
        ("cluster", {"k": 2, "init": [1]}, "cluster has no setting 'init'"),
        ("mean", {"low": 0, "high": 1, "view": "u"}, "mean needs the setting epsilon"),
        ("mean", {"epsilon": 1, "low": 0, "high": 1}, "mean needs the setting view"),
        ("mean", {"epsilon": 1, "low": 0, "high": 1, "view": "w"}, "view must be one of"),
        ("mean", {"epsilon": -1, "low": 0, "high": 1, "view": "u"}, "epsilon must be"),
        ("mean", {"epsilon": 1, "low": 1, "high": 0, "view": "u"}, "must be"),
        ("cooperate", {}, "cooperate needs sites that hold a view of their own"),
    ],
)
def test_a_wrong_order_is_refused(rows_here, experiment, settings, words):
    with pytest.raises(SettingError, match=words):
        rows_here(experiment, settings).schedule()


# --- groups -----------------------------------------------------------------------------------

GROUPS = {"k": 3, "restarts": 2, "rounds": 40, "seed": 3}


def assignments(federation, site: str) -> dict[str, list]:
    return pq.read_table(federation.results(site) / "assignments.parquet").to_pydict()


@pytest.mark.parametrize(
    "stop", [None, 9, *(pytest.param(k, marks=pytest.mark.full) for k in (2, 4, 7, 12))]
)
def test_groups_are_those_of_one_process(rows_here, stop):
    held = row_sites(whole=True)
    federation = rows_here("cluster", GROUPS, held)
    office = drive(federation, stop=stop)
    if stop is not None:
        office = drive(federation)  # taken up from what is on disk
    estimator = FederatedKMeans(**GROUPS).fit(held)
    assert office.result["inertia"] == estimator.inertia_
    assert office.result["rounds"] == estimator.n_iter_ < 40
    for site, groups in estimator.labels_by_site_.items():
        assert assignments(federation, site)["cluster"] == groups.tolist()
    kinds = [e.kind for e in Ledger.load(federation.ledger("a"))]
    assert kinds[0] == "columns"
    assert kinds[-1] == "figures"
    assert set(kinds[1:-1]) == {"group-sums"}
    steps = office.folder.times.read_text().splitlines()
    assert len(steps) < len(office.schedule.protocol.steps) // 2  # empty rounds are left out


def test_both_drivers_of_one_protocol_send_the_same_bytes(rows_here, tmp_path):
    held = row_sites(whole=True)
    network = rows_here("cluster", GROUPS, held)
    protocol = network.schedule().protocol
    runners = places_of(network)
    run_in_process(network.office(), runners)
    parties = {name: protocol.start_site(runners[name].data)[name] for name in held}
    sent = SentLog(tmp_path / "sent", last_rounds=None)
    local = Federation(parties, coordinator=protocol.start_coordinator(), sent=sent)
    run_protocol(protocol, [local])
    expected = {
        (step.step, encode_releases([release])) for step in sent for release in step.releases
    }
    for runner in runners.values():
        # Of rounds a site keeps the last few; the last sums follow from all rounds before.
        kept = [step for step in runner.folder.sent if step.step != "report"]
        names = {"describe-columns", "measure", "summarise", "add-up-groups", "assign"}
        assert {step.step for step in kept} == names
        assert {(step.step, encode_releases(list(step.releases))) for step in kept} <= expected
    for name in held:
        result = protocol.finish(local.sites[name], runners[name].data)
        assert assignments(network, name) == result.tables["assignments"].to_pydict()
        text = (network.results(name) / "clustering.json").read_text()
        assert text == result.texts["clustering.json"]
        assert sum(json.loads(text)["sizes"]) == held[name].n_individuals


def test_a_site_that_lacks_a_view_is_refused(rows_here):
    views = {"a": ("u", "v"), "b": ("u",), "c": ("u", "v")}
    federation = rows_here("cluster", GROUPS, row_sites(whole=True), views)
    with pytest.raises(DataError, match=r"site 'b': 30 of 30 individuals are not in every view"):
        drive(federation)


def test_noisy_groups_pass_a_budget_for_guaranteed_releases(rows_here):
    noise = {"epsilon": 1.0, "clip": 1e8, "rounds": 3}
    settings = {"k": 2, "scale": "none", "noise": noise}
    federation = rows_here("cluster", settings, row_sites(whole=True))
    budget = Spending(epsilon=1.2, per_run=1.2, neighbours="add or remove one")
    for name, config in federation.configs.items():
        federation.configs[name] = replace(config, policy=SitePolicy(budget=budget))
    office = drive(federation)
    assert office.result["cost"]["guaranteed"]
    kinds = [e.kind for e in Ledger.load(federation.ledger("a"))]
    assert kinds == ["columns", *["group-sums"] * 3]
    federation.order = RunOrder(new_run(), "cluster", settings)
    with pytest.raises(SettingError, match=r"group-sums from 'a'.*is refused.*of 1.2"):
        drive(federation)


def test_groups_with_noise_are_not_scaled_by_exact_figures(rows_here):
    settings = {"k": 2, "noise": {"epsilon": 1.0, "clip": 1.0}}
    with pytest.raises(SettingError, match="scale must be 'none' with noise"):
        drive(rows_here("cluster", settings, row_sites(whole=True)))


def test_groups_need_every_site_until_their_rounds_begin(rows_here):
    protocol = rows_here("cluster", GROUPS, row_sites(whole=True)).schedule().protocol
    first = [step.name for step in protocol.steps].index("add up groups")
    assert not any(protocol.may_lack_sites(number) for number in range(first))
    assert all(protocol.may_lack_sites(number) for number in range(first, len(protocol.steps)))


DEEP = {
    "k": 3,
    "restarts": 3,
    "finalists": 2,
    "rounds": 5,
    "local_steps": 4,
    "batch": 16,
    "seed": 3,
}


@pytest.mark.parametrize("stop", [None, 11, pytest.param(15, marks=pytest.mark.full)])
def test_deep_groups_are_those_of_one_process(rows_here, stop):
    held = row_sites(whole=True)
    federation = rows_here("deep-cluster", {**DEEP, "network": {"hidden": [8]}}, held)
    office = drive(federation, stop=stop)
    if stop is not None:
        office = drive(federation)  # taken up from what is on disk
    estimator = DeepClustering(**DEEP, network=NetworkSettings(hidden=(8,))).fit(held)
    # Sites that train alone and as one batch add up in another order.
    assert office.result["objective"] == pytest.approx(estimator.objective_, rel=1e-4)
    assert office.result["rounds"] == estimator.n_iter_ == 5
    for site, groups in estimator.labels_by_site_.items():
        assert assignments(federation, site)["cluster"] == groups.tolist()
    kinds = [e.kind for e in Ledger.load(federation.ledger("a"))]
    assert set(kinds) == {"columns", "group-sums", "update", "figures"}


def test_deep_groups_need_a_policy_that_names_updates(rows_here):
    federation = rows_here("deep-cluster", {"k": 3}, row_sites(whole=True))
    for name, config in federation.configs.items():
        federation.configs[name] = replace(config, policy=SitePolicy())
    with pytest.raises(SettingError, match=r"no \[without_guarantee.update\]"):
        drive(federation)


# --- means ------------------------------------------------------------------------------------

MEAN = {"epsilon": 0.5, "low": CANARY - 5000, "high": CANARY + 5000, "view": "u"}


def test_means_are_noisy_and_charged_and_refused_beyond_the_budget(rows_here):
    federation = rows_here("mean", MEAN)
    for name, epsilon in (("a", 2.0), ("b", 0.7), ("c", 2.0)):
        policy = SitePolicy(budget=Spending(epsilon=epsilon, per_run=0.6))
        federation.configs[name] = replace(federation.configs[name], policy=policy)
    office = drive(federation)
    told = office.result
    assert set(told["sites"]) == {"a", "b", "c"}
    held = row_sites()
    for name, mean in told["sites"].items():
        cells = held[name]["u"].cells
        away = np.abs(np.array(mean["mean"]) - cells.mean(axis=0))
        assert (away < 8 * np.array(mean["scale"])).all()
        assert (away > 0).all()
        assert "ε = 0.5" in mean["guarantee"]
        assert [e.kind for e in Ledger.load(federation.ledger(name))] == ["noisy-mean"]
    assert np.shape(told["mean"]) == (3,)
    text = (federation.results("a") / "u_mean.csv").read_text()
    assert repr(told["sites"]["a"]["mean"][0]) in text
    federation.order = RunOrder(new_run(), "mean", MEAN)
    office = federation.office()
    places = places_of(federation)
    with pytest.raises(SettingError, match=r"noisy-mean from 'b'.*refused.*of 0.7"):
        places["b"].act(0, {})
    assert len(Ledger.load(federation.ledger("b"))) == 1
    drive(federation, office, places, absent={(0, "b"), (2, "b")})
    assert set(office.result["sites"]) == {"a", "c"}
    assert "site 'b'" in json.dumps(office.all_notes)


def test_a_resumed_mean_sends_the_same_values_once(rows_here):
    federation = rows_here("mean", MEAN)
    drive(federation, stop=1)
    first = federation.place("a").act(0, {})
    office = drive(federation)
    assert federation.place("a").done == office.schedule.report
    assert first
    assert len(Ledger.load(federation.ledger("a"))) == 1


def test_both_drivers_release_the_same_means_from_the_same_noise(rows_here, monkeypatch):
    # Noise comes from the operating system; here it is drawn alike for both drivers.
    monkeypatch.setattr(
        "cofill.privacy._mechanisms.noise_generator", lambda rng: np.random.default_rng(7)
    )
    federation = rows_here("mean", MEAN)
    protocol, data, local, office = run_both_drivers(federation)
    assert protocol.summarise(local.coordinator) == office.result
    for site, party in local.sites.items():
        for name, text in protocol.finish(party, data[site]).texts.items():
            assert text == (federation.results(site) / name).read_text()
