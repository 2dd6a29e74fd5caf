"""A U-Net for images of any size and number of channels, made of products only.

The image is worked on at full size and at each half of it, down to about four pixels; on the way
back every size sees what was known there on the way down (skip connections), and the last layer
sees the input itself. Weights are shared by all pixels of a size, so that few images teach much.
Convolutions are products of gathered neighbours (`_grid`): with other weights at each site they
would be grouped ones, which are slow on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cofill.nets._grid import (
    Layout,
    Params,
    gather_neighbours,
    init_block,
    init_layer,
    linear,
    residual,
)
from cofill.settings import require_at_least

_SMALLEST = 4  # pixels of the shorter side, below which nothing is halved any more
_MOST_GROWTH = 4  # channels at small sizes, as a multiple of those at full size


@dataclass(frozen=True)
class UNet:
    """A U-Net with residual blocks.

    Parameters
    ----------
    height, width_px
        Of the images; sizes that cannot be halved are padded with their last pixels.
    channels_in, channels_out, width
        Of a pixel before, after and in between, at full size.
    blocks
        Residual blocks at the smallest size; every other one has one on each way.

    Examples
    --------
    >>> net = UNet(9, 6, 3, 2, width=4)
    >>> net.levels, net(net.init(jax.random.key(0)), jnp.ones((5, 9, 6, 3))).shape
    (0, (5, 9, 6, 2))
    """

    height: int
    width_px: int
    channels_in: int
    channels_out: int
    width: int = 32
    blocks: int = 2

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("height", "width_px", "channels_in", "channels_out"), 1)
        require_at_least(self, **sizes, width=1, blocks=0)

    @property
    def levels(self) -> int:
        """How often the image is halved."""
        return max(0, int(math.log2(max(min(self.height, self.width_px) / _SMALLEST, 1))))

    def init(self, key: Array) -> Params:
        """Return arrays: the last layer and the end of each block begin near zero."""
        keys = iter(jax.random.split(key, 8 * self.levels + 2 * self.blocks + 2))
        params: Params = {"stem": init_layer(next(keys), 9 * self.channels_in, self.width)}
        for level in range(self.levels):
            deep, deeper = self._depth(level), self._depth(level + 1)
            params[f"level{level}"] = {
                "there": init_block(next(keys), next(keys), 9, deep),
                "down": init_layer(next(keys), 4 * deep, deeper),
                "up": init_layer(next(keys), deeper, 4 * deep),
                "join": init_layer(next(keys), 9 * 2 * deep, deep),
                "back": init_block(next(keys), next(keys), 9, deep),
            }
        for k in range(self.blocks):
            deepest = self._depth(self.levels)
            params[f"block{k}"] = init_block(next(keys), next(keys), 9, deepest)
        last = 9 * (self.width + self.channels_in)
        params["head"] = init_layer(next(keys), last, self.channels_out, 0.3)
        return params

    def __call__(self, params: Params, images: Float[Array, "n i j c"]) -> Float[Array, "n i j d"]:
        """Return the output for a batch of images."""
        multiple = 2**self.levels
        missing = ((0, -self.height % multiple), (0, -self.width_px % multiple))
        padded = jnp.pad(images, ((0, 0), *missing, (0, 0)), mode="edge")
        hidden, seen = _convolved(params["stem"], padded), []
        for level in range(self.levels):
            layers = params[f"level{level}"]
            seen.append(residual(layers["there"], hidden, gather_neighbours))
            hidden = linear(layers["down"], gather_squares(seen[-1], 2))
        for k in range(self.blocks):
            hidden = residual(params[f"block{k}"], hidden, gather_neighbours)
        for level in reversed(range(self.levels)):
            layers = params[f"level{level}"]
            risen = spread_squares(linear(layers["up"], jax.nn.relu(hidden)), 2)
            both = jnp.concatenate([seen[level], risen], axis=-1)
            hidden = _convolved(layers["join"], jax.nn.relu(both))
            hidden = residual(layers["back"], hidden, gather_neighbours)
        last = jnp.concatenate([jax.nn.relu(hidden), padded], axis=-1)
        return _convolved(params["head"], last)[:, : self.height, : self.width_px]

    def _depth(self, level: int) -> int:
        return self.width * min(2**level, _MOST_GROWTH)


def _convolved(layer: Params, grids: Array) -> Array:
    return linear(layer, gather_neighbours(grids))


def gather_squares(grids: Float[Array, "n i j c"], side: int) -> Float[Array, "n k l d"]:
    """Return smaller grids, whose cells hold the channels of a square of cells.

    Examples
    --------
    >>> grids = jnp.arange(16.0).reshape(1, 4, 4, 1)
    >>> gather_squares(grids, 2)[0, 0, 1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    >>> bool((spread_squares(gather_squares(grids, 2), 2) == grids).all())
    True
    """
    if side == 1:
        return grids
    n, high, wide, deep = grids.shape
    return Layout(high, wide, deep, side).to_grids(grids.reshape(n, -1))


def spread_squares(grids: Float[Array, "n k l d"], side: int) -> Float[Array, "n i j c"]:
    """Return larger grids: the inverse of `gather_squares`."""
    if side == 1:
        return grids
    n, high, wide, deep = grids.shape
    layout = Layout(side * high, side * wide, deep // side**2, side)
    return layout.to_rows(grids).reshape(n, side * high, side * wide, -1)
