"""Settings of k-means, the noise on its sums, and the state of its coordinator.

With noise, every site clips its rows to a stated norm and adds noise to its sums and counts before
they leave. An individual is at one site, in one group, so a round's release changes by at most one
clipped row and one count when the individual comes or goes. Rounds add up; sites do not.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.codec import storable
from cofill.privacy import (
    GaussianEvent,
    LaplaceEvent,
    NoiseKind,
    add_noise,
    epsilon,
    noise_for,
    noise_generator,
    require_one_of,
)
from cofill.settings import require_above_zero, require_at_least, require_in


@dataclass(frozen=True)
class GroupNoise:
    """How sums of groups are made private.

    Parameters
    ----------
    epsilon
        What all rounds together may cost.
    clip
        Norm that rows are clipped to, in the units of the rows: L2 for Gaussian noise, L1 for
        Laplace's. State it without looking at the data.
    mechanism
        ``"gaussian"`` (ε, δ) or ``"laplace"`` (ε, 0).
    delta
        For Gaussian noise.
    rounds
        How many rounds there will be: with noise the number cannot depend on the data.
    seed
        None draws noise that nobody can repeat. A number is for experiments: who knows it can take
        the noise away, and nothing is guaranteed.

    Examples
    --------
    >>> noise = GroupNoise(epsilon=1.0, clip=3.0, mechanism="laplace", rounds=4)
    >>> noise.scale, noise.cost()["epsilon"]
    (8.0, 1.0)
    """

    epsilon: float | int
    clip: float | int
    mechanism: str = "gaussian"
    delta: float = 1e-5
    rounds: int = 8
    seed: int | None = None

    def __post_init__(self) -> None:
        require_one_of("mechanism", self.mechanism, ("gaussian", "laplace"))
        require_above_zero(self, "epsilon", "clip")
        require_at_least(self, rounds=1)
        if self.is_gaussian:
            require_in(self, "(0, 1)", "delta")

    @property
    def is_gaussian(self) -> bool:
        """Whether noise is Gaussian, and rows are clipped in the L2 norm; else L1."""
        return self.mechanism == "gaussian"

    @property
    def sensitivity(self) -> float:
        """How far one individual moves sums (in units of `clip`) and counts together."""
        return math.sqrt(2) if self.is_gaussian else 2.0

    @property
    def scale(self) -> float:
        """Noise on a count, and on a sum in units of `clip`: standard deviation, or Laplace's b."""
        if self.is_gaussian:
            return self.sensitivity * noise_for(self.epsilon, self.delta, steps=self.rounds)
        return self.sensitivity * self.rounds / float(self.epsilon)

    def event(self, rounds: int = 1) -> GaussianEvent | LaplaceEvent:
        """Return what so many rounds cost, for the accountant."""
        event = GaussianEvent if self.is_gaussian else LaplaceEvent
        multiplier = self.scale / self.sensitivity
        return event(multiplier, count=rounds, neighbours="add or remove one")

    def cost(self) -> dict[str, Any]:
        """Return what all rounds cost an individual, in words and numbers for a record."""
        delta = self.delta if self.is_gaussian else 0.0
        return {
            **asdict(self),
            "epsilon": epsilon(self.event(self.rounds), delta),
            "delta": delta,
            "noise_scale": self.scale,
            "unit": "one individual more or less, at one site",
            "guaranteed": self.seed is None,
        }

    def lengths(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 1"]:
        """Return the rows' norms, of the kind that they are clipped in."""
        return np.linalg.norm(rows, ord=2 if self.is_gaussian else 1, axis=1, keepdims=True)

    def clip_rows(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return rows no longer than `clip`."""
        length = self.lengths(rows)
        # A hair shorter, so that rounding does not lift them above the norm.
        short = (1 - 1e-12) * self.clip / np.maximum(length, np.finfo(float).tiny)
        return np.where(length <= self.clip, rows, rows * short)

    def add(
        self,
        sums: Float[np.ndarray, "k d"],
        counts: Float[np.ndarray, " k"],
        rng: np.random.Generator | None,
    ) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]:
        """Return sums of clipped rows and counts, with noise."""
        values = np.concatenate([sums / self.clip, counts[:, None]], axis=1)
        kind: NoiseKind = "gaussian" if self.is_gaussian else "laplace"
        generator = noise_generator(rng)
        noisy = add_noise(kind, values, self.scale, self.sensitivity, generator)
        return noisy[:, :-1] * self.clip, noisy[:, -1]


@dataclass(frozen=True)
class KMeansSettings:
    """Settings of k-means.

    Parameters
    ----------
    k
        Number of groups.
    restarts
        Starts that go round together; the best one is the result. 1 with noise.
    rounds
        Most rounds of sums.
    tolerance
        A start is done when its centres move, squared and added up, by less than this share of the
        mean squared distance a column; 0 goes on until nobody changes the group.
    local_groups
        Groups a site summarises its rows by for the starting centres; None for 2k.
    seed_group
        A local group of fewer members is joined to its neighbour before its centroid leaves; a
        site with fewer rows keeps out of the choice of starting centres.
    min_group
        A site withholds the sum of a group that has fewer of its rows. Above 1 the result is no
        longer that of pooled rows.
    noise
        Noise on sums and counts, and their cost; None for exact sums.
    """

    k: int = 8
    restarts: int = 4
    rounds: int = 100
    tolerance: float | int = 1e-4
    local_groups: int | None = None
    seed_group: int = 5
    min_group: int = 1
    noise: GroupNoise | None = None

    def __post_init__(self) -> None:
        require_at_least(
            self, k=2, restarts=1, rounds=1, seed_group=1, min_group=1, local_groups=1, tolerance=0
        )

    @property
    def starts(self) -> int:
        """How many starts there are."""
        return 1 if self.noise is not None else self.restarts

    @property
    def most_rounds(self) -> int:
        """How many rounds there are at most, or exactly with noise."""
        return self.rounds if self.noise is None else self.noise.rounds


@storable
@dataclass(frozen=True, eq=False)
class KMeansState:
    """Centres of all starts (in scaled units), and how far each start has come.

    ``inertia`` is the sum of squared distances before the last move of centres, NaN with noise;
    ``rounds`` how many each start has taken; ``running`` which still move; ``number`` rounds done.
    """

    centers: Float[np.ndarray, "starts k d"]
    inertia: Float[np.ndarray, " starts"]
    rounds: Int[np.ndarray, " starts"]
    running: Bool[np.ndarray, " starts"]
    number: int = 0

    @classmethod
    def start(cls, centers: Float[np.ndarray, "starts k d"]) -> KMeansState:
        """Return the state before the first round."""
        n = len(centers)
        return cls(centers, np.full(n, np.nan), np.zeros(n, np.int64), np.ones(n, bool))

    @property
    def best(self) -> int:
        """The start with the least sum of squared distances."""
        return 0 if np.isnan(self.inertia).all() else int(np.nanargmin(self.inertia))
