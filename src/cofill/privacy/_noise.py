"""Noise on sums: where it comes from, how its last bits tell nothing, and a site's share of it.

Noise in floating point is not the noise of the proofs: the numbers that ``sum + noise`` can be are
other ones for another sum, and their last bits give the sum away (Mironov 2012). So sums are held
as whole numbers of a fixed grid and rounded to a grid that is 2^30 times finer than the noise (what
that adds to the sensitivity is paid for), and the noise is rounded to the same grid: the result is
the rounded ideal mechanism, and can be every point of the grid whatever the sum is.

What remains: the numbers are numpy's. Its samplers work in double precision, so the probability of
a grid point is right to about 2^-20 of itself and far tails (less than 1e-9 of the mass) have
holes; and its generator, though seeded with 256 bits from the operating system, is none that
cryptographers vouch for.

`SiteNoise` hides all that a site holds: its update is clipped to a norm, and the sum over sites
gets noise. The sites can put it there, each a part of it under the masks of a secure sum
(`SiteNoise.protect`), so that nobody sees less noise than the sum has; or a coordinator that is
trusted with the plain sum (`SiteNoise.add_to_sum`). Neighbours are two federations of which one
has a site more: its clipped update moves the sum by at most the clipping norm.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from cofill.errors import DataError
from cofill.privacy._checks import require_positive, require_whole
from cofill.privacy._events import GaussianEvent

NoiseKind = Literal["gaussian", "laplace"]
Source = np.random.Generator | int | None

_FINE_BITS = 30  # the grid is so much finer than the noise that rounding costs next to no budget


def noise_generator(rng: Source) -> np.random.Generator:
    """Return a generator: itself, one of a seed for experiments, or one nobody can repeat."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(secrets.randbits(256) if rng is None else rng)


def noise_step(scale: float, least: float) -> float:
    """Return the power of two that is 2^30 to 2^31 times finer than the noise, or the least step.

    Examples
    --------
    >>> noise_step(1.0, 2.0**-40) == 2.0**-30, noise_step(1.0, 0.5)
    (True, 0.5)
    """
    return max(2.0 ** (math.floor(math.log2(scale)) - _FINE_BITS), least)


def draw_noise(
    kind: NoiseKind, scale: Float[np.ndarray, " size"], rng: np.random.Generator
) -> Int[np.ndarray, " size"]:
    """Return noise of standard deviation (Gaussian) or scale (Laplace) in steps, rounded to steps.

    Laplace noise is a ziggurat exponential with a sign: the logarithm of a uniform number, which
    `Generator.laplace` uses, has a coarse tail.

    Examples
    --------
    >>> draw_noise("gaussian", np.array([0.0, 100.0]), np.random.default_rng(0)).tolist()
    [0, -13]
    """
    if kind == "gaussian":
        plain = rng.standard_normal(len(scale))
    else:
        plain = rng.standard_exponential(len(scale)) * rng.choice([-1.0, 1.0], len(scale))
    return np.rint(plain * scale).astype(np.int64)


def add_noise(
    kind: NoiseKind,
    values: Float[np.ndarray, "*shape"],
    scale: float,
    sensitivity: float,
    rng: np.random.Generator,
    *,
    size: int | None = None,
) -> Float[np.ndarray, "*shape"]:
    """Return values with noise of a scale on each, both in steps far finer than the noise.

    One neighbour moves ``size`` of the values, all unless stated, by ``sensitivity`` in the L2 norm
    (Gaussian noise) or L1 (Laplace). Rounding can move them by √size or size steps more: in that
    proportion more noise is added.

    Examples
    --------
    >>> add_noise("gaussian", np.zeros(2), 1.0, 1.0, np.random.default_rng(0)).round(3).tolist()
    [0.126, -0.132]
    """
    step = noise_step(scale, 2.0**-1000)
    moved = size or values.size
    rounding = step * (math.sqrt(moved) if kind == "gaussian" else moved)
    wider = np.full(values.size, scale * (1 + rounding / sensitivity) / step)
    steps = np.rint(np.asarray(values, np.float64) / step)
    return (steps + draw_noise(kind, wider, rng).reshape(values.shape)) * step


def clip_norm(vector: Float[np.ndarray, " size"], norm: float | int) -> Float[np.ndarray, " size"]:
    """Return the vector, shortened to an L2 norm where it is longer.

    Examples
    --------
    >>> clip_norm(np.array([6.0, 8.0]), 5.0).round(9).tolist(), clip_norm(np.ones(2), 5.0).tolist()
    ([3.0, 4.0], [1.0, 1.0])
    """
    require_positive("norm", norm)
    if not np.isfinite(vector).all():
        wrong = int((~np.isfinite(vector)).sum())
        raise DataError(f"an update must be finite numbers, got {wrong} others")
    # In double precision, and by a scale first: squares of large numbers must not overflow.
    values = np.asarray(vector, np.float64)
    top = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    length = top * float(np.linalg.norm(values / top))
    # A hair shorter, so that rounding does not lift it above the norm.
    hair = 1 - 4 * float(np.finfo(vector.dtype).eps)
    return vector if length <= norm else (values / length * norm * hair).astype(vector.dtype)


@dataclass(frozen=True)
class SiteNoise:
    """Clipping of a site's update, and Gaussian noise on the sum over sites.

    Parameters
    ----------
    clip
        Largest L2 norm of a site's update.
    noise_multiplier
        Standard deviation of the sum's noise over the clipping norm; see `noise_for`.
    sites
        How many sites' noise can be counted on: the fewest that stay in a round and do not work
        with whoever reads the sum. Each adds 1/√sites of the noise, so that those alone suffice.

    Examples
    --------
    >>> noise = SiteNoise(clip=1.0, noise_multiplier=2.0, sites=4)
    >>> noise.protect(np.zeros(3), rng=0).shape
    (3,)
    >>> noise.event(rounds=10)
    GaussianEvent(noise_multiplier=2.0, count=10, neighbours='add or remove one', unit='site')
    """

    clip: float | int
    noise_multiplier: float | int
    sites: int

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require_positive("noise_multiplier", self.noise_multiplier)
        require_whole("sites", self.sites, 1)

    def event(self, rounds: int = 1) -> GaussianEvent:
        """Return what so many sums cost a site that was in all of them.

        It is about whole sites. For a budget about records the accountant doubles the sensitivity:
        one record may turn a site's update into any other of that norm.
        """
        return GaussianEvent(
            self.noise_multiplier, count=rounds, neighbours="add or remove one", unit="site"
        )

    def protect(
        self, update: Float[np.ndarray, " size"], *, rng: Source = None
    ) -> Float[np.ndarray, " size"]:
        """Return a site's update, clipped and with its part of the noise, for a *secure* sum.

        Alone it has too little noise: only the sum of ``sites`` of them has what `event` says.
        """
        return self._noised(clip_norm(update, self.clip), math.sqrt(self.sites), rng)

    def add_to_sum(
        self, total: Float[np.ndarray, " size"], *, rng: Source = None
    ) -> Float[np.ndarray, " size"]:
        """Return a sum of clipped updates with all of the noise, for whoever computes the sum."""
        return self._noised(total, 1.0, rng)

    def _noised(self, vector: np.ndarray, parts: float, rng: Source) -> Float[np.ndarray, " size"]:
        scale = self.noise_multiplier * self.clip / parts
        return add_noise("gaussian", vector, scale, self.clip, noise_generator(rng))
