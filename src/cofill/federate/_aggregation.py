"""How sites' updates are added up: one vector a site, of which only the sum is needed.

A site's *local update* is packed into one vector: the change of weights times the site's weight,
what a strategy asks for beside it, the weight itself, and the weighted figures. Means follow from
the sum of these vectors alone. So the coordinator may add them up itself (plain updates), or get
nothing but the sum (`SecureSum`); and noise that hides a whole site (`cofill.privacy.SiteNoise`)
goes on the sum in either case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import DataError
from cofill.federate._robust import RobustMean
from cofill.nets import require_above_zero, require_at_least
from cofill.privacy import (
    Event,
    FixedPoint,
    MaskedVector,
    Roster,
    SealedShares,
    SiteNoise,
    clip_norm,
)


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
        require_above_zero(self, "largest")
        require_at_least(self, threshold=2)

    def code(self, sites: int) -> FixedPoint:
        """Return the encoding for a sum of so many sites."""
        return FixedPoint(self.largest, sites)

    def fault(self, vector: Float[np.ndarray, " size"]) -> str | None:
        """Return why a vector cannot be added, in words; None when it can."""
        if not np.isfinite(vector).all():
            count = int((~np.isfinite(vector)).sum())
            return f"training diverged: {count} numbers of the update are not finite"
        highest = float(np.abs(vector).max(initial=0.0))
        if highest > self.largest:
            return (
                f"the update times its rows reaches {highest:.3g}, and secure sums take at most "
                f"{self.largest:g}; clip it, or raise largest at every site and the coordinator"
            )
        return None


@storable
@dataclass(frozen=True, eq=False)
class LocalUpdate:
    """The change of weights by a site's training in a round; nothing of it has left the site yet.

    ``extras`` are vectors that a strategy asks for, ``rows`` the individuals it was computed from,
    ``figures`` what a curve shows, ``event`` what it costs where training was private.
    """

    round: int
    change: Float[np.ndarray, " P"]
    rows: int
    extras: Mapping[str, Float[np.ndarray, " P"]] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    event: Event | None = None


@dataclass(frozen=True)
class Packing:
    """The layout of the vector that is added up.

    ``size`` is the number of weights of the model, ``extras`` and ``figures`` name what else is in
    it. With ``by_rows`` a site weighs as much as it has rows, else sites count alike, as ``extras``
    always do. With ``noise`` the vector holds changes and extras only, clipped together, and sites
    count alike: neither weights nor figures would be protected. ``robust`` bounds what a site adds,
    or takes a median in place of the mean.

    Examples
    --------
    >>> packing = Packing(2, figures=("loss",))
    >>> vector = packing.pack(LocalUpdate(1, np.array([1.0, 2.0]), rows=3, figures={"loss": 5.0}))
    >>> vector.tolist()
    [3.0, 6.0, 3.0, 15.0, 3.0]
    >>> packing.means(vector + packing.pack(LocalUpdate(1, np.zeros(2), rows=1)), 2)
    ({'change': array([0.75, 1.5 ])}, {'loss': 5.0})
    """

    size: int
    extras: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    by_rows: bool = True
    noise: SiteNoise | None = None
    robust: RobustMean | None = None

    @property
    def length(self) -> int:
        """Numbers in the vector."""
        return self.vectors_length + (0 if self.noise is not None else 1 + 2 * len(self.figures))

    @property
    def vectors_length(self) -> int:
        """Numbers of the change and the extras; then come the weight and the figures."""
        return self.size * (1 + len(self.extras))

    def pack(self, update: LocalUpdate) -> Float[np.ndarray, " length"]:
        """Return an update as one vector; clipped where there is noise, which is not added yet."""
        change, *extras = self._vectors(update)
        if self.noise is not None:
            vector = np.concatenate([change, *extras])
            # Numbers that are not finite stay, for whoever checks the vector to name them.
            return clip_norm(vector, self.noise.clip) if np.isfinite(vector).all() else vector
        weight = float(update.rows) if self.by_rows else 1.0
        figures = np.array([update.figures.get(name, np.nan) for name in self.figures], np.float64)
        known = np.isfinite(figures)
        tail = [weight], weight * np.where(known, figures, 0.0), weight * known
        return np.concatenate([weight * change, *extras, *tail])

    def _vectors(self, update: LocalUpdate) -> list[Float[np.ndarray, " P"]]:
        vectors = [update.change, *(update.extras[name] for name in self.extras)]
        vectors = [vector.astype(np.float64) for vector in vectors]
        return vectors if self.robust is None else [self.robust.bound(v) for v in vectors]

    def add_up(self, updates: Sequence[LocalUpdate]) -> Float[np.ndarray, " length"]:
        """Return the sum of plain updates, with all of the noise where there is to be any.

        By a robust rule it is the sum of so many equal updates of which each is the rule's.
        """
        total = np.zeros(self.length)
        for update in updates:
            total += self.pack(update)
        if self.robust is not None and self.robust.needs_updates and updates:
            parts = zip(*map(self._vectors, updates), strict=True)
            change, *extras = (self.robust.combine(np.stack(part)) for part in parts)
            vectors = [total[self.vectors_length] * change, *(len(updates) * e for e in extras)]
            total[: self.vectors_length] = np.concatenate(vectors)
        return total if self.noise is None else self.noise.add_to_sum(total)

    def means(
        self, total: Float[np.ndarray, " length"], sites: int
    ) -> tuple[dict[str, Float[np.ndarray, " P"]], dict[str, float]]:
        """Return the mean vectors and figures that a sum over so many sites holds."""
        change, *extras = np.split(total[: self.vectors_length], 1 + len(self.extras))
        weight, sums, known = float(sites), np.zeros(0), np.zeros(0)
        if self.noise is None:
            tail = total[self.vectors_length :]
            weight, (sums, known) = float(tail[0]), np.split(tail[1:], 2)
        if not weight > 0:
            raise DataError(f"the weights of {sites} sites must add up to more than 0")
        vectors = {"change": change / weight}
        vectors |= {n: v / sites for n, v in zip(self.extras, extras, strict=True)}
        figures = {
            name: float(value / part)
            for name, value, part in zip(self.figures, sums, known, strict=False)
            if part > 0
        }
        return vectors, figures


@storable
@dataclass(frozen=True, eq=False)
class SumState:
    """A secure sum under way at the coordinator: who is in it, and what has arrived."""

    roster: Roster
    sealed: tuple[SealedShares, ...] = ()
    masked: tuple[MaskedVector, ...] = ()
    notes: tuple[str, ...] = ()
