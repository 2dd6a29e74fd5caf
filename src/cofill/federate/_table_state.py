"""What all parties know of a common model of tables, stage by stage; see `_summed_table`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError
from cofill.impute import CORRECTIONS, Correction, ErrorSums, Gaussian

SHARES, GAUSSIANS, STRENGTH, FEATURES, WEIGHTS, DONE = range(6)
_UNSET = np.zeros(0)
_PULL = 100.0  # cells that all sites' errors count for, beside a site's own
_FURTHEST = 50.0  # deviations beyond which a cell counts as no further


@dataclass(frozen=True, eq=False)
class TableState:
    """What all parties know of the model so far; travels as one vector of numbers."""

    stage: int = SHARES
    step: int = 0
    people: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: _UNSET)
    centre: np.ndarray = field(default_factory=lambda: _UNSET)
    spread: np.ndarray = field(default_factory=lambda: _UNSET)
    strengths: np.ndarray = field(default_factory=lambda: _UNSET)
    means: np.ndarray = field(default_factory=lambda: _UNSET)
    covariances: np.ndarray = field(default_factory=lambda: _UNSET)
    coefficients: np.ndarray = field(default_factory=lambda: _UNSET)
    inflations: np.ndarray = field(default_factory=lambda: _UNSET)
    errors: np.ndarray = field(default_factory=lambda: _UNSET)

    def to_vector(self) -> Float[np.ndarray, " state"]:
        """Return the state as one vector: the size of every part, then the parts."""
        parts = [np.ravel(getattr(self, f.name)).astype(np.float64) for f in fields(self)]
        return np.concatenate([[len(part) for part in parts], *parts])

    @classmethod
    def of_vector(cls, vector: Float[np.ndarray, " state"]) -> TableState:
        """Return the state that a vector holds; raise a `DataError` if it holds none."""
        names = [f.name for f in fields(cls)]
        sizes = vector[: len(names)].astype(int)
        if len(vector) != len(names) + sizes.sum() or (sizes < 0).any():
            raise DataError("the common model does not have the parts of a model of tables")
        parts = np.split(vector[len(names) :], np.cumsum(sizes)[:-1])
        values: dict[str, Any] = dict(zip(names, parts, strict=True))
        values |= {name: int(values[name][0]) for name in ("stage", "step")}
        values["people"] = float(values["people"][0])
        return cls(**values)

    def gaussians(self) -> list[Gaussian]:
        """Return the Gaussians under way, one for each prior."""
        count, size = len(self.strengths), len(self.centre)
        covariances = self.covariances.reshape(count, size, size)
        parts = zip(self.means.reshape(count, size), covariances, self.strengths, strict=True)
        return [Gaussian(mean, covariance, float(s)) for mean, covariance, s in parts]

    def scale(
        self, cells: np.ndarray, known: Bool[np.ndarray, "n size"]
    ) -> Float[np.ndarray, "n size"]:
        """Return encoded rows in units of the columns' spread, NaN where nothing is known."""
        scaled = (cells.astype(np.float64) - self.centre) / self.spread
        return np.where(known, np.clip(scaled, -_FURTHEST, _FURTHEST), np.nan)

    def surprise(self, encoded: Float[np.ndarray, "n size"]) -> Float[np.ndarray, " n"]:
        """Return how far each person's known cells lie from what is expected, per cell.

        What an attacker with a whole record asks of a model: the Mahalanobis distance.
        """
        if not len(self.strengths):
            return np.zeros(len(encoded))
        gaussians = self.gaussians()
        matrix = self.scale(encoded, ~np.isnan(encoded))
        distances = gaussians[len(gaussians) // 2].distances(matrix)
        return distances / np.maximum((~np.isnan(matrix)).sum(axis=1), 1)

    def site_weights(self, correction: Correction) -> Float[np.ndarray, "d candidates"]:
        """Return how much the common model and a site's own candidates count, by column."""
        d, c = len(self.counts), CORRECTIONS
        ends = np.cumsum([d * c * c, d * c, d])
        grams, sides, squares, cells = np.split(self.errors, ends)
        sums = ErrorSums(grams.reshape(d, c, c), sides.reshape(d, c), squares, cells)
        sums = sums.in_units_of_best()
        pull = sums.plus(sums.common(), _PULL).per_cell()
        return correction.sums.in_units_of_best().plus(pull, _PULL).weights()
