"""The Masked Weighting Method against finite differences, numpy's least squares, and the Cube."""

import narwhals as nw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.cooperate import (
    MaskStatistics,
    equal_masks,
    masks_by_gradient,
    masks_by_iteration,
    masks_for_patterns,
    masks_in_closed_form,
)
from cofill.cooperate._masks import _error_gradient
from cofill.errors import SettingError
from cofill.nets import TrainSettings
from cofill.views import MultiView


def eq5(guesses: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    """The paper's error from raw rows: guesses by source, row and feature, a weight per source."""
    error = 0.0
    for row in range(len(truth)):
        for k in range(truth.shape[1]):
            predicted = sum(weights[j, k] * guesses[j, row, k] for j in range(len(guesses)))
            error += (truth[row, k] - predicted) ** 2
    return error / len(truth)


def rows(seed: int, sources: int, features: int, n: int = 60, common: float = 0.0):
    """Guesses of the truth; `common` is the share of their errors that all sources make alike."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, features))
    errors = rng.normal(size=(sources, n, features)) + common * rng.normal(size=(n, features))
    return truth * rng.uniform(0.3, 1, size=(sources, 1, features)) + errors, truth


def guessed(seed: int, n: int = 40):
    """Guesses with rows of which some sources say nothing and cells whose truth is not known."""
    guesses, truth = rows(seed, 3, 4, n)
    rng = np.random.default_rng(seed + 1)
    present = rng.random((n, 3)) < 0.7
    truth[rng.random(truth.shape) < 0.2] = np.nan
    return guesses, truth, present


def error_gradient(statistics: MaskStatistics, weights: np.ndarray) -> np.ndarray:
    return _error_gradient(statistics.gram, statistics.right, weights)


def same(one: MaskStatistics, other: MaskStatistics) -> None:
    for field in ("gram", "right", "pairs"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=1e-12)


SOURCES, FEATURES = st.integers(2, 4), st.integers(1, 5)
SEED = st.integers(0, 2**31)


@given(seed=SEED, sources=SOURCES, features=FEATURES)
@settings(max_examples=10)
def test_equation_6_is_the_derivative_of_equation_5(seed, sources, features):
    guesses, truth = rows(seed, sources, features, n=12)
    weights = np.random.default_rng(seed).normal(size=(sources, features))
    gradient = error_gradient(MaskStatistics.of(guesses, truth), weights)
    h = 1e-5
    for j in range(sources):
        for k in range(features):
            step = np.zeros_like(weights)
            step[j, k] = h
            slope = (eq5(guesses, truth, weights + step) - eq5(guesses, truth, weights - step)) / (
                2 * h
            )
            assert gradient[j, k] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@given(seed=SEED, sources=SOURCES, features=FEATURES, common=st.sampled_from([0.0, 1.0, 3.0]))
@settings(max_examples=40)
def test_three_ways_lead_to_the_same_masks(seed, sources, features, common):
    statistics = MaskStatistics.of(*rows(seed, sources, features, common=common))
    closed = masks_in_closed_form(statistics)
    np.testing.assert_allclose(masks_by_gradient(statistics)[0], closed, atol=1e-4)
    np.testing.assert_allclose(masks_by_iteration(statistics)[0], closed, atol=1e-4)


@given(seed=SEED, sources=SOURCES, features=FEATURES)
@settings(max_examples=20)
def test_closed_form_is_least_squares_per_feature(seed, sources, features):
    guesses, truth = rows(seed, sources, features)
    closed = masks_in_closed_form(MaskStatistics.of(guesses, truth))
    for k in range(features):
        best, *_ = np.linalg.lstsq(guesses[:, :, k].T, truth[:, k], rcond=None)
        np.testing.assert_allclose(closed[:, k], best, atol=1e-8)


@given(seed=SEED, sources=SOURCES, features=FEATURES)
@settings(max_examples=20)
def test_the_solution_is_the_fixed_point_of_equation_8(seed, sources, features):
    guesses, truth = rows(seed, sources, features)
    weights = masks_in_closed_form(MaskStatistics.of(guesses, truth))
    for j in range(sources):
        others = np.arange(sources) != j
        rest = truth - np.einsum("jf,jrf->rf", weights[others], guesses[others])
        eq8 = (guesses[j] * rest).sum(axis=0) / (guesses[j] ** 2).sum(axis=0)
        np.testing.assert_allclose(weights[j], eq8, atol=1e-8)


@pytest.mark.parametrize("views", [2, 3, 5])
def test_weights_start_equal_and_sum_to_one(views):
    weights = equal_masks(views - 1, 3)
    np.testing.assert_allclose(weights, np.full((views - 1, 3), 1 / (views - 1)))


def test_descent_and_iteration_start_from_equal_weights():
    guesses, truth = rows(0, 3, 2)
    statistics = MaskStatistics.of(guesses, truth)
    start, rate = equal_masks(3, 2), 0.5 / np.linalg.eigvalsh(statistics.gram)[:, -1]
    one, _ = masks_by_gradient(statistics, max_iterations=1)
    np.testing.assert_allclose(one, start - rate * error_gradient(statistics, start))
    first, _ = masks_by_iteration(statistics, max_iterations=1)
    rest = truth - np.einsum("jf,jrf->rf", start[1:], guesses[1:])
    np.testing.assert_allclose(
        first[0], (guesses[0] * rest).sum(axis=0) / (guesses[0] ** 2).sum(axis=0)
    )


@given(seed=SEED)
@settings(max_examples=10)
def test_statistics_of_two_parts_are_those_of_all_rows(seed):
    guesses, truth, present = guessed(seed)
    one = MaskStatistics.of(guesses[:, :13], truth[:13], present[:13])
    other = MaskStatistics.of(guesses[:, 13:], truth[13:], present[13:])
    same(one + other, MaskStatistics.of(guesses, truth, present))


def test_statistics_of_many_rows_are_summed_in_parts(monkeypatch):
    whole = MaskStatistics.of(*guessed(0))
    monkeypatch.setattr("cofill.cooperate._masks._ROWS_AT_ONCE", 7)
    same(MaskStatistics.of(*guessed(0)), whole)


@given(seed=SEED)
@settings(max_examples=10)
def test_statistics_of_some_sources_are_those_made_from_them_alone(seed):
    guesses, truth, present = guessed(seed)
    whole = MaskStatistics.of(guesses, truth, present)
    for pattern in ([True, False, True], [False, True, False], [True, True, True]):
        alone = MaskStatistics.of(guesses[pattern], truth, present[:, pattern])
        same(whole.only(np.array(pattern)), alone)
        same(whole.only(np.flatnonzero(pattern)), alone)


def test_cells_without_a_known_truth_do_not_count():
    guesses, truth = rows(3, 2, 2)
    hidden = truth.copy()
    hidden[:20, 0] = np.nan
    statistics = MaskStatistics.of(guesses, hidden)
    first = MaskStatistics.of(guesses[:, 20:, :1], truth[20:, :1])
    second = MaskStatistics.of(guesses[:, :, 1:], truth[:, 1:])
    np.testing.assert_allclose(
        masks_in_closed_form(statistics),
        np.hstack([masks_in_closed_form(first), masks_in_closed_form(second)]),
    )


def test_what_an_absent_source_holds_does_not_count():
    guesses, truth, present = guessed(5)
    wild = np.where(present.T[:, :, None], guesses, np.nan)
    same(MaskStatistics.of(wild, truth, present), MaskStatistics.of(guesses, truth, present))


def test_identical_sources_share_the_weight():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(50, 2))
    guess = 2 * truth
    statistics = MaskStatistics.of(np.stack([guess, guess]), truth)
    for weights in (masks_in_closed_form(statistics), masks_by_gradient(statistics)[0]):
        np.testing.assert_allclose(weights, 0.25, atol=1e-5)
    np.testing.assert_allclose(masks_by_iteration(statistics)[0].sum(axis=0), 0.5, atol=1e-6)


def test_a_source_that_always_says_nothing_is_harmless():
    truth = np.random.default_rng(0).normal(size=(50, 1))
    statistics = MaskStatistics.of(np.stack([truth, np.zeros_like(truth)]), truth)
    for weights in (masks_in_closed_form(statistics), masks_by_gradient(statistics)[0]):
        assert np.isfinite(weights).all()
        assert weights[0, 0] == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(masks_by_iteration(statistics)[0].ravel(), [1, 0], atol=1e-6)


def test_a_perfect_and_a_useless_source():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(5000, 3))
    guesses = np.stack([truth, rng.normal(size=truth.shape)])
    statistics = MaskStatistics.of(guesses, truth)
    for weights in (masks_in_closed_form(statistics), masks_by_gradient(statistics)[0]):
        np.testing.assert_allclose(weights, [[1] * 3, [0] * 3], atol=1e-4)


def test_the_cube_by_hand():
    # View (x, y) is reconstructed from (x, z), which knows x, and from (y, z), which knows y. A
    # link guesses the mean, 0, of what its view does not know; corners of a cube are ±1.
    corners = np.array([[x, y] for x in (-1.0, 1) for y in (-1.0, 1) for _ in (-1, 1)])
    x, y = corners.T
    nothing = np.zeros_like(x)
    guesses = np.stack([np.stack([x, nothing], 1), np.stack([nothing, y], 1)])
    statistics = MaskStatistics.of(guesses, corners)
    np.testing.assert_array_equal(statistics.gram, [[[1, 0], [0, 0]], [[0, 0], [0, 1]]])
    np.testing.assert_array_equal(statistics.right, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(statistics.pairs, np.full((2, 2, 2), 8))
    np.testing.assert_allclose(masks_in_closed_form(statistics), [[1, 0], [0, 1]])
    predicted = np.einsum("jf,jrf->rf", masks_in_closed_form(statistics), guesses)
    np.testing.assert_allclose(predicted, corners)


def test_sources_that_never_met_are_not_added_up():
    # Rows 0–49 have the first source only, the others the second; both guess perfectly. A row that
    # has both must not get twice the truth.
    truth = np.random.default_rng(0).normal(size=(100, 1))
    present = np.zeros((100, 2), bool)
    present[:50, 0] = present[50:, 1] = True
    weights = masks_in_closed_form(MaskStatistics.of(np.stack([truth, truth]), truth, present))
    assert weights.sum() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("way", ["closed", "gradient", "iteration"])
def test_good_sources_seen_with_different_rows_are_no_worse_than_the_best(way):
    weigh = {
        "closed": masks_in_closed_form,
        "gradient": lambda s: masks_by_gradient(s, max_iterations=3000)[0],
        "iteration": lambda s: masks_by_iteration(s, max_iterations=3000)[0],
    }[way]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=(200, 1))
        spread = np.array([0.15, 0.3, 0.3, 0.5])[:, None, None]
        guesses = truth + spread * rng.normal(size=(4, 200, 1))
        present = rng.random((200, 4)) < 0.6
        with np.errstate(all="ignore"):
            weights = weigh(MaskStatistics.of(guesses, truth, present))
            error = (np.einsum("jf,jrf->rf", weights, guesses) - truth).std()
        assert error < 0.16


def test_many_patterns_at_once_are_the_closed_forms_of_each():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(300, 4))
    guesses = truth + rng.normal(size=(5, 300, 4)) * rng.uniform(0.2, 1.0, size=(5, 1, 1))
    statistics = MaskStatistics.of(guesses, truth)
    patterns = rng.random((40, 5)) < 0.6
    patterns[:, 0] |= ~patterns.any(axis=1)
    for pattern, masks in zip(patterns, masks_for_patterns(statistics, patterns), strict=True):
        np.testing.assert_allclose(
            masks[pattern], masks_in_closed_form(statistics.only(pattern)), atol=1e-6
        )
        assert (masks[~pattern] == 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_and_holes_do_not_make_weights_explode(seed):
    """Sums of squares over two sets of rows differ by far when a few rows hold most of them."""
    rng = np.random.default_rng(seed)
    truth = np.exp(2.0 * rng.normal(size=(3000, 1)))
    truth = (truth - truth.mean()) / truth.std()
    guesses = np.stack([c * truth + d * rng.normal(size=truth.shape) for c, d in CLOSE])
    present = rng.random((3000, 3)) < 0.9
    holed = MaskStatistics.of(guesses, truth, present)
    patterns = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, 1]], bool)
    whole = MaskStatistics.of(guesses, truth)
    for pattern, weights in zip(patterns, masks_for_patterns(holed, patterns), strict=True):
        best = masks_in_closed_form(whole.only(pattern))
        lost = _mean_error(guesses, truth, weights) / _mean_error(guesses[pattern], truth, best)
        assert np.abs(weights).max() < 8  # 5 is the best of the poor source alone
        assert lost < 1.5


CLOSE = ((0.02, 0.1), (0.1, 0.1), (0.7, 0.3))
"""Slope and noise of a hopeless, a poor and a good source."""


def _mean_error(guesses, truth, weights):
    return float(np.mean((np.einsum("jf,jrf->rf", weights, guesses) - truth) ** 2))


def test_masks_from_folds_do_not_trust_a_link_that_has_learned_by_heart(quick):
    """View c is noise: the link from it knows the rows it was trained on, and no others."""
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(60, 2)), rng.normal(size=(60, 8))
    views = MultiView.from_arrays({"a": a, "b": a + rng.normal(size=(60, 2)), "c": c})
    by_heart = TrainSettings(epochs=400, learning_rate=1e-2)
    trusted = {}
    for folds in (0, 3):
        model = quick(method="faithful", mask_folds=folds, link_training=by_heart).fit(views)
        masks = nw.from_native(model.masks_, eager_only=True)
        chosen = masks.filter(nw.col("view") == "a", nw.col("source") == "c")
        trusted[folds] = float(chosen["weight"].to_numpy().mean())
    assert trusted[0] > 0.5
    assert abs(trusted[3]) < 0.2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "faithful", "mask_folds": 1}, "mask_folds must be 0 or between 2 and"),
        ({"method": "faithful", "mask_folds": 21}, "mask_folds must be 0 or between 2 and"),
        ({"mask_folds": 5}, "mask_folds is for method 'faithful'"),
    ],
)
def test_folds_of_masks_are_checked(quick, related, parameters, message):
    with pytest.raises(SettingError, match=message):
        quick(**parameters).fit(related(60))


def test_the_printed_order_of_equation_8_takes_all_others_from_the_last_round():
    guesses, truth = rows(0, 3, 2)
    statistics = MaskStatistics.of(guesses, truth)
    start = equal_masks(3, 2)
    once, _ = masks_by_iteration(statistics, max_iterations=1, at_once=True)
    for j in range(3):
        others = np.arange(3) != j
        rest = truth - np.einsum("jf,jrf->rf", start[others], guesses[others])
        eq8 = (guesses[j] * rest).sum(axis=0) / (guesses[j] ** 2).sum(axis=0)
        np.testing.assert_allclose(once[j], eq8)


def test_the_printed_order_converges_for_two_sources_and_not_for_five_that_agree():
    two = MaskStatistics.of(*rows(1, 2, 3, common=1.0))
    np.testing.assert_allclose(
        masks_by_iteration(two, at_once=True)[0], masks_in_closed_form(two), atol=1e-4
    )
    five = MaskStatistics.of(*rows(1, 5, 1, common=3.0))
    _, taken = masks_by_iteration(five, max_iterations=200, at_once=True)
    assert taken == 200
    assert masks_by_iteration(five)[1] < 100_000
