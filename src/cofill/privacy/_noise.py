"""Noise on sums: where it comes from, and how it is kept from telling on the sum by its last bits.

Noise in floating point is not the noise of the proofs: the numbers that ``sum + noise`` can be are
other ones for another sum, and their last bits give the sum away (Mironov 2012). So sums are held
as whole numbers of a fixed grid and rounded to a grid that is 2^30 times finer than the noise (what
that adds to the sensitivity is paid for), and the noise is rounded to the same grid: the result is
the rounded ideal mechanism, and can be every point of the grid whatever the sum is.

What remains: the numbers are numpy's. Its samplers work in double precision, so the probability of
a grid point is right to about 2^-20 of itself and far tails (less than 1e-9 of the mass) have
holes; and its generator, though seeded with 256 bits from the operating system, is none that
cryptographers vouch for.
"""

from __future__ import annotations

import math
import secrets
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

NoiseKind = Literal["gaussian", "laplace"]
Source = np.random.Generator | int | None

FINE = 30


def noise_generator(rng: Source) -> np.random.Generator:
    """Return a generator: the given one, one of a seed for experiments, or one nobody can repeat.

    Examples
    --------
    >>> bool(noise_generator(1).normal() == noise_generator(1).normal())
    True
    >>> bool(noise_generator(None).normal() == noise_generator(None).normal())
    False
    """
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(secrets.randbits(256) if rng is None else rng)


def noise_step(scale: float, least: float) -> float:
    """Return the power of two, at least the least one, that is 2^30 to 2^31 times finer than noise.

    Examples
    --------
    >>> noise_step(1.0, 2.0**-40) == 2.0**-30, noise_step(1.0, 0.5)
    (True, 0.5)
    """
    return max(2.0 ** (math.floor(math.log2(scale)) - FINE), least)


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
