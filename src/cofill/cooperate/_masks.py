"""The Masked Weighting Method: how much of each source's guess goes into each feature.

Paper CRS, section IV-D. The weights of feature k minimise the squared error of
``Σ_j w_j x_j`` (Eq. 4–5), which depends on the guesses only through the Gram matrix of the sources
and its right-hand side, per feature. From these statistics come the gradient (Eq. 6–7), the
iteration (Eq. 8), the closed form that both converge to, the weights for every pattern of
available sources, and the update when rows arrive or a source leaves: none needs the rows again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import SettingError

__all__ = [
    "MaskStatistics",
    "by_gradient",
    "by_iteration",
    "closed_form",
    "closed_forms",
    "equal_weights",
]

_TRACE = 1e-9
_AT_ONCE = 256  # patterns solved together


@dataclass(frozen=True, eq=False)
class MaskStatistics:
    """Sums over rows from which masks are made; those of more rows are simply added.

    With errors ``e_j = x_j − y`` the Gram matrix of the guesses is ``E[e_j e_l] + E[e_j y] +
    E[e_l y] + E[y²]``. Kept apart like this, rows that lack some sources can be used without
    guesses of sources that never met being taken for independent parts of the truth: where two
    sources share no row, their errors are taken to be unrelated.

    Parameters
    ----------
    products
        Per feature, sum of ``e_j e_l`` over the rows that have both sources.
    pairs
        How many rows these are.
    cross
        Per feature, sum of ``e_j y`` over the rows that have the source.
    power, rows
        Per feature, sum of ``y²`` over all rows, and how many they are.
    """

    products: Float[np.ndarray, "features sources sources"]
    pairs: Float[np.ndarray, "features sources sources"]
    cross: Float[np.ndarray, "features sources"]
    power: Float[np.ndarray, " features"]
    rows: Float[np.ndarray, " features"]

    @classmethod
    def of(
        cls,
        guesses: Float[np.ndarray, "sources rows features"],
        truth: Float[np.ndarray, "rows features"],
        present: Bool[np.ndarray, "rows sources"] | None = None,
    ) -> MaskStatistics:
        """Sum up rows; NaN in `truth` is a cell not known, `present` says who guessed at all."""
        sources, rows, _ = guesses.shape
        there = np.ones((rows, sources), bool) if present is None else present
        known = ~np.isnan(truth)
        y = np.where(known, truth, 0.0).astype(np.float64)
        # (rows, sources, features): a guess counts where its source is there and the truth known.
        counts = (there[:, :, None] & known[:, None, :]).astype(np.float64)
        errors = np.where(counts > 0, guesses.transpose(1, 0, 2) - y[:, None, :], 0.0)
        return cls(
            np.einsum("rjf,rlf->fjl", errors, errors, optimize=True),
            np.einsum("rjf,rlf->fjl", counts, counts, optimize=True),
            np.einsum("rjf,rf->fj", errors, y, optimize=True),
            (y**2).sum(axis=0),
            known.sum(axis=0).astype(np.float64),
        )

    def __add__(self, other: MaskStatistics) -> MaskStatistics:
        """Return the statistics of the rows of both."""
        return MaskStatistics(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )

    def only(self, sources: Bool[np.ndarray, " sources"] | np.ndarray) -> MaskStatistics:
        """Return the statistics of some of the sources (a mask or positions)."""
        at = np.flatnonzero(sources) if np.asarray(sources).dtype == bool else np.asarray(sources)
        square = np.ix_(np.arange(len(self.pairs)), at, at)
        return MaskStatistics(
            self.products[square], self.pairs[square], self.cross[:, at], self.power, self.rows
        )

    @property
    def gram(self) -> Float[np.ndarray, "features sources sources"]:
        """Mean product of the guesses of two sources."""
        mean = self.cross / np.maximum(np.einsum("fjj->fj", self.pairs), 1)
        square = (self.power / np.maximum(self.rows, 1))[:, None, None]
        errors = self.products / np.maximum(self.pairs, 1)
        # Means over different rows need not fit together; drop what no set of rows could give.
        if self._is_ragged:
            errors = _semidefinite(errors)
        gram = errors + mean[:, :, None] + mean[:, None, :] + square
        return _semidefinite(gram) if self._is_ragged else gram

    @property
    def right(self) -> Float[np.ndarray, "features sources"]:
        """Mean product of a source's guess with the truth."""
        mean = self.cross / np.maximum(np.einsum("fjj->fj", self.pairs), 1)
        return mean + (self.power / np.maximum(self.rows, 1))[:, None]

    @property
    def _is_ragged(self) -> bool:
        return bool((self.pairs != self.rows[:, None, None]).any())

    def error_gradient(
        self, weights: Float[np.ndarray, "sources features"]
    ) -> Float[np.ndarray, "sources features"]:
        """Return the derivative of the error in each weight, Eq. 6."""
        return 2 * (np.einsum("fjl,lf->jf", self.gram, weights) - self.right.T)


def _semidefinite(matrices: np.ndarray) -> np.ndarray:
    """Return the nearest matrices without negative directions."""
    values, vectors = np.linalg.eigh(matrices)
    return np.einsum("fik,fk,fjk->fij", vectors, np.maximum(values, 0.0), vectors)


def equal_weights(sources: int, features: int) -> Float[np.ndarray, "sources features"]:
    """Return the weights to start from: 1/(N − 1) each, for N − 1 sources.

    Examples
    --------
    >>> equal_weights(2, 1).ravel()
    array([0.5, 0.5])
    """
    return np.full((sources, features), 1.0 / max(sources, 1))


def closed_form(
    statistics: MaskStatistics, *, ridge: float = 0.0
) -> Float[np.ndarray, "sources features"]:
    """Return the weights of least error, those of least norm where several are as good.

    Parameters
    ----------
    statistics
        Of the sources to weigh.
    ridge
        Pull towards equal weights, relative to the mean square of the guesses; 0 for none.

    Examples
    --------
    >>> guesses = np.array([[[1.0], [0.0], [2.0]], [[0.0], [1.0], [0.0]]])
    >>> closed_form(MaskStatistics.of(guesses, np.array([[1.0], [0.5], [2.0]]))).ravel().round(3)
    array([1. , 0.5])
    """
    gram = statistics.gram
    features, sources, _ = gram.shape
    start = equal_weights(sources, features)
    size = np.einsum("fjj->f", gram) / max(sources, 1)
    pulled = gram + ridge * size[:, None, None] * np.eye(sources)
    right = statistics.right + ridge * size[:, None] * start.T
    return np.einsum("fjl,fl->jf", np.linalg.pinv(pulled, hermitian=True, rcond=1e-10), right)


def closed_forms(
    statistics: MaskStatistics, patterns: Bool[np.ndarray, "patterns sources"]
) -> Float[np.ndarray, "patterns sources features"]:
    """Return the closed form for many patterns of available sources, zero for the absent ones.

    With thirty sources nearly every row has a pattern of its own; all their systems, each made of
    the same Gram matrix, are solved together.
    """
    gram, right = statistics.gram, statistics.right
    features, sources, _ = gram.shape
    size = np.einsum("fjj->f", gram) / max(sources, 1)
    # A trace of a pull to equal weights chooses among solutions that are as good.
    gram = gram + (_TRACE * np.where(size > 0, size, 1.0))[:, None, None] * np.eye(sources)
    made = np.empty((len(patterns), sources, features))
    for start in range(0, len(patterns), _AT_ONCE):
        there = patterns[start : start + _AT_ONCE].astype(np.float64)
        square = there[:, None, :, None] * there[:, None, None, :]
        absent = (1 - there)[:, None, :, None] * np.eye(sources)
        wanted = (right[None] * there[:, None, :])[..., None]
        solved = np.linalg.solve(gram[None] * square + absent, wanted)[..., 0]
        made[start : start + _AT_ONCE] = solved.transpose(0, 2, 1)
    return made


def by_gradient(
    statistics: MaskStatistics,
    *,
    learning_rate: float | None = None,
    threshold: float = 1e-6,
    max_iterations: int = 100_000,
) -> tuple[Float[np.ndarray, "sources features"], int]:
    """Descend from equal weights until the update is small (Eq. 6–7); also return the iterations.

    Parameters
    ----------
    statistics
        Of the sources to weigh.
    learning_rate
        ε of Eq. 7; half the inverse of each feature's largest eigenvalue when left out, which
        always converges.
    threshold
        Stop when the norm of the update of every feature is below it.
    max_iterations
        Stop at the latest after so many updates.
    """
    if learning_rate is not None and learning_rate <= 0:
        raise SettingError(f"learning_rate must be above 0, got {learning_rate}")
    gram, right = statistics.gram, statistics.right.T
    features, sources, _ = gram.shape
    weights = equal_weights(sources, features)
    if learning_rate is None:
        largest = np.linalg.eigvalsh(gram)[:, -1]
        rate = 0.5 / np.where(largest > 0, largest, 1.0)
    else:
        rate = np.full(features, learning_rate)
    for iteration in range(1, max_iterations + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            update = rate * 2 * (np.einsum("fjl,lf->jf", gram, weights) - right)  # Eq. 6
            weights = weights - update  # Eq. 7
        if not np.isfinite(weights).all():
            raise SettingError(
                f"learning_rate must be smaller for these guesses to converge, got {learning_rate}"
            )
        if np.linalg.norm(update, axis=0).max(initial=0.0) < threshold:
            return weights, iteration
    return weights, max_iterations


def by_iteration(
    statistics: MaskStatistics, *, threshold: float = 1e-8, max_iterations: int = 100_000
) -> tuple[Float[np.ndarray, "sources features"], int]:
    """Set each weight to its best value given the others until none moves (Eq. 8).

    The paper takes all other weights from the last round, which need not converge when three or
    more sources agree much; each weight is used here as soon as it is known, which converges to
    the same fixed point whenever there is one.
    """
    gram, right = statistics.gram, statistics.right
    features, sources, _ = gram.shape
    weights = equal_weights(sources, features)
    for iteration in range(1, max_iterations + 1):
        moved = 0.0
        for j in range(sources):
            square = gram[:, j, j]
            others = np.einsum("fl,lf->f", gram[:, j], weights) - square * weights[j]
            best = np.where(
                square > 0, (right[:, j] - others) / np.where(square > 0, square, 1), 0.0
            )
            moved = max(moved, float(np.abs(best - weights[j]).max(initial=0.0)))
            weights[j] = best
        if moved < threshold:
            return weights, iteration
    return weights, max_iterations
