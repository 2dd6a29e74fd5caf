"""The accountant against closed forms, numerical integrals and simulation."""

import json
import logging
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from cofill.errors import SettingError, StoreError
from cofill.nets import DPSettings, TrainSettings, sample_capacity
from cofill.privacy import (
    ComposedEvent,
    Event,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    SampledGaussianEvent,
    compose,
    epsilon,
    guarantee,
    noise_for,
    sgd_event,
    training_event,
)
from cofill.privacy._accounting import rough_epsilon
from cofill.privacy._events import overflow_of

DELTA = 1e-5


def gaussian_delta(sigma: float, eps: float) -> float:
    """Balle & Wang 2018, Theorem 8, at sensitivity 1."""
    return norm.cdf(1 / (2 * sigma) - eps * sigma) - math.exp(eps) * norm.cdf(
        -1 / (2 * sigma) - eps * sigma
    )


# --- closed forms -----------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("count", [1, 9])
def test_gaussian_noise_costs_what_its_closed_form_says(sigma, delta, count):
    cost = epsilon(GaussianEvent(sigma, count=count), delta)
    assert gaussian_delta(sigma / math.sqrt(count), cost) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("eps", [0.05, 1.0, 6.0])
def test_one_laplace_release_costs_what_its_closed_form_says(eps):
    # δ(ε) = 1 − exp((ε − ε₀) / 2) below ε₀.
    assert epsilon(LaplaceEvent(1 / eps), 0) == pytest.approx(eps)
    for delta in (1e-3, 1e-2):
        cost = epsilon(LaplaceEvent(1 / eps), delta)
        assert cost == pytest.approx(eps + 2 * math.log1p(-delta), abs=2e-4)


def test_noise_per_coordinate_of_the_paper_is_another_guarantee_for_the_record():
    event = LaplaceEvent(1 / 0.01, count=784)
    assert epsilon(event, 0) == pytest.approx(7.84)
    assert epsilon(event, 1e-5) == pytest.approx(1.05, abs=0.05)


def test_many_laplace_releases_cost_what_simulation_says():
    eps0, count, delta = 0.2, 60, 0.05
    cost = epsilon(LaplaceEvent(1 / eps0, count=count), delta)
    noise = np.random.default_rng(0).laplace(0, 1 / eps0, (40_000, count))
    loss = eps0 * (np.abs(noise - 1) - np.abs(noise)).sum(axis=1)
    simulated = np.maximum(1 - np.exp(cost - loss), 0).mean()
    assert simulated == pytest.approx(delta, rel=0.05)


def hockey_stick(p, q, eps: float) -> float:
    points = [-30.0, -5.0, 0.0, 1.0, 6.0, 30.0]
    total = 0.0
    for low, high in pairwise(points):
        total += quad(lambda x: max(p(x) - math.exp(eps) * q(x), 0.0), low, high, limit=200)[0]
    return total


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.5), (2.0, 0.02)])
@pytest.mark.parametrize("neighbours", ["add or remove one", "replace one"])
def test_one_step_on_a_poisson_sample_costs_what_its_integral_says(sigma, rate, neighbours):
    plain = norm(0, sigma).pdf

    def with_row(at):
        shifted = norm(at, sigma).pdf
        return lambda x: (1 - rate) * plain(x) + rate * shifted(x)

    delta = 1e-4
    event = SampledGaussianEvent(sigma, rate=rate, steps=1)
    cost = epsilon(event, delta, neighbours=neighbours)
    if neighbours == "replace one":
        true = hockey_stick(with_row(1.0), with_row(-1.0), cost)
    else:
        pairs = ((with_row(1.0), plain), (plain, with_row(1.0)))
        true = max(hockey_stick(p, q, cost) for p, q in pairs)
    assert true <= delta * 1.001
    assert true == pytest.approx(delta, rel=0.02)


def test_dp_sgd_has_the_known_figure():
    # σ = 1.1, q = 0.01, 10,000 steps at δ = 1e-5: about 5.19 by PLD, 5.63 by Rényi accounting.
    event = SampledGaussianEvent(1.1, rate=0.01, steps=10_000)
    assert epsilon(event, DELTA) == pytest.approx(5.19, abs=0.01)
    rough = rough_epsilon([event], DELTA, neighbours="add or remove one", unit="record")
    assert rough == pytest.approx(5.63, abs=0.05)


# --- composition ------------------------------------------------------------------------------


def test_composition_costs_more_than_its_parts_and_less_than_their_sum():
    parts = [GaussianEvent(2.0), LaplaceEvent(3.0, count=4), GaussianEvent(5.0, count=2)]
    alone = [epsilon(p, DELTA / 3) for p in parts]
    together = epsilon(parts, DELTA)
    assert max(epsilon(p, DELTA) for p in parts) < together < sum(alone)
    assert epsilon(parts[::-1], DELTA) == pytest.approx(together, rel=1e-6)
    assert epsilon(ComposedEvent(tuple(parts)), DELTA) == pytest.approx(together, rel=1e-9)
    assert rough_epsilon(parts, DELTA, neighbours="replace one", unit="record") > together


def test_the_same_events_one_by_one_or_at_once_cost_the_same():
    for single, many in (
        (GaussianEvent(3.0), GaussianEvent(3.0, count=5)),
        (LaplaceEvent(3.0), LaplaceEvent(3.0, count=5)),
        (
            SampledGaussianEvent(2.0, rate=0.1, steps=2, overflow=1e-9),
            SampledGaussianEvent(2.0, rate=0.1, steps=10, overflow=5e-9),
        ),
    ):
        merged = compose([single] * 5).events
        assert merged == (many,)
        assert epsilon([single] * 5, DELTA) == epsilon(many, DELTA)


def test_nothing_costs_nothing_and_gaussian_noise_has_no_epsilon_without_delta():
    assert epsilon([], DELTA) == 0.0
    assert epsilon(GaussianEvent(5.0), 0) == math.inf
    assert epsilon([LaplaceEvent(2.0), GaussianEvent(5.0)], 0) == math.inf
    assert guarantee(GaussianEvent(5.0), DELTA, "x").pure_epsilon is None


def test_very_long_compositions_are_answered_and_say_nothing_on_the_screen(caplog):
    with caplog.at_level(logging.WARNING):
        long = epsilon(SampledGaussianEvent(3.0, rate=0.001, steps=3_000_000), DELTA)
        short = SampledGaussianEvent(1.0, rate=0.5, steps=100)
        rough_epsilon([short], DELTA, neighbours="add or remove one", unit="record")
    assert 2 < long < 20
    assert not caplog.records


def test_little_noise_is_answered_on_a_coarser_grid():
    event = GaussianEvent(0.02)
    mixed = epsilon([event, LaplaceEvent(1e6)], DELTA)
    assert mixed == pytest.approx(epsilon(event, DELTA), rel=1e-3)
    assert mixed >= epsilon(event, DELTA)


# --- whose neighbours -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GaussianEvent, LaplaceEvent])
def test_replacing_a_record_is_removing_one_and_adding_one(kind):
    added = kind(4.0, neighbours="add or remove one")
    assert epsilon(added, DELTA) == epsilon(kind(4.0), DELTA)
    assert epsilon(added, DELTA, neighbours="replace one") == epsilon(kind(2.0), DELTA)


def test_with_a_public_number_of_records_nothing_hides_that_one_is_there():
    with pytest.raises(SettingError, match="neighbours must be 'replace one'"):
        epsilon(GaussianEvent(4.0), DELTA, neighbours="add or remove one")
    # Mixed events have the relation that all of them speak of.
    mixed = [GaussianEvent(4.0), GaussianEvent(4.0, neighbours="add or remove one")]
    expected = epsilon([GaussianEvent(4.0), GaussianEvent(2.0)], DELTA)
    assert epsilon(mixed, DELTA) == pytest.approx(expected)


def test_what_hides_a_site_hides_its_records_at_twice_the_sensitivity():
    site = GaussianEvent(4.0, neighbours="add or remove one", unit="site")
    assert epsilon(site, DELTA) == epsilon(GaussianEvent(4.0), DELTA)
    for neighbours in ("replace one", "add or remove one"):
        cost = epsilon(site, DELTA, neighbours=neighbours, unit="record")
        assert cost == epsilon(GaussianEvent(2.0), DELTA)
    with pytest.raises(SettingError, match="unit must be 'record'"):
        epsilon(GaussianEvent(4.0), DELTA, unit="site")


def test_renyi_accounting_says_where_it_has_no_answer():
    event = SampledGaussianEvent(2.0, rate=0.1, steps=2_000_000)
    with pytest.raises(SettingError, match=r"at most a million steps .* got 2000000"):
        epsilon(event, DELTA, neighbours="replace one")


# --- training ---------------------------------------------------------------------------------


def test_the_guarantee_of_training_assumes_poisson_samples():
    assert "not shuffled" in str(guarantee(sgd_event(3.3, rate=0.1, steps=100), DELTA, "DP-SGD"))


@pytest.mark.parametrize(
    ("rows", "rate"), [(1000, 0.032), (50, 0.5), (10_000, 1e-3), (9, 0.2), (40, 0.95), (1, 0.5)]
)
def test_the_overflow_is_that_of_the_training_loops_arrays(rows, rate):
    chance = overflow_of(rows, rate, 1)
    worst = 0.0
    for count in (rows - 1, rows):
        with_row = sample_capacity(count + 1, rate)
        without = sample_capacity(count, rate) if count else 0
        chances = binom.pmf(np.arange(count + 1), count, rate)
        lost = [n > without or n + 1 > with_row for n in range(count + 1)]
        worst = max(worst, math.fsum(chances[lost]))
    assert chance == pytest.approx(worst, rel=1e-6)
    assert chance < 100 * 1e-12  # of the order that sample_capacity promises
    assert overflow_of(rows, rate, 7) == pytest.approx(7 * chance)


def test_the_overflow_is_paid_with_delta():
    plain = SampledGaussianEvent(3.0, rate=0.1, steps=10)
    half = SampledGaussianEvent(3.0, rate=0.1, steps=10, overflow=DELTA / 2)
    assert epsilon(half, DELTA) == pytest.approx(epsilon(plain, DELTA / 2))
    assert epsilon(half, DELTA / 2) == math.inf


def test_training_costs_by_its_own_settings():
    settings = TrainSettings(epochs=4, batch_size=30, dp=DPSettings(1.0, 1.1))
    event = training_event(settings, 100, 20)
    assert (event.rate, event.steps, event.noise_multiplier) == (0.3, 20, 1.1)
    assert training_event(settings, 10, 4).rate == 1.0
    assert training_event(TrainSettings(epochs=4), 100, 16) is None
    assert training_event(TrainSettings(epochs=4, dp=DPSettings(1.0, 0.0)), 100, 16) is None


# --- the inverse ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "rate", "steps"),
    [(0.5, 1.0, 1), (3.0, 1.0, 20), (0.4, 0.05, 50), (0.2, 0.01, 1000)],
)
def test_noise_for_a_budget_spends_it_and_no_more(eps, rate, steps):
    noise = noise_for(eps, DELTA, rate=rate, steps=steps, rows=2000)

    def cost(multiplier):
        event = sgd_event(multiplier, rate=rate, steps=steps, rows=2000)
        return epsilon(event, DELTA)

    assert cost(noise) <= eps * (1 + 1e-9)
    assert cost(noise / 1.003) > eps


def test_noise_for_is_exact_and_not_the_classical_formula():
    noise = noise_for(1.0, DELTA)
    assert gaussian_delta(noise, 1.0) == pytest.approx(DELTA, rel=1e-6)
    assert noise < 0.8 * math.sqrt(2 * math.log(1.25 / DELTA))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: noise_for(0.0, DELTA), "epsilon must be a finite number above 0, got 0.0"),
        (lambda: noise_for(-1.0, DELTA), "epsilon must be"),
        (lambda: noise_for(math.nan, DELTA), "epsilon must be"),
        (lambda: noise_for(1.0, 0.0), "delta must be above 0 with Gaussian noise"),
        (lambda: noise_for(1.0, 1.0), "delta must be"),
        (lambda: noise_for(1.0, 1e-13, rate=0.1, steps=10, rows=1000), "does not fit"),
        (lambda: epsilon(GaussianEvent(1.0), 1.0), "delta must be at least 0 and below 1, got 1.0"),
        (lambda: epsilon(GaussianEvent(1.0), -0.1), "delta must be"),
        (lambda: GaussianEvent(0.0), "noise_multiplier must be a finite number above 0"),
        (lambda: LaplaceEvent(math.inf), "noise_multiplier must be"),
        (lambda: GaussianEvent(1.0, count=0), "count must be a whole number of 1 or more, got 0"),
        (lambda: SampledGaussianEvent(1.0, rate=0.0, steps=1), "rate must be above 0"),
        (lambda: SampledGaussianEvent(1.0, rate=1.1, steps=1), "rate must be above 0"),
        (lambda: SampledGaussianEvent(1.0, rate=0.1, steps=0), "steps must be"),
        (lambda: Guarantee(-1.0, 0.1, "replace one", "x"), "epsilon must be 0 or more"),
    ],
)
def test_wrong_settings_are_named(call, words):
    with pytest.raises(SettingError, match=words):
        call()


# --- events as values -------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.integers(1, 99)), min_size=1, max_size=4))
def test_an_event_is_the_same_after_a_file(drawn):
    events: list[Event] = []
    for noise, count in drawn:
        events.append(GaussianEvent(noise, count=count))
        events.append(LaplaceEvent(noise, neighbours="add or remove one"))
        events.append(SampledGaussianEvent(noise, rate=1 / count, steps=count, overflow=1e-9))
    composed = ComposedEvent(tuple(events))
    assert Event.from_json(json.loads(json.dumps(composed.to_json()))) == composed
    merged = compose(events).parts()
    assert sum(getattr(p, "count", 0) for p in merged) == sum(c + 1 for _, c in drawn)


@pytest.mark.parametrize(
    "value", [{"kind": "magic"}, {}, {"kind": "gaussian"}, {"kind": "laplace", "x": 1}]
)
def test_a_foreign_event_is_refused(value):
    with pytest.raises(StoreError, match="an event must be of one of the kinds"):
        Event.from_json(value)
