"""What candidates learn from: known cells beside inputs as they are where the cell is missing.

The inputs of column j are the whole row, filled by the conditional Gaussian as if j (and whatever
is unknown together with it) were unknown. Chained imputers fill inputs from the very cell that is
to be told and learn from a relation that is not there where it counts; these do not. The place of
j itself holds the Gaussian's prediction, which other candidates correct. Tables of many rows keep
the other holes as holes: inputs for every column would not fit into memory, and boosted trees that
see the holes tell as much from many rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.impute._factors import Factors
from cofill.impute._gaussian import Gaussian, inflation
from cofill.impute._holes import companions
from cofill.impute._table import Encoding

_BLOCK = 50_000  # rows predicted at once


@dataclass(frozen=True, eq=False)
class Seen:
    """What candidates see of rows when they are asked for a column.

    Filled inputs (or inputs with holes), the Gaussian's prediction of the column, and which cells
    of the row are known.
    """

    inputs: Float[np.ndarray, "n inputs"]
    base: Float[np.ndarray, "n block"]
    shown: Bool[np.ndarray, "n d"]

    def some(self, rows: slice | np.ndarray) -> Seen:
        """Return what is seen of some of the rows."""
        return Seen(self.inputs[rows], self.base[rows], self.shown[rows])


@dataclass(frozen=True, eq=False)
class AbstractPractice(ABC):
    """Known cells of a table, and the inputs from which they are to be told."""

    encoding: Encoding
    matrix: Float[np.ndarray, "n width"]
    known: Bool[np.ndarray, "n d"]

    def targets(self, column: int, rows: np.ndarray) -> Float[np.ndarray, "m width"]:
        """Return the known cells of a column in rows."""
        return self.matrix[rows, self.encoding.columns[column].place]

    @abstractmethod
    def seen_of(self, column: int, rows: np.ndarray) -> Seen:
        """Return what is seen of rows in which a column is to be told."""


@dataclass(frozen=True, eq=False)
class FilledPractice(AbstractPractice):
    """Inputs for every column and row, filled by the Gaussian; see `fill_practice`.

    ``bases`` are the predictions of each column that candidates correct, where they are others than
    the inputs hold.
    """

    inputs: Float[np.ndarray, "d n width"]
    shown: Bool[np.ndarray, "d n d"]
    bases: tuple[Float[np.ndarray, "n _"], ...] | None = None  # as wide as their columns

    def seen_of(self, column: int, rows: np.ndarray) -> Seen:
        inputs = self.inputs[column, rows]
        place = self.encoding.columns[column].place
        base = inputs[:, place] if self.bases is None else self.bases[column][rows]
        return Seen(inputs, base.astype(np.float64), self.shown[column, rows])


@dataclass(frozen=True, eq=False)
class HolePractice(AbstractPractice):
    """Inputs with holes, made when they are asked for; see `inputs_with_holes`."""

    gaussian: Gaussian | Factors
    seed: int

    def seen_of(self, column: int, rows: np.ndarray) -> Seen:
        shown = self.known[rows]
        hidden = companions(self.known, column, np.random.default_rng((self.seed, column)))
        if hidden is not None:
            shown &= ~hidden[rows]
        shown[:, column] = False
        part = np.where(self.encoding.spread_out(shown), self.matrix[rows], np.nan)
        base = self.gaussian.fill(part)[:, self.encoding.columns[column].place]
        return Seen(inputs_with_holes(self.encoding, part, base), base, shown)


def inputs_with_holes(
    encoding: Encoding, matrix: Float[np.ndarray, "n width"], base: Float[np.ndarray, "n block"]
) -> Float[np.ndarray, "n inputs"]:
    """Return one input a column, NaN where it is unknown, and the Gaussian's prediction."""
    return np.hstack([encoding.codes(matrix), base]).astype(np.float32)


class AbstractFitted(ABC):
    """A fitted candidate."""

    @abstractmethod
    def predict(self, column: int, seen: Seen) -> Float[np.ndarray, "n block"]:
        """Return a column's block of the matrix from what is seen of rows."""


class AbstractColumnModel(ABC):
    """What a candidate has learned of one column."""

    @abstractmethod
    def predict(self, seen: Seen) -> Float[np.ndarray, "n block"]:
        """Return the column's block."""


@storable
@dataclass(frozen=True)
class ColumnModels(AbstractFitted):
    """A model for each column; the Gaussian's prediction where there is none."""

    models: Mapping[str, AbstractColumnModel]

    @classmethod
    def of(cls, models: Mapping[int, AbstractColumnModel]) -> ColumnModels:
        """Return the models of columns, by their numbers."""
        return cls({str(k): model for k, model in models.items()})

    def predict(self, column: int, seen: Seen) -> Float[np.ndarray, "n block"]:
        model = self.models.get(str(column))
        if model is None:
            return seen.base
        parts = (slice(at, at + _BLOCK) for at in range(0, max(len(seen.inputs), 1), _BLOCK))
        return np.concatenate([model.predict(seen.some(part)) for part in parts])


class AbstractCandidate(ABC):
    """A way to tell cells from the others of their row."""

    name: str

    @abstractmethod
    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> AbstractFitted:
        """Learn from some rows of the practice table."""


def fill_practice(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    gaussian: Gaussian | Factors,
    rng: np.random.Generator,
) -> FilledPractice:
    """Return every column's inputs, with companions hidden as the data's own holes look."""
    inputs = gaussian.fill_without_each(matrix, encoding)
    return _hide_companions(matrix, encoding, gaussian, inputs, rng)


def practise_on_learned(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    gaussian: Gaussian,
    rng: np.random.Generator,
    *,
    learned: float,
) -> FilledPractice:
    """Return the practice on rows that are among the `learned` ones of the Gaussian.

    Bases tell each row as without itself. They hold some of the very cell that is to be told, and
    are no inputs: a candidate would find the cell in them.
    """
    inputs, distances = gaussian.leave_out_each(matrix, encoding)
    practice = _hide_companions(matrix, encoding, gaussian, inputs, rng)
    bases = []
    for k, column in enumerate(encoding.columns):
        moved = np.flatnonzero((practice.shown[k] != practice.known).sum(axis=1) > 1)
        if len(moved):
            part = np.where(encoding.spread_out(practice.shown[k][moved]), matrix[moved], np.nan)
            distances[k, moved] = gaussian.distances(part)
        guesses, cells = inputs[k][:, column.place], matrix[:, column.place]
        share = inflation(distances[k], learned)[:, None]
        bases.append(np.where(practice.known[:, [k]], cells - (cells - guesses) * share, guesses))
    return replace(practice, bases=tuple(bases))


def _hide_companions(
    matrix: np.ndarray,
    encoding: Encoding,
    gaussian: Gaussian | Factors,
    inputs: np.ndarray,
    rng: np.random.Generator,
) -> FilledPractice:
    known = encoding.known(matrix)
    shown = np.broadcast_to(known, (len(encoding.columns), *known.shape)).copy()
    for k in range(len(encoding.columns)):
        shown[k, :, k] = False
        hidden = companions(known, k, rng)
        if hidden is None:
            continue
        rows = np.flatnonzero(hidden.any(axis=1))
        hidden[:, k] = True
        part = np.where(encoding.spread_out(hidden[rows]), np.nan, matrix[rows])
        inputs[k, rows] = gaussian.fill(part)
        shown[k, rows] &= ~hidden[rows]
    return FilledPractice(encoding, matrix, known, inputs, shown)


def learnable(
    practice: AbstractPractice, rows: np.ndarray, least: int, most: int, rng: np.random.Generator
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the columns that have something to be learned, each with rows to learn it from."""
    for k, column in enumerate(practice.encoding.columns):
        learn = rows[practice.known[rows, k]]
        if column.constant or len(learn) < least:
            continue
        if len(learn) > most:
            learn = np.sort(rng.choice(learn, most, replace=False))
        yield k, learn


def refine(practice: FilledPractice, predict: Callable[[int, Seen], np.ndarray]) -> FilledPractice:
    """Return the practice with unknown inputs as `predict` tells them, in place of the Gaussian.

    The place of the column to be told keeps the Gaussian's prediction: others have seen its cells.
    """
    inputs = practice.inputs.copy()
    for j, (rows, shown) in enumerate(zip(practice.inputs, practice.shown, strict=True)):
        inputs[j] = refine_rows(rows, shown, practice.encoding, predict, j)
    return replace(practice, inputs=inputs)


def refine_rows(
    rows: Float[np.ndarray, "n width"],
    shown: Bool[np.ndarray, "n d"],
    encoding: Encoding,
    predict: Callable[[int, Seen], np.ndarray],
    target: int | None,
) -> Float[np.ndarray, "n width"]:
    """Return filled rows with unknown cells told by `predict`, but those of the target column."""
    refined = rows.copy()
    for k, column in enumerate(encoding.columns):
        holes = np.flatnonzero(~shown[:, k])
        if k != target and len(holes):
            part = rows[holes]
            base = part[:, column.place].astype(np.float64)
            refined[holes, column.place] = predict(k, Seen(part, base, shown[holes]))
    return refined
