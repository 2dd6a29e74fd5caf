"""A submitter wants more than a site's operator allows: the policy decides, the ledger notes."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.network.conftest import FAST, MultiView, row_sites, run_in_process

from cofill.errors import SettingError
from cofill.network._account import SiteAccount
from cofill.network._order import RunOrder, new_run
from cofill.network._policy import ExperimentRule, PlainRule, SitePolicy
from cofill.network._policy_check import TAKEN, Request, approve_order, explain_order, refusals
from cofill.privacy import Ledger, LedgerNote
from cofill.protocol import PROTOCOLS, PartyFolder

MEAN = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}
NOISE = {"epsilon": 0.3, "clip": 1.0, "rounds": 3}
NO_NOISE = {"clip_norm": 1.0, "noise_multiplier": 0.0}
CODES = ("codes", "blinded-ids", "encrypted-ids")
WITH_CODES = SitePolicy(without_guarantee={kind: PlainRule(people=1) for kind in CODES})
WITH_SUMS = SitePolicy(
    without_guarantee={k: PlainRule() for k in ("columns", "column-summary", "masked-vector")}
)


def judged(federation, policy=None, **changes) -> str:
    request = Request(federation.schedule(), **changes)
    return "; ".join(refusals(policy or SitePolicy(), request))


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        ("mean", MEAN),
        ("cluster", {"k": 2, "scale": "none", "noise": NOISE}),
    ],
)
def test_what_carries_its_guarantee_needs_no_word_of_the_operator(rows_at, experiment, settings):
    assert judged(rows_at(experiment, settings)) == ""


def test_completion_on_shares_needs_no_word_of_the_operator(here):
    federation = here()
    federation.order = RunOrder(new_run(), "private", {})
    assert judged(federation) == ""


@pytest.mark.parametrize(
    ("experiment", "settings", "words"),
    [
        ("mean", {**MEAN, "epsilon": 1.5}, r"costs ε = 1.5 .* allows 1 a run"),
        ("mean", {**MEAN, "delta": 0.9, "epsilon": 0.9}, r"the run costs ε"),
        ("cluster", {"k": 2}, r"'group-sums' would leave without a guarantee"),
        ("cluster", {"k": 2, "min_group": 1}, r"min_group must be at least 10"),
        ("cluster", {"k": 2, "seed_group": 1}, r"seed_group must be at least 10"),
        ("cluster", {"k": 2}, r"each site's own figures would be seen"),
        ("cluster", {"k": 2, "rounds": 999}, r"rounds must be at most 200"),
        (
            "cluster",
            {"k": 2, "scale": "none", "noise": {**NOISE, "seed": 3}},
            r"'group-sums' would leave without",
        ),
        ("cluster", {"k": 2, "scale": "none", "noise": {**NOISE, "epsilon": 9}}, r"a run; ask"),
        ("deep-cluster", {"k": 2}, r"'update' would leave without a guarantee"),
        ("deep-cluster", {"k": 2, "batch": 2}, r"batch must be at least 10"),
        ("deep-cluster", {"k": 2, "min_group": 9}, r"min_group must be at least 10"),
        ("deep-cluster", {"k": 2, "learning_rate": 1e-9}, r"learning_rate must be from 1e-05"),
        ("federate", {"secure": False}, r"'update' would leave without a guarantee"),
        ("federate", {"epsilon": 1.5}, r"the run costs ε = 1.5 .* allows 1 a run"),
        ("federate", {"batch": 1}, r"batch must be at least 10"),
        ("federate", {"learning_rate": 1e-12}, r"learning_rate must be from 1e-05 to 0.1"),
        ("federate", {"secure": True}, r"'masked-vector' would leave without a guarantee"),
        (
            "federate",
            {"secure": False, "local": {"dp": {"clip_norm": 1.0, "noise_multiplier": 0.0}}},
            r"'update' would",
        ),
    ],
)
def test_an_order_by_row_that_asks_for_too_much_is_refused(rows_at, experiment, settings, words):
    assert re.search(words, judged(rows_at(experiment, settings)))


def test_a_sum_of_too_few_sites_is_refused(rows_at):
    secure = {"secure": {"threshold": 2}, "batch": 16}
    assert "a sum over 2 sites could be opened" in judged(rows_at("federate", secure), WITH_SUMS)


def test_enough_sites_under_masks_pass_where_the_operator_allows_it(rows_at):
    assert judged(rows_at("federate", {"secure": True, "batch": 16}), WITH_SUMS) == ""


def test_an_order_with_the_default_settings_fits_the_default_bounds(rows_at):
    federation = rows_at("federate", {})
    assert judged(federation, WITH_SUMS) == ""
    rule = replace(WITH_SUMS, smallest_group=11)
    refusal = judged(federation, rule, has_images=False)
    assert "batch of tables too small or wide for sums must be at least 11" in refusal


def test_steps_of_few_images_are_refused_where_a_site_has_images(rows_at):
    federation = rows_at("federate", {"secure": True}, held=row_sites(120, "abcdef"))
    words = judged(federation, WITH_SUMS, has_images=True)
    assert words.startswith("batch of images must be at least 10")
    assert judged(federation, WITH_SUMS, has_images=False) == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alignment": "hash"}, "let others test who is here"),
        ({}, "defence.width must be a share of the columns of at most 0.5"),
        ({"defence": {"width": 9}}, "defence.width must be a share"),
        ({"encoder_training": {"learning_rate": 1e-12}}, "encoder_training.learning_rate must be"),
        ({"encoder_training": {"epochs": 1}}, "encoder_training.epochs must be at least 5"),
        ({"min_overlap": 2}, "min_overlap must be at least 10"),
    ],
)
def test_codes_that_say_too_much_are_refused_where_codes_are_allowed(here, settings, words):
    federation = here()
    federation.order = RunOrder(new_run(), "cooperate", settings)
    assert words in judged(federation, WITH_CODES)


def test_codes_need_the_operators_word(here):
    federation = here()
    settings = {"defence": {"width": 0.5}}
    federation.order = RunOrder(new_run(), "cooperate", settings)
    assert not federation.schedule().protocol.demands.shows_keyed_hashes
    assert "'codes' would leave without a guarantee" in judged(federation)
    assert judged(federation, WITH_CODES) == ""


def test_only_people_whom_the_policy_names_may_order(rows_at):
    policy = SitePolicy(experiments={"mean": ExperimentRule(people=("ada@clinic.example",))})
    federation = rows_at("mean", MEAN)
    assert "not by somebody who has not signed" in judged(federation, policy)
    assert "not by 'eve@example.org'" in judged(federation, policy, submitter="eve@example.org")
    assert judged(federation, policy, submitter="ada@clinic.example") == ""


def test_an_experiment_ends_at_its_date_and_its_number_of_runs(rows_at):
    federation, now = rows_at("mean", MEAN), datetime(2026, 5, 1, tzinfo=UTC)
    over = SitePolicy(experiments={"mean": ExperimentRule(until=date(2026, 4, 30))})
    assert "allowed 'mean' until 2026-04-30" in judged(federation, over, now=now)
    twice = SitePolicy(experiments={"mean": ExperimentRule(runs=2, days=10)})
    days = (1, 5, 50)
    notes = [
        LedgerNote(TAKEN, (now - timedelta(days=d)).isoformat(), f"run {d}", "mean") for d in days
    ]
    assert "2 runs of 'mean' in 10 days" in judged(federation, twice, now=now, notes=notes)
    assert judged(federation, twice, now=now, notes=notes[1:]) == ""
    own = replace(notes[0], run=federation.order.run)
    assert judged(federation, twice, now=now, notes=[own, notes[1]]) == ""


def test_a_refusal_is_noted_in_the_ledger_before_anything_is_read(rows_at):
    federation = rows_at("cluster", {"k": 2})
    for path in federation.base.glob("a/*.parquet"):
        path.unlink()  # whoever reads it fails with another error
    with pytest.raises(SettingError, match="site 'a' refuses the run") as caught:
        federation.place("a")
    assert "\n" not in str(caught.value)
    ledger = Ledger.load(federation.ledger("a"))
    (note,) = ledger.notes
    assert (note.what, note.run, note.experiment) == ("refused", federation.order.run, "cluster")
    assert any("group-sums" in sentence for sentence in note.why)
    assert (len(ledger), note.policy) == (0, SitePolicy().digest)


def test_a_run_that_is_taken_up_again_is_noted_once(rows_at):
    federation = rows_at("mean", MEAN)
    federation.place("a").act(0, {})
    federation.place("a")
    assert [note.what for note in Ledger.load(federation.ledger("a")).notes] == ["taken"]


def test_a_person_approves_of_the_very_order_that_waits(rows_at):
    policy = SitePolicy(experiments={"mean": ExperimentRule(approval=True)})
    federation = rows_at("mean", MEAN, policy)
    with pytest.raises(SettingError, match=r"has to approve of it \(`cofill site approve"):
        federation.place("a")
    home = PartyFolder(federation.base / "a" / "home")
    folder = SiteAccount(federation.configs["a"].account_folder, home)
    approve_order(folder, federation.order.run, "grace")
    order = federation.order
    federation.order = RunOrder(order.run, "mean", {**MEAN, "epsilon": 0.6})
    with pytest.raises(SettingError, match="has to approve of it"):
        federation.place("a")
    approve_order(folder, order.run, "grace")
    federation.order = order
    with pytest.raises(SettingError, match="has to approve of it"):
        federation.place("a")
    approve_order(folder, order.run, "grace")
    federation.place("a").act(0, {})
    noted = [(n.what, n.by) for n in Ledger.load(federation.ledger("a")).notes]
    assert noted[-2:] == [("approved", "grace"), ("taken", "")]


def test_columns_that_the_policy_leaves_out_take_no_part(rows_at):
    names = row_sites()["a"]["u"].feature_names
    rule = ExperimentRule(columns={"u": (names[0], names[2])})
    federation = rows_at("mean", MEAN, SitePolicy(experiments={"mean": rule}))
    (mean,) = (party.view for party in federation.place("a").parties.values())
    assert mean.feature_names == (names[0], names[2])


@pytest.mark.parametrize("experiment", PROTOCOLS.names)
def test_an_experiment_that_is_not_in_the_policy_is_refused(rows_at, here, experiment):
    by_view = PROTOCOLS.load(experiment).splits_by_view
    settings = {"mean": MEAN, "cluster": {"k": 2}, "deep-cluster": {"k": 2}}.get(experiment, {})
    federation = here() if by_view else rows_at(experiment, settings)
    federation.order = RunOrder(new_run(), experiment, settings)
    assert "does not allow the experiment" in judged(federation, SitePolicy(experiments={}))


def test_the_policy_is_explained_in_words(rows_at, here):
    federation = here(MultiView(list(row_sites(whole=True)["a"].values())))
    federation.order = RunOrder(new_run(), "cooperate", FAST)
    lines = explain_order(SitePolicy(), Request(federation.schedule()))
    assert "without a guarantee: codes (not allowed)" in lines
    assert lines[-1] == "the site refuses the run"
    federation = rows_at("mean", MEAN, held=row_sites(sites="ab"))
    lines = explain_order(SitePolicy(), Request(federation.schedule()))
    assert lines[-1] == "the site takes part"
    assert any("ε = 0.5" in line for line in lines)


def test_a_whole_run_on_shares_passes_the_default_policy(here):
    federation = here()
    federation.order = RunOrder(new_run(), "private", {"features": 2, "min_overlap": 10})
    places = {n: federation.place(n, policy=SitePolicy()) for n in federation.federation.names}
    office = federation.office()
    run_in_process(office, places)
    assert all(figures["reconstructed_rows"] > 0 for figures in office.metrics.values())
    assert set(office.metrics) == set("abc")


@pytest.mark.parametrize(("secure", "survey"), [(False, "column-summary"), (True, "masked-vector")])
def test_noisy_sums_of_tables_need_the_operators_word_for_scales_alone(rows_at, secure, survey):
    federation = rows_at("federate", {"epsilon": 0.5, "secure": secure})
    assert f"'{survey}' would leave without a guarantee" in judged(federation)
    policy = SitePolicy(without_guarantee={kind: PlainRule() for kind in ("columns", survey)})
    assert judged(federation, policy) == ""
    places = {n: federation.place(n, policy=policy) for n in federation.federation.names}
    office = federation.office()
    run_in_process(office, places)
    assert office.next > office.schedule.report
    ledger = Ledger.load(federation.ledger("a"))
    assert [entry.epsilon for entry in ledger if entry.event] == [pytest.approx(0.5, rel=1e-3)]
