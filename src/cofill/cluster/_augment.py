"""Partners that must share a row's group: small warps of images, steps towards neighbours else.

A warp moves every pixel by an affine map (rotation, zoom, shear, shift) and a smooth random field,
different for each image, and reads the image at the new positions by bilinear interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cofill.nets import require_at_least

_FIELD = 4  # points a side of the smooth field
_REFERENCE = 20_000  # rows among which neighbours are looked for


@dataclass(frozen=True)
class WarpSettings:
    """How far images are warped at most; each is drawn evenly between − and +.

    Parameters
    ----------
    rotation
        In degrees.
    shift
        As a share of the image's height and width.
    zoom, shear
        0.1 is ten percent.
    elastic
        Standard deviation of the smooth field, as a share of the height.
    """

    rotation: float | int = 15
    shift: float | int = 0.07
    zoom: float | int = 0.15
    shear: float | int = 0.2
    elastic: float | int = 0.0

    def __post_init__(self) -> None:
        require_at_least(self, **dict.fromkeys(vars(self), 0))


def warp(
    key: Array, images: Float[Array, "n channels h w"], settings: WarpSettings
) -> Float[Array, "n channels h w"]:
    """Return every image under a small random warp; pixels beyond the edge repeat the edge."""
    n, _, h, w = images.shape
    drawn = jax.random.uniform(key, (6, n, 1, 1), minval=-1.0, maxval=1.0)
    angle = drawn[0] * np.deg2rad(settings.rotation)
    zoom = jnp.exp(drawn[1:3] * settings.zoom)
    down, right = jnp.meshgrid(
        jnp.arange(h) - (h - 1) / 2, jnp.arange(w) - (w - 1) / 2, indexing="ij"
    )
    leaning = right + drawn[3] * settings.shear * down
    sine, cosine, shift = jnp.sin(angle), jnp.cos(angle), settings.shift
    row = (cosine * down - sine * leaning) * zoom[0] + drawn[4] * (shift * h)
    column = (sine * down + cosine * leaning) * zoom[1] + drawn[5] * (shift * w)
    if settings.elastic:
        coarse = jax.random.normal(jax.random.fold_in(key, 1), (n, 2, _FIELD, _FIELD))
        smooth = jax.image.resize(coarse * (settings.elastic * h), (n, 2, h, w), "cubic")
        row, column = row + smooth[:, 0], column + smooth[:, 1]
    return _read(images, row + (h - 1) / 2, column + (w - 1) / 2)


def _read(images: Array, row: Float[Array, "n h w"], column: Float[Array, "n h w"]) -> Array:
    # Bilinear: the four pixels around each position.
    n, channels, h, w = images.shape
    row, column = jnp.clip(row, 0, h - 1), jnp.clip(column, 0, w - 1)
    top = jnp.minimum(row.astype(jnp.int32), max(h - 2, 0))
    left = jnp.minimum(column.astype(jnp.int32), max(w - 2, 0))
    below, beside = (row - top)[:, None], (column - left)[:, None]
    flat = images.reshape(n, channels, h * w)
    corner = (top * w + left).reshape(n, 1, h * w)

    def at(step: int) -> Array:
        index = jnp.minimum(corner + step, h * w - 1)
        return jnp.take_along_axis(flat, index, axis=2).reshape(images.shape)

    upper = (1 - beside) * at(0) + beside * at(1)
    lower = (1 - beside) * at(w) + beside * at(w + 1)
    return (1 - below) * upper + below * lower


def neighbours(
    rows: Float[np.ndarray, "n d"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, "n some"]:
    """Return the numbers of each row's nearest other rows at the site."""
    from sklearn.neighbors import NearestNeighbors

    n = len(rows)
    if n == 1:
        return np.zeros((1, 1), np.int32)
    chosen = np.sort(rng.choice(n, min(n, _REFERENCE), replace=False))
    count = min(count, len(chosen) - 1)
    search = NearestNeighbors(n_neighbors=count + 1).fit(rows[chosen])
    near = chosen[search.kneighbors(rows, return_distance=False)]
    # The nearest row is the row itself; where an equal row came first, or it was not chosen, the
    # last one is dropped.
    itself = near == np.arange(n)[:, None]
    itself[~itself.any(axis=1), -1] = True
    return near[~itself].reshape(n, count).astype(np.int32)


def towards(
    key: Array,
    rows: Float[Array, "n d"],
    table: Float[Array, "m d"],
    near: Int[Array, "n some"],
    reach: float | int,
) -> Float[Array, "n d"]:
    """Return rows moved a random part, up to `reach`, of the way to one of their neighbours."""
    which, part = jax.random.uniform(key, (2, rows.shape[0]))
    column = (which * near.shape[1]).astype(jnp.int32)
    targets = table[jnp.take_along_axis(near, column[:, None], axis=1)[:, 0]]
    return rows + (reach * part)[:, None] * (targets - rows)
