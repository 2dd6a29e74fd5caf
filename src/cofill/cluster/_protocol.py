"""The protocol of federated k-means, split by row: sums and counts of groups leave a site.

``describe columns → agree on columns → measure → agree on a scaling → scale → summarise → choose
starts``, then the rounds ``add up groups → move centres``, then ``assign → close``. Every
individual's group stays at its site; the coordinator reports how large the error is. All sites
agree on columns, scaling and starts; a site that is lost later is left out of the rounds that it
misses, and the centres are those of the others' rows.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from annotated_types import Ge
from jaxtyping import Float, Int

from cofill.cluster._kmeans import kmeans_steps
from cofill.cluster._kmeans_settings import KMeansSettings, KMeansState
from cofill.cluster._parties import (
    AGREE_ON_COLUMNS,
    AGREE_ON_SCALING,
    ClusterCoordinator,
    ClusterSite,
    UnscaledClusterCoordinator,
    UnscaledClusterSite,
    start_federation,
)
from cofill.cluster._rows import Sites
from cofill.cluster._scale import require_scale
from cofill.errors import DataError, SettingError
from cofill.privacy import Ledger, RunFigures
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Demands,
    Federation,
    LocalData,
    Membership,
    SiteResult,
    Step,
    run_protocol,
)
from cofill.settings import typed_settings, types_of
from cofill.views import MultiView

Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class AbstractClustering(AbstractProtocol):
    """What protocols that group the rows of all sites share: parties, their states, results.

    A subclass says which settings it has (`settings_type`) and which steps follow once columns are
    agreed on and scaled.
    """

    settings_type: ClassVar[type]
    members: Membership
    settings: Any
    scale: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        self.require_by_row(self.members)
        require_scale(self.scale, getattr(self.settings, "noise", None))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> Self:
        """Return the protocol for settings of plain types."""
        cls.require_by_row(members)
        types = types_of(cls.settings_type) | {"scale": str, "seed": Annotated[int, Ge(0)]}
        values = typed_settings(cls.name, types, settings)
        if "k" not in values:
            raise SettingError(f"{cls.name} needs the number of groups; give --set k=…")
        scale, seed = values.pop("scale", "auto"), values.pop("seed", 0)
        return cls(members, cls.settings_type(**values), scale, seed)

    @abstractmethod
    def group_steps(self) -> tuple[Step[Any], ...]:
        """Return the steps after scaling."""

    @cached_property  # a driver asks for the steps hundreds of times in every step
    def steps(self) -> tuple[Step[Any], ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Columns, scaling, and the steps of the method."""
        return (*AGREE_ON_COLUMNS, *AGREE_ON_SCALING, *self.group_steps())

    # --- parties ------------------------------------------------------------------------------

    def start_site(self, data: LocalData) -> dict[str, UnscaledClusterSite]:
        """Return the site with those of its views that are shared."""
        views = {v: data.views[v] for v in self.members.shared_views if v in data.views}
        site = UnscaledClusterSite(data.site, views, self.settings, self.scale, self.seed)
        return {data.site: site}

    def start_coordinator(self) -> UnscaledClusterCoordinator:
        """Return a coordinator that knows nobody's columns."""
        return UnscaledClusterCoordinator(
            self.members.sites, self.members.shared_views, self.settings, self.scale, self.seed
        )

    def state_of(self, party: Any) -> dict[str, Any] | None:
        """Return what a party has learned; None before it has columns."""
        if isinstance(party, ClusterCoordinator):
            return {"kinds": party.kinds, "scaling": party.scaling, "state": party.state}
        if isinstance(party, ClusterSite):
            kept = ("scaling", "labels", "confidence", "answered")
            memory = self.stored_memory(party)
            return {**{name: getattr(party, name) for name in kept}, "memory": memory}
        return None

    def stored_memory(self, site: ClusterSite) -> Any:
        """Return what the method keeps at a site between its steps, for `codec.encode`."""
        return None

    def restored_memory(self, site: ClusterSite, stored: Any) -> Any:
        """Return the memory of a site from what was stored of it."""
        return None

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        """Return the party with a state; a site reads and scales its rows once more."""
        if data is None:
            coordinator = self.start_coordinator()
            if state is None:
                return coordinator
            return replace(coordinator.with_kinds(state["kinds"]), **state)
        unscaled = self.start_site(data)[name]
        if state is None:
            return unscaled
        site = replace(unscaled.with_rows(MultiView(list(unscaled.views.values()))), **state)
        if site.scaling is not None:
            site = replace(site, rows=site.scaling.apply(site.rows))
        return replace(site, memory=self.restored_memory(site, state["memory"]))

    # --- the end ------------------------------------------------------------------------------

    def finish(self, party: Any, data: LocalData) -> SiteResult:
        """Return the groups of the site's individuals, and how many these are unless with noise."""
        if not isinstance(party, ClusterSite) or party.labels is None or party.confidence is None:
            raise DataError(f"site {party.name!r} has not received the groups")
        views = MultiView([data.views[name] for name in self.members.shared_views])
        id_name = next(iter(views.values())).id_name
        groups = party.labels, party.confidence, self.settings.k, id_name
        table, facts = describe_groups({party.name: views.ids}, *groups)
        rows, figures = len(party.labels), None
        if getattr(self.settings, "noise", None) is None:
            # Noise does not pay for an exact number of rows.
            figures = RunFigures(
                sender=party.name, receiver=COORDINATOR, rows=rows, figures={"individuals": rows}
            )
        record = json.dumps({**facts, "scale": party.scale}) + "\n"
        return SiteResult({"assignments": table}, {"clustering.json": record}, figures)


@dataclass(frozen=True, eq=False)
class ClusterProtocol(AbstractClustering):
    """Groups of all sites' individuals by k-means; views must be complete.

    Parameters
    ----------
    members
        Who takes part, and the views that they share.
    settings, scale, seed
        How k-means is run, how columns are scaled (see `FederatedKMeans`), and the start of all
        randomness.

    Examples
    --------
    >>> members = Membership({"lab": ("blood",), "ward": ("blood",)}, ("blood",))
    >>> protocol = ClusterProtocol.from_settings({"k": 3, "rounds": 1}, members)
    >>> [step.name for step in protocol.steps][4:]
    ['scale', 'summarise', 'choose starts', 'add up groups', 'move centres', 'assign', 'close']
    """

    name: ClassVar[str] = "cluster"
    tolerates_absence: ClassVar[bool] = True
    settings_type: ClassVar[type] = KMeansSettings
    settings: KMeansSettings

    def group_steps(self) -> tuple[Step[Any], ...]:
        """Return starting centres, as many rounds as there may be, groups."""
        return kmeans_steps(self.settings)

    @property
    def demands(self) -> Demands:
        """Noisy sums of every round, or exact ones that each site's coordinator sees."""
        settings, noise = self.settings, self.settings.noise
        rounds = settings.most_rounds
        if noise is not None and noise.seed is None:
            return Demands(("columns",), (noise.event(rounds),), rounds=rounds)
        groups = {"seed_group": settings.seed_group, "min_group": settings.min_group}
        return Demands(("columns", "group-sums"), groups=groups, rounds=rounds, summed_sites=1)

    def may_lack_sites(self, number: int) -> bool:
        """Return whether a step belongs to the rounds or comes after them."""
        return number >= self._first_round

    @cached_property
    def _first_round(self) -> int:
        return [step.name for step in self.steps].index("add up groups")

    def may_be_missed(self, number: int) -> bool:
        """Return whether a step is a round, for rounds after the last that moves are left out."""
        return self.steps[number].name == "add up groups"

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's: ``assign`` once all starts stand."""
        state = getattr(coordinator, "state", None)
        stands = isinstance(state, KMeansState) and not state.running.any()
        assign = len(self.steps) - 2
        return assign if stands and number < assign else number + 1

    def summarise(self, coordinator: Any) -> dict[str, Any]:
        """Return rounds, sum of squared distances and cost of the best start."""
        state = getattr(coordinator, "state", None)
        if not isinstance(state, KMeansState):
            return {}
        inertia = float(state.inertia[0])
        noise = self.settings.noise
        return {
            "k": self.settings.k,
            "rounds": int(state.rounds[0]),
            "inertia": inertia if np.isfinite(inertia) else None,
            **({} if noise is None else {"cost": noise.cost()}),
        }


def run_kmeans(
    sites: Sites,
    settings: KMeansSettings,
    scale: str,
    seed: int,
    ledger: Ledger,
    *,
    init: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Federation[ClusterSite]:
    """Return the sites and their coordinator after k-means in this process.

    ``init`` are starting centres in the rows' units.
    """
    protocol = ClusterProtocol(members_of(sites), settings, scale, seed)
    return run_clustering(protocol, sites, ledger, init=init, progress=progress)


def members_of(sites: Sites) -> Membership:
    """Return who takes part where rows are in this process: each site with one view of rows."""
    view = "rows"
    return Membership(dict.fromkeys(sites, (view,)), (view,))


def run_clustering(
    protocol: AbstractClustering,
    sites: Sites,
    ledger: Ledger,
    *,
    init: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Federation[ClusterSite]:
    """Return the sites and their coordinator after a protocol in this process.

    The rows were compared when they were gathered, so that it starts after the agreement on
    columns. ``init`` is what the coordinator's state is then.
    """
    settings, scale, seed = protocol.settings, protocol.scale, protocol.seed
    federation = start_federation(sites, settings, scale, seed, ledger)
    federation.coordinator = replace(federation.coordinator, state=init)
    federation.next_step = len(AGREE_ON_COLUMNS)
    run_protocol(protocol, [federation], progress=progress)
    return federation


def describe_groups(
    ids: Mapping[str, np.ndarray],
    labels: Int[np.ndarray, " individuals"],
    confidence: Float[np.ndarray, " individuals"],
    k: int,
    id_name: str,
    *,
    name_sites: bool = False,
) -> tuple[pa.Table, dict[str, Any]]:
    """Return everybody's group as a table, and figures of the groups that name nobody.

    ``ids`` are those of each site's individuals in the order of the labels (groups from 0) and of
    the confidence (from 0 to 1); ``name_sites`` adds a column that says who is at which site.
    """
    columns: dict[str, Any] = {
        id_name: np.concatenate(list(ids.values())),
        "cluster": labels,
        "confidence": np.round(confidence, 6),
    }
    if name_sites:
        sites = [site for site, site_ids in ids.items() for _ in range(len(site_ids))]
        columns = {"site": sites, **columns}
    figures = {
        "k": k,
        "sizes": np.bincount(labels, minlength=k).tolist(),
        "mean_confidence": round(float(confidence.mean()), 4),
    }
    return pa.table(columns), figures
