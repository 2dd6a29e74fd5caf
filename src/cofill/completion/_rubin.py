"""Rubin's rules: one estimate from the estimates of several completed data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cofill.errors import DataError


@dataclass(frozen=True)
class Pooled:
    """A pooled estimate (Rubin 1987).

    Attributes
    ----------
    estimate
        Mean over the draws.
    within, between, total
        Mean variance inside a draw, variance between draws, and within + (1 + 1/m) between.
    degrees_of_freedom
        Of the t distribution that the pooled estimate follows.
    fraction_missing
        Share of the variance that is due to the missing cells.
    """

    estimate: float
    within: float
    between: float
    total: float
    degrees_of_freedom: float
    fraction_missing: float

    @property
    def standard_error(self) -> float:
        """Square root of the total variance."""
        return float(np.sqrt(self.total))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval that holds the true value with probability `level`."""
        from scipy.stats import norm, t

        tail = 0.5 + level / 2
        freedom = self.degrees_of_freedom
        reach = t.ppf(tail, freedom) if np.isfinite(freedom) else norm.ppf(tail)
        half = float(reach) * self.standard_error
        return self.estimate - half, self.estimate + half


def rubin(estimates: Sequence[float], variances: Sequence[float]) -> Pooled:
    """Pool an analysis made on each of several draws.

    Parameters
    ----------
    estimates
        What was estimated from each completed data set.
    variances
        The variance (squared standard error) of each estimate.

    Examples
    --------
    >>> pooled = rubin([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    >>> pooled.estimate, pooled.within, pooled.between, round(pooled.total, 4)
    (2.0, 0.5, 1.0, 1.8333)
    """
    m = len(estimates)
    if m < 2 or len(variances) != m:
        raise DataError(
            f"pooling needs as many variances as estimates, two or more, got {m} estimates and "
            f"{len(variances)} variances"
        )
    within = float(np.mean(variances))
    between = float(np.var(estimates, ddof=1))
    extra = (1 + 1 / m) * between
    total = within + extra
    freedom = np.inf if extra == 0 else (m - 1) * (total / extra) ** 2
    missing = extra / total if total > 0 else 0.0
    return Pooled(float(np.mean(estimates)), within, between, total, float(freedom), missing)
