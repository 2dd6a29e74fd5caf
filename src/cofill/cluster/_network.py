"""The networks of deep clustering: a body and several heads, as a dictionary of arrays.

An image network works where products are cheap: every stage folds 2×2 pixels into channels, lays
the 3×3 neighbours side by side and multiplies, so that all of it is matrix products, which also
batch over restarts and sites; XLA's convolutions do not. Layers are normalised per row (Ba et al.
2016): batch normalisation would mix one site's statistics into the common model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.nets import gather_neighbours


@dataclass(frozen=True)
class NetworkSettings:
    """The widths of a network.

    Parameters
    ----------
    channels
        Channels of an image network's stages; every stage halves height and width.
    hidden
        Widths of the dense layers of the body; after the stages for images.
    """

    channels: tuple[int, ...] = (32, 64)
    hidden: tuple[int, ...] = (256,)

    def __post_init__(self) -> None:
        if min(self.channels, default=1) < 1:
            raise SettingError(f"channels must be at least 1 each, got {self.channels}")
        if min(self.hidden, default=0) < 1:
            raise SettingError(f"hidden must be one layer or more of at least 1, got {self.hidden}")


def first_weights(
    key: Array,
    columns: int,
    shape: tuple[int, int, int] | None,
    heads: tuple[int, ...],
    settings: NetworkSettings,
) -> dict[str, Any]:
    """Return He's random initial weights (He et al. 2015)."""
    sizes: list[tuple[int, int]] = []
    width = columns
    if shape is not None:
        channels, h, w = shape
        for out in settings.channels:
            sizes.append((36 * channels, out))
            channels, h, w = out, -(-h // 2), -(-w // 2)
        width = channels * h * w
    for out in settings.hidden:
        sizes.append((width, out))
        width = out
    weights: dict[str, Any] = {}
    keys = jax.random.split(key, len(sizes) + len(heads))
    for number, (size, layer_key) in enumerate(zip(sizes, keys, strict=False)):
        weights[f"layer{number}"] = jax.random.normal(layer_key, size) * np.sqrt(2 / size[0])
        weights[f"gain{number}"] = jnp.ones(size[1])
        weights[f"bias{number}"] = jnp.zeros(size[1])
    for number, (out, head_key) in enumerate(zip(heads, keys[len(sizes) :], strict=True)):
        weights[f"head{number}"] = jax.random.normal(head_key, (width, out)) / np.sqrt(width)
        weights[f"offset{number}"] = jnp.zeros(out)
    return weights


def apply_network(
    weights: dict[str, Any], rows: Float[Array, "n ..."], heads: int, settings: NetworkSettings
) -> tuple[list[Array], Float[Array, "n code"]]:
    """Return every head's logits, and the body's code they are computed from.

    Rows are ``(n, columns)``, or ``(n, channels, height, width)`` for an image network.
    """
    x, stages = rows, 0
    if rows.ndim == 4:
        x, stages = jnp.moveaxis(rows, 1, 3), len(settings.channels)
        for number in range(stages):
            x = _layer(weights, number, gather_neighbours(_folded(x)))
        x = x.reshape(x.shape[0], -1)
    for number in range(stages, stages + len(settings.hidden)):
        x = _layer(weights, number, x)
    return [x @ weights[f"head{k}"] + weights[f"offset{k}"] for k in range(heads)], x


def _layer(weights: dict[str, Any], number: int, x: Array) -> Array:
    scaled = x @ weights[f"layer{number}"]
    scaled = scaled - scaled.mean(axis=-1, keepdims=True)
    scaled = scaled * lax.rsqrt((scaled * scaled).mean(axis=-1, keepdims=True) + 1e-5)
    return jax.nn.relu(scaled * weights[f"gain{number}"] + weights[f"bias{number}"])


def _folded(x: Float[Array, "n h w c"]) -> Array:
    """Fold 2×2 pixels into channels."""
    n, h, w, c = x.shape
    x = jnp.pad(x, ((0, 0), (0, h % 2), (0, w % 2), (0, 0)))
    high, wide = -(-h // 2), -(-w // 2)
    x = x.reshape(n, high, 2, wide, 2, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, high, wide, 4 * c)
