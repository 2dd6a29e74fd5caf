"""Cooperation over the network: each site reconstructs the rows it lacks from the others' codes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from cofill.completion import Completed
from cofill.cooperate import CooperativeReconstruction
from cofill.cooperate._estimator import ASKING, fit_steps
from cofill.cooperate._site import Answer, CooperativeSite
from cofill.cooperate._store import _restored
from cofill.cooperate._tables import feature_r2
from cofill.errors import SettingError, StoreError
from cofill.network._agreement import AGREE, OFFER
from cofill.network._intersection import MetSite, named, with_intersection
from cofill.privacy import RunFigures, blind, rows_of
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Federation,
    LocalData,
    Membership,
    SiteResult,
    Step,
    tuples_in,
)
from cofill.views import MultiView, View, to_table

__all__ = ["ALIGNMENTS", "Cooperation"]

ALIGNMENTS = ("hash", "psi")


class Cooperation(AbstractProtocol):
    """Split by view: each site reconstructs the rows it lacks from the others' codes."""

    name = "cooperate"

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> Cooperation:
        return cls(settings, members)

    def __init__(self, ordered: Mapping[str, Any], members: Membership) -> None:
        self.members = members
        if not members.is_by_view:
            raise SettingError(
                "cooperate needs sites that hold a view of their own each, and federation.toml "
                "has sites with none; run federate, cluster or mean"
            )
        settings = dict(ordered)
        self.alignment = settings.pop("alignment", "hash")
        if self.alignment not in ALIGNMENTS:
            raise SettingError(
                f"alignment must be one of {', '.join(ALIGNMENTS)}, got {self.alignment!r}"
            )
        allowed = CooperativeReconstruction().get_params(deep=False)
        allowed.pop("budget")  # every site has its own
        for name in settings:
            if name not in allowed:
                known = ", ".join(sorted([*allowed, "alignment"]))
                raise SettingError(f"cooperate has no setting {name!r}; it has {known}")
        try:
            given = {k: _restored(k, tuples_in(v)) for k, v in settings.items()}
            self.estimator = CooperativeReconstruction(**given)
            self.settings = self.estimator._settings()
            self.seed = int(self.estimator.seed)
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                "the settings of cooperate must have the types of CooperativeReconstruction's "
                f"parameters; got {', '.join(ordered)}"
            ) from None
        plain = (OFFER, AGREE, *fit_steps(self.settings), *ASKING)
        self._steps = plain if self.alignment == "hash" else with_intersection(plain)

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    @property
    def party_sites(self) -> Mapping[str, str]:
        return self.members.view_sites

    def start_site(self, data: LocalData) -> dict[str, Any]:
        views, people = data.views, data.people
        everyone = tuple(self.members.view_sites)
        sites = {
            name: CooperativeSite(
                name=name,
                view=view,
                settings=self.settings,
                seed=self.seed,
                secret=os.urandom(32),
                others=tuple(other for other in everyone if other != name),
            )
            for name, view in views.items()
            if name in everyone
        }
        if self.alignment == "hash":
            return dict(sites)
        return {name: MetSite(site, named(site.view, people)) for name, site in sites.items()}

    def state_of(self, party: CooperativeSite | MetSite) -> Any:
        site = party.site if isinstance(party, MetSite) else party
        again = ("view", "settings")  # read, or made, once more
        kept = {f.name: getattr(site, f.name) for f in fields(site) if f.name not in again}
        met = {"key": party.key, "shared": party.shared} if isinstance(party, MetSite) else None
        return {"site": kept, "met": met}

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        assert data is not None  # noqa: S101
        views, people = data.views, data.people
        view = views.get(name)
        if view is None:
            raise StoreError(f"view {name!r} is not at this site any more; start a new run")
        found = state
        site = CooperativeSite(view=view, settings=self.settings, **found["site"])
        return site if found["met"] is None else MetSite(site, named(view, people), **found["met"])

    def finish(self, party: CooperativeSite | MetSite, data: LocalData) -> SiteResult:
        people = data.people
        party = party.site if isinstance(party, MetSite) else party
        name, view = party.name, party.view
        answer = party.answer or Answer(party.tokens[:0], np.zeros((0, 0)))
        estimator = self.estimator
        estimator.federation_ = Federation({name: party})
        estimator.features_ = {name: view.features}
        estimator._read()
        hopeless = estimator._hopeless()[name]
        known = [view]
        if people is not None and len(people):
            # A second view only makes these people known by their ids.
            known.append(View(f"people of {name}", people, np.zeros((len(people), 1))))
        source = MultiView(known)
        tokens = blind(source.ids, party.secret)
        cells = estimator._settled(name, estimator._cells(name, answer, tokens), hopeless)
        ends: dict[str, Any] = {}
        if estimator.interval is not None:
            found = estimator._ends(name, answer, tokens, estimator.interval)
            for key, end in zip(("lower", "upper"), found, strict=True):
                ends[key] = {name: np.where(np.isnan(cells), np.nan, end)}
        done = Completed.merge(
            source, {name: cells}, method=estimator.name, notes=estimator.notes_, **ends
        )
        tables = {name: done.table(name), f"{name}_origin": done.origin_table(name)}
        unnamed = answer.tokens[rows_of(tokens, answer.tokens) < 0]
        if len(unnamed):
            made = estimator._settled(name, estimator._cells(name, answer, unnamed), hopeless)
            rows = View(name, unnamed.astype(str), made, view.features, id_name="token")
            tables[f"{name}_unnamed"] = to_table(rows)
        texts = {f"{name}_notes.txt": "".join(f"{n}\n" for n in estimator.notes_)}
        counts = done.counts(name)
        r2 = feature_r2(party)
        figures = RunFigures(
            sender=name,
            receiver=COORDINATOR,
            rows=counts["observed_rows"],
            figures={
                **{k: int(v) for k, v in counts.items()},
                "unnamed_rows": len(unnamed),
                "reconstructable_features": int((~hopeless).sum()),
                "links": len(party.model.links),
                "mean_r2": float(np.mean(np.clip(r2, 0.0, 1.0))),
            },
        )
        return SiteResult(tables, texts, figures)
