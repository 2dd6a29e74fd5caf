"""A table of mixed kinds as one matrix: every column in units of its own spread, NaN where unknown.

A numeric column is one standardised column; a coded column is one column per frequent category,
centred at the categories' shares and scaled as a whole. Zero therefore always means "nothing is
known but the column's average", and a squared error of one is the average's own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.views import Feature, Kind

_MOST_VALUES = 1_000  # observed values kept for draws that must be one of them
_MOST_LEVELS = 40  # categories that get a column of their own, the commonest first


@storable
@dataclass(frozen=True)
class Column:
    """How one column is encoded: its place in the matrix, its centre and its spread."""

    feature: Feature
    start: int
    stop: int
    centre: Float[np.ndarray, " width"]
    spread: float
    low: float
    high: float
    levels: np.ndarray | None = None
    values: np.ndarray | None = None

    @property
    def place(self) -> slice:
        """Columns of the matrix that hold this column."""
        return slice(self.start, self.stop)

    @property
    def constant(self) -> bool:
        """Whether all known cells are equal."""
        return self.low == self.high

    def encode(self, cells: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n width"]:
        """Return one column of cells in the matrix's units."""
        if self.levels is None:
            return ((cells - self.centre[0]) / self.spread)[:, None]
        hot = (cells[:, None] == self.levels).astype(np.float64)
        hot[np.isnan(cells)] = np.nan
        return (hot - self.centre) / self.spread

    def nearest(
        self, cells: Float[np.ndarray, " n"], within: float = np.inf
    ) -> Float[np.ndarray, " n"]:
        """Return the observed value nearest to each cell, unless it is further than `within`."""
        if self.values is None:
            return cells
        after = np.clip(np.searchsorted(self.values, cells), 1, len(self.values) - 1)
        before, behind = self.values[after - 1], self.values[after]
        nearest = np.where(cells - before <= behind - cells, before, behind)
        return np.where(np.abs(nearest - cells) <= within * self.spread, nearest, cells)

    def chances(self, block: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the probability of each of a coded column's `levels`."""
        shares = np.clip(block * self.spread + self.centre, 0.0, None)
        total = shares.sum(axis=1, keepdims=True)
        return np.divide(
            shares, total, out=np.broadcast_to(self.centre, shares.shape).copy(), where=total > 0
        )

    def decode(
        self, block: Float[np.ndarray, "n width"], *, rounding: bool = True
    ) -> Float[np.ndarray, " n"]:
        """Return cells in the user's units: in the range of the fit, with the column's decimals."""
        if self.levels is not None:
            return self.levels[np.argmax(block * self.spread + self.centre, axis=1)]
        cells = np.clip(block[:, 0] * self.spread + self.centre[0], self.low, self.high)
        if rounding:
            cells = np.clip(self.feature.rounded(cells), self.low, self.high)
        return cells


@storable
@dataclass(frozen=True)
class Encoding:
    """Encodings of all columns of a table."""

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, cells: Float[np.ndarray, "n d"], features: Sequence[Feature]) -> Encoding:
        """Learn centres, spreads and frequent categories from the known cells."""
        columns: list[Column] = []
        start = 0
        for k, feature in enumerate(features):
            column = _fit_column(feature, cells[:, k].astype(np.float64), start)
            columns.append(column)
            start = column.stop
        return cls(tuple(columns))

    @classmethod
    def of_widths(cls, widths: Sequence[int]) -> Encoding:
        """Return where columns of these widths lie in a matrix that is scaled already."""
        ends = np.cumsum(widths).tolist()
        parts = zip(widths, ends, strict=True)
        columns = (Column(Feature(str(b)), b - a, b, np.zeros(a), 1.0, 0.0, 1.0) for a, b in parts)
        return cls(tuple(columns))

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return self.columns[-1].stop

    def encode(self, cells: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n width"]:
        """Return the matrix of a table's cells."""
        matrix = np.empty((len(cells), self.width))
        for k, column in enumerate(self.columns):
            matrix[:, column.place] = column.encode(cells[:, k].astype(np.float64))
        return matrix

    def codes(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n d"]:
        """Return one number a column: the cell, or the place of its category; NaN if unknown."""
        codes = np.empty((len(matrix), len(self.columns)))
        for k, column in enumerate(self.columns):
            block = matrix[:, column.place]
            codes[:, k] = block[:, 0]
            if column.levels is not None and block.shape[1] > 1:
                known = ~np.isnan(block[:, 0])
                codes[known, k] = block[known].argmax(axis=1)
        return codes

    def known(self, matrix: Float[np.ndarray, "n width"]) -> Bool[np.ndarray, "n d"]:
        """Return which cells of the table are known."""
        return ~np.isnan(matrix[:, [column.start for column in self.columns]])

    def spread_out(self, flags: np.ndarray) -> np.ndarray:
        """Repeat what is said of each column for each of its columns in the matrix."""
        return np.repeat(flags, [c.stop - c.start for c in self.columns], axis=-1)


def _fit_column(feature: Feature, cells: np.ndarray, start: int) -> Column:
    known = cells[~np.isnan(cells)]
    if feature.kind is Kind.NUMERIC:
        if not len(known):
            return Column(feature, start, start + 1, np.zeros(1), 1.0, 0.0, 0.0)
        low, high = float(known.min()), float(known.max())
        unit = max(abs(low), abs(high)) or 1.0  # squares of 1e300 overflow
        scaled = known / unit
        centre, spread = float(scaled.mean()) * unit, float(scaled.std()) * unit
        spread = spread if high > low and spread > 0 else 1.0
        values = np.unique(known)
        if len(values) > _MOST_VALUES:
            values = values[np.linspace(0, len(values) - 1, _MOST_VALUES).astype(int)]
        values = values if len(values) > 1 else None
        centres = np.array([centre])
        return Column(feature, start, start + 1, centres, spread, low, high, values=values)
    levels, counts = np.unique(known, return_counts=True)
    if not len(levels):
        levels, counts = np.zeros(1), np.ones(1)
    if len(levels) > _MOST_LEVELS:
        frequent = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LEVELS])
        levels, shares = levels[frequent], counts[frequent] / counts.sum()
    else:
        shares = counts / counts.sum()
    spread = float(np.sqrt((shares * (1 - shares)).sum())) or 1.0
    return Column(
        feature,
        start,
        start + len(levels),
        shares,
        spread,
        float(levels[0]),
        float(levels[-1]),
        levels,
    )
