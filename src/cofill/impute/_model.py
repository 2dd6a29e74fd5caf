"""One table learned and filled: encoded, blended within a stated effort, decoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.impute._blend import Blend, Plan, fit_blend, unheard
from cofill.impute._neighbours import Neighbours, Twins
from cofill.impute._spread import ColumnSpread, error_scales, fit_spreads, trim
from cofill.impute._table import Column, Encoding
from cofill.impute._trees import BoostedTrees, Forest
from cofill.views import Feature, side_by_side

EFFORTS = ("quick", "normal", "thorough")
_INPUT_BYTES = 256 * 2**20  # of the inputs of all columns: bounds the rows learned from
_MANY = 100_000  # cells of a table beyond which candidates are fitted once
_WIDE = {"quick": 2_500, "normal": 12_000, "thorough": 60_000}  # inputs of all columns' trees
_ABSENT_ROWS = {"quick": 800, "normal": 2_000, "thorough": 5_000}  # cubed, a view's time
_BOOSTED = 500  # rows below which boosting repeats what trees say (yacht, ionosphere)
_REFINED = {"quick": 0, "normal": 20_000_000, "thorough": 200_000_000}  # n · d³: inputs refined
_HUGE = {"quick": 0, "normal": 2_000_000, "thorough": 2**63}  # cells: smaller trees beyond
_MOST_ROWS = 60_000  # of a large table, from which each column takes those it learns from
# Of large tables: trees, rate and rows learned from.
_BOOSTING = {
    "quick": (40, 0.2, 8_000),
    "normal": (60, 0.15, 20_000),
    "thorough": (200, 0.08, 50_000),
}
_BLOCK = 100_000  # rows filled at once


@storable
@dataclass(frozen=True)
class TableModel:
    """A fitted imputer of one table; ``error_scales`` as in `cofill.impute._spread`."""

    encoding: Encoding
    blend: Blend
    error_scales: Float[np.ndarray, " d"]
    notes: tuple[str, ...] = ()
    seed: int = 0

    @cached_property
    def spreads(self) -> tuple[ColumnSpread | None, ...]:
        """How far each numeric column's predictions may be off; learned when first asked for."""
        return fit_spreads(self.blend, self.error_scales, self.seed)

    def predict(self, cells: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return the table with every unknown cell filled; rows need not be those of the fit."""
        filled = np.array(cells, dtype=np.float64)
        for rows, matrix in self._blocks(filled):
            with _threads(matrix.size):
                blocks = self.blend.predict(matrix)
            for column, k, gone in self._gone(filled, rows):
                filled[rows[gone], k] = column.decode(blocks[gone, column.place])
        return filled

    def intervals(
        self, cells: Float[np.ndarray, "n d"], level: float
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]:
        """Return ends that hold an unknown numeric cell with probability `level`, NaN elsewhere.

        Where a column's errors say too little, they are the range of its known cells.
        """
        lower, upper = np.full(cells.shape, np.nan), np.full(cells.shape, np.nan)
        cells = np.asarray(cells, dtype=np.float64)
        for rows, matrix in self._blocks(cells):
            for column, k, gone, guess, sizes in self._sized(cells, rows, matrix):
                spread = self.spreads[k]
                ends = np.full((2, len(guess)), [[-np.inf], [np.inf]])
                if spread is not None and sizes is not None:
                    ends = np.stack(spread.ends(guess, sizes, level))
                units = np.clip(ends * column.spread + column.centre[0], column.low, column.high)
                lower[rows[gone], k], upper[rows[gone], k] = units
        return lower, upper

    def draws(
        self,
        cells: Float[np.ndarray, "n d"],
        rngs: Sequence[np.random.Generator],
        *,
        matched: bool | None = None,
    ) -> list[Float[np.ndarray, "n d"]]:
        """Return the table with unknown cells drawn at random once per generator.

        `matched` takes numbers that were observed where the prediction was alike (predictive mean
        matching, Little 1988); None matches columns whose shape matters, see `ColumnSpread`.
        """
        drawn = [np.array(cells, dtype=np.float64) for _ in rngs]
        for rows, matrix in self._blocks(np.asarray(cells, dtype=np.float64)):
            gaussian, several = self.blend.gaussian, list(zip(drawn, rngs, strict=True))
            scale = np.sqrt(gaussian.variances(matrix)) + 1e-12
            noises = [gaussian.noise(matrix, rng) for rng in rngs]
            for column, k, gone, guess, sizes in self._sized(cells, rows, matrix, coded=True):
                deviation = scale[gone, column.start]
                for (filled, rng), noise in zip(several, noises, strict=True):
                    filled[rows[gone], k] = (
                        _drawn_codes(column, guess, rng)
                        if column.levels is not None
                        else self._drawn_numbers(
                            column, k, guess, sizes, noise[gone, column.start], deviation, matched
                        )
                    )
        return drawn

    def _drawn_numbers(
        self,
        column: Column,
        k: int,
        guess: np.ndarray,
        sizes: np.ndarray | None,
        noise: np.ndarray,
        deviation: np.ndarray,
        matched: bool | None,
    ) -> np.ndarray:
        """Return draws of a column's holes; `noise` says where in their distributions."""
        from scipy.special import ndtr

        spread = self.spreads[k]
        if spread is None or sizes is None:  # too few errors are known: the Gaussian's
            values = column.decode((guess + noise)[:, None])
            return column.nearest(values) if matched else values
        places = ndtr(noise / deviation)
        if spread.shaped if matched is None else matched:
            return column.nearest(column.decode(spread.match(guess, places)[:, None]), within=1e-9)
        return column.decode(spread.draw(guess, sizes, places)[:, None])

    def _blocks(self, cells: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows with holes and their part of the matrix."""
        holes = np.flatnonzero(np.isnan(cells).any(axis=1))
        for start in range(0, len(holes), _BLOCK):
            rows = holes[start : start + _BLOCK]
            yield rows, self.encoding.encode(cells[rows])

    def _gone(
        self, cells: np.ndarray, rows: np.ndarray
    ) -> Iterator[tuple[Column, int, np.ndarray]]:
        for k, column in enumerate(self.encoding.columns):
            gone = np.flatnonzero(np.isnan(cells[rows, k]))
            if len(gone):
                yield column, k, gone

    def _sized(
        self, cells: np.ndarray, rows: np.ndarray, matrix: np.ndarray, *, coded: bool = False
    ) -> Iterator[tuple[Column, int, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield columns with the holes' predictions and the expected size of their errors."""
        blocks, filled = self.blend.predict(matrix), self.blend.gaussian.fill(matrix)
        known = self.encoding.known(matrix)
        for column, k, gone in self._gone(cells, rows):
            spread = self.spreads[k]
            if column.levels is not None:
                if coded:
                    yield column, k, gone, blocks[gone, column.place], None
                continue
            guess = blocks[gone, column.start]
            sizes = None
            if spread is not None:
                inputs = self.blend.inputs_of(k, gone, filled, matrix)
                sizes = spread.sizes(inputs, known[gone], guess)
            yield column, k, gone, guess, sizes


def fit_table(
    cells: Float[np.ndarray, "n d"],
    features: Sequence[Feature],
    *,
    views: Sequence[int] = (),
    effort: str = "normal",
    seed: int = 0,
    progress: Callable[[float], None] = unheard,
) -> TableModel:
    """Learn to fill a table of mixed kinds with holes in any pattern.

    `views` are the numbers of columns of the views side by side, where rows may lack whole views.
    """
    require_effort(effort)
    rng = np.random.default_rng(seed)
    encoding = Encoding.fit(cells, features)
    known = np.flatnonzero(~np.isnan(cells).all(axis=1))
    plan, notes = make_plan(len(known), encoding, effort, views=len(views))
    most = _MOST_ROWS
    if not plan.holes:
        most = max(2_000, _INPUT_BYTES // (4 * len(features) * encoding.width))
    if len(known) > most:
        notes.append(f"learned from {most:,} of {len(known):,} rows, drawn at random")
        known = np.sort(rng.choice(known, most, replace=False))
    matrix = encoding.encode(cells[known])
    with _threads(matrix.size):
        places = side_by_side(views)
        blend = fit_blend(matrix, encoding, plan, views=places, rng=rng, progress=progress)
    scales = error_scales(blend)
    blend = replace(blend, held_out=tuple(trim(blend.held_out, rng)))
    return TableModel(encoding, blend, scales, tuple(notes), seed)


def make_plan(n: int, encoding: Encoding, effort: str, *, views: int = 1) -> tuple[Plan, list[str]]:
    """Return what is tried on n rows at this effort, and what is left out."""
    d = len(encoding.columns)
    if encoding.width * d > _WIDE[effort]:
        if views > 1:
            return Plan((), absent_rows=_ABSENT_ROWS[effort]), [
                f"the table has {d} columns: views that a row lacks were told as a whole by "
                "kernels and nearest rows, single cells by a Gaussian of few factors"
            ]
        return Plan((), folds=1), [f"trees were left out: the table has {d} columns"]
    if n * d > _MANY:
        steps, rate, rows = _BOOSTING[effort]
        coarse = n * d > _HUGE[effort]
        boosting = BoostedTrees("boosting", steps, rate, rows, coarse=coarse)
        return Plan((boosting,), holes=True, folds=1), [
            "the table is large: boosted trees and the Gaussian, without averaged trees"
        ]
    first = (Forest("forest", trees=12, leaf=3, features=0.5), Neighbours(), Twins())
    if effort == "quick":
        return Plan(first, (), refined=False, folds=3), [
            "quick: boosting and refined inputs were left out"
        ]
    second = (
        Forest("trees", residual=True),
        Forest("random forest", leaf=2, features=0.4, extreme=False),
        # Five averaged fits of few large steps did as well as of many small ones (development
        # sets airfoil, compression, yacht), in half the time.
        *([BoostedTrees("boosting", steps=30, rate=0.25, most_classes=4)] if n >= _BOOSTED else []),
    )
    return Plan(first, second, refined=n * d**3 <= _REFINED[effort]), []


def require_effort(effort: str) -> None:
    """Raise a `SettingError` unless there is such an effort."""
    if effort not in EFFORTS:
        raise SettingError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")


def _threads(cells: int) -> AbstractContextManager[Any]:
    """Keep libraries to one thread on small tables.

    Boosting a few hundred rows waits for its threads at every split, which on a busy machine
    takes far longer than the splits themselves.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1) if cells <= _MANY else nullcontext()


def _drawn_codes(column: Column, guess: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return draws of a coded column's holes by their probabilities."""
    assert column.levels is not None  # noqa: S101
    chances = np.cumsum(column.chances(guess), axis=1)
    draws = rng.random((len(chances), 1)) * chances[:, -1:]
    return column.levels[np.minimum((draws > chances).sum(axis=1), len(column.levels) - 1)]
