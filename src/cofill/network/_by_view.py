"""Cooperation over the network: each site reconstructs the rows it lacks from the others' codes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from cofill.codec import decode, encode
from cofill.completion import Completed
from cofill.cooperate import CooperativeReconstruction
from cofill.cooperate._estimator import ASKING, fit_steps
from cofill.cooperate._site import Answer, CooperativeSite
from cofill.cooperate._store import _restored
from cofill.cooperate._tables import feature_r2
from cofill.errors import SettingError, StoreError
from cofill.network._agreement import AGREE, OFFER
from cofill.network._config import FederationConfig
from cofill.network._experiment import AbstractExperiment, settings_as
from cofill.network._identity import Identity
from cofill.network._intersection import MetSite, named, with_intersection
from cofill.network._order import RunOrder
from cofill.privacy import RunFigures, blind, rows_of
from cofill.protocol import COORDINATOR, Federation, Step
from cofill.views import MultiView, View, to_table, write_table

__all__ = ["ALIGNMENTS", "Cooperation"]

ALIGNMENTS = ("hash", "psi")


class Cooperation(AbstractExperiment):
    """Split by view: each site reconstructs the rows it lacks from the others' codes."""

    name = "cooperate"

    def __init__(self, order: RunOrder, federation: FederationConfig) -> None:
        super().__init__(order, federation)
        if not federation.by_view:
            raise SettingError(
                "cooperate needs sites that hold a view of their own each, and federation.toml "
                "has sites with none; run federate, cluster or mean"
            )
        settings = dict(order.settings)
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
            given = {k: _restored(k, settings_as(v)) for k, v in settings.items()}
            self.estimator = CooperativeReconstruction(**given)
            self.settings = self.estimator._settings()
            self.seed = int(self.estimator.seed)
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                "the settings of cooperate must have the types of CooperativeReconstruction's "
                f"parameters; got {', '.join(order.settings)}"
            ) from None
        plain = (OFFER, AGREE, *fit_steps(self.settings), *ASKING)
        self._steps = plain if self.alignment == "hash" else with_intersection(plain)

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    def begin(
        self, views: Mapping[str, View], people: np.ndarray | None, me: Identity
    ) -> dict[str, Any]:
        everyone = tuple(self.federation.views)
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

    def keep(self, party: CooperativeSite | MetSite) -> bytes:
        site = party.site if isinstance(party, MetSite) else party
        again = ("view", "settings")  # read, or made, once more
        kept = {f.name: getattr(site, f.name) for f in fields(site) if f.name not in again}
        met = {"key": party.key, "shared": party.shared} if isinstance(party, MetSite) else None
        return encode({"site": kept, "met": met}, format="cofill.state")

    def restore(
        self,
        name: str,
        kept: bytes,
        views: Mapping[str, View],
        people: np.ndarray | None,
        me: Identity,
    ) -> CooperativeSite | MetSite:
        view = views.get(name)
        if view is None:
            raise StoreError(f"view {name!r} is not at this site any more; start a new run")
        found = decode(kept, format="cofill.state")
        site = CooperativeSite(view=view, settings=self.settings, **found["site"])
        return site if found["met"] is None else MetSite(site, named(view, people), **found["met"])

    def finish(
        self, party: CooperativeSite | MetSite, people: np.ndarray | None, folder: Path, form: str
    ) -> RunFigures:
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
        write_table(done.table(name), folder / f"{name}{form}")
        write_table(done.origin_table(name), folder / f"{name}_origin{form}")
        unnamed = answer.tokens[rows_of(tokens, answer.tokens) < 0]
        if len(unnamed):
            made = estimator._settled(name, estimator._cells(name, answer, unnamed), hopeless)
            rows = View(name, unnamed.astype(str), made, view.features, id_name="token")
            write_table(to_table(rows), folder / f"{name}_unnamed{form}")
        (folder / f"{name}_notes.txt").write_text("".join(f"{n}\n" for n in estimator.notes_))
        counts = done.counts(name)
        r2 = feature_r2(party)
        return RunFigures(
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
