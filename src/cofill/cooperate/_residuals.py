"""How far a site's predictions are from the truth: what error bars, scores and draws are made of.

Kept as sums and as each column's sorted residuals, not as rows: sorting every column on its own
takes people out of it, and a saved model carries no one's row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from cofill.codec import storable

_MOST_RANKS = 4096
_MOST_ROWS = 1 << 17  # a sample of so many tells the distribution, and sorts in a moment


@storable
@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of out-of-sample predictions, per encoded column.

    ``ordered`` holds truth minus prediction, each column sorted on its own, NaN (not known) last;
    ``correlation`` is of the residuals of two columns in a row. Per column over known cells,
    ``count`` is how many, ``total`` and ``square`` the sum and sum of squares of the truth,
    ``wrong`` the sum of squared residuals.
    """

    ordered: Float[np.ndarray, "rows width"]
    correlation: Float[np.ndarray, "width width"]
    count: Float[np.ndarray, " width"]
    total: Float[np.ndarray, " width"]
    square: Float[np.ndarray, " width"]
    wrong: Float[np.ndarray, " width"]

    @classmethod
    def of(
        cls, predicted: Float[np.ndarray, "rows width"], truth: Float[np.ndarray, "rows width"]
    ) -> Residuals:
        """Return the residuals of predictions; NaN in `truth` is a cell that is not known."""
        known = ~np.isnan(truth)
        residuals = np.where(known, truth - predicted, np.nan)
        y = np.where(known, truth, 0.0)
        return cls(
            _thin(np.sort(_sample(residuals), axis=0)),
            _correlation(residuals),
            known.sum(axis=0).astype(float),
            y.sum(axis=0),
            (y**2).sum(axis=0),
            np.nansum(residuals**2, axis=0),
        )

    def __add__(self, other: Residuals) -> Residuals:
        """Return the residuals of the rows of both."""
        count, other_count = self.count.sum(), other.count.sum()
        share = count / max(count + other_count, 1)
        return Residuals(
            _thin(np.sort(np.vstack([self.ordered, other.ordered]), axis=0)),
            share * self.correlation + (1 - share) * other.correlation,
            self.count + other.count,
            self.total + other.total,
            self.square + other.square,
            self.wrong + other.wrong,
        )

    @property
    def r2(self) -> Float[np.ndarray, " width"]:
        """Share of each column's variance that is predicted; 0 for a column that does not vary."""
        count = np.maximum(self.count, 1)
        spread = self.square - self.total**2 / count
        varies = spread > 1e-12 * np.maximum(self.square, 1e-300)
        return np.where(varies, 1 - self.wrong / np.where(varies, spread, 1.0), 0.0)

    def draw(self, rng: np.random.Generator, rows: int) -> Float[np.ndarray, "rows width"]:
        """Return drawn residuals with each column's distribution and their correlation.

        A Gaussian copula: normal scores with the residuals' correlation are turned into ranks, and
        ranks into residuals.
        """
        width = len(self.count)
        values, vectors = np.linalg.eigh(self.correlation)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        ranks = ndtr(rng.standard_normal((rows, width)) @ root.T)
        known = (~np.isnan(self.ordered)).sum(axis=0)
        positions = np.minimum((ranks * known).astype(int), np.maximum(known - 1, 0))
        if not len(self.ordered):
            return np.zeros((rows, width))
        return np.where(known > 0, np.take_along_axis(self.ordered, positions, axis=0), 0.0)


def _sample(rows: np.ndarray) -> np.ndarray:
    if len(rows) <= _MOST_ROWS:
        return rows
    return rows[np.random.default_rng(len(rows)).choice(len(rows), _MOST_ROWS, replace=False)]


def _thin(ordered: np.ndarray) -> np.ndarray:
    """Keep at most so many order statistics, evenly spread, extremes included."""
    if len(ordered) <= _MOST_RANKS:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, _MOST_RANKS).round().astype(int)]


def _correlation(residuals: np.ndarray) -> np.ndarray:
    filled = residuals
    if len(residuals):
        filled = np.nan_to_num(residuals - np.nanmean(residuals, axis=0))
    spread = np.sqrt((filled**2).sum(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    correlation = (filled.T @ filled) / np.outer(spread, spread)
    np.fill_diagonal(correlation, 1.0)
    return correlation
