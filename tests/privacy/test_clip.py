"""Site-level noise: clipping, the parts of the noise, the event, the way through a secure sum."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from cofill.errors import DataError, SettingError
from cofill.privacy import FixedPoint, GaussianEvent, SiteNoise, clip_norm, epsilon, noise_for

FLOATS = st.floats(-1e300, 1e300)


@settings(max_examples=80)
@given(st.lists(FLOATS, min_size=1, max_size=6), st.floats(1e-3, 1e3))
def test_a_clipped_vector_is_no_longer_than_the_norm_and_points_the_same_way(values, norm):
    vector = np.array(values)
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            given_ = vector.astype(dtype)
        if not np.isfinite(given_).all():
            continue
        clipped = clip_norm(given_, norm)
        assert clipped.dtype == dtype
        assert np.linalg.norm(clipped.astype(float)) <= norm
        top = max(float(np.abs(given_).max()), 1e-300)
        length = top * np.linalg.norm(given_.astype(float) / top)
        if length <= norm:
            np.testing.assert_array_equal(clipped, given_)
        else:
            expected = given_.astype(float) / length * norm
            np.testing.assert_allclose(clipped, expected, rtol=1e-5, atol=norm * 1e-6)


def test_a_vector_that_is_no_number_is_refused():
    with pytest.raises(DataError, match="must be finite numbers, got 2 others"):
        clip_norm(np.array([1.0, np.nan, np.inf]), 1.0)


SIZE = 4000


def test_the_parts_of_enough_sites_have_the_noise_of_the_event():
    noise = SiteNoise(clip=2.0, noise_multiplier=1.5, sites=9)
    rng = np.random.default_rng(1)
    alone = noise.protect(np.zeros(SIZE), rng=rng)
    total = alone + sum(noise.protect(np.zeros(SIZE), rng=rng) for _ in range(8))
    assert kstest(alone / (1.5 * 2.0 / 3), "norm").pvalue > 1e-3
    assert kstest(total / (1.5 * 2.0), "norm").pvalue > 1e-3
    assert kstest(total / (1.5 * 2.0 * 1.1), "norm").pvalue < 0.01
    assert kstest(noise.add_to_sum(np.zeros(SIZE), rng=2) / 3.0, "norm").pvalue > 1e-3


def test_an_update_is_clipped_before_it_gets_noise():
    noise = SiteNoise(clip=1.0, noise_multiplier=1e-3, sites=1)
    protected = noise.protect(np.full(4, 1e6), rng=0)
    np.testing.assert_allclose(protected, 0.5, atol=0.01)
    assert noise.protect(np.zeros(3)).tolist() != noise.protect(np.zeros(3)).tolist()


def test_results_lie_on_a_grid_whatever_the_update_was():
    noise = SiteNoise(clip=1.0, noise_multiplier=1.0, sites=1)
    for update in (np.full(8, 1 / 3), np.full(8, 1e-9)):
        steps = noise.protect(update, rng=0) * 2.0**30
        np.testing.assert_array_equal(steps, np.rint(steps))


def test_noise_for_a_budget_of_rounds_and_its_event_agree():
    multiplier = noise_for(2.0, 1e-5, steps=50)
    event = SiteNoise(clip=0.1, noise_multiplier=multiplier, sites=10).event(rounds=50)
    assert event == GaussianEvent(multiplier, count=50, neighbours="add or remove one", unit="site")
    assert epsilon(event, 1e-5) == pytest.approx(2.0, rel=1e-6)


def test_a_secure_sum_keeps_the_noise():
    noise, code = SiteNoise(1.0, 2.0, sites=5), FixedPoint(largest=50.0)
    parts = [noise.protect(np.full(3, 0.1), rng=seed) for seed in range(5)]
    total = sum((code.encode(p) for p in parts), np.zeros(3, np.uint64))
    assert np.abs(code.decode(total) - np.sum(parts, axis=0)).max() <= 5 * code.step


@pytest.mark.parametrize(
    "change", [{"clip": 0.0}, {"noise_multiplier": 0.0}, {"sites": 0}, {"clip": math.nan}]
)
def test_wrong_settings_are_named(change):
    with pytest.raises(SettingError, match=f"{next(iter(change))} must be"):
        SiteNoise(**{"clip": 1.0, "noise_multiplier": 1.0, "sites": 2, **change})
    with pytest.raises(SettingError, match="norm must be"):
        clip_norm(np.ones(2), -1.0)
