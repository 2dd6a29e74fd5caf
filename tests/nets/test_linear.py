"""Ridge regression per pattern, against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import Ridge

from cofill.nets._linear import Moments, ridge_predict
from cofill.views import patterns_of

GROUPS = ((0, 2), (2, 3), (3, 6))
PENALTIES = np.array([1e-4, 0.1, 3.0])
COLUMNS = {0: [0, 1], 1: [2], 2: [3, 4, 5]}


def rows_of(n, seed=0, outputs=2):
    """Correlated inputs of unequal means and scales, and targets that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)) @ rng.normal(size=(6, 6)) * np.arange(1, 7) + np.arange(6)
    y = x @ rng.normal(size=(6, outputs)) + rng.normal(size=(n, outputs)) + 7
    return x, y


def everything(n):
    return np.ones((n, len(GROUPS)), bool)


def sklearn_ridge(x, y, new, penalty):
    """scikit-learn sums over rows where ours averages, and takes the penalty as it is."""
    unit = np.linalg.eigvalsh(np.cov(x.T, bias=True).reshape(x.shape[1], -1)).mean()
    return Ridge(alpha=len(x) * unit * penalty, solver="svd").fit(x, y).predict(new)


def hidden(x, present):
    widths = [b - a for a, b in GROUPS]
    return np.where(np.repeat(present, widths, axis=1), x, 0.0)


@pytest.mark.parametrize("pattern", [(1, 1, 1), (1, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0)])
def test_every_pattern_is_ridge_regression_on_the_columns_it_has(pattern):
    x, y = rows_of(50)
    new, _ = rows_of(9, seed=1)
    present = np.tile(np.array(pattern, bool), (9, 1))
    moments = Moments.of(x, everything(50), y, GROUPS)
    predicted = ridge_predict(moments, hidden(new, present), present, PENALTIES)
    columns = [c for g, there in enumerate(pattern) if there for c in COLUMNS[g]]
    for k, penalty in enumerate(PENALTIES):
        theirs = sklearn_ridge(x[:, columns], y, new[:, columns], penalty)
        np.testing.assert_allclose(predicted[k], theirs, rtol=1e-8)


def test_rows_of_several_patterns_are_predicted_each_with_its_own():
    x, y = rows_of(40)
    new, _ = rows_of(12, seed=1)
    present = np.random.default_rng(2).random((12, 3)) < 0.6
    moments = Moments.of(x, everything(40), y, GROUPS)
    together = ridge_predict(moments, hidden(new, present), present, PENALTIES)
    for i in range(12):
        alone = ridge_predict(
            moments, hidden(new, present)[i : i + 1], present[i : i + 1], PENALTIES
        )
        np.testing.assert_allclose(together[:, i], alone[:, 0], rtol=1e-9)


def test_what_is_written_in_a_missing_group_is_not_read():
    x, y = rows_of(40)
    present = np.random.default_rng(2).random((40, 3)) < 0.7
    whole, blank = (
        ridge_predict(Moments.of(table, present, y, GROUPS), table, present, PENALTIES)
        for table in (x, hidden(x, present))
    )
    np.testing.assert_allclose(whole, blank, rtol=1e-9)


def test_each_output_may_have_its_own_penalty():
    x, y = rows_of(30)
    moments = Moments.of(x, everything(30), y, GROUPS)
    grid = ridge_predict(moments, x, everything(30), PENALTIES)
    predicted = ridge_predict(moments, x, everything(30), PENALTIES, np.array([2, 0]))
    np.testing.assert_allclose(
        predicted, np.stack([grid[2, :, 0], grid[0, :, 1]], axis=1), rtol=1e-12
    )


def test_an_unknown_target_costs_only_its_own_output():
    x, y = rows_of(60)
    y[::3, 1] = np.nan
    known = ~np.isnan(y[:, 1])
    predicted = ridge_predict(
        Moments.of(x, everything(60), y, GROUPS), x, everything(60), PENALTIES
    )
    assert np.isfinite(predicted).all()
    theirs = sklearn_ridge(x, y[:, 0], x, PENALTIES[1])
    np.testing.assert_allclose(predicted[1, :, 0], theirs, rtol=1e-8)
    # The inputs' covariance uses all rows, the covariance with the target those that know it.
    centred = x - x.mean(axis=0)
    covariance = centred.T @ centred / 60
    cross = centred[known].T @ (y[known, 1] - y[known, 1].mean()) / known.sum()
    penalty = PENALTIES[1] * np.trace(covariance) / 6
    slope = np.linalg.solve(covariance + penalty * np.eye(6), cross)
    np.testing.assert_allclose(predicted[1, :, 1], y[known, 1].mean() + centred @ slope, rtol=1e-8)


def test_an_output_nobody_knows_and_a_group_nobody_has_give_finite_predictions():
    x, y = rows_of(20)
    y[:, 1] = np.nan
    present = everything(20)
    present[:, 1] = False
    moments = Moments.of(hidden(x, present), present, y, GROUPS)
    predicted = ridge_predict(moments, x, everything(20), PENALTIES)
    assert np.isfinite(predicted).all()
    assert (predicted[:, :, 1] == 0).all()


def test_a_row_without_any_group_gets_the_targets_mean():
    x, y = rows_of(30)
    y[4, 0] = np.nan
    present = np.zeros((3, 3), bool)
    predicted = ridge_predict(
        Moments.of(x, everything(30), y, GROUPS), x[:3] * 0, present, PENALTIES
    )
    np.testing.assert_allclose(
        predicted, np.broadcast_to(np.nanmean(y, axis=0), (3, 3, 2)), rtol=1e-12
    )


@given(seed=st.integers(0, 2**31), rows=st.integers(2, 25), share=st.floats(0.1, 0.9))
@settings(max_examples=40)
def test_pairwise_covariances_are_made_semi_definite(seed, rows, share):
    x, y = rows_of(rows, seed)
    present = np.random.default_rng(seed).random((rows, 3)) < share
    covariance = Moments.of(hidden(x, present), present, y, GROUPS).covariance
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9 * np.abs(covariance).max())
    assert np.linalg.eigvalsh(covariance).min() >= -1e-9 * max(np.trace(covariance), 1e-30)


def test_pairwise_covariances_need_that():
    # Of three groups, each pair shares other rows, which agree on signs that cannot all hold.
    signs = [(1, 1, 0), (-1, -1, 0), (0, 1, 1), (0, -1, -1), (1, 0, -1), (-1, 0, 1)]
    x = np.array(signs, float)
    present = x != 0
    plain = (x.T @ x) / (present.T.astype(float) @ present)
    assert np.linalg.eigvalsh(plain).min() < -0.5
    predicted = Moments.of(x, present, x[:, :1], ((0, 1), (1, 2), (2, 3))).covariance
    assert np.linalg.eigvalsh(predicted).min() > -1e-12


@given(
    present=hnp.arrays(
        bool, st.tuples(st.integers(0, 20), st.one_of(st.integers(1, 4), st.integers(7, 18)))
    )
)
@settings(max_examples=100)
def test_patterns_are_those_of_a_search_by_hand(present):
    by_hand = {}
    for i, row in enumerate(present.tolist()):
        by_hand.setdefault(tuple(row), []).append(i)
    patterns = [(tuple(p.tolist()), rows.tolist()) for p, rows in patterns_of(present)]
    assert len(patterns) == len(by_hand)
    assert dict(patterns) == by_hand
