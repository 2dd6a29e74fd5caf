"""Federated k-means over the network: sums and counts of groups leave a site, nothing else.

The steps are those of `cofill.cluster`; before them the sites agree on columns. Every individual's
group stays at its site; the coordinator tells how large the groups are. All sites take part to the
end: without the rows of one, the centres would be others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cofill.cluster import FederatedKMeans, GroupNoise
from cofill.cluster._kmeans import KMeansState
from cofill.cluster._rows import Kinds, kinds_of, table_of
from cofill.cluster._scale import chosen_method
from cofill.cluster._site import SCALING, ClusterSite, Conductor
from cofill.errors import DataError, SettingError
from cofill.network._column_steps import INTRODUCE, SETTLE, lifted
from cofill.privacy import Columns, Release, RunFigures
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    LocalData,
    Membership,
    SiteResult,
    Step,
    agreed_columns,
    views_with_columns,
)
from cofill.views import View

__all__ = ["GroupParty", "Grouping"]

Outbox = Sequence[Release]
_MEASURE = SCALING[0]


@dataclass(frozen=True, eq=False)
class GroupParty:
    """A site over the network: its views, the common columns, its party in `cofill.cluster`."""

    name: str
    views: Mapping[str, View]
    make: Callable[[str, Mapping[str, View], Columns], ClusterSite]
    columns: Columns | None = None
    site: ClusterSite | None = None


@dataclass(frozen=True, eq=False)
class GroupChair:
    """The coordinator over the network: the common columns, its party in `cofill.cluster`."""

    names: tuple[str, ...]
    order: tuple[str, ...]
    make: Callable[[Columns], Conductor]
    columns: Columns | None = None
    party: Conductor | None = None


class Grouping(AbstractProtocol):
    """Groups of all sites' individuals by k-means; views must be complete."""

    name = "cluster"

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> Grouping:
        return cls(settings, members)

    def __init__(self, ordered: Mapping[str, Any], members: Membership) -> None:
        self.members = members
        self.require_by_row(members)
        given = dict(ordered)
        known = FederatedKMeans().get_params(deep=False).keys() - {"init", "ks", "choose"}
        for name in given:
            if name not in known:
                raise SettingError(
                    f"cluster has no setting {name!r}; it has {', '.join(sorted(known))}"
                )
        if not isinstance(given.get("k"), int):
            raise SettingError(f"k must be given as a whole number, got {given.get('k')!r}")
        try:
            if given.get("noise") is not None:
                given["noise"] = GroupNoise(**given["noise"])
            self.model = FederatedKMeans(**given)
            self.settings = self.model._settings(given["k"])
            self.model.seed = int(self.model.seed)
        except (TypeError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                "the settings of cluster must have the types of FederatedKMeans' parameters; got "
                f"{', '.join(ordered)}"
            ) from None
        self._steps: tuple[Step[Any], ...] = (
            INTRODUCE,
            SETTLE,
            Step(_MEASURE.name, _measure),
            *(lifted(step) for step in (*SCALING[1:], *self.model._steps(given["k"]))),
        )
        self._assign = next(k for k, s in enumerate(self._steps) if s.name == "assign")

    def _scale(self, kinds: Kinds) -> str:
        method = chosen_method(self.model.scale, kinds.shape)
        if self.model.noise is not None and method != "none":
            raise SettingError(
                "scale must be 'none' with noise, because exact means and spreads would leave "
                f"otherwise, got {self.model.scale!r}; scale by bounds known beforehand"
            )
        return method

    def _conductor(self, columns: Columns) -> Conductor:
        kinds = kinds_of(views_with_columns({}, columns))
        names, seed = self.members.sites, self.model.seed
        return Conductor(names, kinds, self.settings, self._scale(kinds), seed)

    def _site(self, name: str, views: Mapping[str, View], columns: Columns) -> ClusterSite:
        table = table_of(views_with_columns(views, columns), name)
        scale, seed = self._scale(table.kinds), self.model.seed
        return ClusterSite(name, table.rows, table.kinds, self.settings, scale, seed)

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    def start_coordinator(self) -> GroupChair:
        return GroupChair(self.members.sites, self.members.shared_views, self._conductor)

    def may_be_missed(self, number: int) -> bool:
        return number < self._assign and self._steps[number].name == "add up groups"

    def next_step(self, number: int, coordinator: GroupChair) -> int:
        state = None if coordinator.party is None else coordinator.party.state
        if isinstance(state, KMeansState) and number < self._assign and not state.running.any():
            return self._assign
        return number + 1

    def start_site(self, data: LocalData) -> dict[str, Any]:
        return {data.site: self._party(data.site, data.views)}

    def _party(self, name: str, views: Mapping[str, View]) -> GroupParty:
        own = {view: views[view] for view in self.members.shared_views if view in views}
        return GroupParty(name, own, self._site)

    def state_of(self, party: GroupParty | GroupChair) -> Any:
        kept: dict[str, Any] = {"columns": party.columns}
        if isinstance(party, GroupChair) and party.party is not None:
            kept["own"] = {"scaling": party.party.scaling, "state": party.party.state}
        if isinstance(party, GroupParty) and party.site is not None:
            names = ("scaling", "labels", "sureness", "memory")
            kept["own"] = {name: getattr(party.site, name) for name in names}
        return kept

    def restore_party(
        self, name: str, state: Any, data: LocalData | None
    ) -> GroupParty | GroupChair:
        found = state
        columns, own = found["columns"], found.get("own")
        if data is None:
            chair = replace(self.start_coordinator(), columns=columns)
            if columns is None or own is None:
                return chair
            return replace(chair, party=self._conductor(columns).with_(**own))
        party = replace(self._party(name, data.views), columns=columns)
        if columns is None or own is None:
            return party
        site = self._site(name, party.views, columns)
        if own["scaling"] is not None:
            site = site.with_(rows=own["scaling"].apply(site.rows))
        return replace(party, site=site.with_(**own))

    def finish(self, party: GroupParty, data: LocalData) -> SiteResult:
        site, columns = party.site, party.columns
        if site is None or columns is None or site.labels is None or site.sureness is None:
            raise DataError(f"site {party.name!r} has not been told the groups")
        whole = views_with_columns(party.views, columns)
        id_name = next(iter(party.views.values())).id_name
        table = pa.table(
            {
                id_name: whole.ids,
                "cluster": site.labels,
                "confidence": np.round(site.sureness, 6),
            }
        )
        text = json.dumps({"k": self.settings.k, "scale": site.scale}) + "\n"
        figures = None
        if self.settings.noise is None:  # with noise, an exact number of rows is not paid for
            rows = len(site.labels)
            figures = RunFigures(
                sender=party.name, receiver=COORDINATOR, rows=rows, figures={"individuals": rows}
            )
        return SiteResult({"assignments": table}, {"clustering.json": text}, figures)

    def summarise(self, party: GroupChair) -> dict[str, Any]:
        state = None if party.party is None else party.party.state
        if not isinstance(state, KMeansState):
            return {}
        inertia = float(state.inertia[0])
        told: dict[str, Any] = {"k": self.settings.k, "rounds": int(state.rounds[0])}
        told["inertia"] = inertia if np.isfinite(inertia) else None
        if self.settings.noise is not None:
            told["cost"] = self.settings.noise.cost()
        return told


def _measure(
    parties: Sequence[GroupParty], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[GroupParty, Outbox]]:
    ready = []
    for party, inbox in zip(parties, inboxes, strict=True):
        columns = agreed_columns(inbox)
        site = party.make(party.name, party.views, columns)
        ready.append(replace(party, columns=columns, site=site))
    return list(lifted(_MEASURE).run(ready, inboxes, report_progress))
