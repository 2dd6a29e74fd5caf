"""The parties of clustering as values: a site and the coordinator, before and after they have rows.

A party starts with what its machine knows (views, names). Once columns are agreed on, it holds
rows or their kinds. Where rows are in this process already, parties start from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._rows import ColumnKinds, SiteRows, read_rows
from cofill.cluster._scale import Scaling, choose_scale
from cofill.errors import DataError
from cofill.privacy import GroupSums, Ledger, ModelWeights, Release
from cofill.protocol import COORDINATOR, Federation, Inbox
from cofill.views import MultiView, View


@dataclass(frozen=True, eq=False)
class ClusterSite:
    """A site with its rows, and what it has learned of them. Only releases leave it.

    Attributes
    ----------
    rows
        Its individuals, scaled once the sites have agreed on a scaling.
    labels, confidence
        The group of each row and how sure it is, after the last step.
    memory
        What a method keeps at the site between its steps.
    """

    name: str
    rows: Float[np.ndarray, "n columns"]
    kinds: ColumnKinds
    settings: Any
    scale: str
    seed: int
    scaling: Scaling | None = None
    labels: Int[np.ndarray, " n"] | None = None
    confidence: Float[np.ndarray, " n"] | None = None
    memory: Any = None

    def rng(self, *purpose: int) -> np.random.Generator:
        """Return random numbers that belong to this site and a purpose."""
        return np.random.default_rng([self.seed, crc32(self.name.encode()), *purpose])

    def release_sums(self, number: int, sums: np.ndarray, counts: np.ndarray) -> GroupSums:
        """Return sums and counts for the coordinator, without noise."""
        return GroupSums(
            sender=self.name, receiver=COORDINATOR, round=number, sums=sums, counts=counts
        )


@dataclass(frozen=True, eq=False)
class ClusterCoordinator:
    """The coordinator: knows the sites' names, their columns and what they released, no row.

    Attributes
    ----------
    state
        What a method keeps at the coordinator between its steps.
    """

    sites: tuple[str, ...]
    kinds: ColumnKinds
    settings: Any
    scale: str
    seed: int
    scaling: Scaling | None = None
    state: Any = None

    def to_all(self, number: int, weights: np.ndarray, **extras: np.ndarray) -> list[Release]:
        """Return one model for every site."""
        return [self.to_one(site, number, weights, **extras) for site in self.sites]

    def to_one(self, site: str, number: int, weights: np.ndarray, **extras: np.ndarray) -> Release:
        """Return a model for one site."""
        return ModelWeights(
            sender=COORDINATOR, receiver=site, round=number, weights=weights, extras=extras
        )


@dataclass(frozen=True, eq=False)
class UnscaledClusterSite:
    """A site with its views, before the sites have agreed on columns; ``scale`` may be auto."""

    name: str
    views: Mapping[str, View]
    settings: KMeansSettings
    scale: str
    seed: int

    def with_rows(self, views: MultiView) -> ClusterSite:
        """Return the site with the rows of its views, or raise a `DataError` if some lack cells."""
        site = read_rows(views, self.name)
        scale = choose_scale(self.scale, site.kinds, self.settings.noise)
        return ClusterSite(self.name, site.rows, site.kinds, self.settings, scale, self.seed)


@dataclass(frozen=True, eq=False)
class UnscaledClusterCoordinator:
    """The coordinator before the sites have agreed on columns; ``scale`` may be auto."""

    sites: tuple[str, ...]
    view_order: tuple[str, ...]
    settings: KMeansSettings
    scale: str
    seed: int

    def with_kinds(self, kinds: ColumnKinds) -> ClusterCoordinator:
        """Return the coordinator of columns of these kinds."""
        scale = choose_scale(self.scale, kinds, self.settings.noise)
        return ClusterCoordinator(self.sites, kinds, self.settings, scale, self.seed)


def start_federation(
    sites: Mapping[str, SiteRows],
    settings: Any,
    scale: str,
    seed: int,
    *,
    ledger: Ledger | None = None,
) -> Federation[ClusterSite]:
    """Return a federation in this process of sites whose columns are known to be the same."""
    kinds = next(iter(sites.values())).kinds
    return Federation(
        {
            name: ClusterSite(name, site.rows, kinds, settings, scale, seed)
            for name, site in sites.items()
        },
        Ledger() if ledger is None else ledger,
        ClusterCoordinator(tuple(sites), kinds, settings, scale, seed),
    )


def received_model(inbox: Inbox) -> ModelWeights | None:
    """Return the model that came from the coordinator, if one came."""
    models = [release for release in inbox if isinstance(release, ModelWeights)]
    return models[-1] if models else None


def received_sums(
    coordinator: ClusterCoordinator, inbox: Inbox, shape: tuple[int, int]
) -> list[GroupSums]:
    """Return all sites' sums ordered by site name, so that adding up has one order.

    A first number of 0 in ``shape`` allows any number of groups. Raises a `DataError` where a site
    is missing, or its sums have another shape or are no numbers.
    """
    releases = {r.sender: r for r in inbox if isinstance(r, GroupSums)}
    for site in coordinator.sites:
        if site not in releases:
            raise DataError(f"site {site!r} has sent no sums; all sites must take part")
        sums, counts = releases[site].sums, releases[site].counts
        if sums.shape[1] != shape[1] or (shape[0] and len(sums) != shape[0]):
            raise DataError(
                f"sums from {site!r} have shape {sums.shape}, expected was {shape}; refused"
            )
        if not (np.isfinite(sums).all() and np.isfinite(counts).all()):
            raise DataError(f"sums from {site!r} are not finite numbers; refused")
    return [releases[site] for site in sorted(coordinator.sites)]
