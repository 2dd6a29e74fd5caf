"""Steps in which sites agree on columns, and then on one scaling of them.

In one process columns are compared as rows are gathered, so that runs there start with the scaling.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cofill.cluster._parties import (
    ClusterCoordinator,
    ClusterSite,
    UnscaledClusterCoordinator,
    UnscaledClusterSite,
    received_sums,
)
from cofill.cluster._rows import describe_kinds
from cofill.cluster._scale import Scaling, combine_sums, sum_columns
from cofill.errors import DataError
from cofill.privacy import ColumnScales
from cofill.protocol import (
    COORDINATOR,
    Inbox,
    Outbox,
    Step,
    agree_on_columns,
    agreed_columns,
    describe_columns,
    one_by_one,
    views_with_columns,
)

_ALL = "rows"  # scales of all views' columns side by side


def _describe(site: UnscaledClusterSite, inbox: Inbox) -> tuple[UnscaledClusterSite, Outbox]:
    return site, [describe_columns(site.name, site.views)]


def _agree_on_columns(
    coordinator: UnscaledClusterCoordinator, inbox: Inbox
) -> tuple[ClusterCoordinator, Outbox]:
    columns = agree_on_columns(coordinator.sites, coordinator.view_order, inbox)
    kinds = describe_kinds(views_with_columns({}, columns[0]))
    return coordinator.with_kinds(kinds), columns


def _measure(site: UnscaledClusterSite | ClusterSite, inbox: Inbox) -> tuple[ClusterSite, Outbox]:
    """Release what is needed to scale; a site that has no rows yet reads them first."""
    if isinstance(site, UnscaledClusterSite):
        site = site.with_rows(views_with_columns(site.views, agreed_columns(inbox)))
    if site.scale == "none":
        return site, []
    return site, [site.release_sums(0, *sum_columns(site.rows, site.scale))]


def _agree_on_scaling(
    coordinator: ClusterCoordinator, inbox: Inbox
) -> tuple[ClusterCoordinator, Outbox]:
    """Add up, and send every site the scaling."""
    kinds = coordinator.kinds
    if coordinator.scale == "none":
        return replace(coordinator, scaling=Scaling.none(len(kinds))), []
    sums = received_sums(coordinator, inbox, (1, 2 * len(kinds)))
    scaling = combine_sums(sums, coordinator.scale, kinds.is_numeric)
    return replace(coordinator, scaling=scaling), send_scales(coordinator, {_ALL: scaling})


def _scale(site: ClusterSite, inbox: Inbox) -> tuple[ClusterSite, Outbox]:
    """Scale the rows."""
    scaling = Scaling.none(len(site.kinds))
    if site.scale != "none":
        scaling = read_scales(site, inbox)[_ALL]
    return replace(site, rows=scaling.apply(site.rows), scaling=scaling), []


def send_scales(
    coordinator: ClusterCoordinator, scalings: dict[str, Scaling]
) -> list[ColumnScales]:
    """Return the centers and scales of named scalings, for every site."""
    columns = {name: np.stack([s.center, s.scale]) for name, s in scalings.items()}
    return [
        ColumnScales(sender=COORDINATOR, receiver=site, columns=columns)
        for site in coordinator.sites
    ]


def read_scales(site: ClusterSite, inbox: Inbox) -> dict[str, Scaling]:
    """Return the named scalings that came from the coordinator, or raise a `DataError`."""
    columns = len(site.kinds)
    for release in inbox:
        if isinstance(release, ColumnScales) and all(
            figures.shape == (2, columns) for figures in release.columns.values()
        ):
            numeric = site.kinds.is_numeric
            return {
                name: Scaling(site.scale, numeric, center, scale)
                for name, (center, scale) in release.columns.items()
            }
    raise DataError(
        f"site {site.name!r} has received no scaling of its {columns} columns; the coordinator "
        "must send one"
    )


AGREE_ON_COLUMNS = (
    Step("describe columns", one_by_one(_describe)),
    Step("agree on columns", one_by_one(_agree_on_columns), "coordinator"),
)
AGREE_ON_SCALING = (
    Step("measure", one_by_one(_measure)),
    Step("agree on a scaling", one_by_one(_agree_on_scaling), "coordinator"),
    Step("scale", one_by_one(_scale)),
)
