"""Columns of any unit taken as jointly Gaussian, as a small model that can be stored.

`PooledCompleter` has more candidates; this is the one that needs no rows once it is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._gaussian import Gaussian, choose_strength, expectation_maximisation
from cofill.impute._table import Encoding

_FIT_ROWS = 4_000
# Choosing the prior holds a filled table for every column: beyond, one row in ten is imagined.
_WIDEST_CHOICE = 200


@storable
@dataclass(frozen=True, eq=False)
class JointGaussian:
    """Means, spreads and correlations of columns; made by `JointGaussian.fit`.

    Parameters
    ----------
    centre, spread
        Of each column's known cells; a column without two different ones has spread 1.
    mean, covariance
        Of the standardised columns, by EM.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> model = JointGaussian.fit(np.hstack([x, 10 * x + 3]), [(0, 1), (1, 2)], seed=0)
    >>> model.fill(np.array([[1.0, np.nan]])).round()
    array([[ 1., 13.]])
    """

    centre: Float[np.ndarray, " width"]
    spread: Float[np.ndarray, " width"]
    mean: Float[np.ndarray, " width"]
    covariance: Float[np.ndarray, "width width"]

    @classmethod
    def fit(
        cls, matrix: Float[np.ndarray, "n width"], groups: Sequence[tuple[int, int]], *, seed: int
    ) -> JointGaussian:
        """Learn from rows with NaN for unknown cells.

        `groups` are the first and last-but-one columns of what is known or unknown together, such
        as the columns of a category.
        """
        rng = np.random.default_rng(seed)
        known = ~np.isnan(matrix)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, matrix, 0.0).sum(axis=0) / count
        spread = np.sqrt(np.where(known, (matrix - centre) ** 2, 0.0).sum(axis=0) / count)
        spread = np.where(spread > 1e-12 * np.maximum(np.abs(centre), 1e-300), spread, 1.0)
        rows = np.flatnonzero(known.any(axis=1))
        if len(rows) > _FIT_ROWS:
            rows = np.sort(rng.choice(rows, _FIT_ROWS, replace=False))
        unit = (matrix[rows] - centre) / spread
        strength = max(len(rows) / 10, 1.0)
        if len(rows) and matrix.shape[1] <= _WIDEST_CHOICE:
            strength = choose_strength(unit, Encoding.of_widths([b - a for a, b in groups]), rng)
        model = expectation_maximisation(unit, strength)
        return cls(centre, spread, model.mean, model.covariance)

    def fill(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the rows with unknown cells at their mean given the known ones."""
        filled = Gaussian(self.mean, self.covariance).fill((matrix - self.centre) / self.spread)
        return np.where(np.isnan(matrix), filled * self.spread + self.centre, matrix)

    @property
    def r2(self) -> Float[np.ndarray, " width"]:
        """Share of each column's variance that all other columns explain."""
        precision = np.diag(np.linalg.inv(self.covariance))
        return 1.0 - 1.0 / (np.diag(self.covariance) * precision)
