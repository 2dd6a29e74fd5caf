"""Nearest rows: the weighted mean of a column over the known rows most alike in filled cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractColumnModel,
    AbstractPractice,
    ColumnModels,
    learnable,
)

_COUNTS = (4, 8, 16, 32)
_BLOCK = 1_000


@storable
@dataclass(frozen=True)
class Neighbourhood(AbstractColumnModel):
    """Rows with their cells of one column, and how many of the nearest are averaged."""

    rows: Float[np.ndarray, "m width"]
    cells: Float[np.ndarray, "m block"]
    count: int

    def predict(self, inputs: np.ndarray, base: np.ndarray) -> np.ndarray:
        return self.means(inputs)[0]

    def means(self, inputs: np.ndarray, *, inside: bool = False) -> list[np.ndarray]:
        """Return means over each of the counts; `inside` leaves a row itself out."""
        counts = _COUNTS if inside else (self.count,)
        most = min(max(counts) + inside, len(self.rows))
        results = [np.empty((len(inputs), self.cells.shape[1])) for _ in counts]
        squares = (self.rows**2).sum(axis=1)
        for start in range(0, len(inputs), _BLOCK):
            queries = inputs[start : start + _BLOCK].astype(np.float32)
            distance = squares - 2 * queries @ self.rows.T + (queries**2).sum(axis=1)[:, None]
            if inside:
                at = np.arange(len(queries))
                distance[at, start + at] = np.inf
            nearest = np.argpartition(distance, most - 1, axis=1)[:, :most]
            near = np.take_along_axis(distance, nearest, axis=1)
            order = np.argsort(near, axis=1)
            nearest = np.take_along_axis(nearest, order, axis=1)
            near = np.sqrt(np.maximum(np.take_along_axis(near, order, axis=1), 0.0)) + 1e-3
            for result, count in zip(results, counts, strict=True):
                weights = 1 / near[:, :count]
                weights /= weights.sum(axis=1, keepdims=True)
                cells = self.cells[nearest[:, :count]]
                result[start : start + _BLOCK] = np.einsum("nk,nkb->nb", weights, cells)
        return results


@dataclass(frozen=True)
class Neighbours(AbstractCandidate):
    """k nearest rows; k is chosen for each column by leaving rows out."""

    most_rows: int = 4_000
    name: str = "neighbours"

    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> ColumnModels:
        columns = {}
        for k, learn in learnable(practice, rows, 10, self.most_rows, rng):
            inputs, _, _ = practice.inputs_of(k, learn)
            cells = practice.targets(k, learn)
            trial = Neighbourhood(inputs, cells, 0)
            some = slice(0, 1_000)
            errors = [
                ((g - cells[some]) ** 2).sum() for g in trial.means(inputs[some], inside=True)
            ]
            best = _COUNTS[int(np.argmin(errors))]
            columns[k] = Neighbourhood(inputs, cells, best)
        return ColumnModels.of(columns)
