"""Comparing methods as the CRS paper does: its classifier, and paired tests over the seeds."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Real

from cofill.errors import DataError

__all__ = ["PairedTest", "paired_test", "paper_forest"]

Alternative = Literal["two-sided", "less", "greater"]


def paper_forest(seed: int | np.integer) -> Any:
    """Return the classifier of section V-C: a random forest by entropy, 50 trees, at most 5 deep.

    Examples
    --------
    >>> forest = paper_forest(0)
    >>> forest.n_estimators, forest.max_depth, forest.criterion
    (50, 5, 'entropy')
    """
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=50, criterion="entropy", max_depth=5, random_state=int(seed)
    )


@dataclass(frozen=True)
class PairedTest:
    """A comparison of two methods over the seeds that both were scored on.

    Attributes
    ----------
    mean_difference
        Mean of a − b; NaN without a seed in common.
    std_difference
        Sample standard deviation of a − b; 0 for a single seed.
    t_p
        p-value of Student's paired test; NaN for fewer than two seeds that are not all equal.
    wilcoxon_p
        p-value of Wilcoxon's signed-rank test, which assumes no normal distribution.
    n
        Number of seeds compared.
    """

    mean_difference: float
    std_difference: float
    t_p: float
    wilcoxon_p: float
    n: int


def paired_test(
    a: Real[np.ndarray, " seeds"],
    b: Real[np.ndarray, " seeds"],
    *,
    alternative: Alternative = "two-sided",
) -> PairedTest:
    """Compare two methods seed by seed.

    Parameters
    ----------
    a, b
        One score a seed, in the same order. Seeds where either is NaN are left out.
    alternative
        What a small p-value speaks for: that a and b differ, that a is "less" or "greater" than b.
        The claim "a is never worse than b" on an error fails when "greater" has a small p-value.

    Notes
    -----
    When all differences are zero both p-values are 1. When all are the same non-zero number
    Student's statistic is infinite, and its p-value 0 or, in the wrong direction, 1.

    Examples
    --------
    >>> mwm = np.array([0.20, 0.21, 0.22, 0.19, 0.23])
    >>> equal = np.array([0.26, 0.25, 0.27, 0.26, 0.28])
    >>> test = paired_test(mwm, equal, alternative="less")
    >>> round(test.mean_difference, 3), round(test.t_p, 4), test.wilcoxon_p, test.n
    (-0.054, 0.0002, 0.03125, 5)
    """
    from scipy.stats import wilcoxon

    if a.shape != b.shape:
        raise DataError(f"a and b must have one score a seed each, got {a.shape} and {b.shape}.")
    infinite = int(np.count_nonzero(np.isinf(a) | np.isinf(b)))
    if infinite:
        raise DataError(
            f"a and b must be finite or NaN, got {infinite} seeds with an infinite one."
        )
    both = ~(np.isnan(a) | np.isnan(b))
    gaps = a[both].astype(np.float64) - b[both].astype(np.float64)
    if not len(gaps):
        return PairedTest(np.nan, np.nan, np.nan, np.nan, 0)
    if not gaps.any():
        return PairedTest(0.0, 0.0, 1.0, 1.0, len(gaps))
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0
    # Differences of zero carry no rank; SciPy's other ways to treat them warn of few seeds.
    ranks_p = float(wilcoxon(gaps[gaps != 0], alternative=alternative)[1])  # pyright: ignore[reportArgumentType]
    return PairedTest(float(gaps.mean()), spread, _student_p(gaps, alternative), ranks_p, len(gaps))


def _student_p(gaps: Float[np.ndarray, " n"], alternative: Alternative) -> float:
    from scipy.special import stdtr

    n = len(gaps)
    if n < 2:
        return float("nan")
    # Not scipy.stats.ttest_rel: that warns and answers NaN where the differences do not vary.
    mean, spread = gaps.mean(), gaps.std(ddof=1)
    varies = gaps.max() > gaps.min() and spread > 0
    t = mean / spread * np.sqrt(n) if varies else np.sign(mean) * np.inf
    below, above = float(stdtr(n - 1, t)), float(stdtr(n - 1, -t))
    return {"less": below, "greater": above, "two-sided": 2 * min(below, above)}[alternative]
