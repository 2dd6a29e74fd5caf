"""The paper's forest and paired comparisons."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer

from cofill.errors import DataError
from cofill_papers import paired_test, paper_forest

RNG = np.random.default_rng(0)
A = RNG.normal(size=12)
B = A + RNG.normal(0.3, 0.5, size=12)


def test_the_seed_decides_the_forest():
    x, y = load_breast_cancer(return_X_y=True)
    first, again, other = (paper_forest(s).fit(x, y).predict_proba(x) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_paired_test_against_scipy(alternative):
    ours = paired_test(A, B, alternative=alternative)
    assert ours.mean_difference == pytest.approx(np.mean(A - B))
    assert ours.std_difference == pytest.approx(np.std(A - B, ddof=1))
    assert ours.t_p == pytest.approx(stats.ttest_rel(A, B, alternative=alternative).pvalue)
    assert ours.wilcoxon_p == pytest.approx(stats.wilcoxon(A, B, alternative=alternative).pvalue)
    assert ours.n == 12


def test_paired_test_leaves_out_seeds_without_both():
    a, b = np.append(A, [np.nan, 1.0]), np.append(B, [1.0, np.nan])
    assert paired_test(a, b) == paired_test(A, B)


@pytest.mark.parametrize(
    ("gap", "alternative", "t_p", "wilcoxon_p"),
    [
        ([0, 0, 0, 0], "two-sided", 1.0, 1.0),
        ([0], "less", 1.0, 1.0),
        ([-1, -1, -1, -1], "less", 0.0, 1 / 16),
        ([-1, -1, -1, -1], "greater", 1.0, 1.0),
        ([-1, -1, -1, -1], "two-sided", 0.0, 1 / 8),
        ([-1], "less", np.nan, 0.5),
        ([], "two-sided", np.nan, np.nan),
    ],
)
def test_paired_test_where_differences_do_not_vary(gap, alternative, t_p, wilcoxon_p):
    gap = np.array(gap, dtype=float)
    test = paired_test(gap, np.zeros_like(gap), alternative=alternative)
    np.testing.assert_allclose([test.t_p, test.wilcoxon_p], [t_p, wilcoxon_p])
    assert test.n == len(gap)


@pytest.mark.parametrize("n", [2, 5, 20, 60])
@pytest.mark.parametrize("zeros", [0, 1])
def test_paired_test_with_ties_and_zeros_gives_no_warning(n, zeros):
    a = np.round(RNG.normal(size=n), 1)
    a[:zeros] = 0
    test = paired_test(a, np.zeros(n))
    assert 0 <= test.t_p <= 1
    assert 0 <= test.wilcoxon_p <= 1


def test_equal_seeds_carry_no_rank():
    a, b = np.append(A, np.zeros(3)), np.append(B, np.zeros(3))
    assert paired_test(a, b).wilcoxon_p == paired_test(A, B).wilcoxon_p


def test_infinite_scores_are_refused():
    with pytest.raises(DataError, match="1 seeds"):
        paired_test(np.array([np.inf, 1.0]), np.array([1.0, 1.0]))
