"""Numeric and categorical cells: hand values, scikit-learn as oracle, invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk

from cofill import metrics
from cofill.errors import DataError
from cofill.metrics._reconstruction import _pair

NAN = np.nan
TRUTH = np.array([[1.0, 2.0, NAN], [4.0, NAN, NAN], [NAN, NAN, NAN], [0.0, -2.0, 5.0]])
GUESS = np.array([[2.0, 2.0, 9.0], [1.0, 9.0, 9.0], [9.0, NAN, 9.0], [3.0, -3.0, 1.0]])
# Squared errors by row: (1, 0) → 1/2, (9) → 9, none, (9, 1, 16) → 26/3.

# Eighths add up exactly, so that the order of a sum cannot show.
cells = st.integers(-8000, 8000).map(lambda k: k / 8)
tables = hnp.array_shapes(min_dims=2, max_dims=2, max_side=6).flatmap(
    lambda shape: st.tuples(hnp.arrays(float, shape, elements=cells), hnp.arrays(bool, shape))
)


@pytest.mark.parametrize(
    ("score", "by_hand"),
    [
        (metrics.mse, (0.5 + 9 + 26 / 3) / 3),
        # The zero is left out: (1/1, 0/2), (3/4), (1/2, 4/5).
        (metrics.mrd, (0.5 + 0.75 + 0.65) / 3),
        # Only the first two features have two known values.
        (metrics.r2, ((1 - 19 / (26 / 3)) + (1 - 1 / 8)) / 2),
    ],
)
def test_hand_value_with_unknown_cells(score, by_hand):
    assert score(TRUTH, GUESS) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("score", "by_hand"),
    [
        (metrics.mse_per_feature, [19 / 3, 0.5, 16]),
        (metrics.mrd_per_feature, [(1 + 0.75) / 2, 0.25, 0.8]),
        (metrics.r2_per_feature, [1 - 19 / (26 / 3), 1 - 1 / 8, NAN]),
    ],
)
def test_hand_value_per_feature(score, by_hand):
    np.testing.assert_allclose(score(TRUTH, GUESS), by_hand)
    shaped = score(TRUTH.reshape(4, 3, 1), GUESS.reshape(4, 3, 1))
    assert shaped.shape == (3, 1)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (metrics.mse, sk.mean_squared_error),
        (metrics.mrd, sk.mean_absolute_percentage_error),
        (metrics.r2, sk.r2_score),
    ],
)
def test_against_scikit_learn(ours, theirs):
    rng = np.random.default_rng(0)
    truth = rng.normal(3, 0.3, (40, 5))
    guess = truth + rng.normal(size=(40, 5))
    assert ours(truth, guess) == pytest.approx(theirs(truth, guess))


@pytest.mark.parametrize("score", [metrics.mse, metrics.mrd, metrics.r2])
@pytest.mark.parametrize("truth", [np.full((3, 2), NAN), np.zeros((0, 2)), np.zeros((3, 0))])
def test_a_score_of_nothing_is_nan(score, truth):
    assert np.isnan(score(truth, truth))


def test_bytes_do_not_wrap_around():
    assert metrics.mse(np.array([[0]], np.uint8), np.array([[255]], np.uint8)) == 255**2


@given(tables)
def test_error_is_zero_only_when_equal(data):
    truth, change = data
    guess = np.where(change, truth + 1.0, truth)
    assert (metrics.mse(truth, guess) == 0) == (not change.any())


@given(tables, st.randoms(use_true_random=False))
def test_order_of_rows_and_features_does_not_matter(data, random):
    truth, unknown = data
    truth = np.where(unknown, NAN, truth)
    guess = np.round(truth / 2) + 1.0
    rows, columns = (random.sample(range(k), k) for k in truth.shape)
    for score in (metrics.mse, metrics.mrd, metrics.r2):
        moved = score(truth[rows][:, columns], guess[rows][:, columns])
        assert moved == pytest.approx(score(truth, guess), rel=1e-9, nan_ok=True)


@given(tables)
def test_guesses_of_unknown_cells_do_not_matter(data):
    truth, unknown = data
    holes = np.where(unknown, NAN, truth)
    guess = truth + 1.0
    assert metrics.mse(holes, guess) == pytest.approx(
        metrics.mse(holes, np.where(unknown, -7e7, guess)), nan_ok=True
    )


def test_mrd_leaves_out_values_near_zero_of_the_feature_scale():
    truth = np.array([[1.0, 1000.0], [1.0, 1000.0], [0.001, 1.0], [0.5, 0.0]])
    # A guess of zero is wrong by all of every value that counts.
    assert metrics.mrd(truth, np.zeros_like(truth)) == pytest.approx(1.0)
    # A wrong guess of 0.001 or of 1 beside 1000 costs nothing, unless the scale is smaller.
    guess = np.where(np.abs(truth) <= [[0.001, 1.0]], 7.0, truth)
    assert metrics.mrd(truth, guess) == 0
    assert metrics.mrd(truth, guess, scale=np.array([1.0, 1.0])) > 1
    assert np.isnan(metrics.mrd(np.zeros((2, 2)), np.ones((2, 2))))


def test_mrd_next_to_the_smallest_float_is_infinite_without_a_warning():
    assert metrics.mrd(np.array([[5e-324]]), np.array([[1.0]])) == np.inf


def test_r2_of_hardly_any_variance_is_minus_infinity_without_a_warning():
    assert metrics.r2(np.array([[1e-160], [0.0]]), np.array([[1.0], [1.0]])) == -np.inf


def test_r2_of_a_constant_truth():
    # 0.1 is not a sum of powers of two, so its mean is not exactly 0.1.
    truth = np.full((7, 3), 0.1)
    guess = truth + np.array([0.0, 1.0, 1e-9])
    np.testing.assert_array_equal(metrics.r2_per_feature(truth, guess), [1.0, 0.0, 0.0])


def test_mistakes_are_named():
    with pytest.raises(DataError, match=r"NaN in 1 of 2 cells"):
        metrics.mse(np.zeros((1, 2)), np.array([[0.0, NAN]]))
    with pytest.raises(DataError, match=r"same shape, got \(3,\) and \(3, 1\)"):
        _pair(np.zeros(3), np.zeros((3, 1)))


def test_accuracy_of_known_cells():
    assert metrics.accuracy(np.array([1.0, 0.0, NAN]), np.array([1.0, 1.0, 1.0])) == 0.5
    objects = np.array(["a", None, NAN, "b"], dtype=object)
    guess = np.array(["a", "a", "a", None], dtype=object)
    assert metrics.accuracy(objects, guess) == 0.5
    assert np.isnan(metrics.accuracy(np.array([NAN]), np.array([1.0])))
    assert metrics.accuracy(np.array([[True], [False]]), np.array([[True], [True]])) == 0.5
