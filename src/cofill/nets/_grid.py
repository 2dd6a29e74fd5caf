"""Networks for images and rows made of products only: no operation that is slow on a CPU.

XLA's convolutions are slow on a CPU, and a batch of *different* convolutions (one per site) is slow
everywhere. So an image of 28 × 28 is cut into 7 × 7 patches of 4 × 4 pixels, patches become the
channels of a 7 × 7 grid, and a 3 × 3 convolution is a product of each cell's nine neighbours with
one matrix. Nothing is pooled away: every pixel stays a channel, and the last layer sees the input
beside the features, so that detail survives. A row of a table is a grid of one cell, without
neighbours: the same network (`GridNet`) is then a residual perceptron.

Networks are a frozen description and a dictionary of arrays: `init` makes the arrays, calling the
description with arrays and input gives the output. Batches of networks are a `jax.vmap` away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.settings import require_at_least

Params = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """How a flat row is laid on a grid: an image of a shape, cut into square patches.

    ``patch`` is the side of a patch in pixels; it divides height and width.

    Examples
    --------
    >>> layout = Layout(8, 8, 1, 2)
    >>> layout.grid, layout.depth
    ((4, 4), 4)
    >>> rows = jnp.arange(128.0).reshape(2, 64)
    >>> bool((layout.to_rows(layout.to_grids(rows)) == rows).all())
    True
    """

    height: int
    width: int
    channels: int = 1
    patch: int = 1

    def __post_init__(self) -> None:
        require_at_least(self, height=1, width=1, channels=1, patch=1)
        if self.height % self.patch or self.width % self.patch:
            raise SettingError(
                f"patch must divide {self.height} and {self.width}, got {self.patch}"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.height // self.patch, self.width // self.patch

    @property
    def depth(self) -> int:
        """Channels of a cell of the grid."""
        return self.patch**2 * self.channels

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return self.height * self.width * self.channels

    def to_grids(self, rows: Float[Array, "n size"]) -> Float[Array, "n rows columns depth"]:
        """Return rows as grids of patches."""
        (high, wide), p = self.grid, self.patch
        cut = rows.reshape(-1, high, p, wide, p, self.channels)
        return cut.transpose(0, 1, 3, 2, 4, 5).reshape(-1, high, wide, self.depth)

    def to_rows(self, grids: Float[Array, "n rows columns depth"]) -> Float[Array, "n size"]:
        """Return grids of patches as rows."""
        (high, wide), p = self.grid, self.patch
        cut = grids.reshape(-1, high, wide, p, p, self.channels)
        return cut.transpose(0, 1, 3, 2, 4, 5).reshape(-1, self.size)


def layout_of(shape: tuple[int, ...] | None, size: int) -> Layout:
    """Return the layout of a view's rows: patches for images, one cell for everything else.

    Examples
    --------
    >>> layout_of((28, 28), 784)
    Layout(height=28, width=28, channels=1, patch=4)
    >>> layout_of(None, 30)
    Layout(height=1, width=1, channels=30, patch=1)
    """
    if shape is None or len(shape) not in (2, 3) or math.prod(shape) != size or min(shape[:2]) < 4:
        return Layout(1, 1, size)
    height, width, channels = (*shape, 1)[:3]
    fits = [p for p in (4, 3, 2, 1) if height % p == 0 and width % p == 0]
    small = min(height, width) < 12
    patch = next((p for p in fits if not small or p <= 2), 1)
    return Layout(height, width, channels, patch)


@dataclass(frozen=True)
class GridNet:
    """A residual network over a grid of cells.

    Parameters
    ----------
    grid
        Rows and columns; ``(1, 1)`` for tables.
    depth_in, depth_out, width
        Channels of a cell before, after and in between.
    blocks, skip
        Residual blocks, and whether the last layer sees the input beside the features.

    Examples
    --------
    >>> net = GridNet((7, 7), 16, 16, width=8, blocks=1)
    >>> params = net.init(jax.random.key(0))
    >>> net(params, jnp.ones((5, 7, 7, 16))).shape
    (5, 7, 7, 16)
    """

    grid: tuple[int, int]
    depth_in: int
    depth_out: int
    width: int = 64
    blocks: int = 3
    skip: bool = True

    def __post_init__(self) -> None:
        require_at_least(self, depth_in=1, depth_out=1, width=1, blocks=0)
        if min(self.grid) < 1:
            raise SettingError(f"grid must have at least one row and column, got {self.grid}")

    @property
    def _taps(self) -> int:
        return 1 if self.grid == (1, 1) else 9

    def init(self, key: Array) -> Params:
        """Return arrays: the last layer and the end of each block begin near zero."""
        keys, taps = jax.random.split(key, 2 * self.blocks + 2), self._taps
        params: Params = {"stem": init_layer(keys[0], taps * self.depth_in, self.width, 1.0)}
        for k in range(self.blocks):
            params[f"block{k}"] = init_block(keys[2 * k + 1], keys[2 * k + 2], taps, self.width)
        last = self.width + self.depth_in * self.skip
        params["head"] = init_layer(keys[-1], taps * last, self.depth_out, 0.3)
        return params

    def __call__(self, params: Params, grids: Float[Array, "n i j c"]) -> Float[Array, "n i j d"]:
        """Return the output for a batch of grids."""
        hidden = linear(params["stem"], self._near(grids))
        for k in range(self.blocks):
            hidden = residual(params[f"block{k}"], hidden, self._near)
        last = jax.nn.relu(hidden)
        if self.skip:
            last = jnp.concatenate([last, grids], axis=-1)
        return linear(params["head"], self._near(last))

    def _near(self, grids: Array) -> Array:
        return grids if self._taps == 1 else gather_neighbours(grids)


def gather_neighbours(grids: Float[Array, "n i j d"]) -> Float[Array, "n i j nine_d"]:
    """Return the channels of each cell and of its eight neighbours, zero beyond the edge.

    Examples
    --------
    >>> gather_neighbours(jnp.ones((1, 3, 3, 1)))[0].sum(axis=-1).tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    return jnp.concatenate(_shifts(grids), axis=-1)


def _shifts(grids: Array) -> list[Array]:
    """Return the grids moved by one cell in all nine directions, zero beyond the edge."""
    high, wide = grids.shape[1:3]
    wider = jnp.pad(grids, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return [wider[:, i : i + high, j : j + wide] for i in range(3) for j in range(3)]


def init_block(near: Array, same: Array, taps: int, width: int) -> Params:
    """Return the arrays of a residual block, whose end begins near zero."""
    first = init_layer(near, taps * width, width, 1.0)
    return {"near": first, "same": init_layer(same, width, width, 0.3)}


def residual(block: Params, hidden: Array, near: Callable[[Array], Array]) -> Array:
    """Return cells plus what a block makes of them and their neighbours."""
    moved = jax.nn.relu(linear(block["near"], near(jax.nn.relu(hidden))))
    return hidden + linear(block["same"], moved)


def init_layer(key: Array, fan_in: int, fan_out: int, gain: float = 1.0) -> Params:
    """Return a matrix that keeps variances through rectifiers, times a gain, and offsets."""
    spread = gain * math.sqrt(2.0 / fan_in)
    return {"w": spread * jax.random.normal(key, (fan_in, fan_out)), "b": jnp.zeros((fan_out,))}


def linear(layer: Params, grids: Array) -> Array:
    """Return the product of every cell with one matrix."""
    flat = grids.reshape(-1, grids.shape[-1])
    return (flat @ layer["w"] + layer["b"]).reshape(*grids.shape[:-1], -1)
