"""Defences of a mean: sensitivity, the size and shape of the noise, the grid, what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from cofill.errors import DataError, SettingError
from cofill.privacy import (
    Box,
    GaussianEvent,
    LaplaceEvent,
    MeanDefence,
    epsilon,
    noise_for,
)
from cofill.privacy._mechanisms import _STEP, _exact_sum, _weigh_count
from cofill.privacy._noise import draw_noise, noise_generator, noise_step

BOUNDS = [Box(0.0, 1.0), Box((-3, 0, 100), (5, 0.01, 4000))]
WHERE = {"sender": "clinic", "receiver": "coordinator"}
RNG = np.random.default_rng(0)


def quiet(monkeypatch):
    """Take the noise away."""
    monkeypatch.setattr(
        "cofill.privacy._mechanisms.draw_noise",
        lambda kind, scale, rng: np.zeros(len(scale), np.int64),
    )


# --- bounds and sensitivity -------------------------------------------------------------------


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_rows_within_bounds_stay_and_others_come_to_the_border(bounds):
    centre = bounds.centre_of(3)
    inside = centre + bounds.unit_of(3) * RNG.uniform(-0.3, 0.3, (50, 3))
    np.testing.assert_allclose(bounds.clip(inside), inside, rtol=1e-9, atol=1e-9)
    far = centre + 1e150 * RNG.normal(size=(50, 3))
    units = bounds.in_units(far)
    assert np.abs(units).max() == 1
    low, high = np.asarray(bounds.low), np.asarray(bounds.high)
    clipped = bounds.clip(far)
    assert ((clipped >= low - 1e-9) & (clipped <= high + 1e-9)).all()


@settings(max_examples=60)
@given(
    st.sampled_from(range(len(BOUNDS))),
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=5),
)
def test_no_record_moves_the_exact_sum_by_more_than_its_reach(which, rows):
    bounds, table = BOUNDS[which], np.array(rows)
    table_a, table_b = table[:-1], np.vstack([table[:-2], table[-1:]])
    for norm in (1, 2):
        added = np.linalg.norm(_STEP * _exact_sum(bounds, table[-1:]), norm)
        moved = np.linalg.norm(
            _STEP * (_exact_sum(bounds, table_a) - _exact_sum(bounds, table_b)), norm
        )
        assert added <= bounds.reach(norm, 3)
        assert moved <= 2 * bounds.reach(norm, 3)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_reach_is_no_larger_than_it_must_be(bounds, norm):
    far = bounds.centre_of(3) + 1e9 * bounds.unit_of(3)
    length = np.linalg.norm(bounds.in_units(far[None])[0], norm)
    assert length == pytest.approx(bounds.reach(norm, 3))


def test_without_noise_it_is_the_mean_of_clipped_rows(monkeypatch):
    quiet(monkeypatch)
    rows = RNG.normal(0.5, 1.0, (70_000, 3))
    for neighbours in ("replace one", "add or remove one"):
        released = MeanDefence(Box(0.0, 1.0), 1.0, neighbours=neighbours).release(rows, **WHERE)
        np.testing.assert_allclose(released.mean, rows.clip(0, 1).mean(axis=0), atol=1e-8)
        assert released.rows == 70_000


# --- the noise --------------------------------------------------------------------------------

WIDTH, N = 4000, 10


@pytest.mark.parametrize(
    ("defence", "scale"),
    [
        (MeanDefence(Box(0.0, 1.0), 0.5), noise_for(0.5, 1e-5) * math.sqrt(WIDTH) / N),
        (
            MeanDefence(Box(-3.0, 3.0), 2.0, delta=1e-6),
            noise_for(2.0, 1e-6) * 6 * math.sqrt(WIDTH) / N,
        ),
        (MeanDefence(Box(-1.0, 1.0), 0.5, 0.0, "laplace"), 2 * WIDTH / (0.5 * N)),
        (MeanDefence(Box(0.0, 1.0), 0.01, noise="laplace per coordinate"), 1 / (0.01 * N)),
    ],
)
def test_the_noise_has_the_distribution_and_scale_that_the_sensitivity_asks_for(defence, scale):
    rows = np.full((N, WIDTH), 0.0)
    released = defence.release(rows, **WHERE, rng=7)
    np.testing.assert_allclose(released.scale, scale, rtol=1e-5)
    assert (released.scale >= scale * (1 - 1e-12)).all()
    noise = (released.mean - defence.bounds.clip(rows)[0]) / scale
    shape = {"gaussian": "norm", "laplace": "laplace"}[released.noise]
    assert kstest(noise, shape).pvalue > 1e-3
    # A scale that is off by a tenth would be seen.
    for wrong in (0.9, 1.1):
        assert kstest(noise / wrong, shape).pvalue < 0.01


def test_coordinates_of_unlike_units_get_noise_in_proportion():
    box = Box((0, 0, 0), (1, 100, 0.1))
    released = MeanDefence(box, 1.0).release(np.zeros((5, 3)), **WHERE, rng=0)
    np.testing.assert_allclose(released.scale / released.scale[0], [1, 100, 0.1])


@pytest.mark.parametrize(("noise", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_a_private_number_of_rows_shares_the_noise_with_the_sum(noise, delta):
    defence = MeanDefence(Box(0.0, 1.0), 1.0, delta, noise, "add or remove one")
    rows = np.full((500, 16), 0.5)
    drawn = [defence.release(rows, **WHERE, rng=seed) for seed in range(600)]
    numbers = np.array([d.rows for d in drawn])
    sums = np.array([(d.mean - 0.5) * max(d.rows, 1) / 0.5 for d in drawn])  # in units
    assert len(set(numbers.tolist())) > 5
    assert numbers.mean() == pytest.approx(500, abs=5 * numbers.std() / math.sqrt(600))
    event = defence.event(16)
    if noise == "gaussian":
        joint = math.hypot(math.sqrt(16) / sums.std(), 1 / numbers.std())
        assert 1 / joint == pytest.approx(event.noise_multiplier, rel=0.05)
        assert event == GaussianEvent(noise_for(1.0, 1e-5), neighbours="add or remove one")
    else:
        joint = 16 / np.abs(sums).mean() + 1 / np.abs(numbers - 500).mean()
        assert joint == pytest.approx(1.0, rel=0.1)
        assert event == LaplaceEvent(1.0, neighbours="add or remove one")


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("width", [1, 9, 784])
def test_the_shares_make_the_error_least(norm, width):
    weight, joint = _weigh_count(norm, width)

    def error(w):
        return (1 + w**norm) ** (2 / norm) * (width + 1 / w**2)

    assert joint == pytest.approx((1 + weight**norm) ** (1 / norm))
    assert error(weight) <= min(error(weight * 0.9), error(weight * 1.1))


# --- the last bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_what_can_be_released_does_not_depend_on_the_rows(kind):
    # Plain floating point noise leaves the sum's own last bits in the result (Mironov 2012).
    for rows in (RNG.uniform(size=(8, 50)), np.full((8, 50), 1 / 3)):
        defence = MeanDefence(Box(-1.0, 1.0), 1.0, noise=kind)
        released = defence.release(rows, **WHERE, rng=1)
        step = noise_step(float(released.scale[0]) * 8, _STEP)
        steps = released.mean * 8 / step
        np.testing.assert_array_equal(steps, np.rint(steps))
        assert step >= float(released.scale[0]) * 8 * 2.0**-31


def test_the_grid_is_never_finer_than_the_least_step():
    assert noise_step(1e-6, _STEP) == _STEP
    assert 2.0**30 <= 5.0 / noise_step(5.0, 0.0 + 2.0**-60) < 2.0**31


def test_rounded_noise_is_rounded_noise():
    raw = np.random.default_rng(3).standard_normal(5)
    np.testing.assert_array_equal(
        draw_noise("gaussian", np.full(5, 10.0), np.random.default_rng(3)), np.rint(10 * raw)
    )


def test_a_seed_repeats_and_the_operating_system_does_not():
    defence, rows = MeanDefence(Box(0.0, 1.0), 1.0), np.ones((5, 3))
    first, repeated, other = (defence.release(rows, **WHERE, rng=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.mean, repeated.mean)
    assert (first.mean != other.mean).all()
    free = [defence.release(rows, **WHERE) for _ in range(2)]
    assert (free[0].mean != free[1].mean).all()
    assert "seed" in str(first.guarantee)
    assert "seed" not in str(free[0].guarantee)
    generator = np.random.default_rng(0)
    assert noise_generator(generator) is generator


# --- the guarantee ----------------------------------------------------------------------------


def test_the_papers_noise_states_what_it_is_for_a_whole_record():
    released = MeanDefence(Box(0.0, 1.0), 0.01, noise="laplace per coordinate").release(
        np.zeros((100, 784)), **WHERE, rng=0
    )
    assert released.guarantee.pure_epsilon == pytest.approx(7.84)
    assert released.guarantee.epsilon == pytest.approx(1.05, abs=0.05)
    assert released.guarantee.delta == 1e-5
    text = str(released.guarantee)
    assert "ε = 7.84 at δ = 0" in text
    assert "per coordinate" in text


@pytest.mark.parametrize("neighbours", ["replace one", "add or remove one"])
@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-3)])
def test_the_event_costs_what_was_asked_for(eps, delta, neighbours):
    for defence, at in (
        (MeanDefence(Box(-1.0, 1.0), eps, delta=delta, neighbours=neighbours), delta),
        (MeanDefence(Box(-1.0, 1.0), eps, 0.0, "laplace", neighbours=neighbours), 0.0),
    ):
        promised = defence.guarantee(20)
        assert (promised.epsilon, promised.delta) == (pytest.approx(eps, rel=1e-6), at)
        assert promised.neighbours == neighbours
        assert epsilon(defence.event(20), at) <= eps * (1 + 1e-12)
    words = {"replace one": "replaced by another", "add or remove one": "added or removed"}
    assert words[neighbours] in str(promised)


def test_two_neighbours_are_as_hard_to_tell_apart_as_the_guarantee_says():
    # Noise per coordinate: every coordinate is a draw of the mechanism on one number.
    eps, width = 1.0, 40_000
    defence = MeanDefence(Box(0.0, 1.0), eps, noise="laplace per coordinate")
    low, high = (
        defence.release(
            np.vstack([np.zeros((4, width)), np.full((1, width), last)]), **WHERE, rng=9
        )
        for last in (0.0, 1.0)
    )
    for threshold in np.linspace(-0.3, 0.5, 9):
        p, q = (high.mean > threshold).mean(), (low.mean > threshold).mean()
        slack = 5 * (math.sqrt(p / width) + math.e * math.sqrt(q / width))
        assert p <= math.exp(eps) * q + slack
        assert 1 - q <= math.exp(eps) * (1 - p) + slack + 0.02
    # Beyond both means the bound is met: the noise is no larger than needed.
    assert (high.mean > 0.3).mean() / (low.mean > 0.3).mean() == pytest.approx(math.e, rel=0.05)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MeanDefence(Box(0.0, 1.0), 0.0), "epsilon must be .* got 0.0"),
        (lambda: MeanDefence(Box(0.0, 1.0), -1.0), "epsilon must be .* got -1.0"),
        (lambda: MeanDefence(Box(0.0, 1.0), math.inf, 0.0, "laplace"), "epsilon must be a finite"),
        (lambda: MeanDefence(Box(0.0, 1.0), 1.0, delta=0.0), "delta must be above 0 .*Laplace"),
        (lambda: MeanDefence(Box(0.0, 1.0), 1.0, delta=1.0), "below 1, got 1.0"),
        (lambda: Box(1.0, 0.0), "low must be finite and below high"),
        (lambda: Box(1.0, 1.0), "low must be finite and below high"),
        (lambda: Box((0.0, 5.0), (1.0, 4.0)), "bounds in 1$"),
        (lambda: Box(0.0, math.inf), "low must be finite"),
        (lambda: Box(math.nan, 1.0), "low must be finite"),
        (lambda: Box((0.0, 0.0), (1.0, 1.0, 1.0)), "of one length, got 2 and 3"),
        (
            lambda: MeanDefence(
                Box(0.0, 1.0),
                1.0,
                noise="laplace per coordinate",
                neighbours="add or remove one",
            ),
            "'replace one' as neighbours",
        ),
    ],
)
def test_wrong_settings_are_named(call, words):
    with pytest.raises(SettingError, match=words):
        call()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((0, 3)), "rows must be 1 to .* got 0"),
        (np.zeros((3, 0)), "rows must be rows × features"),
        (np.zeros(3), "got 1 dimensions"),
        (np.array([[1.0, 0.123456], [np.nan, 1.0]]), "got 1 rows with others"),
        (np.array([[1.0, np.inf], [np.nan, 1.0]]), "got 2 rows with others"),
    ],
)
def test_unusable_rows_are_refused_without_a_value_in_the_message(rows, words):
    with pytest.raises(DataError, match=words) as caught:
        MeanDefence(Box(0.0, 1.0), 1.0).release(rows, **WHERE)
    assert "0.123456" not in str(caught.value)


def test_bounds_of_another_width_are_refused():
    with pytest.raises(SettingError, match="one for each of 3 coordinates, got 2"):
        MeanDefence(Box((0, 0), (1, 1)), 1.0).release(np.zeros((2, 3)), **WHERE)
