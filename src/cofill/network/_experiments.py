"""What can be run over the network: steps, how a site's parties begin, are kept, and end.

An experiment is what a driver needs to know of a protocol beside its steps. It is made from the
run's order at every place alike; a site never runs anything but these steps of its own package.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cofill.completion import Completed
from cofill.cooperate import CooperativeReconstruction
from cofill.cooperate._estimator import ASKING, FIT
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._settings import Architecture, CooperativeSettings
from cofill.cooperate._site import Answer, CooperativeSite, Encoder, Link, Model
from cofill.cooperate._store import _restored
from cofill.cooperate._tables import feature_r2
from cofill.errors import SettingError, StoreError
from cofill.nets import (
    MLP,
    Autoencoder,
    Block,
    DPSettings,
    Fusion,
    FusionSettings,
    Moments,
    TrainSettings,
)
from cofill.network._agreement import AGREE, OFFER
from cofill.network._config import FederationConfig
from cofill.network._intersection import MetSite, named, with_intersection
from cofill.network._order import RunOrder
from cofill.network._packing import pack, unpack
from cofill.privacy import Codes, CodeSpec, Figures, blind, rows_of
from cofill.protocol import COORDINATOR, Federation, Step
from cofill.views import Feature, Kind, MultiView, Scaler, View, to_table, write_table

__all__ = ["ALIGNMENTS", "AbstractExperiment", "Cooperation", "experiment_of"]

ALIGNMENTS = ("hash", "psi")


class AbstractExperiment(ABC):
    """A protocol as places run it.

    A place runs ``steps[k].run`` over the parties it holds. `begin` makes a site's parties from its
    views, `keep` and `restore` turn a party into bytes between steps and back, `finish` writes what
    a party has made and says how it went. `coordinator` is None where sites need none.
    """

    name: ClassVar[str]

    def __init__(self, order: RunOrder, federation: FederationConfig) -> None:
        self.order, self.federation = order, federation

    @property
    @abstractmethod
    def steps(self) -> tuple[Step[Any], ...]:
        """The steps, all of them, in order."""

    @property
    def coordinator(self) -> Any:
        """The coordinator's own party, if the protocol has one."""
        return None

    @abstractmethod
    def begin(self, views: Mapping[str, View], people: np.ndarray | None) -> dict[str, Any]:
        """Return the parties of a site, by name; `people` are ids that it may name."""

    @abstractmethod
    def keep(self, party: Any) -> bytes:
        """Return what a party has become, without the rows it can read again."""

    @abstractmethod
    def restore(self, kept: bytes, view: View | None, people: np.ndarray | None) -> Any:
        """Return the party that `keep` was given, over its view; the coordinator's has none."""

    @abstractmethod
    def finish(self, party: Any, people: np.ndarray | None, folder: Path, form: str) -> Figures:
        """Write what a party has made to a folder and return figures for the coordinator."""


class Cooperation(AbstractExperiment):
    """Split by view: each site reconstructs the rows it lacks from the others' codes."""

    name = "cooperate"

    def __init__(self, order: RunOrder, federation: FederationConfig) -> None:
        super().__init__(order, federation)
        settings = dict(order.settings)
        self.alignment = settings.pop("alignment", "hash")
        if self.alignment not in ALIGNMENTS:
            raise SettingError(
                f"alignment must be one of {', '.join(ALIGNMENTS)}, got {self.alignment!r}"
            )
        plain = (OFFER, AGREE, *FIT, *ASKING)
        self._steps = plain if self.alignment == "hash" else with_intersection(plain)
        allowed = CooperativeReconstruction().get_params(deep=False)
        for name in settings:
            if name not in allowed:
                known = ", ".join(sorted([*allowed, "alignment"]))
                raise SettingError(f"cooperate has no setting {name!r}; it has {known}")
        try:
            given = {k: _restored(k, _tuples(v)) for k, v in settings.items()}
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

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    def begin(self, views: Mapping[str, View], people: np.ndarray | None) -> dict[str, Any]:
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
        }
        if self.alignment == "hash":
            return dict(sites)
        return {name: MetSite(site, named(site.view, people)) for name, site in sites.items()}

    def keep(self, party: CooperativeSite | MetSite) -> bytes:
        site = party.site if isinstance(party, MetSite) else party
        kept = {f.name: getattr(site, f.name) for f in fields(site) if f.name != "view"}
        met = {"key": party.key, "shared": party.shared} if isinstance(party, MetSite) else None
        return pack({"site": kept, "met": met}, _COOPERATE)

    def restore(
        self, kept: bytes, view: View | None, people: np.ndarray | None
    ) -> CooperativeSite | MetSite:
        if view is None:
            raise StoreError("a party of cooperate has a view; start a new run")
        found = unpack(kept, _COOPERATE)
        site = CooperativeSite(view=view, **found["site"])
        return site if found["met"] is None else MetSite(site, named(view, people), **found["met"])

    def finish(
        self, party: CooperativeSite | MetSite, people: np.ndarray | None, folder: Path, form: str
    ) -> Figures:
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
        return Figures(
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


_COOPERATE: dict[str, type] = {
    t.__name__: t
    for t in (
        Answer,
        Architecture,
        Autoencoder,
        Block,
        Codes,
        CodeSpec,
        CooperativeSettings,
        DPSettings,
        Encoder,
        Feature,
        Fusion,
        FusionSettings,
        Kind,
        Link,
        MaskStatistics,
        MLP,
        Model,
        Moments,
        Residuals,
        Scaler,
        TrainSettings,
    )
}

_EXPERIMENTS: dict[str, type[AbstractExperiment]] = {Cooperation.name: Cooperation}


def experiment_of(order: RunOrder, federation: FederationConfig) -> AbstractExperiment:
    """Return the experiment that an order names, or raise a `SettingError`."""
    return _EXPERIMENTS[order.experiment](order, federation)


def _tuples(value: Any) -> Any:
    """Turn the lists inside a table of settings into tuples, as the settings classes have them."""
    if isinstance(value, Mapping):
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    return value
