"""Individuals on a plane, for a picture: where they lie, and nothing that names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.errors import DataError, SettingError
from cofill.views import Key

__all__ = ["PlaneMap", "plane_map"]

_FEW = 300  # individuals for whom exact t-SNE is the faster one


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Points on a plane.

    Attributes
    ----------
    points
        Coordinates of the individuals that were drawn.
    groups
        Their groups, where given.
    method
        ``"pca"`` or ``"tsne"``.
    explained
        Share of the variance that the plane shows; None for t-SNE, whose distances do not add up.
    """

    points: Float[np.ndarray, "drawn 2"]
    groups: Int[np.ndarray, " drawn"] | None
    method: str
    explained: float | None


def plane_map(
    codes: Any,
    groups: Any = None,
    *,
    method: str = "pca",
    sample: int | None = 5_000,
    perplexity: float | int = 30,
    seed: Key = 0,
) -> PlaneMap:
    """Lay individuals out on a plane by their codes, those alike near each other.

    Parameters
    ----------
    codes
        A row of numbers each, such as ``model.codes(rows)`` or probabilities of groups.
    groups
        The group of each, to colour the picture by.
    method
        ``"pca"``: the two directions of most variance, signs fixed so that maps can be compared.
        ``"tsne"``: van der Maaten and Hinton (2008), started from there; it shows who is near whom
        and not how far apart groups are.
    sample
        Draw at most so many, chosen by chance in random order, so that a place in the map does not
        tell the place in the data; None draws all, still in random order.
    perplexity
        Of t-SNE; lowered where there are too few individuals for it.
    seed
        Which are drawn.

    Examples
    --------
    >>> line = np.arange(12.0)[:, None] * np.array([[3.0, 4.0, 0.0]])
    >>> drawn = plane_map(line)
    >>> drawn.points.shape, round(drawn.explained, 3)
    ((12, 2), 1.0)
    """
    table = np.asarray(codes, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2:
        raise DataError(
            f"codes must be rows of numbers of at least two individuals, got shape {table.shape}"
        )
    if not np.isfinite(table).all():
        raise DataError("codes must be finite numbers, got others; complete the individuals first")
    if method not in ("pca", "tsne"):
        raise SettingError(f"method must be pca or tsne, got {method!r}")
    if sample is not None and sample < 2:
        raise SettingError(f"sample must be at least 2, got {sample}")
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    if labels is not None and labels.shape != (len(table),):
        raise DataError(
            f"groups must have one entry for each of {len(table)} codes, got {labels.shape}"
        )
    chosen = np.random.default_rng(seed).permutation(len(table))[:sample]
    points, explained = _principal(table, chosen)
    if method == "tsne":
        points, explained = _neighbour_embedding(table[chosen], points, perplexity, seed), None
    return PlaneMap(points, None if labels is None else labels[chosen], method, explained)


def _principal(table: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, float]:
    middle = table - table.mean(axis=0)
    values, vectors = np.linalg.eigh(middle.T @ middle)
    axes = vectors[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    points = middle[chosen] @ axes
    if points.shape[1] == 1:
        points = np.concatenate([points, np.zeros_like(points)], axis=1)
    total = float(values.sum())
    return points, float(values[-2:].sum() / total) if total > 0 else 1.0


def _neighbour_embedding(
    table: np.ndarray, start: np.ndarray, perplexity: float | int, seed: Key
) -> np.ndarray:
    from sklearn.manifold import TSNE

    spread = max(float(start.std(axis=0).max()), np.finfo(float).tiny)
    reach = min(float(perplexity), (len(table) - 1) / 3)
    number = int(np.random.default_rng(seed).integers(2**31))
    begin = (start / spread * 1e-4).astype(np.float32)
    embedding = TSNE(2, perplexity=reach, random_state=number).set_params(init=begin)
    if len(table) <= _FEW:
        embedding.set_params(method="exact")
    made = embedding.fit_transform(table.astype(np.float32))
    return np.asarray(made, dtype=np.float64)
