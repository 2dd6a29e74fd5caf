"""The ε that an attack proves: by hand, at its coverage, and never above the accountant's."""

import math

import numpy as np
import pytest
from scipy.stats import beta

from cofill.audit import bound_from_counts, bound_from_scores, bound_of_event, prove_epsilon
from cofill.errors import DataError, SettingError
from cofill.privacy import (
    Box,
    GaussianEvent,
    LaplaceEvent,
    MeanDefence,
    SampledGaussianEvent,
    epsilon,
)

ROWS = np.random.default_rng(0).uniform(size=(40, 3))
UNIT = Box(0.0, 1.0)
NOISES = (("gaussian", 1e-5), ("laplace", 0.0))
SEEDS = range(20)


def test_the_bound_is_the_ratio_of_clopper_pearson_ends():
    tail = (1 - 0.95) / 4
    low = beta.ppf(tail, 80, 21)
    high = beta.ppf(1 - tail, 11, 90)
    bound = bound_from_counts(80, 100, 10, 100, delta=0.01, confidence=0.95)
    assert bound.epsilon == pytest.approx(math.log((low - 0.01) / high))
    # The mirrored form: a test that never misses is strong by what it rules out.
    mirrored = bound_from_counts(100, 100, 60, 100, delta=0.0, confidence=0.95)
    ruled_out, missed = 1 - beta.ppf(1 - tail, 61, 40), 1 - beta.ppf(tail, 100, 1)
    assert mirrored.epsilon == pytest.approx(math.log(ruled_out / missed))
    # A test that is always wrong is as good as one that is always right.
    assert bound_from_counts(10, 100, 80, 100, delta=0.01, confidence=0.95).epsilon == bound.epsilon


def test_nothing_is_proved_by_chance():
    rng = np.random.default_rng(0)
    same = [
        bound_from_scores(rng.normal(size=400), rng.normal(size=400), delta=0, confidence=0.9)
        for _ in range(60)
    ]
    assert np.mean([b.epsilon > 0 for b in same]) <= 0.1


def test_total_leak_proves_as_much_as_trials_allow():
    bound = bound_from_scores(np.ones(20_000), np.zeros(20_000), delta=1e-5)
    assert bound.epsilon > 6
    assert (bound.true_rate, bound.false_rate) == (1.0, 0.0)


@pytest.mark.parametrize(("noise", "delta"), NOISES)
@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_our_mechanisms_are_never_proved_worse_than_the_accountant_says(noise, delta, strength):
    defence = MeanDefence(UNIT, strength, delta, noise)
    stated = epsilon(defence.event(3), defence.delta)
    found = [prove_epsilon(defence, ROWS, draws=10_000, seed=seed).epsilon for seed in SEEDS]
    assert max(found) <= stated == pytest.approx(strength, rel=1e-6)
    # And the attack is no straw man: it proves a good part of a large ε.
    if strength == 3.0:
        assert np.median(found) > (0.2 if noise == "gaussian" else 0.8) * stated


@pytest.mark.parametrize(("noise", "delta"), NOISES)
def test_too_little_noise_is_found_out(noise, delta):
    bound = prove_epsilon(MeanDefence(UNIT, 6.0, delta, noise), ROWS, draws=10_000)
    assert bound.refutes(1.0)  # as somebody would claim who forgot most of the sensitivity


def test_adding_a_record_is_never_proved_worse_either():
    for noise, delta in NOISES:
        defence = MeanDefence(UNIT, 2.0, delta, noise, "add or remove one")
        found = [prove_epsilon(defence, ROWS, draws=4000, seed=seed).epsilon for seed in range(5)]
        assert max(found) <= 2.0


def test_the_claim_per_coordinate_is_refuted():
    images = np.random.default_rng(1).uniform(size=(20, 784))
    defence = MeanDefence(Box(0.0, 1.0), 0.01, noise="laplace per coordinate")
    bound = prove_epsilon(defence, images, delta=0.0, draws=4000)
    assert bound.refutes(0.01)
    true = defence.guarantee(784)
    assert bound.epsilon < true.pure_epsilon == pytest.approx(7.84)
    at_delta = prove_epsilon(defence, images, delta=1e-5, draws=4000)
    assert 0.01 < at_delta.epsilon < true.epsilon


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(1.0),
        GaussianEvent(2.0, count=4),
        LaplaceEvent(0.5),
        LaplaceEvent(2.0, count=3),
    ],
)
def test_events_are_never_proved_worse_than_the_accountant_says(event):
    for seed in range(5):
        bound = bound_of_event(event, delta=1e-5, seed=seed)
        assert 0.2 < bound.epsilon <= epsilon(event, 1e-5)


def test_an_event_that_is_not_noise_alone_is_left_out():
    assert bound_of_event(SampledGaussianEvent(1.0, rate=0.1, steps=3), delta=1e-5) is None


def test_bad_counts_are_refused():
    with pytest.raises(DataError, match="at least one trial"):
        bound_from_counts(1, 0, 0, 10, delta=0)
    with pytest.raises(DataError, match="at least 4 trials"):
        bound_from_scores(np.zeros(3), np.zeros(9), delta=0)
    with pytest.raises(SettingError, match="confidence"):
        bound_from_counts(1, 2, 1, 2, delta=0, confidence=1.0)
    with pytest.raises(SettingError, match="draws must be at least 100"):
        prove_epsilon(MeanDefence(UNIT, 1.0), ROWS, draws=10)
    with pytest.raises(DataError, match="at least 2 rows"):
        prove_epsilon(MeanDefence(UNIT, 1.0), ROWS[:1])
