"""Audits of a mean before it is released: contributors, others, noise, budgets."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import MeanAuditSettings, audit_mean
from cofill.audit._mean_leaks import mean_leaks
from cofill.errors import DataError, SettingError
from cofill.privacy import Box

RNG = np.random.default_rng(0)
LABELS = np.arange(240) % 3 == 0
RECORDS = np.clip(RNG.normal(size=(240, 4)) / 6 + 0.35 + 0.3 * LABELS[:, None], 0, 1)
UNIT = Box(0.0, 1.0)
QUICK = MeanAuditSettings(epsilons=(0.1, 10.0), coordinate_epsilons=(0.01, 1.0), draws=20_000)


@pytest.fixture(scope="module")
def audit():
    return audit_mean(RECORDS, LABELS, UNIT, settings=QUICK)


def test_people_are_told_apart_from_a_population(audit):
    plain = audit.releases[0]
    assert plain.kind == "mean"
    inside, outside = plain.leaks
    assert (inside.scope, outside.scope) == ("individual", "population")
    # Well separated classes: anybody's class is guessed, nobody's more for being in the mean.
    assert outside.attack > 0.9
    assert inside.attack > 0.9
    assert plain.individual == "none seen"
    assert inside.control == outside.attack


def test_everybody_is_in_the_mean_and_attacked_unless_told(audit):
    assert audit.settings["people"] == audit.settings["attacked"] == len(LABELS)
    assert audit.notes == ()
    for release in audit.releases:
        assert release.individuals == LABELS.sum()
        inside, outside = release.leaks
        assert (inside.sizes, outside.sizes) == ({"contributors": 240}, {"others": 240})
        assert inside.gain[0] <= inside.attack - inside.control <= inside.gain[1]


def test_a_large_table_is_averaged_whole_even_where_few_are_attacked():
    settings = replace(QUICK, mechanisms=("gaussian",), epsilons=(1.0,), most_people=100)
    audit = audit_mean(RECORDS, LABELS, UNIT, settings=settings)
    assert audit.releases[0].individuals == LABELS.sum()
    assert audit.releases[0].leaks[0].sizes == {"contributors": 100}
    assert audit.notes == ("100 of 240 people were attacked, drawn at random",)
    with pytest.raises(SettingError, match="most_people must be at least 20, got 3"):
        replace(QUICK, most_people=3)


def test_who_is_in_the_mean_is_given_away_without_others_to_compare_with():
    rng = np.random.default_rng(3)
    records = rng.uniform(size=(200, 800))
    labels = rng.permutation(200) < 100  # nothing in a record tells the class
    settings = MeanAuditSettings(mechanisms=("gaussian",), epsilons=(1.0,), draws=200, repeats=1)
    plain, noisy = audit_mean(records, labels, UNIT, settings=settings).releases
    inside, outside = plain.leaks
    assert inside.attack > 0.9
    assert 0.35 < outside.attack < 0.65
    assert plain.individual in ("considerable", "near-total")
    assert plain.population == "none seen"
    assert noisy.individual == "none seen"


@pytest.mark.parametrize(
    ("more", "less", "positive"), [(0, 0, False), (30, 0, True), (30, 28, False), (0, 30, False)]
)
def test_a_paired_gain_is_above_zero_only_where_guesses_got_better(more, less, positive):
    inside, outside = np.ones(200, dtype=bool), np.ones(200, dtype=bool)
    outside[:more] = False
    inside[more : more + less] = False
    about = {"floor": 0.5, "control": 0.5, "ceiling": 1.0}
    leak, _ = mean_leaks(inside, outside, is_paired=True, **about)
    assert leak.gain[0] <= (more - less) / 200 <= leak.gain[1]
    assert leak.gain[0] < leak.gain[1]
    assert leak.beats_control() is positive


def test_each_mechanism_has_its_claim_and_what_an_attack_proves(audit):
    by = {r.what.split(" with ")[1]: r for r in audit.releases[1:]}
    for name in ("gaussian noise", "laplace noise"):
        assert by[name].claim.epsilon == pytest.approx(1.0, rel=1e-6)
        assert by[name].proof.epsilon <= by[name].claim.epsilon
        assert not by[name].refuted
    alone = by["laplace per coordinate noise"]
    assert alone.claim.epsilon == 0.01
    assert "ε = 0.04 at δ = 0" in alone.notes[0]


def test_curves_fall_with_noise_and_pay_in_error(audit):
    assert [c.name for c in audit.curves] == [
        "gaussian noise",
        "laplace noise",
        "laplace per coordinate noise",
    ]
    for curve in audit.curves:
        assert curve.leak[0] < curve.leak[1]
        assert curve.utility[0] > 10 * curve.utility[1]
        assert curve.x[0] < curve.x[1]
        assert all(
            low <= x <= high for low, x, high in zip(curve.low, curve.leak, curve.high, strict=True)
        )
    assert "4 for the record" in audit.curves[2].labels[1]


def test_the_mean_of_few_people_in_many_columns_gives_them_away():
    rng = np.random.default_rng(3)
    records = rng.uniform(size=(200, 3000))
    labels = rng.permutation(200) < 100  # nothing in a record tells the class
    contributed = np.arange(200) % 2 == 0
    settings = MeanAuditSettings(mechanisms=("gaussian",), epsilons=(1.0,), draws=200, repeats=1)
    audit = audit_mean(records, labels, UNIT, contributed=contributed, settings=settings)
    plain, noisy = audit.releases
    assert plain.individual in ("considerable", "near-total")
    assert plain.population == "none seen"
    assert "Clip to public bounds" in plain.change
    assert noisy.individual == "none seen"


def test_the_claim_per_coordinate_is_refuted_in_the_audit():
    rng = np.random.default_rng(1)
    settings = MeanAuditSettings(
        mechanisms=("laplace per coordinate",), coordinate_epsilons=(0.01,), repeats=1, draws=4000
    )
    labels = np.arange(60) % 2 == 0
    audit = audit_mean(rng.uniform(size=(60, 784)), labels, UNIT, settings=settings)
    (refuted,) = audit.refuted
    assert refuted.proof.epsilon > 0.01
    assert "Do not state ε = 0.01" in refuted.change
    assert "7.84" in refuted.notes[0]


def test_a_budget_refuses_what_would_exceed_it():
    settings = MeanAuditSettings(mechanisms=("gaussian",), epsilon=2.0)
    with pytest.raises(SettingError, match=r"refused.*ε = 2 of 1"):
        audit_mean(RECORDS, LABELS, UNIT, budget=1.0, settings=settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta must be above 0 with Gaussian noise"),
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ({"epsilon": -1.0}, "epsilon must be a finite number above 0"),
    ],
)
def test_impossible_guarantees_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        audit_mean(RECORDS, LABELS, UNIT, settings=MeanAuditSettings(**settings))


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="mechanisms must be among"):
        MeanAuditSettings(mechanisms=("salt",))
    with pytest.raises(SettingError, match="there is no attack"):
        MeanAuditSettings(method="salt")
    with pytest.raises(SettingError, match="repeats"):
        MeanAuditSettings(repeats=0)


@pytest.mark.parametrize(
    ("records", "labels", "contributed", "message"),
    [
        (RECORDS[:1], LABELS[:1], None, "at least 20 people, got 1"),
        (RECORDS[:0], LABELS[:0], None, "empty release"),
        (RECORDS, LABELS[:9], None, "9 of labels"),
        (RECORDS, LABELS | True, None, "true of some people and false of others"),
        (RECORDS * 0, LABELS, None, "must differ between people"),
        (RECORDS + 9, LABELS, None, "within the bounds must differ"),
        (RECORDS, LABELS, np.arange(240) == 0, "the mean of one person is their record"),
    ],
)
def test_records_that_cannot_be_audited_are_refused(records, labels, contributed, message):
    with pytest.raises(DataError, match=message):
        audit_mean(records, labels, UNIT, contributed=contributed)
