"""The Masked Weighting Method: how much of each source's output goes into each feature.

Paper CRS, section IV-D. The weights of feature k minimise the squared error of
``Σ_j w_j x_j`` (Eq. 4–5), which depends on the outputs only through the Gram matrix of the sources
and its right-hand side, per feature. From these statistics come the gradient (Eq. 6–7), the
iteration (Eq. 8), the closed form that both converge to, the weights for every pattern of
available sources, and the update when rows arrive or a source leaves: none needs the rows again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable

Masks = Float[np.ndarray, "sources features"]

_PULL = 1e-9  # to equal weights; only decides where several masks are equally good
_LEAST_EIGENVALUE = 0.02  # of correlations from different rows
_SMALL_UPDATE, _SMALL_MOVE = 1e-6, 1e-8  # at which descent and iteration have converged
_PATTERNS_AT_ONCE = 256
_ROWS_AT_ONCE = 1 << 15  # larger temporary arrays cost more than the sums


@storable
@dataclass(frozen=True, eq=False)
class MaskStatistics:
    """Sums over rows from which masks are made; those of more rows are simply added.

    Where every row has every source the Gram matrix of the outputs is their sum of products. Where
    rows lack some sources, each entry comes from the rows that can give it, and entries from
    different rows need not fit together: heavy tails alone make sums of squares over two sets of
    rows differ by far, and weights that play off such differences are without bounds. So every
    source is measured against the truth of its own rows, two sources by their correlation on the
    rows that have both, and the correlations are shrunk until no direction is left that some rows
    could not have. Sources that never met are taken to err independently.

    Parameters
    ----------
    products, squares, pairs
        Per feature, sums of ``x_j x_l`` and of ``x_j²`` over the rows that have both sources j and
        l, and how many rows these are.
    cross, truths
        Per feature, sums of ``x_j y`` and of ``y²`` over the rows that have the source.
    power, rows
        Per feature, sum of ``y²`` over all rows, and how many they are.
    """

    products: Float[np.ndarray, "features sources sources"]
    squares: Float[np.ndarray, "features sources sources"]
    pairs: Float[np.ndarray, "features sources sources"]
    cross: Float[np.ndarray, "features sources"]
    truths: Float[np.ndarray, "features sources"]
    power: Float[np.ndarray, " features"]
    rows: Float[np.ndarray, " features"]

    @classmethod
    def of(
        cls,
        outputs: Float[np.ndarray, "sources rows features"],
        truth: Float[np.ndarray, "rows features"],
        present: Bool[np.ndarray, "rows sources"] | None = None,
    ) -> MaskStatistics:
        """Return the sums over rows; NaN in `truth` is an unknown cell, `present` who predicts."""
        sources, rows, _ = outputs.shape
        if present is None:
            present = np.ones((rows, sources), bool)
        if rows > _ROWS_AT_ONCE:
            parts = [slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE)]
            return reduce(add, (cls.of(outputs[:, at], truth[at], present[at]) for at in parts))
        known = ~np.isnan(truth)
        y = np.where(known, truth, 0.0).astype(np.float64)
        # (rows, sources, features): an output counts where there is one and the truth is known.
        counts = (present[:, :, None] & known[:, None, :]).astype(np.float64)
        x = np.where(counts > 0, outputs.transpose(1, 0, 2), 0.0)
        return cls(
            np.einsum("rjf,rlf->fjl", x, x, optimize=True),
            np.einsum("rjf,rlf->fjl", x**2, counts, optimize=True),
            np.einsum("rjf,rlf->fjl", counts, counts, optimize=True),
            np.einsum("rjf,rf->fj", x, y, optimize=True),
            np.einsum("rjf,rf->fj", counts, y**2, optimize=True),
            (y**2).sum(axis=0),
            known.sum(axis=0).astype(np.float64),
        )

    def __add__(self, other: MaskStatistics) -> MaskStatistics:
        """Return the statistics of the rows of both."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return MaskStatistics(*(mine + theirs for mine, theirs in pairs))

    def only(self, sources: Bool[np.ndarray, " sources"] | np.ndarray) -> MaskStatistics:
        """Return the statistics of some of the sources (a mask or positions)."""
        at = np.flatnonzero(sources) if np.asarray(sources).dtype == bool else np.asarray(sources)
        square = np.ix_(np.arange(len(self.pairs)), at, at)
        products, squares, pairs = self.products[square], self.squares[square], self.pairs[square]
        cross, truths = self.cross[:, at], self.truths[:, at]
        return MaskStatistics(products, squares, pairs, cross, truths, self.power, self.rows)

    @property
    def gram(self) -> Float[np.ndarray, "features sources sources"]:
        """Mean product of the outputs of two sources."""
        if not self._is_ragged:
            return self.products / np.maximum(self.rows, 1)[:, None, None]
        size = np.sqrt(np.einsum("fjj->fj", self.squares) / self._truth_power)
        both = np.sqrt(self.squares * self.squares.transpose(0, 2, 1))
        together = self.products / np.where(both > 0, both, 1.0)
        # x = y + e with unrelated errors: E[x_j x_l] = E[x_j y] + E[x_l y] − E[y²].
        agreement = self.cross / self._truth_power
        apart = agreement[:, :, None] + agreement[:, None, :] - 1.0
        sizes = size[:, :, None] * size[:, None, :]
        apart = np.clip(apart / np.where(sizes > 0, sizes, 1.0), -1.0, 1.0)
        together = _shrink(np.where(self.pairs > 0, together, apart))
        return together * sizes * self._scale[:, None, None]

    @property
    def right(self) -> Float[np.ndarray, "features sources"]:
        """Mean product of a source's output with the truth."""
        if not self._is_ragged:
            return self.cross / np.maximum(self.rows, 1)[:, None]
        return self.cross / self._truth_power * self._scale[:, None]

    @property
    def _truth_power(self) -> Float[np.ndarray, "features sources"]:
        """Sum of squares of the truth on the rows of each source."""
        return np.where(self.truths > 0, self.truths, 1.0)

    @property
    def _scale(self) -> Float[np.ndarray, " features"]:
        return self.power / np.maximum(self.rows, 1)

    @property
    def _is_ragged(self) -> bool:
        return bool((self.pairs != self.rows[:, None, None]).any())


def _shrink(correlations: np.ndarray) -> np.ndarray:
    """Return correlations pulled towards none until no eigenvalue is too small."""
    unit = np.eye(correlations.shape[-1])
    correlations = np.where(unit > 0, 1.0, correlations)
    least = np.linalg.eigvalsh(correlations)[:, :1, None]
    share = (_LEAST_EIGENVALUE - least) / np.maximum(1.0 - least, _LEAST_EIGENVALUE)
    share = np.clip(share, 0.0, 1.0)
    return (1 - share) * correlations + share * unit


def equal_masks(sources: int, features: int) -> Masks:
    """Return the weights to start from: 1/(N − 1) each, for N − 1 sources."""
    return np.full((sources, features), 1.0 / max(sources, 1))


def masks_in_closed_form(statistics: MaskStatistics) -> Masks:
    """Return the weights of least error, those of least norm where several are as good.

    Examples
    --------
    >>> outputs = np.array([[[1.0], [0.0], [2.0]], [[0.0], [1.0], [0.0]]])
    >>> statistics = MaskStatistics.of(outputs, np.array([[1.0], [0.5], [2.0]]))
    >>> masks_in_closed_form(statistics).ravel().round(3)
    array([1. , 0.5])
    """
    inverse = np.linalg.pinv(statistics.gram, hermitian=True, rcond=1e-10)
    return np.einsum("fjl,fl->jf", inverse, statistics.right)


def masks_for_patterns(
    statistics: MaskStatistics, patterns: Bool[np.ndarray, "patterns sources"]
) -> Float[np.ndarray, "patterns sources features"]:
    """Return the closed form for many patterns of available sources, zero for the absent ones.

    With thirty sources nearly every row has a pattern of its own; all their systems, each made of
    the same Gram matrix, are solved together.
    """
    gram, right = statistics.gram, statistics.right
    features, sources, _ = gram.shape
    size = np.einsum("fjj->f", gram) / max(sources, 1)
    gram = gram + (_PULL * np.where(size > 0, size, 1.0))[:, None, None] * np.eye(sources)
    masks = np.empty((len(patterns), sources, features))
    for start in range(0, len(patterns), _PATTERNS_AT_ONCE):
        present = patterns[start : start + _PATTERNS_AT_ONCE].astype(np.float64)
        pairs = present[:, None, :, None] * present[:, None, None, :]
        absent = (1 - present)[:, None, :, None] * np.eye(sources)
        right_sides = (right[None] * present[:, None, :])[..., None]
        solved = np.linalg.solve(gram[None] * pairs + absent, right_sides)[..., 0]
        masks[start : start + _PATTERNS_AT_ONCE] = solved.transpose(0, 2, 1)
    return masks


def masks_by_gradient(
    statistics: MaskStatistics, *, max_iterations: int = 100_000
) -> tuple[Masks, int]:
    """Return the masks to which descent from equal weights leads (Eq. 6–7), and its iterations.

    Descent stops when the norm of the update of every feature is small.
    """
    gram, right = statistics.gram, statistics.right
    features, sources, _ = gram.shape
    weights = equal_masks(sources, features)
    # ε of Eq. 7: with half the inverse of the largest eigenvalue descent always converges.
    largest = np.linalg.eigvalsh(gram)[:, -1]
    rate = 0.5 / np.where(largest > 0, largest, 1.0)
    for iteration in range(1, max_iterations + 1):
        update = rate * _error_gradient(gram, right, weights)
        weights = weights - update  # Eq. 7
        if np.linalg.norm(update, axis=0).max(initial=0.0) < _SMALL_UPDATE:
            return weights, iteration
    return weights, max_iterations


def _error_gradient(gram: np.ndarray, right: np.ndarray, weights: Masks) -> Masks:
    """Return the derivative of the error in each weight, Eq. 6."""
    return 2 * (np.einsum("fjl,lf->jf", gram, weights) - right.T)


def masks_by_iteration(
    statistics: MaskStatistics, *, max_iterations: int = 100_000, at_once: bool = False
) -> tuple[Masks, int]:
    """Return the masks when no weight moves given the others (Eq. 8), and the iterations.

    The paper takes all other weights from the last round (``at_once``), which need not converge
    when three or more sources agree much. By default each weight is used as soon as it is known,
    which converges to the same fixed point whenever there is one.
    """
    gram, right = statistics.gram, statistics.right
    features, sources, _ = gram.shape
    weights = equal_masks(sources, features)
    for iteration in range(1, max_iterations + 1):
        before = weights.copy()
        others = before if at_once else weights
        for j in range(sources):
            square = gram[:, j, j]
            rest = np.einsum("fl,lf->f", gram[:, j], others) - square * others[j]
            weights[j] = np.where(
                square > 0, (right[:, j] - rest) / np.where(square > 0, square, 1), 0.0
            )
        if float(np.abs(weights - before).max(initial=0.0)) < _SMALL_MOVE:
            return weights, iteration
    return weights, max_iterations
