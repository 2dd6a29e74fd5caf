"""Releases between sites and their coordinator: a model out, an update back, sums of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.privacy._release import Release

__all__ = ["GroupSums", "Model", "Update"]


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
    over sites means anything.
    """

    kind: ClassVar[str] = "update"
    round: int
    change: np.ndarray
    rows: int
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

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
    """Per group the sum of its members' rows and their number; members stay unnamed."""

    kind: ClassVar[str] = "group-sums"
    round: int
    sums: Float[np.ndarray, "groups features"]
    counts: Float[np.ndarray, " groups"]

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
