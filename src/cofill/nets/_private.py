"""DP-SGD's step: sample rows, clip each row's gradient, add noise (Abadi et al. 2016)."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from scipy.stats import binom

from cofill.nets._settings import DPSettings

__all__ = ["capacity", "poisson_rows", "private_gradient"]

OVERFLOW = 1e-12


def capacity(rows: int, rate: float) -> int:
    """Return the batch size that a Poisson sample exceeds with a probability below 1e-12.

    A step's sample is held in an array of this fixed size. A sample that would not fit loses its
    last rows; an accountant covers that by adding 1e-12 times the number of steps to δ.

    Examples
    --------
    >>> capacity(1000, 0.032), capacity(1000, 1.0)
    (78, 1000)
    """
    return int(min(rows, math.ceil(binom.isf(OVERFLOW, rows, rate)))) if rate < 1 else rows


def poisson_rows(
    key: Array, rows: Int[Array, ""], rate: Float[Array, ""], size: int, places: int
) -> tuple[Int[Array, " places"], Bool[Array, " places"]]:
    """Draw each of the first rows of a table of a given size with probability rate.

    Returns the drawn rows' numbers in ``places`` places and which of the places are taken.

    Examples
    --------
    >>> index, taken = poisson_rows(jax.random.key(0), jnp.array(4), jnp.array(1.0), 6, 6)
    >>> int(taken.sum())
    4
    """
    drawn = (jax.random.uniform(key, (size,)) < rate) & (jnp.arange(size) < rows)
    (index,) = jnp.nonzero(drawn, size=places, fill_value=0)
    return index, jnp.arange(places) < drawn.sum()


def private_gradient(
    slope: Callable[[Array, Array], tuple[Array, Float[Array, " size"]]],
    index: Int[Array, " places"],
    taken: Bool[Array, " places"],
    expected: Float[Array, ""],
    dp: DPSettings,
    key: Array,
) -> tuple[Float[Array, ""], Float[Array, " size"]]:
    """Return the drawn rows' mean loss and their clipped, noised, averaged gradient.

    Parameters
    ----------
    slope
        ``slope(row_number, key)`` returns one row's loss and gradient.
    index, taken
        What `poisson_rows` drew.
    expected
        The expected batch size: the divisor, because the true size is itself private.
    dp, key
        Settings, and the key of the noise.

    Examples
    --------
    >>> def slope(row, key): return jnp.array(0.0), jnp.array([3.0, 4.0])
    >>> dp = DPSettings(clip_norm=1.0, noise_multiplier=0.0)
    >>> _, gradient = private_gradient(
    ...     slope, jnp.arange(2), jnp.array([True, False]), jnp.array(1.0), dp, jax.random.key(0))
    >>> gradient.round(3).tolist()
    [0.6..., 0.8...]
    """
    noise_key, loss_key = jax.random.split(key)
    losses, slopes = jax.vmap(slope)(index, jax.random.split(loss_key, index.shape[0]))
    norms = jnp.linalg.norm(slopes, axis=1, keepdims=True)
    clipped = slopes * jnp.minimum(1.0, dp.clip_norm / jnp.maximum(norms, 1e-30))
    total = jnp.where(taken[:, None], clipped, 0.0).sum(axis=0)
    noise = dp.noise_multiplier * dp.clip_norm * jax.random.normal(noise_key, total.shape)
    loss = jnp.where(taken, losses, 0.0).sum() / jnp.maximum(taken.sum(), 1)
    return loss, (total + noise) / expected
