"""Views of which a row has nothing: told by kernel regressions on what the row has of the others.

Where a table is too wide for a model of each column, rows that lack a whole view are still of one
kind: the same columns are told from the same others. For each view a few smoothers are fitted on
rows that have it, all its columns at once: ridge regression with a linear and with Gaussian kernels
of two widths, each column with the ridge that leaves out best, and the mean of the rows nearest in
the views that both have, which wins where there are many classes of few people. What each says of a
row without having seen it is known in closed form, and weighs them for each column. Other views are
hidden in these rows as they are where the view is really absent, and filled by the Gaussian, as
they will be then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.codec import storable
from cofill.impute._factors import Factors
from cofill.impute._gaussian import Gaussian
from cofill.impute._held_out import HeldOut, blend_weights
from cofill.impute._holes import companions
from cofill.impute._table import Encoding
from cofill.views import side_by_side

_RIDGES = np.logspace(-6, 2, 17)  # of a kernel whose diagonal is 1 on average
# Of kernels, of the median squared distance; 0 is linear. Compared with five widths, and nearest
# rows in filled cells with those in cells that both have, by errors left out on Multiple Features
# and on made-up classes, whose hidden rows were in view too: development sets.
_WIDTHS = (0.0, 0.2, 1.0)
_COUNTS = (2, 4, 8, 16, 32)  # nearest rows
_LEAST = 20  # rows that have a view, below which it is left to the Gaussian
_BLOCK = 2_000  # rows told at once
_KEPT = 200  # held-out rows of a view that intervals are learned from


@storable
@dataclass(frozen=True)
class KernelRidge:
    """Ridge regression on a kernel of the rows: linear where `width` is 0, else Gaussian."""

    width: float
    coefficients: Float[np.ndarray, "rows outputs"]

    @classmethod
    def fit(
        cls, kernel: Float[np.ndarray, "rows rows"], targets: np.ndarray, width: float
    ) -> tuple[KernelRidge, Float[np.ndarray, "rows outputs"]]:
        """Return the regression with each output's best ridge, and its predictions left out."""
        values, vectors = np.linalg.eigh(kernel)
        values = np.maximum(values, 0.0)
        rotated = vectors.T @ targets
        best = np.full(targets.shape[1], np.inf)
        coefficients, left_out = np.empty(targets.shape), np.empty(targets.shape)
        for ridge in _RIDGES * (float(np.trace(kernel)) / len(kernel) or 1.0):
            inverse = 1.0 / (values + ridge)
            dual = vectors @ (inverse[:, None] * rotated)
            apart = dual / ((vectors**2) @ inverse)[:, None]  # truth minus prediction without it
            errors = (apart**2).sum(axis=0)
            better = errors < best
            best[better] = errors[better]
            coefficients[:, better] = dual[:, better]
            left_out[:, better] = (targets - apart)[:, better]
        return cls(width, coefficients.astype(np.float32)), left_out


@storable
@dataclass(frozen=True)
class AbsentView:
    """How the columns ``start`` to ``stop`` of a matrix are told where a row has none of them.

    ``others`` are the other views' columns in the table. Rows are compared without the view, in
    ``units`` in which the others count alike whatever their width.
    """

    start: int
    stop: int
    others: tuple[tuple[int, int], ...]
    units: Float[np.ndarray, " others"]
    centre: Float[np.ndarray, " outputs"]
    kernels: tuple[KernelRidge, ...]
    nearest: NearestRows
    weights: Float[np.ndarray, "outputs smoothers"]

    def predict(
        self, filled: Float[np.ndarray, "n width"], known: Bool[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n outputs"]:
        """Return the view's columns for rows that the Gaussian has filled, and what was known."""
        shown = present_views(known, self.others)
        blocks = [np.empty((0, self.stop - self.start))]
        for start in range(0, len(filled), _BLOCK):
            part = slice(start, start + _BLOCK)
            inputs = others_of(filled[part], self.start, self.stop) * self.units
            products, distances = compare(inputs, self.nearest.rows)
            guesses = [
                kernel_of(products, distances, k.width) @ k.coefficients for k in self.kernels
            ]
            guesses.append(self.nearest.means(inputs, shown[part], (self.nearest.count,))[0])
            blocks.append(np.einsum("oc,cno->no", self.weights, np.stack(guesses)))
        return np.concatenate(blocks) + self.centre


@storable
@dataclass(frozen=True)
class NearestRows:
    """The mean of the rows most alike in the views that both have, nearer ones weighing more.

    ``starts`` are the first columns of the other views in a row.
    """

    rows: Float[np.ndarray, "rows others"]
    shown: Bool[np.ndarray, "rows views"]
    cells: Float[np.ndarray, "rows outputs"]
    starts: Int[np.ndarray, " views"]
    count: int = 0

    def means(
        self,
        inputs: Float[np.ndarray, "n others"],
        shown: Bool[np.ndarray, "n views"],
        counts: Sequence[int],
        *,
        inside: bool = False,
    ) -> list[Float[np.ndarray, "n outputs"]]:
        """Return means over each number of rows; `inside` leaves a row itself out."""
        distances = self._distances(inputs, shown)
        if inside:
            np.fill_diagonal(distances, np.inf)
        most = min(max(counts), len(self.rows) - inside)
        nearest = np.argpartition(distances, most - 1, axis=1)[:, :most]
        near = np.take_along_axis(distances, nearest, axis=1)
        order = np.argsort(near, axis=1)
        nearest = np.take_along_axis(nearest, order, axis=1)
        weights = 1 / (np.sqrt(np.take_along_axis(near, order, axis=1)) + 1e-3)
        means = []
        for count in counts:
            shares = weights[:, :count] / weights[:, :count].sum(axis=1, keepdims=True)
            means.append(np.einsum("nk,nko->no", shares, self.cells[nearest[:, :count]]))
        return means

    def _distances(self, inputs: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Return squared distances over the views that both rows have, per view."""
        left, right = (self._masked(x, s) for x, s in ((inputs, shown), (self.rows, self.shown)))
        sums = [np.add.reduceat(x**2, self.starts, axis=1) for x in (left, right)]
        mine, theirs = shown.astype(np.float32), self.shown.astype(np.float32)
        apart = sums[0] @ theirs.T + mine @ sums[1].T - 2 * left @ right.T
        both = mine @ theirs.T
        far = np.float32(1e9)  # nothing in common
        return np.where(both > 0, np.maximum(apart, 0.0) / np.maximum(both, 1.0), far)

    def _masked(self, rows: np.ndarray, shown: np.ndarray) -> np.ndarray:
        widths = np.diff(np.append(self.starts, rows.shape[1]))
        return np.where(np.repeat(shown, widths, axis=1), rows, np.float32(0.0))


def present_views(
    known: Bool[np.ndarray, "n d"], views: Sequence[tuple[int, int]]
) -> Bool[np.ndarray, "n views"]:
    """Return of which views a row has something."""
    return np.stack([known[:, start:stop].any(axis=1) for start, stop in views], axis=1)


def others_of(filled: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Return filled rows without a view's columns."""
    return np.hstack([filled[:, :start], filled[:, stop:]]).astype(np.float32)


def compare(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return products and squared distances of rows with rows."""
    products = (left @ right.T).astype(np.float64)
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return products, np.maximum(squares - 2 * products, 0.0)


def kernel_of(products: np.ndarray, distances: np.ndarray, width: float) -> np.ndarray:
    """Return the linear kernel (width 0), or the Gaussian one."""
    return products if width == 0 else np.exp(-distances / (2 * width))


def fit_absent_views(
    matrix: Float[np.ndarray, "n width"],
    encoding: Encoding,
    gaussian: Gaussian | Factors,
    views: Sequence[tuple[int, int]],
    *,
    most: int,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> tuple[tuple[AbsentView, ...], list[HeldOut | None]]:
    """Return a model of each view that enough rows have, and what it said of rows left out.

    ``views`` are the columns of the table that each view takes; `most` rows are learned from.
    """
    known = encoding.known(matrix)
    present = present_views(known, views)
    held_out: list[HeldOut | None] = [None] * len(encoding.columns)
    models = []
    for v, (start, stop) in enumerate(views):
        rows = np.flatnonzero(known[:, start:stop].all(axis=1) & (present.sum(axis=1) > 1))
        if len(rows) >= _LEAST:
            if len(rows) > most:
                rows = np.sort(rng.choice(rows, most, replace=False))
            hidden = companions(present, v, rng)
            shown = known[rows].copy()
            shown[:, start:stop] = False
            if hidden is not None:
                sizes = [b - a for a, b in views]
                shown &= ~np.repeat(hidden[rows], sizes, axis=1)
            filled = gaussian.fill(np.where(encoding.spread_out(shown), matrix[rows], np.nan))
            model, held = _fit_view(filled, matrix[rows], shown, encoding, (start, stop), views)
            models.append(model)
            some = rng.choice(len(rows), min(len(rows), _KEPT), replace=False)
            held_out[start:stop] = [one.some(some) for one in held]
        progress((v + 1) / len(views))
    return tuple(models), held_out


def _fit_view(
    filled: np.ndarray,
    matrix: np.ndarray,
    shown: np.ndarray,
    encoding: Encoding,
    view: tuple[int, int],
    views: Sequence[tuple[int, int]],
) -> tuple[AbsentView, list[HeldOut]]:
    """Return a view's smoothers, weighed, and for each column what they said of rows left out."""
    columns = encoding.columns[view[0] : view[1]]
    start, stop = columns[0].start, columns[-1].stop
    others = tuple(other for other in views if other != view)
    # A wide view would drown the others: all count alike.
    sizes = [encoding.columns[b - 1].stop - encoding.columns[a].start for a, b in others]
    units = np.repeat(1 / np.sqrt(sizes), sizes).astype(np.float32)
    inputs = others_of(filled, start, stop) * units
    targets = matrix[:, start:stop]
    centre = targets.mean(axis=0)
    centred = targets - centre
    products, distances = compare(inputs, inputs)
    unit = float(np.median(distances)) or 1.0
    kernels, left_out = [], []
    for width in _WIDTHS:
        kernel = kernel_of(products, distances, width * unit)
        model, predicted = KernelRidge.fit(kernel, centred, width * unit)
        kernels.append(model)
        left_out.append(predicted)
    starts = np.array([begin for begin, _ in side_by_side(sizes)])
    present = present_views(shown, others)
    nearest = NearestRows(inputs, present, centred.astype(np.float32), starts)
    means = nearest.means(inputs, present, _COUNTS, inside=True)
    best = int(np.argmin([((mean - centred) ** 2).sum() for mean in means]))
    guesses = np.stack([*left_out, means[best]])

    def held(guesses: np.ndarray, actual: np.ndarray) -> list[HeldOut]:
        """Return each column's part; what is known of a row is all that tells how far it is off."""
        return [
            HeldOut(
                actual[:, at], guesses[:, :, at], filled[:, :0], shown, guesses[None, :, :0, at]
            )
            for at in (slice(c.start - start, c.stop - start) for c in columns)
        ]

    weights = blend_weights(held(guesses, centred), len(guesses))
    weights = np.repeat(weights, [c.stop - c.start for c in columns], axis=0)
    blended = np.einsum("oc,cno->no", weights, guesses) + centre
    model = AbsentView(
        start,
        stop,
        others,
        units,
        centre,
        tuple(kernels),
        replace(nearest, count=_COUNTS[best]),
        weights,
    )
    return model, held(blended[None], targets)
