"""What every attack returns, and the intervals under it."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from cofill.attack import Leak, share_leak
from cofill.attack._inputs import as_matrix, check_same_people
from cofill.attack._inversion import rank_candidates
from cofill.attack._leak import bootstrap_people, percentile_interval, r2_statistic
from cofill.errors import DataError, SettingError
from cofill.metrics import r2

FACTS = {"name": "n", "threat": "t", "figure": "f", "scope": "individual"}


def test_a_share_has_its_exact_interval():
    leak = share_leak(7, 50, **FACTS, floor=0.02)
    low, high = leak.interval
    assert binom.sf(6, 50, low) == pytest.approx(0.025)
    assert binom.cdf(7, 50, high) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("low", "floor_high", "excludes"), [(0.3, None, True), (0.2, None, False), (0.3, 0.4, False)]
)
def test_the_floor_is_excluded_by_the_whole_interval(low, floor_high, excludes):
    leak = Leak(**FACTS, floor=0.2, attack=0.5, interval=(low, 0.6), floor_high=floor_high)
    assert leak.excludes_floor() is excludes
    assert leak.beats_control() is None


def test_a_leak_is_written_as_json():
    leak = Leak(
        **FACTS,
        floor=0.0,
        attack=np.nan,
        interval=(0.1, 0.3),
        gain=(0.01, 0.2),
        details={"each": np.array([1.0, np.nan]), "count": np.int64(3)},
    )
    fields = json.loads(json.dumps(leak.to_dict()))
    assert fields["attack"] is None
    assert fields["details"] == {"each": [1.0, None], "count": 3}
    assert fields["excludes_floor"] is True
    assert fields["beats_control"] is True
    assert fields["interval"] == [0.1, 0.3]


def test_a_wrong_scope_or_interval_is_refused():
    with pytest.raises(SettingError, match="scope"):
        Leak(**{**FACTS, "scope": "both"}, floor=0.0, attack=0.0, interval=(0.0, 1.0))
    with pytest.raises(SettingError, match="interval"):
        Leak(**FACTS, floor=0.0, attack=0.0, interval=(1.0, 0.0))


def test_r2_agrees_with_the_metric_and_its_interval_covers():
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(40):
        truth = rng.normal(size=(150, 3)) * [1, 5, 0.1]
        guess = truth + rng.normal(size=truth.shape) * [1, 5, 0.1]
        value, drawn = bootstrap_people(r2_statistic(truth, guess[None]), 150, draws=300, seed=seed)
        assert value == pytest.approx(r2(truth, guess))
        low, high = percentile_interval(drawn)
        covered += low <= 0.0 <= high  # the noise has the variance of the truth
    assert covered >= 33


def test_a_draw_is_judged_as_if_its_people_were_all():
    rng = np.random.default_rng(1)
    truth, counts = rng.normal(size=(12, 2)), rng.multinomial(12, np.full(12, 1 / 12))
    guess = truth + rng.normal(size=truth.shape)
    drawn_people = np.repeat(np.arange(12), counts)
    value = r2_statistic(truth, guess[None])(counts[None].astype(float))[0]
    assert value == pytest.approx(r2(truth[drawn_people], guess[drawn_people]))


def test_a_feature_that_does_not_vary_does_not_count():
    truth = np.column_stack([np.arange(10.0), np.full(10, 3.0)])
    value, _ = bootstrap_people(r2_statistic(truth, truth[None] + [0, 1]), 10, draws=100)
    assert value == 1.0


def test_somebody_with_a_twin_is_not_singled_out():
    x = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 2.0]])
    assert rank_candidates(x, x).tolist() == [1, 1, 0]


def test_precision_weighs_columns():
    candidates = np.array([[0.0, 0.0], [1.0, 5.0]])
    guess = np.array([[0.1, 5.0], [0.9, 5.0]])
    assert rank_candidates(guess, candidates).tolist() == [1, 0]
    assert rank_candidates(guess, candidates, np.array([1.0, 0.0])).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([], "empty"),
        (np.ones((0, 3)), "empty"),
        (np.ones((1, 3)), "at least 2 people"),
        ([[1.0], [np.nan]], "1 cells"),
        ([["a"], ["b"]], "numbers"),
    ],
)
def test_what_cannot_be_attacked_is_refused(values, what):
    with pytest.raises(DataError, match=what):
        as_matrix("codes", values)


def test_other_numbers_of_people_are_refused():
    with pytest.raises(DataError, match="3 of codes, 2 of rows"):
        check_same_people(codes=np.ones((3, 1)), rows=np.ones((2, 1)))
