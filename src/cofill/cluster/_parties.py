"""The parties of clustering as values, and the steps in which they agree on columns and a scaling.

A party starts with what its machine knows (views, names). Once columns are agreed on, it holds
rows or their kinds. Where rows are in this process already, columns were compared as rows were
gathered: parties start with rows, and the steps with the scaling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._rows import ColumnKinds, Sites, describe_kinds, read_rows
from cofill.cluster._scale import Scaling, choose_scale, combine_sums, sum_columns
from cofill.errors import DataError
from cofill.privacy import ColumnScales, GroupSums, Ledger, Release
from cofill.protocol import (
    COORDINATOR,
    DESCRIBE_COLUMNS,
    MOST_ROWS,
    Federation,
    Inbox,
    Outbox,
    Step,
    agree_on_columns,
    agreed_columns,
    first_of_type,
    one_by_one,
    views_with_columns,
)
from cofill.views import MultiView, View

_LARGEST_SUM = 2.0**200  # of cells within ±2^100, as the survey of columns has them, or squares
_ALL = "rows"  # scales of all views' columns side by side

Kind = TypeVar("Kind", bound=Release)


@dataclass(frozen=True, eq=False)
class ClusterSite:
    """A site with its rows, and what it has learned of them. Only releases leave it.

    ``rows`` are scaled once the sites have agreed on a scaling. ``memory`` is what a method keeps
    at the site between its steps, ``answered`` the number of rounds it has answered.
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
    answered: int = 0

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

    ``state`` is what a method keeps at the coordinator between its steps.
    """

    sites: tuple[str, ...]
    kinds: ColumnKinds
    settings: Any
    scale: str
    seed: int
    scaling: Scaling | None = None
    state: Any = None


SiteStep = tuple[ClusterSite, Outbox]
CoordinatorStep = tuple[ClusterCoordinator, Outbox]


@dataclass(frozen=True, eq=False)
class UnscaledClusterSite:
    """A site with its views, before the sites have agreed on columns; ``scale`` may be auto."""

    name: str
    views: Mapping[str, View]
    settings: Any
    scale: str
    seed: int

    def with_rows(self, views: MultiView) -> ClusterSite:
        """Return the site with the rows of its views, or raise a `DataError` if some lack cells."""
        site = read_rows(views, self.name)
        scale = choose_scale(self.scale, site.kinds, getattr(self.settings, "noise", None))
        return ClusterSite(self.name, site.rows, site.kinds, self.settings, scale, self.seed)


@dataclass(frozen=True, eq=False)
class UnscaledClusterCoordinator:
    """The coordinator before the sites have agreed on columns; ``scale`` may be auto."""

    sites: tuple[str, ...]
    view_order: tuple[str, ...]
    settings: Any
    scale: str
    seed: int

    def with_kinds(self, kinds: ColumnKinds) -> ClusterCoordinator:
        """Return the coordinator of columns of these kinds."""
        scale = choose_scale(self.scale, kinds, getattr(self.settings, "noise", None))
        return ClusterCoordinator(self.sites, kinds, self.settings, scale, self.seed)


def start_federation(
    sites: Sites, settings: Any, scale: str, seed: int, ledger: Ledger
) -> Federation[ClusterSite]:
    """Return a federation in this process of sites whose columns are known to be the same."""
    kinds = next(iter(sites.values())).kinds
    common = (kinds, settings, scale, seed)
    parties = {name: ClusterSite(name, site.rows, *common) for name, site in sites.items()}
    return Federation(parties, ledger, ClusterCoordinator(tuple(sites), *common))


def from_every_site(
    sites: Iterable[str], inbox: Iterable[Release], kind: type[Kind]
) -> dict[str, Kind]:
    """Return a release of each site, ordered by site name, so that adding up has one order.

    Raises a `DataError` where a site is missing.
    """
    releases = {r.sender: r for r in inbox if isinstance(r, kind)}
    for site in sites:
        if site not in releases:
            raise DataError(f"site {site!r} has sent no {kind.kind}; all sites must take part")
    return {site: releases[site] for site in sorted(sites)}


def received_sums(
    coordinator: ClusterCoordinator, inbox: Inbox, shape: tuple[int, int], *, lacking: bool = False
) -> list[GroupSums]:
    """Return all sites' sums; a first number of 0 in ``shape`` allows any number of groups.

    ``lacking`` goes on without sites that have sent none, as long as one has. Raises a `DataError`
    where sums have another shape or are no numbers.
    """
    sites = coordinator.sites
    if lacking:
        senders = {release.sender for release in inbox}
        sites = tuple(site for site in sites if site in senders) or sites
    releases = from_every_site(sites, inbox, GroupSums)
    for site, release in releases.items():
        sums = release.sums
        if sums.shape[1] != shape[1] or (shape[0] and len(sums) != shape[0]):
            raise DataError(
                f"sums from {site!r} have shape {sums.shape}, expected was {shape}; refused"
            )
        if not (np.isfinite(sums).all() and np.isfinite(release.counts).all()):
            raise DataError(f"sums from {site!r} are not finite numbers; refused")
        if (np.abs(release.counts) > MOST_ROWS).any() or (np.abs(sums) > _LARGEST_SUM).any():
            raise DataError(
                f"sums from {site!r} are of more individuals than there are, or of larger cells "
                "than tables have; refused"
            )
        is_noisy = getattr(coordinator.settings, "noise", None) is not None
        if not is_noisy and (release.counts < 0).any():
            raise DataError(f"sums from {site!r} are of fewer than no individuals; refused")
    return list(releases.values())


# --- columns and scaling ------------------------------------------------------------------------


def _agree_on_columns(coordinator: UnscaledClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    columns = agree_on_columns(coordinator.sites, coordinator.view_order, inbox)
    kinds = describe_kinds(views_with_columns({}, columns[0]))
    return coordinator.with_kinds(kinds), columns


def _measure(site: UnscaledClusterSite | ClusterSite, inbox: Inbox) -> SiteStep:
    """Release what is needed to scale; a site that has no rows yet reads them first."""
    if isinstance(site, UnscaledClusterSite):
        site = site.with_rows(views_with_columns(site.views, agreed_columns(inbox)))
    if site.scale == "none":
        return site, []
    return site, [site.release_sums(0, *sum_columns(site.rows, site.scale))]


def _agree_on_scaling(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Add up, and send every site the scaling."""
    kinds = coordinator.kinds
    if coordinator.scale == "none":
        return replace(coordinator, scaling=Scaling.none(len(kinds))), []
    sums = received_sums(coordinator, inbox, (1, 2 * len(kinds)))
    scaling = combine_sums(sums, coordinator.scale, kinds.is_numeric)
    return replace(coordinator, scaling=scaling), send_scales(coordinator, {_ALL: scaling})


def _scale(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Scale the rows."""
    if site.scale == "none":
        scaling = Scaling.none(len(site.kinds))
    else:
        scaling = read_scales(site, inbox)[_ALL]
    return replace(site, rows=scaling.apply(site.rows), scaling=scaling), []


def send_scales(
    coordinator: ClusterCoordinator, scalings: Mapping[str, Scaling]
) -> list[ColumnScales]:
    """Return the centers and scales of named scalings, for every site."""
    columns = {name: np.stack([s.center, s.scale]) for name, s in scalings.items()}
    return [
        ColumnScales(sender=COORDINATOR, receiver=s, columns=columns) for s in coordinator.sites
    ]


def read_scales(site: ClusterSite, inbox: Inbox) -> dict[str, Scaling]:
    """Return the named scalings that came from the coordinator, or raise a `DataError`."""
    release, shape = first_of_type(inbox, ColumnScales), (2, len(site.kinds))
    if release is None or any(figures.shape != shape for figures in release.columns.values()):
        raise DataError(
            f"site {site.name!r} has received no scaling of its {shape[1]} columns; the "
            "coordinator must send one"
        )
    return {
        name: Scaling(site.scale, site.kinds.is_numeric, center, scale)
        for name, (center, scale) in release.columns.items()
    }


AGREE_ON_COLUMNS = (
    DESCRIBE_COLUMNS,
    Step("agree on columns", one_by_one(_agree_on_columns), "coordinator"),
)
AGREE_ON_SCALING = (
    Step("measure", one_by_one(_measure)),
    Step("agree on a scaling", one_by_one(_agree_on_scaling), "coordinator"),
    Step("scale", one_by_one(_scale)),
)
