"""Cells that candidates told without having seen them, and the weights that follow from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable

_COMMON = 60.0  # cells that the columns' common weights count for, beside a column's own


@storable
@dataclass(frozen=True)
class HeldOut:
    """Predictions of cells of rows that no candidate had seen, beside the cells themselves.

    `at_holes` are the predictions of every fold in rows where the column is unknown.
    """

    actual: Float[np.ndarray, "n block"]
    guesses: Float[np.ndarray, "candidates n block"]
    inputs: Float[np.ndarray, "n inputs"]
    shown: Bool[np.ndarray, "n d"]
    at_holes: Float[np.ndarray, "folds candidates holes block"]

    def beside(self, other: HeldOut) -> HeldOut:
        """Return the same cells with another stage's candidates behind these."""
        return replace(
            self,
            guesses=np.concatenate([self.guesses, other.guesses]),
            at_holes=np.concatenate([self.at_holes, other.at_holes], axis=1),
        )

    def first(self, count: int) -> HeldOut:
        """Return the same cells with the first candidates alone."""
        return replace(self, guesses=self.guesses[:count], at_holes=self.at_holes[:, :count])

    def some(self, rows: np.ndarray) -> HeldOut:
        """Return some of the cells, without the holes, which only weights need."""
        return HeldOut(
            self.actual[rows],
            np.ascontiguousarray(self.guesses[:, rows]),  # sums the same after being stored
            self.inputs[rows],
            self.shown[rows],
            self.at_holes[:0],
        )

    def noise(self) -> Float[np.ndarray, "candidates candidates"]:
        """Return products of candidates' errors that the average over folds does without.

        One fold tells a cell left out, the average of all a hole: its error is smaller by the
        folds' variance around it (the products by the covariance), which holes show. Where holes
        lie elsewhere than known cells, folds may differ more there than a candidate errs here; the
        average keeps at least what it would keep if folds erred independently.
        """
        folds, count, holes, _ = self.at_holes.shape
        if folds < 2 or not holes:
            return np.zeros((count, count))
        apart = (self.at_holes - self.at_holes.mean(axis=0)).transpose(1, 0, 2, 3)
        apart = apart.reshape(count, -1)
        noise = apart @ apart.T * (len(self.actual) / (folds * holes))
        errors = ((self.guesses - self.actual) ** 2).sum(axis=(1, 2))
        most = (1 - 1 / folds) * errors / np.maximum(np.diag(noise), 1e-300)
        share = np.sqrt(np.minimum(1.0, most))
        return noise * np.outer(share, share)


@storable
@dataclass(frozen=True)
class ErrorSums:
    """Sums over held-out cells, by column, from which candidates' weights follow.

    Products of candidates' predictions with each other and with the cells, the cells' own squares,
    and how many cells there are. Sums of several tables add up.
    """

    grams: Float[np.ndarray, "d candidates candidates"]
    sides: Float[np.ndarray, "d candidates"]
    squares: Float[np.ndarray, " d"]
    cells: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, held_out: Sequence[HeldOut | None], count: int) -> ErrorSums:
        """Return the sums of a table's columns; zeros for those that nothing is known of."""
        d = len(held_out)
        grams, sides = np.zeros((d, count, count)), np.zeros((d, count))
        squares, cells = np.zeros(d), np.zeros(d)
        for k, held in enumerate(held_out):
            if held is not None:
                width = held.actual.shape[1]
                flat, actual = held.guesses.reshape(count, -1), held.actual.ravel()
                grams[k] = (flat @ flat.T - held.noise()) / width
                sides[k], squares[k] = flat @ actual / width, actual @ actual / width
                cells[k] = len(held.actual)
        return cls(grams, sides, squares, cells)

    def in_units_of_best(self) -> ErrorSums:
        """Return each column's sums in units of its best candidate's error."""
        errors = np.diagonal(self.grams, axis1=1, axis2=2) - 2 * self.sides
        errors = errors.min(axis=1) + self.squares
        best = np.maximum(errors / np.maximum(self.cells, 1.0), 1e-9)
        grams, sides = self.grams / best[:, None, None], self.sides / best[:, None]
        return ErrorSums(grams, sides, self.squares / best, self.cells)

    def common(self) -> ErrorSums:
        """Return, for every column, the mean over all columns' cells."""
        d, total = len(self.cells), max(self.cells.sum(), 1.0)
        means = (part.sum(axis=0) / total for part in (self.grams, self.sides, self.squares))
        grams, sides, squares = (np.repeat(part[None], d, axis=0) for part in means)
        return ErrorSums(grams, sides, squares, np.ones(d))

    def per_cell(self) -> ErrorSums:
        """Return the sums of each column over its number of cells."""
        cells = np.maximum(self.cells, 1.0)
        grams, sides = self.grams / cells[:, None, None], self.sides / cells[:, None]
        return ErrorSums(grams, sides, self.squares / cells, self.cells / cells)

    def plus(self, other: ErrorSums, share: float) -> ErrorSums:
        """Return these sums and a share of others."""
        pairs = zip(self.parts, other.parts, strict=True)
        return ErrorSums(*(here + share * there for here, there in pairs))

    @property
    def parts(self) -> tuple[np.ndarray, ...]:
        """The sums one after another."""
        return self.grams, self.sides, self.squares, self.cells

    def drawn_together(self) -> ErrorSums:
        """Return these sums in units of the best, drawn towards those of all columns together."""
        sums = self.in_units_of_best()
        return sums.plus(sums.common(), _COMMON)

    def weights(self) -> Float[np.ndarray, "d candidates"]:
        """Return each column's best nonnegative weights of sum one at most."""
        return np.stack([_simplex(g, b) for g, b in zip(self.grams, self.sides, strict=True)])


def blend_weights(
    held_out: Sequence[HeldOut | None], count: int
) -> Float[np.ndarray, "d candidates"]:
    """Return nonnegative weights of sum one at most, drawn towards those best for all columns."""
    return ErrorSums.of(held_out, count).drawn_together().weights()


def _simplex(gram: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Minimise w'Gw − 2b'w over nonnegative w of sum one at most."""
    from scipy.optimize import nnls

    size = float(np.trace(gram)) / len(gram)
    if size <= 0:
        return np.eye(len(gram))[0]
    # Less an estimate of noise, the Gram matrix of few cells need not be positive.
    values, vectors = np.linalg.eigh(gram)
    scales = np.sqrt(np.maximum(values, 0.0) + 1e-6 * size)
    root, goal = scales[:, None] * vectors.T, vectors.T @ side / scales
    weights, _ = nnls(root, goal)
    if weights.sum() > 1:
        heavy = 1e3 * np.sqrt(size)
        weights, _ = nnls(np.vstack([root, heavy * np.ones(len(gram))]), np.append(goal, heavy))
    return weights
