"""Releases between sites and their coordinator: a model out, an update back, sums, summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.privacy._events import Event
from cofill.privacy._release import Release, digest_of

__all__ = ["ColumnSummary", "Figures", "GroupSums", "Model", "Update"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Model(Release):
    """The common model, from the coordinator to a site: weights as one vector, and its round.

    ``extras`` are further vectors that a strategy or method hands to the sites by name.
    """

    kind: ClassVar[str] = "model"
    round: int
    weights: Float[np.ndarray, " size"]
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_individuals(self) -> int:
        """A model comes from the coordinator, which knows nobody."""
        return 0

    @property
    def n_bytes(self) -> int:
        """Size of the vectors."""
        return self.weights.nbytes + sum(v.nbytes for v in self.extras.values())

    def facts(self) -> dict[str, Any]:
        """Return the round and the size."""
        return {"round": self.round, "size": len(self.weights)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Update(Release):
    """What a site's training changed: new weights less old ones, and how many rows it saw.

    ``extras`` are further vectors that a strategy asks for by name; ``metrics`` are figures such
    as losses. With secure aggregation ``change`` and ``extras`` are masked, and only their sum
    over sites means anything. ``event`` is what ``change`` and ``extras`` cost where noise protects
    them. It does not pay for ``metrics``: an update with plain figures carries no guarantee as a
    whole.
    """

    kind: ClassVar[str] = "update"
    round: int
    change: np.ndarray
    rows: int
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    # A field where others have a property: a frozen one, and read alike.
    event: Event | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The figures: nobody noised them."""
        return tuple(self.metrics)

    @property
    def digest(self) -> str | None:
        """A hash of the vectors, where noise protects them."""
        if self.event is None:
            return None
        return digest_of(self.change, *(self.extras[name] for name in sorted(self.extras)))

    @property
    def n_individuals(self) -> int:
        """How many individuals the update was computed from."""
        return self.rows

    @property
    def n_bytes(self) -> int:
        """Size of the vectors and figures."""
        return (
            self.change.nbytes + sum(v.nbytes for v in self.extras.values()) + 8 * len(self.metrics)
        )

    def facts(self) -> dict[str, Any]:
        """Return the round, the size and the figures."""
        return {"round": self.round, "size": len(self.change), **self.metrics}


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupSums(Release):
    """Per group the sum of its members' rows and their number; members stay unnamed.

    ``event`` is what sums and counts cost where noise protects both.
    """

    kind: ClassVar[str] = "group-sums"
    round: int
    sums: Float[np.ndarray, "groups features"]
    counts: Float[np.ndarray, " groups"]
    # A field where others have a property: a frozen one, and read alike.
    event: Event | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def digest(self) -> str | None:
        """A hash of sums and counts, where noise protects them."""
        return None if self.event is None else digest_of(self.sums, self.counts)

    @property
    def n_individuals(self) -> int:
        """How many individuals were added up (as released: noise may have changed it)."""
        return max(round(float(self.counts.sum())), 0)

    @property
    def n_bytes(self) -> int:
        """Size of sums and counts."""
        return self.sums.nbytes + self.counts.nbytes

    def facts(self) -> dict[str, Any]:
        """Return the round and the number of groups."""
        return {"round": self.round, "groups": len(self.counts)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnSummary(Release):
    """What sites need to scale alike: per column the count, mean, squared deviations and range.

    ``columns`` holds, for each view, those five figures in as many rows. Of a column that few
    individuals have, they say much about each: the ledger keeps the smallest count.
    """

    kind: ClassVar[str] = "column-summary"
    columns: Mapping[str, Float[np.ndarray, "five features"]]
    rows: int

    @property
    def n_individuals(self) -> int:
        """How many individuals were summarised."""
        return self.rows

    @property
    def n_bytes(self) -> int:
        """Size of the figures."""
        return sum(v.nbytes for v in self.columns.values())

    def facts(self) -> dict[str, Any]:
        """Return the numbers of views and columns, and the smallest count of a column."""
        counts = [v[0] for v in self.columns.values()]
        return {
            "views": len(counts),
            "columns": int(sum(len(c) for c in counts)),
            "smallest_count": int(min(c.min() for c in counts)),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Figures(Release):
    """How a run went at a site: counts and scores over many rows, nobody's cell.

    They were made from records and nobody noised them: they carry no guarantee.
    """

    kind: ClassVar[str] = "figures"
    rows: int
    figures: Mapping[str, float | int]

    @property
    def n_individuals(self) -> int:
        """How many individuals the figures are about."""
        return self.rows

    @property
    def n_bytes(self) -> int:
        """Size of the figures."""
        return 8 * len(self.figures)

    def facts(self) -> dict[str, Any]:
        """Return the figures."""
        return dict(self.figures)
