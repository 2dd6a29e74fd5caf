"""Conditional Gaussian: mean and covariance by EM, then every cell given the known ones of its row.

Dempster, Laird & Rubin (1977) with an inverse-Wishart prior: the covariance is drawn towards the
identity by `strength` imaginary rows, chosen by how well known cells are told from the others in
rows left out. Closed form for every pattern of holes: the strongest candidate where little is
known, and the filler of the inputs on which trees learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._table import Encoding

_CELLS_AT_ONCE = 4_000_000  # of the patterns' matrices: 32 MiB
STRENGTHS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
_STEPS, STILL = 40, 1e-3
TELLING = 1e-3  # squared error below which a column counts as told


@dataclass(frozen=True)
class Moments:
    """Rows counted, summed and multiplied with themselves: all that EM needs of a table."""

    count: float
    total: Float[np.ndarray, " width"]
    products: Float[np.ndarray, "width width"]

    def gaussian(self, strength: float) -> Gaussian:
        """Return mean and covariance under `strength` imaginary unit rows."""
        mean = self.total / (self.count + 1)
        cross = np.outer(mean, self.total)
        scatter = self.products - cross - cross.T + self.count * np.outer(mean, mean)
        weight = self.count + strength
        return Gaussian(mean, (scatter + strength * np.eye(len(mean))) / weight, strength)


@storable
@dataclass(frozen=True)
class Gaussian:
    """Mean and covariance of an encoded table."""

    mean: Float[np.ndarray, " width"]
    covariance: Float[np.ndarray, "width width"]
    strength: float = 0.0

    def fill(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the matrix with unknown cells at their conditional means."""
        filled = np.empty(matrix.shape)
        for rows, known, centred, precision in self._patterns(matrix):
            weights = _apply(precision, centred)
            filled[rows] = np.where(known, centred, weights @ self.covariance) + self.mean
        return filled

    def variances(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the conditional variance of every unknown cell, 0 where it is known."""
        result = np.empty(matrix.shape)
        for rows, known, _, precision in self._patterns(matrix):
            explained = np.einsum(
                "wi,nij,jw->nw", self.covariance, precision, self.covariance, optimize=True
            )
            spare = np.maximum(np.diag(self.covariance) - explained, 1e-9)
            result[rows] = np.where(known, 0.0, spare)
        return result

    def noise(
        self, matrix: Float[np.ndarray, "n width"], rng: np.random.Generator
    ) -> Float[np.ndarray, "n width"]:
        """Return draws of the unknown cells around their conditional means (Matheron's rule)."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = rng.standard_normal(matrix.shape) @ root.T + self.mean
        return drawn - self.fill(np.where(np.isnan(matrix), np.nan, drawn))

    def fill_without_each(
        self, matrix: Float[np.ndarray, "n width"], encoding: Encoding
    ) -> Float[np.ndarray, "d n width"]:
        """Return, for each column, the filled matrix as if that column were unknown."""
        return self.leave_out_each(matrix, encoding)[0]

    def leave_out_each(
        self, matrix: Float[np.ndarray, "n width"], encoding: Encoding
    ) -> tuple[Float[np.ndarray, "d n width"], Float[np.ndarray, "d n"]]:
        """Return the matrix filled without each column, and how far off the other cells are.

        With K the regression of unknown on known cells and P the precision of the known ones,
        hiding block B moves a mean by −K_B P_BB⁻¹ (P x)_B: no further inverse for each column.
        Distances are squared Mahalanobis distances of what else is known of a row.
        """
        filled = np.empty((len(encoding.columns), *matrix.shape), np.float32)
        distances = np.empty(filled.shape[:2])
        for rows, known, centred, precision in self._patterns(matrix, grouped=False):
            weights = _apply(precision, centred)
            means = np.where(known, centred, weights @ self.covariance)
            slopes = self.covariance @ precision
            whole = (weights * centred).sum(axis=1)
            for k, column in enumerate(encoding.columns):
                place = column.place
                corner = precision[:, place, place] + np.eye(column.stop - column.start) * 1e-12
                here = known[:, column.start]
                corner[~here] = np.eye(column.stop - column.start)
                gap = np.linalg.solve(corner, weights[:, place, None])[..., 0]
                gap[~here] = 0.0
                moved = means - np.where(known, 0.0, _apply(slopes[:, :, place], gap))
                moved[:, place] = means[:, place] - gap
                filled[k, rows] = moved + self.mean
                distances[k, rows] = whole - (weights[:, place] * gap).sum(axis=1)
        return filled, distances

    def distances(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, " n"]:
        """Return the squared Mahalanobis distance of what is known of each row."""
        result = np.empty(len(matrix))
        for rows, _, centred, precision in self._patterns(matrix):
            result[rows] = (_apply(precision, centred) * centred).sum(axis=1)
        return result

    def expected_sums(self, matrix: Float[np.ndarray, "n width"]) -> Moments:
        """Return the sums that EM's next step needs, with unknown cells as this Gaussian expects.

        They add up: the moments of two tables together are the sums of each one's.
        """
        filled, spare = np.empty(matrix.shape), np.zeros(self.covariance.shape)
        for rows, known, centred, precision in self._patterns(matrix):
            weights = _apply(precision, centred)
            filled[rows] = np.where(known, centred, weights @ self.covariance) + self.mean
            unknown = (~known).astype(np.float64)
            left = self.covariance - self.covariance @ precision @ self.covariance
            if len(precision) == len(known):
                spare += np.einsum("nij,ni,nj->ij", left, unknown, unknown, optimize=True)
            else:
                spare += len(known) * left[0] * np.outer(unknown[0], unknown[0])
        return Moments(float(len(matrix)), filled.sum(axis=0), filled.T @ filled + spare)

    def _patterns(
        self, matrix: np.ndarray, *, grouped: bool = True
    ) -> Iterator[tuple[np.ndarray | slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield rows, what is known of them, centred cells and the precision of the known ones.

        Rows come by pattern where patterns repeat, so that each is inverted once; else in blocks.
        """
        width = matrix.shape[1]
        every = ~np.isnan(matrix)
        block = max(1, _CELLS_AT_ONCE // width**2)
        if grouped:
            packed, which = np.unique(np.packbits(every, axis=1), axis=0, return_inverse=True)
            if len(packed) * 4 < len(matrix):
                order = np.argsort(which, kind="stable")
                ends = np.cumsum(np.bincount(which))
                for start, end in zip(np.r_[0, ends[:-1]], ends, strict=True):
                    rows = order[start:end]
                    known = every[rows]
                    precision = self._precision(known[:1])
                    yield rows, known, np.where(known, matrix[rows] - self.mean, 0.0), precision
                return
        for start in range(0, len(matrix), block):
            rows = slice(start, start + block)
            known = every[rows]
            centred = np.where(known, matrix[rows] - self.mean, 0.0)
            yield rows, known, centred, self._precision(known)

    def _precision(self, known: np.ndarray) -> np.ndarray:
        """Inverse of the known block of the covariance, zero elsewhere, one for each pattern."""
        both = known[:, :, None] & known[:, None, :]
        padded = np.where(both, self.covariance, 0.0)
        at = np.arange(known.shape[1])
        padded[:, at, at] += ~known
        return np.linalg.inv(padded) * both


def fit_gaussian(
    matrix: Float[np.ndarray, "n width"], encoding: Encoding, rng: np.random.Generator
) -> Gaussian:
    """Return the Gaussian of an encoded table, its prior chosen on rows left out."""
    strength = choose_strength(matrix, encoding, rng)
    return expectation_maximisation(matrix, strength)


def expectation_maximisation(
    matrix: Float[np.ndarray, "n width"],
    strength: float,
    *,
    steps: int = _STEPS,
    start: Gaussian | None = None,
) -> Gaussian:
    """Return the posterior mode of mean and covariance under `strength` imaginary unit rows."""
    width = matrix.shape[1]
    model = start or Gaussian(np.zeros(width), np.eye(width))
    for _ in range(steps):
        before, model = model, model.expected_sums(matrix).gaussian(strength)
        if np.abs(model.covariance - before.covariance).max() < STILL:
            break
    return model


def choose_strength(
    matrix: Float[np.ndarray, "n width"], encoding: Encoding, rng: np.random.Generator
) -> float:
    """Return the prior under which known cells of rows left out are told best from the others."""
    rows = rng.permutation(len(matrix))[:1_500]
    halves = rows[::2], rows[1::2]
    if not len(halves[1]):
        return STRENGTHS[0]
    errors = np.full((len(STRENGTHS), len(encoding.columns)), TELLING * len(rows))
    for fitted, scored in (halves, halves[::-1]):
        model = None
        actual = matrix[scored]
        known = ~np.isnan(actual)
        for s, strength in enumerate(STRENGTHS):
            model = expectation_maximisation(matrix[fitted], strength, steps=8, start=model)
            guess = model.fill_without_each(actual, encoding)
            for k, column in enumerate(encoding.columns):
                gaps = (guess[k] - actual)[:, column.place]
                errors[s, k] += (gaps[known[:, column.place]] ** 2).sum()
    # In units of each column's least error: a column that nothing tells would drown the others.
    return STRENGTHS[int(np.argmin((errors / errors.min(axis=0)).sum(axis=1)))]


def inflation(distance: np.ndarray, learned: float) -> np.ndarray:
    """Return by how much a row's error grows when the Gaussian is fitted without the row.

    The residual of a regression is e / (1 − h) without its row; among Gaussian rows the leverage h
    is the squared distance of the other cells over the number of rows.
    """
    return 1.0 / np.maximum(1.0 - distance / learned, 0.1)


def _apply(matrices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Multiply every row by its own matrix, or all by the one there is."""
    if len(matrices) == 1:
        return rows @ matrices[0].T
    return np.einsum("nij,nj->ni", matrices, rows)
