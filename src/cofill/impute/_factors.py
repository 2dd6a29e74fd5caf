"""A Gaussian of few factors, for wide tables: each row costs a small system, not one of its width.

Factor analysis by EM on known cells (Rubin & Thayer 1982, with holes): covariance ΛΛᵀ + Ψ. Means,
draws and the fill without each column are those of `Gaussian`, at n · width · factors² operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.impute._table import Encoding

_CELLS_AT_ONCE = 8_000_000
_MOST_FACTORS, _FEW_FACTORS = 40, 16
_RIDGES = (100.0, 30.0, 10.0, 3.0)
_STEPS = 30


@storable
@dataclass(frozen=True)
class Factors:
    """Mean, loadings and remaining variances of an encoded table."""

    mean: Float[np.ndarray, " width"]
    loadings: Float[np.ndarray, "width factors"]
    unique: Float[np.ndarray, " width"]
    strength: float = 0.0

    def fill(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the matrix with unknown cells at their conditional means."""
        filled = np.empty(matrix.shape)
        for rows, known, centred, _, scores in self._posterior(matrix):
            filled[rows] = np.where(known, centred, scores @ self.loadings.T) + self.mean
        return filled

    def variances(self, matrix: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the conditional variance of every unknown cell, 0 where it is known."""
        result = np.empty(matrix.shape)
        for rows, known, _, spread, _ in self._posterior(matrix):
            common = ((self.loadings @ spread) * self.loadings).sum(axis=2)
            result[rows] = np.where(known, 0.0, common + self.unique)
        return result

    def noise(
        self, matrix: Float[np.ndarray, "n width"], rng: np.random.Generator
    ) -> Float[np.ndarray, "n width"]:
        """Return draws of the unknown cells around their conditional means (Matheron's rule)."""
        common = rng.standard_normal((len(matrix), self.loadings.shape[1])) @ self.loadings.T
        drawn = common + rng.standard_normal(matrix.shape) * np.sqrt(self.unique) + self.mean
        return drawn - self.fill(np.where(np.isnan(matrix), np.nan, drawn))

    def fill_without_each(
        self, matrix: Float[np.ndarray, "n width"], encoding: Encoding
    ) -> Float[np.ndarray, "d n width"]:
        """Return, for each column, the filled matrix as if that column were unknown.

        Without block B the scores z move by −A Λ_Bᵀ (Ψ_B − Λ_B A Λ_Bᵀ)⁻¹ (x_B − Λ_B z).
        """
        filled = np.empty((len(encoding.columns), *matrix.shape), np.float32)
        for rows, known, centred, spread, scores in self._posterior(matrix):
            for k, column in enumerate(encoding.columns):
                part = self.loadings[column.place]
                reach = spread @ part.T
                room = np.diag(self.unique[column.place]) - part @ reach
                gap = np.linalg.solve(room, (centred[:, column.place] - scores @ part.T)[..., None])
                moved = scores - (reach @ gap)[..., 0] * known[:, [column.start]]
                means = moved @ self.loadings.T
                block = np.where(known, centred, means)
                block[:, column.place] = means[:, column.place]
                filled[k, rows] = block + self.mean
        return filled

    def _posterior(
        self, matrix: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield rows, what is known, centred cells, and the scores' covariances and means."""
        factors = self.loadings.shape[1]
        block = max(1, _CELLS_AT_ONCE // (factors**2 + matrix.shape[1]))
        products = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(-1, factors**2)
        products = products / self.unique[:, None]
        for start in range(0, len(matrix), block):
            rows = slice(start, start + block)
            known = ~np.isnan(matrix[rows])
            centred = np.where(known, matrix[rows] - self.mean, 0.0)
            precision = (known @ products).reshape(-1, factors, factors) + np.eye(factors)
            spread = np.linalg.inv(precision)
            scores = np.einsum("nij,nj->ni", spread, (centred / self.unique) @ self.loadings)
            yield rows, known, centred, spread, scores


def fit_factors(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    rng: np.random.Generator,
    *,
    few: bool = False,
) -> Factors:
    """Return the factors of an encoded table, their ridge chosen on rows left out.

    `few` takes fewer: for tables whose cells boosted trees see themselves.
    """
    most = _FEW_FACTORS if few else _MOST_FACTORS
    rows = rng.permutation(len(matrix))[:2_000]
    learn, test = rows[::2], rows[1::2][:300]
    known = ~np.isnan(matrix[test])
    errors = []
    for ridge in _RIDGES:
        if not len(test):
            break
        guess = analyse_factors(matrix[learn], ridge, steps=12, most=most).fill_without_each(
            matrix[test], encoding
        )
        error = 0.0
        for k, column in enumerate(encoding.columns):
            gaps = (guess[k] - matrix[test])[:, column.place]
            error += float((gaps[known[:, column.place]] ** 2).sum())
        errors.append(error)
    ridge = _RIDGES[int(np.argmin(errors))] if errors else _RIDGES[0]
    return analyse_factors(matrix, ridge, most=most)


def analyse_factors(
    matrix: Float[np.ndarray, "n width"],
    ridge: float,
    *,
    steps: int = _STEPS,
    most: int = _MOST_FACTORS,
) -> Factors:
    """Return factors fitted to the known cells; `ridge` draws loadings to zero."""
    n, width = matrix.shape
    known = ~np.isnan(matrix)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, matrix, 0.0).sum(axis=0) / (counts + 1)
    centred = np.where(known, matrix - mean, 0.0)
    factors = max(1, min(most, width // 2, n // 3))
    _, values, right = np.linalg.svd(centred[: 4 * _MOST_FACTORS * 10], full_matrices=False)
    scale = values[:factors] / np.sqrt(min(n, 40 * _MOST_FACTORS))
    model = Factors(mean, right[:factors].T * scale, np.full(width, 0.5), ridge)
    power = (centred**2).sum(axis=0)
    eye = np.eye(model.loadings.shape[1])
    for _ in range(steps):
        cross = np.zeros((width, eye.size))
        sides = np.zeros((width, len(eye)))
        for rows, here, _, spread, scores in model._posterior(matrix):
            second = spread + scores[:, :, None] * scores[:, None, :]
            cross += here.T.astype(np.float64) @ second.reshape(len(second), -1)
            sides += centred[rows].T @ scores
        grams = cross.reshape(width, *eye.shape)
        loadings = np.linalg.solve(grams + ridge * eye, sides[..., None])[..., 0]
        fitted = 2 * (loadings * sides).sum(axis=1)
        bent = np.einsum("wi,wij,wj->w", loadings, grams, loadings)
        unique = (power - fitted + bent + 0.05 * ridge) / (counts + ridge)
        model = Factors(mean, loadings, np.maximum(unique, 1e-4), ridge)
    return model
