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
        known = ~np.isnan(cells)
        rows = np.where(known, (cells - center) / spread, 0.0)
        shared = known.astype(float).T @ known
        correlation = (rows.T @ rows) / np.maximum(shared, 1)
        values, vectors = np.linalg.eigh(correlation)
        values = np.maximum(values, 0.0)
        correlation = (vectors * values) @ vectors.T + _RIDGE * np.eye(len(values))
        most = max(1, len(view) // _PEOPLE_A_TARGET)
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
        filled, _ = self.fill(self.standardised(view))
        return filled if self.is_exact else filled @ np.linalg.pinv(self.loadings).T

    def fill(
        self, rows: Float[np.ndarray, "rows columns"]
    ) -> tuple[Float[np.ndarray, "rows columns"], Float[np.ndarray, "rows columns"]]:
        """Return rows with unknown cells as expected from the known ones, and their variances."""
        filled, variance = rows.copy(), np.zeros(rows.shape)
        for known, at in patterns_of(~np.isnan(rows)):
            if known.all():
                continue
            gap = ~known
            joint = self.correlation[np.ix_(known, gap)]
            weights = np.linalg.solve(self.correlation[np.ix_(known, known)], joint)
            filled[np.ix_(at, gap)] = rows[np.ix_(at, known)] @ weights
            left = np.diag(self.correlation)[gap] - (joint * weights).sum(axis=0)
            variance[np.ix_(at, gap)] = np.maximum(left, 1e-6)
        return filled, variance

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
        expected, variance = self.fill(rows)
        others = predicted @ self.loadings.T
        gap = np.isnan(rows)
        # Both began from a variance of one: counted once, not twice.
        precision = 1 / np.maximum(variance, 1e-6) + 1 / errors - 1.0
        both = (expected / np.maximum(variance, 1e-6) + others / errors) / precision
        use = gap & informed[:, None]
        return np.where(use, both, expected), np.where(use, 1 / precision, variance)

    def cells(self, standardised: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return cells in the user's units."""
        return self.scaler.decode(standardised * self.spread + self.center, clip=True)
