"""A nonlinear correction of the Gaussian that is learned from sums of products alone.

A column's cells are told by ridge regression on cosines of random directions, each through one to
three inputs (random Fourier features, Rahimi & Recht 2007, of few inputs as in an additive model),
beside flags of what is known. What is told is what the Gaussian leaves, so that inputs need not be
features themselves: they are unbounded, and a row far out would be told anything.
Everybody draws the same directions. Sites add up the products of features with each other and with
what is to be told; the regression on all rows follows from the sums, and so does its penalty, by
generalised cross-validation (Golub, Heath & Wahba 1979). The sum over fewer people than it has
columns would tell whether a guessed person is among them: there are fewer features where people are
few, and none where they would be very few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from cofill.impute import Seen

PEOPLE_PER_COLUMN = 1.5
"""People behind a sum of products, for each of the columns that are multiplied."""

_MOST_FEATURES, _LEAST_FEATURES = 256, 16
_MOST_NUMBERS = 4_000_000  # that a site adds up: 32 MB
_FREQUENCIES = (0.7, 1.5, 3.0, 6.0)  # smooth and steep: raisin wants the former, yacht the latter
_FURTHEST = 3.0  # deviations beyond which inputs count as no further
_PENALTIES = 10.0 ** np.arange(-4, 3.1, 0.5)
_CAUTION = 1.2  # of degrees of freedom, against too small a penalty (Kim & Gu 2004)
# How features of each kind stand to each other under one penalty.
_FLAGS, _COSINES = 0.3, 0.4


@dataclass(frozen=True)
class FeatureSums:
    """Products of one column's features, with each other and with what is to be told."""

    gram: Float[np.ndarray, "features features"]
    side: Float[np.ndarray, "features block"]
    power: float
    count: float

    def regress(self) -> tuple[Float[np.ndarray, "features block"], float]:
        """Return coefficients, and by how much residuals grow on rows left out.

        Zeros and 1 where no penalty does better than to leave what the Gaussian says.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values, turned = np.maximum(values, 0.0), vectors.T @ self.side
        best = np.zeros_like(self.side), 1.0
        score = self.power / max(self.count, 1.0) ** 2
        for penalty in _PENALTIES:
            solved = turned / (values + penalty)[:, None]
            freedom = float((values / (values + penalty)).sum())
            error = self.power - (solved * (2 * turned - values[:, None] * solved)).sum()
            room = self.count - _CAUTION * freedom
            if room > 0 and max(error, 0.0) / room**2 < score:
                score = max(error, 0.0) / room**2
                best = vectors @ solved, self.count / (self.count - freedom)
        return best


@dataclass(frozen=True)
class Features:
    """Features of all columns of a table; every party makes the same.

    ``counts`` are the rows in which each column is known, over all sites; ``widths`` the columns'
    places in a row.
    """

    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int

    @property
    def width(self) -> int:
        """Inputs of a row."""
        return sum(self.widths)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Features of each column, 0 where people are too few."""
        plain = 1 + len(self.widths)
        room = [min(int(n / PEOPLE_PER_COLUMN) - plain, _MOST_FEATURES) for n in self.counts]
        most = max(room, default=0)
        while most >= _LEAST_FEATURES:
            sizes = [plain + min(r, most) if r >= _LEAST_FEATURES else 0 for r in room]
            if sum(map(self._numbers, sizes, self.widths)) <= _MOST_NUMBERS:
                return tuple(sizes)
            most -= 16
        return tuple(0 for _ in room)

    @staticmethod
    def _numbers(size: int, block: int) -> int:
        return size * (size + 1) // 2 + size * block + 2 if size else 0

    @property
    def length(self) -> int:
        """Numbers that a site adds up."""
        return sum(map(self._numbers, self.sizes, self.widths))

    @cached_property
    def _directions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions through one to three inputs, phases, and sizes: steep cosines are smaller."""
        rng = np.random.default_rng([self.seed, 0xFEA7])
        directions = np.zeros((self.width, _MOST_FEATURES))
        for k in range(_MOST_FEATURES):
            inputs = rng.choice(self.width, min(int(rng.integers(1, 4)), self.width), replace=False)
            weights = rng.normal(size=len(inputs))
            directions[inputs, k] = weights / np.linalg.norm(weights) * rng.choice(_FREQUENCIES)
        phases = rng.uniform(0, 2 * np.pi, _MOST_FEATURES)
        return directions, phases, _COSINES / np.linalg.norm(directions, axis=0)

    def of_rows(
        self, column: int, inputs: Float[np.ndarray, "n width"], shown: np.ndarray
    ) -> Float[np.ndarray, "n features"]:
        """Return a column's features of filled rows, of which some cells are shown."""
        directions, phases, sizes = self._directions
        inputs = np.clip(inputs.astype(np.float64), -_FURTHEST, _FURTHEST)
        count = self.sizes[column] - 1 - len(self.widths)
        cosines = np.cos(inputs @ directions[:, :count] + phases[:count])
        return np.hstack([np.ones((len(inputs), 1)), _FLAGS * shown, cosines * sizes[:count]])

    def sums_of(
        self,
        column: int,
        inputs: Float[np.ndarray, "n width"],
        shown: np.ndarray,
        left: Float[np.ndarray, "n block"],
    ) -> np.ndarray:
        """Return what a site adds of a column; `left` is what the Gaussian leaves to be told."""
        features = self.of_rows(column, inputs, shown)
        gram = features.T @ features
        upper = gram[np.triu_indices(len(gram))]
        return np.concatenate([upper, (features.T @ left).ravel(), [(left**2).sum(), len(left)]])

    def split(self, total: np.ndarray) -> list[FeatureSums | None]:
        """Return the columns' sums in a total over sites; None for columns without features."""
        sums, start = [], 0
        for size, block in zip(self.sizes, self.widths, strict=True):
            if not size:
                sums.append(None)
                continue
            triangle = size * (size + 1) // 2
            ends = np.cumsum([triangle, size * block, 1, 1]) + start
            upper, side, power, count = np.split(total[start : ends[-1]], ends[:-1] - start)
            gram = np.zeros((size, size))
            gram[np.triu_indices(size)] = upper
            gram += np.triu(gram, 1).T
            sums.append(FeatureSums(gram, side.reshape(size, block), power[0], count[0]))
            start = ends[-1]
        return sums


@dataclass(frozen=True, eq=False)
class FeatureRegression:
    """What a column's features add to the Gaussian's prediction."""

    features: Features
    column: int
    coefficients: Float[np.ndarray, "features block"]

    def __call__(self, seen: Seen) -> Float[np.ndarray, "n block"]:
        return self.features.of_rows(self.column, seen.inputs, seen.shown) @ self.coefficients
