"""Hiding all that a site holds: its update clipped to a norm, and noise on the sum over sites.

The noise of the sum can be put there by the sites, each a part of it under the masks of a secure
sum (`SiteNoise.protect`), so that nobody sees less noise than the sum has; or by a coordinator
that is trusted with the plain sum (`SiteNoise.add_to_sum`). Neighbours are two federations of
which one has a site more: its clipped update moves the sum by at most the clipping norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.privacy._checks import require_positive, require_whole
from cofill.privacy._events import GaussianEvent
from cofill.privacy._noise import Source, draw_noise, noise_generator, noise_step


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
        return self._noised(
            clip_norm(update, self.clip), math.sqrt(self.sites), noise_generator(rng)
        )

    def add_to_sum(
        self, total: Float[np.ndarray, " size"], *, rng: Source = None
    ) -> Float[np.ndarray, " size"]:
        """Return a sum of clipped updates with all of the noise, added by who made the sum."""
        return self._noised(total, 1.0, noise_generator(rng))

    def _noised(
        self, vector: np.ndarray, parts: float, rng: np.random.Generator
    ) -> Float[np.ndarray, " size"]:
        """Return vector plus its part of the noise, both in steps far finer than the noise.

        Rounding to steps can move a vector by √size of them: that much is added to the clip.
        """
        step = noise_step(self.noise_multiplier * self.clip / parts, 2.0**-1000)
        moved = self.clip + math.sqrt(len(vector)) * step
        noise = np.full(len(vector), self.noise_multiplier * moved / parts / step)
        steps = np.rint(np.asarray(vector, np.float64) / step)
        return (steps + draw_noise("gaussian", noise, rng)) * step
