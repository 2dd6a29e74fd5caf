"""How answers are added up: one vector a site, of which only the sum is needed.

A site's *lesson* is packed into one vector: the change of weights times the site's weight, what a
strategy asks for beside it, the weight itself, and the weighted figures. Means follow from the sum
of these vectors alone. So the coordinator may add them up itself (plain updates), or be given
nothing but the sum (`SecureSum`); and noise that hides a whole site (`cofill.privacy.SiteNoise`)
goes on the sum in either case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import DataError, SettingError
from cofill.privacy import (
    Event,
    FixedPoint,
    MaskedVector,
    Roster,
    SealedShares,
    SiteNoise,
    clip_norm,
)

__all__ = ["Lesson", "Means", "Packing", "SecureSum", "Summing"]


@dataclass(frozen=True)
class SecureSum:
    """A sum of which the coordinator sees nothing but the sum (see `cofill.privacy`).

    Numbers are added as multiples of a step, 62 bits below the largest sum. A site whose update
    does not fit leaves the round and tells its owner why, as one does whose training diverged.

    Parameters
    ----------
    largest
        Largest absolute value of a number that a site adds: a change of a weight times the site's
        rows. A million is a change of 100 at 10,000 rows.
    threshold
        How many sites must stay to the end of a round: above half of the invited ones; None for
        two thirds.

    Examples
    --------
    >>> SecureSum().code(10).step < 1e-11
    True
    """

    largest: float | int = 1e6
    threshold: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.largest < math.inf:
            raise SettingError(f"largest must be above 0 and finite, got {self.largest}")
        if self.threshold is not None and self.threshold < 2:
            raise SettingError(f"threshold must be at least 2 or None, got {self.threshold}")

    def code(self, sites: int) -> FixedPoint:
        """Return the encoding for a sum of so many sites."""
        return FixedPoint(self.largest, sites)

    def fault(self, vector: Float[np.ndarray, " size"]) -> str | None:
        """Return why a vector cannot be added, in words; None when it can."""
        if not np.isfinite(vector).all():
            wrong = int((~np.isfinite(vector)).sum())
            return f"training diverged: {wrong} numbers of the update are not finite"
        most = float(np.abs(vector).max(initial=0.0))
        if most > self.largest:
            return (
                f"the update times its rows reaches {most:.3g}, and secure sums take at most "
                f"{self.largest:g}; clip it, or raise largest at every site and the coordinator"
            )
        return None


@storable
@dataclass(frozen=True, eq=False)
class Lesson:
    """What a site's training of a round made: nothing of it has left the site yet.

    ``extras`` are vectors that a strategy asks for, ``rows`` the individuals it was made from,
    ``figures`` what a curve shows, ``event`` what it costs where training was private.
    """

    round: int
    change: Float[np.ndarray, " P"]
    rows: int
    extras: Mapping[str, Float[np.ndarray, " P"]] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    event: Event | None = None


class Means(NamedTuple):
    """What a round's answers come to: means over sites, and how many sites there were."""

    vectors: dict[str, Float[np.ndarray, " P"]]
    figures: dict[str, float]
    sites: int


@dataclass(frozen=True)
class Packing:
    """Where things lie in the vector that is added up.

    Parameters
    ----------
    size
        Number of weights of the model.
    extras, figures
        Names of what else is in it.
    by_rows
        Whether a site weighs as much as it has rows; else sites count alike. ``extras`` always do.
    noise
        Where given, the vector holds changes and extras only, clipped as one, and sites count
        alike: neither weights nor figures would be protected.

    Examples
    --------
    >>> packing = Packing(2, figures=("loss",))
    >>> one = packing.packed(Lesson(1, np.array([1.0, 2.0]), rows=3, figures={"loss": 5.0}))
    >>> one.tolist()
    [3.0, 6.0, 3.0, 15.0, 3.0]
    >>> packing.means(one + packing.packed(Lesson(1, np.zeros(2), rows=1)), 2)
    Means(vectors={'change': array([0.75, 1.5 ])}, figures={'loss': 5.0}, sites=2)
    """

    size: int
    extras: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    by_rows: bool = True
    noise: SiteNoise | None = None

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        tail = 0 if self.noise is not None else 1 + 2 * len(self.figures)
        return self.size * (1 + len(self.extras)) + tail

    def packed(self, lesson: Lesson) -> Float[np.ndarray, " length"]:
        """Return a lesson as one vector; with noise clipped, and not noised yet."""
        extras = [lesson.extras[name].astype(np.float64) for name in self.extras]
        change = lesson.change.astype(np.float64)
        if self.noise is not None:
            whole = np.concatenate([change, *extras])
            # What is not finite is found by whoever checks the vector.
            return clip_norm(whole, self.noise.clip) if np.isfinite(whole).all() else whole
        weight = float(lesson.rows) if self.by_rows else 1.0
        told = np.array([lesson.figures.get(name, np.nan) for name in self.figures], np.float64)
        known = np.isfinite(told)
        return np.concatenate(
            [
                weight * change,
                *extras,
                [weight],
                weight * np.where(known, told, 0.0),
                weight * known,
            ]
        )

    def added(self, lessons: Iterable[Lesson]) -> Float[np.ndarray, " length"]:
        """Return the sum of plain lessons, with all of the noise where there is to be any."""
        total = np.zeros(self.length)
        for lesson in lessons:
            total += self.packed(lesson)
        return total if self.noise is None else self.noise.add_to_sum(total)

    def means(self, total: Float[np.ndarray, " length"], sites: int) -> Means:
        """Return the means that a sum over so many sites holds."""
        change, *extras = np.split(total[: self.size * (1 + len(self.extras))], self._cuts)
        weight, told, known = float(sites), np.zeros(0), np.zeros(0)
        if self.noise is None:
            tail = total[self.size * (1 + len(self.extras)) :]
            weight, (told, known) = float(tail[0]), np.split(tail[1:], 2)
        if not weight > 0:
            raise DataError(f"the weights of {sites} sites must add up to more than 0")
        vectors = {"change": change / weight}
        vectors |= {n: v / sites for n, v in zip(self.extras, extras, strict=True)}
        figures = {
            name: float(value / part)
            for name, value, part in zip(self.figures, told, known, strict=False)
            if part > 0
        }
        return Means(vectors, figures, sites)

    @property
    def _cuts(self) -> list[int]:
        return [self.size * (k + 1) for k in range(len(self.extras))]


@storable
@dataclass(frozen=True, eq=False)
class Summing:
    """Where a secure sum stands at the coordinator: who is in it, what has come."""

    roster: Roster
    sealed: tuple[SealedShares, ...] = ()
    masked: tuple[MaskedVector, ...] = ()
    notes: tuple[str, ...] = ()
