"""The networks of VIGAN: generators, discriminators and the autoencoder of two modalities.

`published` networks are those of the public VIGAN, for grey images and a GPU: generators with a
7 × 7 stem, 64, 128 and 256 channels and nine residual blocks, discriminators over patches. `small`
ones have a quarter of the channels and three blocks; for tables they are perceptrons
(`cofill.nets.GridNet`). The autoencoder is the published one in both, 784-400 | 800-500-200-400 |
400-500-784 units for images of 784 pixels.

Generators of images normalise each image's channels. Without that they come to put out blank
images within an epoch and stay there, whatever the adversarial loss: a blank image is the median of
mostly black pixels, and the gradient of a saturated output is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.federate._rows import Shape
from cofill.nets import GridNet, Layout, layout_of

Params = Any

_SIZES = {"published": (64, 9), "small": (16, 3)}  # channels and residual blocks
_LEAST_SIDE = 8  # of an image that two strides leave something to normalise of
_SPREAD = 0.02  # of initial kernels, as in the public CycleGAN


@dataclass(frozen=True)
class PairAutoencoder:
    """The autoencoder of two modalities (Eq. 3.1): separate, joint, separate layers.

    ``sizes`` are the modalities' columns; ``first_width``, ``joint`` and ``back`` the units of each
    one's first layer, of the joint layers, and of each one's last layers.
    """

    sizes: tuple[int, int]
    first_width: int
    joint: tuple[int, ...]
    back: tuple[int, ...] = ()

    def init(self, key: Array) -> Params:
        """Return new parameters."""
        (first, second), code = self.sizes, self.joint[-1]
        units = {
            "in0": (first, self.first_width),
            "in1": (second, self.first_width),
            "joint": (2 * self.first_width, *self.joint),
            "out0": (code, *self.back, first),
            "out1": (code, *self.back, second),
        }
        keys = jax.random.split(key, len(units))
        return {n: _init_dense(k, sizes) for k, (n, sizes) in zip(keys, units.items(), strict=True)}

    def __call__(self, params: Params, first: Array, second: Array) -> tuple[Array, Array]:
        """Return both modalities as rebuilt from their joint code."""
        hidden = [_dense(params["in0"], first), _dense(params["in1"], second)]
        code = _dense(params["joint"], jax.nn.relu(jnp.concatenate(hidden, axis=1)))
        code = jax.nn.relu(code)
        return _dense(params["out0"], code), _dense(params["out1"], code)


@dataclass(frozen=True)
class Patches:
    """A generator or judge of tables, or of patches: rows in, rows (or a number a patch) out."""

    layout: Layout
    depth_out: int
    width: int
    blocks: int
    copies: int = 1

    @cached_property
    def _net(self) -> GridNet:
        deep = self.layout.depth * self.copies
        return GridNet(self.layout.grid, deep, self.depth_out, self.width, self.blocks, skip=False)

    def init(self, key: Array) -> Params:
        """Return new parameters."""
        return self._net.init(key)

    def __call__(self, params: Params, *rows: Array) -> Array:
        """Return rows for as many rows as there are copies."""
        patches = jnp.concatenate([self.layout.to_grids(r) for r in rows], axis=-1)
        output = self._net(params, patches)
        return (
            output.reshape(len(output), -1) if self.depth_out == 1 else self.layout.to_rows(output)
        )


@dataclass(frozen=True)
class ResNet:
    """The published generator: 7 × 7 stem, two strides, nine residual blocks, and back."""

    height: int
    width: int
    channels: int = 64
    blocks: int = 9

    def init(self, key: Array) -> Params:
        """Return new parameters."""
        c = self.channels
        keys = iter(jax.random.split(key, 6 + 2 * self.blocks))
        params = {
            "stem": _kernel(next(keys), 7, 1, c),
            "down1": _kernel(next(keys), 3, c, 2 * c),
            "down2": _kernel(next(keys), 3, 2 * c, 4 * c),
            "up1": _kernel(next(keys), 3, 4 * c, 2 * c),
            "up2": _kernel(next(keys), 3, 2 * c, c),
            "head": _kernel(next(keys), 7, c, 1),
        }
        for k in range(self.blocks):
            params[f"block{k}"] = [_kernel(next(keys), 3, 4 * c, 4 * c) for _ in range(2)]
        return params

    def __call__(self, params: Params, rows: Array) -> Array:
        """Return rows of the other modality."""
        hidden = rows.reshape(-1, self.height, self.width, 1)
        for name, stride in (("stem", 1), ("down1", 2), ("down2", 2)):
            hidden = jax.nn.relu(_normed(_conv(params[name], hidden, stride)))
        for k in range(self.blocks):
            first, second = params[f"block{k}"]
            residual = jax.nn.relu(_normed(_conv(first, hidden)))
            hidden = hidden + _normed(_conv(second, residual))
        for name in ("up1", "up2"):
            hidden = jax.nn.relu(_normed(_conv(params[name], _doubled(hidden))))
        output = _conv(params["head"], hidden)[:, : self.height, : self.width]
        return output.reshape(len(rows), -1)


@dataclass(frozen=True)
class Judge:
    """The published discriminator: 4 × 4 convolutions, one verdict a patch."""

    height: int
    width: int
    channels: int = 64
    copies: int = 1

    def init(self, key: Array) -> Params:
        """Return new parameters."""
        c, keys = self.channels, jax.random.split(key, 4)
        sizes = ((self.copies, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 1))
        return [_kernel(k, 4, a, b) for k, (a, b) in zip(keys, sizes, strict=True)]

    def __call__(self, params: Params, *rows: Array) -> Array:
        """Return verdicts, one row of patches for each row given."""
        hidden = jnp.stack([r.reshape(-1, self.height, self.width) for r in rows], axis=-1)
        for k, layer in enumerate(params[:-1]):
            hidden = _conv(layer, hidden, 2)
            hidden = jax.nn.leaky_relu(hidden if k == 0 else _normed(hidden), 0.2)
        return _conv(params[-1], hidden).reshape(len(rows[0]), -1)


def make_networks(shape: Shape, architecture: str) -> tuple[Any, Any, Any, Any]:
    """Return a generator, judges of one row and of a pair, and the autoencoder for a shape.

    Generators and judges serve both directions: modalities of one size share a description, never
    parameters.
    """
    first, second = shape.sizes
    width = min(400, 4 * max(first, second))  # 400 | 500-200-400 | 500 for images of 784 pixels
    wide = width * 5 // 4
    pair = PairAutoencoder((first, second), width, (wide, width // 2, width), (wide,))
    if architecture not in ("small", "published"):
        raise SettingError(f"architecture must be 'small' or 'published', got {architecture!r}")
    grey = shape.image is not None and set(shape.channels) == {1}
    if architecture == "published" and not grey:
        raise SettingError(
            "architecture 'published' is for grey images of one size; use 'small' for others"
        )
    if shape.image is not None and grey and min(shape.image) >= _LEAST_SIDE:
        size, channels, blocks = shape.image, *_SIZES[architecture]
        one, both = (Judge(*size, channels, copies) for copies in (1, 2))
        return ResNet(*size, channels, blocks), one, both, pair
    layout = layout_of(shape.image, first)
    generator = Patches(layout, layout.depth, 32, 2)
    return generator, Patches(layout, 1, 32, 1), Patches(layout, 1, 32, 1, copies=2), pair


def _init_dense(key: Array, sizes: tuple[int, ...]) -> Params:
    keys = jax.random.split(key, len(sizes) - 1)
    return [_layer(k, size) for k, size in zip(keys, pairwise(sizes), strict=True)]


def _dense(params: Params, rows: Float[Array, "n a"]) -> Float[Array, "n b"]:
    """Return the output of fully connected layers with ReLU between them."""
    for k, layer in enumerate(params):
        rows = rows @ layer["w"] + layer["b"]
        rows = jax.nn.relu(rows) if k < len(params) - 1 else rows
    return rows


def _kernel(key: Array, side: int, fan_in: int, fan_out: int) -> Params:
    return _layer(key, (side, side, fan_in, fan_out), _SPREAD)


def _layer(key: Array, shape: tuple[int, ...], spread: float | None = None) -> Params:
    spread = math.sqrt(2.0 / math.prod(shape[:-1])) if spread is None else spread
    return {"w": spread * jax.random.normal(key, shape), "b": jnp.zeros((shape[-1],))}


def _conv(layer: Params, images: Array, stride: int = 1) -> Array:
    """Return a convolution with zeros beyond the edge, as one product.

    XLA's own convolutions are slow on a CPU, and everywhere for a batch of different kernels, one
    a site.
    """
    side, fan_out = layer["w"].shape[0], layer["w"].shape[-1]
    pads, ends = [], []
    for length in images.shape[1:3]:
        end = (-(-length // stride) - 1) * stride
        most = max(end + side - length, 0)
        pads.append((most // 2, most - most // 2))
        ends.append(end + 1)
    wider = jnp.pad(images, ((0, 0), *pads, (0, 0)))
    rows = [wider[:, k : k + ends[0] : stride] for k in range(side)]
    tall = jnp.concatenate(rows, axis=-1)
    columns = [tall[:, :, k : k + ends[1] : stride] for k in range(side)]
    near = jnp.concatenate(columns, axis=-1)
    # Channels come last, then rows, then columns.
    return near @ layer["w"].swapaxes(0, 1).reshape(-1, fan_out) + layer["b"]


def _normed(images: Array) -> Array:
    """Return each image's channels with mean 0 and variance 1 (instance normalisation)."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    variance = images.var(axis=(1, 2), keepdims=True)
    return (images - mean) * lax.rsqrt(variance + 1e-5)


def _doubled(images: Array) -> Array:
    return jnp.repeat(jnp.repeat(images, 2, axis=1), 2, axis=2)
