"""Nearest rows: the weighted mean of a column over the known rows most alike.

`Neighbours` compares filled rows. `Twins` compares cells that both rows know, so that a row which
stands twice in a table, with other holes, is found again: fills would blur it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.codec import storable
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractColumnModel,
    AbstractPractice,
    ColumnModels,
    Seen,
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

    def predict(self, seen: Seen) -> np.ndarray:
        return self.means(seen.inputs)[0]

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
            inputs = practice.seen_of(k, learn).inputs
            cells = practice.targets(k, learn)
            trial = Neighbourhood(inputs, cells, 0)
            some = slice(0, 1_000)
            errors = [
                ((g - cells[some]) ** 2).sum() for g in trial.means(inputs[some], inside=True)
            ]
            best = _COUNTS[int(np.argmin(errors))]
            columns[k] = Neighbourhood(inputs, cells, best)
        return ColumnModels.of(columns)


_TWINS = (1, 2, 4)
_UNKNOWN = (0.03, 0.1, 0.3)  # squared distance that a cell counts for which one row does not know


@storable
@dataclass(frozen=True)
class TwinRows(AbstractColumnModel):
    """Rows with their cells of one column, to be compared in cells that are known.

    ``starts`` are the columns' first places in a row; ``unknown`` is what a cell adds to a squared
    distance that one of two rows does not know; ``count`` rows are averaged.
    """

    rows: Float[np.ndarray, "m width"]
    known: Bool[np.ndarray, "m d"]
    cells: Float[np.ndarray, "m block"]
    starts: Int[np.ndarray, " d"]
    unknown: float
    count: int

    def predict(self, seen: Seen) -> np.ndarray:
        means = np.empty((len(seen.inputs), self.cells.shape[1]))
        for start in range(0, len(means), _BLOCK):
            part = seen.some(slice(start, start + _BLOCK))
            apart, absent = self.distances(part)
            means[start : start + _BLOCK] = self.mean(apart + self.unknown * absent, self.count)
        return means

    def distances(self, seen: Seen) -> tuple[np.ndarray, np.ndarray]:
        """Return squared distances in what both rows know, and how many cells are not."""
        width = self.rows.shape[1]
        sizes = np.diff(np.append(self.starts, width))
        wide, mine = np.repeat(seen.shown, sizes, axis=1), np.repeat(self.known, sizes, axis=1)
        left = np.where(wide, seen.inputs, 0.0).astype(np.float32)
        right = np.where(mine, self.rows, 0.0).astype(np.float32)
        apart = (left**2) @ mine.T.astype(np.float32) + wide.astype(np.float32) @ (right**2).T
        apart -= 2 * left @ right.T
        both = seen.shown.astype(np.float32) @ self.known.T.astype(np.float32)
        return np.maximum(apart, 0.0), len(self.starts) - both

    def mean(self, distance: np.ndarray, count: int) -> np.ndarray:
        """Return the mean of the nearest rows' cells, nearer ones weighing more."""
        count = min(count, len(self.rows))
        nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
        weights = 1 / (np.sqrt(np.take_along_axis(distance, nearest, axis=1)) + 1e-2)
        weights /= weights.sum(axis=1, keepdims=True)
        return np.einsum("nk,nkb->nb", weights, self.cells[nearest])


@dataclass(frozen=True)
class Twins(AbstractCandidate):
    """Rows alike in the cells that both know; how many, and what a hole counts for, is chosen."""

    most_rows: int = 4_000
    name: str = "twins"

    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> ColumnModels:
        starts = np.array([column.start for column in practice.encoding.columns])
        columns = {}
        for k, learn in learnable(practice, rows, 10, self.most_rows, rng):
            seen, cells = practice.seen_of(k, learn), practice.targets(k, learn)
            trial = TwinRows(seen.inputs, seen.shown, cells, starts, 0.0, 0)
            some = slice(0, _BLOCK)
            apart, absent = trial.distances(seen.some(some))
            apart[np.arange(len(apart)), np.arange(len(apart))] = np.inf  # nobody is their own twin
            errors = {
                (unknown, count): (
                    (trial.mean(apart + unknown * absent, count) - cells[some]) ** 2
                ).sum()
                for unknown in _UNKNOWN
                for count in _TWINS
            }
            unknown, count = min(errors, key=lambda choice: errors[choice])
            columns[k] = replace(trial, unknown=unknown, count=count)
        return ColumnModels.of(columns)
