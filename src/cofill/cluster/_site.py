"""A site that takes part in clustering, and the first steps that every method shares: scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from jaxtyping import Float

from cofill.cluster._rows import Kinds
from cofill.cluster._scale import Scaling, add_scaling, scaling_sums
from cofill.errors import DataError
from cofill.privacy import GroupSums, ModelWeights, Release
from cofill.protocol import COORDINATOR, Step

__all__ = ["SCALING", "ClusterSite", "Conductor", "sums_of", "told_model"]

Inbox = tuple[Release, ...]
Party = TypeVar("Party")


@dataclass(frozen=True, eq=False)
class ClusterSite:
    """One site: its rows, and what it has learned of them. Only releases leave it.

    Attributes
    ----------
    rows
        Its individuals, scaled once the sites have agreed on a scaling.
    labels, sureness
        The group of each row and how sure it is, when the last step has been.
    memory
        What a method keeps at the site between its steps.
    """

    name: str
    rows: Float[np.ndarray, "n columns"]
    kinds: Kinds
    settings: Any
    scale: str
    seed: int
    scaling: Scaling | None = None
    labels: np.ndarray | None = None
    sureness: np.ndarray | None = None
    memory: Any = None

    def with_(self, **changes: Any) -> ClusterSite:
        """Return the site with some attributes changed."""
        return replace(self, **changes)

    def rng(self, *purpose: int) -> np.random.Generator:
        """Return random numbers that belong to this site and a purpose."""
        return np.random.default_rng([self.seed, crc32(self.name.encode()), *purpose])


@dataclass(frozen=True, eq=False)
class Conductor:
    """The coordinator: knows the names of the sites and what they have released, no row.

    Attributes
    ----------
    state
        What a method keeps at the coordinator between its steps.
    """

    sites: tuple[str, ...]
    kinds: Kinds
    settings: Any
    scale: str
    seed: int
    scaling: Scaling | None = None
    state: Any = None

    def with_(self, **changes: Any) -> Conductor:
        """Return the coordinator with some attributes changed."""
        return replace(self, **changes)

    def to_all(self, number: int, weights: np.ndarray, **extras: np.ndarray) -> list[Release]:
        """Return one model for every site."""
        return [self.to_one(site, number, weights, **extras) for site in self.sites]

    def to_one(self, site: str, number: int, weights: np.ndarray, **extras: np.ndarray) -> Release:
        """Return a model for one site."""
        return ModelWeights(
            sender=COORDINATOR, receiver=site, round=number, weights=weights, extras=extras
        )


def told_model(inbox: Inbox) -> ModelWeights | None:
    """Return the model that came from the coordinator, if one came."""
    models = [release for release in inbox if isinstance(release, ModelWeights)]
    return models[-1] if models else None


def sums_of(conductor: Conductor, inbox: Inbox, shape: tuple[int, int]) -> list[GroupSums]:
    """Return every site's sums by the sites' names, so that adding up has one order.

    Raises a `DataError` where a site is missing, or its sums have another shape or are no numbers.
    """
    told = {r.sender: r for r in inbox if isinstance(r, GroupSums)}
    for site in conductor.sites:
        if site not in told:
            raise DataError(f"site {site!r} has sent no sums; all sites must take part")
        sums, counts = told[site].sums, told[site].counts
        if sums.shape[1] != shape[1] or (shape[0] and len(sums) != shape[0]):
            raise DataError(
                f"sums from {site!r} have shape {sums.shape}, expected was {shape}; refused"
            )
        if not (np.isfinite(sums).all() and np.isfinite(counts).all()):
            raise DataError(f"sums from {site!r} are not finite numbers; refused")
    return [told[site] for site in sorted(conductor.sites)]


def _measure(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Tell the coordinator what is needed to scale."""
    results = []
    for site in sites:
        outbox = []
        if site.scale != "none" and site.scaling is None:
            sums, counts = scaling_sums(site.rows, site.scale)
            outbox.append(
                GroupSums(sender=site.name, receiver=COORDINATOR, round=0, sums=sums, counts=counts)
            )
        results.append((site, outbox))
    return results


def _agree(
    conductors: Sequence[Conductor], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Add up, and tell every site the scaling."""
    results = []
    for conductor, inbox in zip(conductors, inboxes, strict=True):
        outbox: list[Release] = []
        columns = len(conductor.kinds)
        scaling = conductor.scaling or Scaling.none(columns)
        if conductor.scale != "none" and conductor.scaling is None:
            told = sums_of(conductor, inbox, (1, 2 * columns))
            scaling = add_scaling(told, conductor.scale, conductor.kinds.is_numeric)
            outbox = conductor.to_all(0, scaling.center, scale=scaling.scale)
        results.append((conductor.with_(scaling=scaling), outbox))
    return results


def _scale(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Scale the rows at every site."""
    results = []
    for site, inbox in zip(sites, inboxes, strict=True):
        model = told_model(inbox)
        scaling = site.scaling or Scaling.none(len(site.kinds))
        if model is not None:
            numeric = site.kinds.is_numeric
            scaling = Scaling(site.scale, numeric, model.weights, model.extras["scale"])
        if site.scaling is None:
            site = site.with_(rows=scaling.apply(site.rows), scaling=scaling)
        results.append((site, []))
    return results


SCALING = (
    Step("measure", _measure),
    Step("agree on a scaling", _agree, "coordinator"),
    Step("scale", _scale),
)
