"""DP-SGD's step: sample rows, clip each row's gradient, add noise (Abadi et al. 2016).

Noise in floating point is not the noise of the proofs: which numbers ``sum + noise`` can be depends
on the sum, and their last bits give it away (Mironov 2012). So clipped gradients are rounded to
whole numbers of a grid that is far finer than the noise and summed as such, exactly, and the noise
is rounded to the same grid. What rounding adds to a row's reach is paid for by more noise.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from cofill.errors import SettingError
from cofill.nets._settings import DPSettings

_FINE_BITS, _LEAST_BITS = 16, 8  # of the grid below the noise
_OVERFLOW = 1e-12  # largest probability that a Poisson sample does not fit into its array


def sample_capacity(rows: int, rate: float) -> int:
    """Return the batch size that a Poisson sample exceeds with a probability below 1e-12.

    A step's sample is held in an array of this fixed size. A sample that would not fit loses its
    last rows; an accountant covers that by adding 1e-12 times the number of steps to δ.

    Examples
    --------
    >>> sample_capacity(1000, 0.032), sample_capacity(1000, 1.0)
    (78, 1000)
    """
    from scipy.stats import binom  # importing it takes longer than all of this package

    return int(min(rows, math.ceil(binom.isf(_OVERFLOW, rows, rate)))) if rate < 1 else rows


def poisson_rows(
    key: Array, rows: Int[Array, ""], rate: Float[Array, ""], size: int, slots: int
) -> tuple[Int[Array, " slots"], Bool[Array, " slots"]]:
    """Return a Poisson sample of a table's first rows, each drawn with probability rate.

    The sample is the drawn rows' numbers in `slots` slots, and which of the slots hold one. The
    table has `size` rows.
    """
    drawn = (jax.random.uniform(key, (size,)) < rate) & (jnp.arange(size) < rows)
    (index,) = jnp.nonzero(drawn, size=slots, fill_value=0)
    return index, jnp.arange(slots) < drawn.sum()


def private_gradient(
    slope: Callable[[PyTree, Array], tuple[Array, Float[Array, " size"]]],
    rows: PyTree,
    drawn: Bool[Array, " slots"],
    expected: Float[Array, ""],
    dp: DPSettings,
    key: Array,
) -> tuple[Float[Array, ""], Float[Array, " size"]]:
    """Return the drawn rows' mean loss and their clipped, noised, averaged gradient.

    ``slope(row, key)`` returns the loss and gradient of a batch of one row. The divisor is the
    expected batch size, because the true size is itself private.

    Examples
    --------
    >>> def slope(row, key): return jnp.array(0.0), row[0]
    >>> dp = DPSettings(clip_norm=1.0, noise_multiplier=0.0)
    >>> rows, drawn = jnp.array([[3.0, 4.0], [1.0, 1.0]]), jnp.array([True, False])
    >>> _, gradient = private_gradient(slope, rows, drawn, jnp.array(1.0), dp, jax.random.key(0))
    >>> gradient.round(3).tolist()
    [0.6..., 0.8...]
    """
    noise_key, loss_key = jax.random.split(key)
    batches_of_one = jax.tree.map(lambda column: column[:, None], rows)
    keys = jax.random.split(loss_key, drawn.shape[0])
    losses, slopes = jax.vmap(slope)(batches_of_one, keys)
    norms = jnp.linalg.norm(slopes, axis=1, keepdims=True)
    # A row whose gradient is no number is left out: it would show itself through all noise.
    is_finite = jnp.isfinite(norms)
    slopes, losses = jnp.where(is_finite, slopes, 0.0), jnp.where(is_finite[:, 0], losses, 0.0)
    norms = jnp.where(is_finite, norms, 0.0)
    clipped = slopes * jnp.minimum(1.0, dp.clip_norm / jnp.maximum(norms, 1e-30))
    total = _noisy_sum(jnp.where(drawn[:, None], clipped, 0.0), dp, noise_key)
    loss = jnp.where(drawn, losses, 0.0).sum() / jnp.maximum(drawn.sum(), 1)
    return loss, total / expected


def _noisy_sum(
    clipped: Float[Array, "slots size"], dp: DPSettings, key: Array
) -> Float[Array, " size"]:
    """Return the sum of clipped gradients with noise, a multiple of the grid's step."""
    slots, size = clipped.shape
    deviation = dp.noise_multiplier * dp.clip_norm
    step = grid_step(dp, slots)
    if step is None:
        return clipped.sum(axis=0)
    total = jnp.rint(clipped / step).astype(jnp.int32).sum(axis=0)
    # Rounding can move a row by half a step in each number.
    scale = deviation / step * (1 + step * math.sqrt(size) / (2 * dp.clip_norm))
    # One number of single precision has 2^23 values: the sum of four reaches every point.
    parts = jax.random.normal(key, (4, size)) * (scale / 2)
    noise = jnp.rint(parts).astype(jnp.int32).sum(axis=0)
    return (total + noise).astype(clipped.dtype) * step


def grid_step(dp: DPSettings, slots: int) -> float | None:
    """Return the power of two that sums of so many gradients are multiples of; None without noise.

    It is 2^16 times finer than the noise, or less fine where whole numbers of 32 bits would not
    hold the sum.

    Examples
    --------
    >>> grid_step(DPSettings(clip_norm=1.0, noise_multiplier=1.0), 64) == 2.0**-16
    True
    """
    if not dp.noise_multiplier:
        return None
    deviation = dp.noise_multiplier * dp.clip_norm
    room = math.floor(30 - math.log2(slots / dp.noise_multiplier + 16))
    if room < _LEAST_BITS:
        raise SettingError(
            f"noise_multiplier must be at least {slots / 2.0**22:.1g} for samples of {slots} rows, "
            f"got {dp.noise_multiplier:g}: so little noise hides nobody; leave dp out instead"
        )
    return 2.0 ** (math.floor(math.log2(deviation)) - min(_FINE_BITS, room))
