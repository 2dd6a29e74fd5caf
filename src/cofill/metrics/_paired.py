"""Is one method better than another over the same seeds: a paired comparison."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Real

from cofill.errors import DataError


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
    alternative: Literal["two-sided", "less", "greater"] = "two-sided",
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
    >>> paired_test(mwm, mwm).t_p
    1.0
    """
    if a.shape != b.shape:
        raise DataError(f"a and b must have one score a seed each, got {a.shape} and {b.shape}.")
    both = ~(np.isnan(a) | np.isnan(b))
    endless = int(np.count_nonzero(np.isinf(a) | np.isinf(b)))
    if endless:
        raise DataError(f"a and b must be finite or NaN, got {endless} seeds with an infinite one.")
    gap = a[both].astype(np.float64) - b[both].astype(np.float64)
    if not len(gap):
        return PairedTest(float("nan"), float("nan"), float("nan"), float("nan"), 0)
    mean = float(gap.mean())
    spread = float(gap.std(ddof=1)) if len(gap) > 1 else 0.0
    if not gap.any():
        return PairedTest(0.0, 0.0, 1.0, 1.0, len(gap))
    return PairedTest(
        mean, spread, _student(gap, alternative), _wilcoxon(gap[gap != 0], alternative), len(gap)
    )


def _student(gap: Float[np.ndarray, " n"], alternative: str) -> float:
    """p-value of the mean difference under Student's distribution."""
    from scipy.special import stdtr

    n = len(gap)
    if n < 2:
        return float("nan")
    # SciPy's own test warns and answers NaN where the differences do not vary.
    mean, spread = gap.mean(), gap.std(ddof=1)
    varies = gap.max() > gap.min()
    t = mean / spread * np.sqrt(n) if varies and spread > 0 else np.sign(mean) * np.inf
    if alternative == "less":
        return float(stdtr(n - 1, t))
    if alternative == "greater":
        return float(stdtr(n - 1, -t))
    return float(2 * stdtr(n - 1, -abs(t)))


def _wilcoxon(gap: Float[np.ndarray, " n"], alternative: str) -> float:
    """p-value of the signed ranks; differences of zero carry no rank."""
    from scipy.stats import wilcoxon

    _, p = wilcoxon(gap[gap != 0], alternative=alternative)
    return float(p)  # pyright: ignore[reportArgumentType]
