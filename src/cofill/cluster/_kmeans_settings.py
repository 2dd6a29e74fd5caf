"""Settings of k-means, and the state of its coordinator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.cluster._noise import GroupNoise
from cofill.codec import storable
from cofill.errors import SettingError


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

    Examples
    --------
    >>> KMeansSettings(k=3).restarts
    4
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
        if self.k < 2:
            raise SettingError(f"k must be at least 2, got {self.k}")
        for name in ("restarts", "rounds", "seed_group", "min_group", "local_groups"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"{name} must be at least 1, got {value}")
        if not self.tolerance >= 0:
            raise SettingError(f"tolerance must be 0 or more, got {self.tolerance}")

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
    """Centres of all starts, and how far each start has come.

    Attributes
    ----------
    centers
        Centres of each start, in scaled units.
    inertia
        Sum of squared distances of each start before its last move of centres; NaN with noise.
    rounds
        How many rounds each start has taken.
    running
        Which starts still move.
    number
        Rounds done.
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
