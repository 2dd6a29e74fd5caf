"""A view's own cells as targets of regression, and cells from what was predicted for them.

A cell of a row that the site knows in part is completed from its other cells first (a normal
distribution over the view's columns), then from what other sites contribute. The two are put
together as independent evidence: their precisions add up, less the precision both started from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.views import Scaler, View, patterns_of

_RIDGE = 1e-2  # of the columns' correlations, so that copies of a column do no harm
_FEW = 30  # people, of whom correlations are seen half
_PEOPLE_A_TARGET = 3  # a view with more columns than rows / 3 is summarised by components


@storable
@dataclass(frozen=True, eq=False)
class Targets:
    """How a view's rows become target columns of variance one, and back.

    Attributes
    ----------
    center, spread
        Of the encoded columns.
    correlation
        Of the encoded columns, with a ridge.
    loadings
        Encoded columns × targets: the identity, or principal components where columns are many.
    """

    scaler: Scaler
    center: Float[np.ndarray, " columns"]
    spread: Float[np.ndarray, " columns"]
    correlation: Float[np.ndarray, "columns columns"]
    loadings: Float[np.ndarray, "columns targets"]

    @classmethod
    def fit(cls, view: View) -> Targets:
        """Learn scales and correlations from a view's rows."""
        scaler = Scaler.fit(view)
        cells = scaler.encode_view(view)[0]
        center = np.nanmean(cells, axis=0)
        spread = np.nanstd(cells, axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        seen = _seen_together((cells - center) / spread)
        return cls.of_moments(scaler, center, spread, seen, len(view))

    @classmethod
    def of_moments(
        cls,
        scaler: Scaler,
        center: np.ndarray,
        spread: np.ndarray,
        correlation: np.ndarray,
        people: int,
    ) -> Targets:
        """Return targets for columns with these moments over so many people."""
        correlation, values, vectors = _with_ridge(correlation)
        most = max(1, people // _PEOPLE_A_TARGET)
        if most >= len(values):
            loadings = np.eye(len(values))
        else:
            chosen = np.arange(len(values))[::-1][:most]
            loadings = vectors[:, chosen] * np.sqrt(np.maximum(values[chosen], 1e-12))
        return cls(scaler, center, spread, correlation, loadings)

    @property
    def width(self) -> int:
        """How many target columns there are."""
        return self.loadings.shape[1]

    @property
    def is_exact(self) -> bool:
        """Whether every encoded column is a target of its own."""
        return self.loadings.shape[0] == self.loadings.shape[1]

    def standardised(self, view: View) -> Float[np.ndarray, "rows columns"]:
        """Return encoded cells with mean 0 and variance 1, NaN where not known."""
        return (self.scaler.encode_view(view)[0] - self.center) / self.spread

    def of(self, view: View) -> Float[np.ndarray, "rows targets"]:
        """Return the target columns of a view's rows, cells not known filled from the others."""
        filled, _ = fill_rows(self.standardised(view), self.correlation)
        return filled if self.is_exact else filled @ np.linalg.pinv(self.loadings).T

    def columns_of(self, predicted: Float[np.ndarray, "rows targets"]) -> np.ndarray:
        """Return standardised encoded columns from targets."""
        return predicted @ self.loadings.T

    def column_errors(self, errors: Float[np.ndarray, " targets"]) -> np.ndarray:
        """Return the mean squared error of each encoded column, from those of the targets.

        Errors of components are taken as uncorrelated; what components leave out is added.
        """
        if self.is_exact:
            return np.clip(errors, 1e-6, 1.0)
        left_out = 1.0 - (self.loadings**2).sum(axis=1)
        return np.clip(self.loadings**2 @ np.minimum(errors, 1.0) + left_out, 1e-6, 1.0)

    def combine(
        self,
        predicted: Float[np.ndarray, "rows targets"],
        errors: Float[np.ndarray, " columns"],
        rows: Float[np.ndarray, "rows columns"],
        informed: Bool[np.ndarray, " rows"],
    ) -> tuple[Float[np.ndarray, "rows columns"], Float[np.ndarray, "rows columns"]]:
        """Return standardised cells and variances from own cells and what others contributed.

        ``rows`` are own standardised cells, NaN where not known; ``informed`` says of whom some
        other site has told something. Known cells stay as they are.
        """
        expected, variance = fill_rows(rows, self.correlation)
        others = self.columns_of(predicted)
        errs = np.where(informed[:, None], rows - others, np.nan)
        # What the others leave untold of a known cell tells of the unknown ones beside it.
        left, left_variance = fill_rows(errs, self._error_covariance(errs, errors))
        use = np.isnan(rows) & informed[:, None]
        return np.where(use, others + left, expected), np.where(use, left_variance, variance)

    def _error_covariance(
        self, errs: Float[np.ndarray, "rows columns"], errors: Float[np.ndarray, " columns"]
    ) -> Float[np.ndarray, "columns columns"]:
        """Return the covariance of what others' predictions leave of a view's columns.

        Variances are the errors of cross-validation. Correlations are those of known cells, which
        are nearer than strangers' would be and alike in that; of few people they are drawn to the
        correlations of the columns themselves.
        """
        known = ~np.isnan(errs)
        scaled = np.where(known, errs, 0.0)
        sums = scaled.T @ scaled
        shared = known.astype(float).T @ known
        squares = np.sqrt(np.maximum((scaled**2).T @ known, 1e-12))
        seen = sums / (squares * squares.T)
        deviation = np.sqrt(np.diag(self.correlation))
        usual = self.correlation / np.outer(deviation, deviation)
        weight = shared / (shared + _FEW)
        correlation = weight * seen + (1 - weight) * usual
        values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
        correlation = (vectors * np.maximum(values, _RIDGE)) @ vectors.T
        scale = np.sqrt(errors / np.diag(correlation))
        return correlation * np.outer(scale, scale)

    def cells(self, standardised: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return cells in the user's units."""
        return self.scaler.decode(standardised * self.spread + self.center, clip=True)


def correlated(rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "columns columns"]:
    """Return correlations of standardised columns, with a ridge, from cells known together."""
    return _with_ridge(_seen_together(rows))[0]


def _seen_together(rows: np.ndarray) -> np.ndarray:
    """Return mean products of columns over the rows in which both are known."""
    known = ~np.isnan(rows)
    values = np.where(known, rows, 0.0)
    return (values.T @ values) / np.maximum(known.astype(float).T @ known, 1)


def _with_ridge(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a matrix made positive, and the eigenvalues and vectors it was made from."""
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, 0.0)
    return (vectors * values) @ vectors.T + _RIDGE * np.eye(len(values)), values, vectors


def fill_rows(
    rows: Float[np.ndarray, "rows columns"], covariance: Float[np.ndarray, "columns columns"]
) -> tuple[Float[np.ndarray, "rows columns"], Float[np.ndarray, "rows columns"]]:
    """Return rows with unknown cells as expected from the known ones, and their variances."""
    filled, variance = rows.copy(), np.zeros(rows.shape)
    for known, at in patterns_of(~np.isnan(rows)):
        if known.all():
            continue
        gap = ~known
        joint = covariance[np.ix_(known, gap)]
        weights = np.linalg.solve(covariance[np.ix_(known, known)], joint)
        filled[np.ix_(at, gap)] = rows[np.ix_(at, known)] @ weights
        left = np.diag(covariance)[gap] - (joint * weights).sum(axis=0)
        variance[np.ix_(at, gap)] = np.maximum(left, 1e-6)
    return filled, variance
