"""Rounds over the network: sites that hold other individuals train one model and complete them.

The steps are those of `cofill.federate`; before them the sites agree on columns (`_columns`), and
after the last round the coordinator hands the common model out, with which each site completes its
own individuals. A site that is lost is left out of the rounds that it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cofill.errors import DataError, SettingError
from cofill.federate import FederatedCompletion, LocalSettings, RoundSettings, SecureSum
from cofill.federate._estimator import _MODELS
from cofill.federate._parties import Coordinator, RowSite, site_of
from cofill.federate._rounds import round_steps
from cofill.federate._rows import rows_of
from cofill.federate._strategies import STRATEGIES, make_strategy
from cofill.federate._survey import SURVEY, Design, Newcomer, Surveyor
from cofill.nets import DPSettings
from cofill.network._column_steps import INTRODUCE, SETTLE, lifted
from cofill.privacy import Columns, Member, ModelWeights, Release, RunFigures, SiteNoise
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
from cofill.views import MultiView, View

__all__ = ["Rounds", "RowParty"]

Outbox = Sequence[Release]
_DESCRIBE, _AGREE, _ENCODE = SURVEY
_SETTINGS = ("participation", "min_sites", "pretrain", "secure", "site_noise")
_TRAINING = ("epochs", "batch", "learning_rate")
_SURVEYED = 5  # steps before the rounds, none of which can miss a site


@dataclass(frozen=True, eq=False)
class RowParty:
    """A site over the network: its views, the common columns, its party in `cofill.federate`.

    ``weights`` is the common model once it has been handed out.
    """

    name: str
    views: Mapping[str, View]
    design: Callable[[Columns], Design]
    columns: Columns | None = None
    site: Newcomer | RowSite | None = None
    weights: np.ndarray | None = None
    member: Member | None = None


@dataclass(frozen=True, eq=False)
class Chair:
    """The coordinator over the network: the common columns, its party in `cofill.federate`."""

    names: tuple[str, ...]
    order: tuple[str, ...]
    design: Callable[[Columns], Design]
    columns: Columns | None = None
    party: Surveyor | Coordinator | None = None

    def make(self, columns: Columns) -> Surveyor:
        """Return the party that begins, once columns are settled."""
        return Surveyor(self.names, self.design(columns))


class Rounds(AbstractProtocol):
    """Split by row: one model of all modalities, trained in rounds."""

    name = "federate"
    tolerates_absence = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> Rounds:
        return cls(settings, members)

    def __init__(self, ordered: Mapping[str, Any], members: Membership) -> None:
        self.members = members
        self.require_by_row(members)
        given = dict(ordered)
        self._patience = _seconds(given.pop("patience", None))
        try:
            self.estimator = _estimator(given)
            self.settings: RoundSettings = self.estimator.settings or RoundSettings()
            self.settings._check(len(members.sites))
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(
                "the settings of federate must have the types of FederatedCompletion's and "
                f"RoundSettings' parameters; got {', '.join(ordered)}"
            ) from None
        secure = bool(self.settings.secure)
        rounds = [round_steps(secure=secure) for _ in range(self.settings.rounds)]
        if self._pretrains():
            rounds.insert(0, round_steps(pretrain=True, secure=secure))
        self._steps: tuple[Step[Any], ...] = (
            INTRODUCE,
            SETTLE,
            Step(_DESCRIBE.name, _describe),
            Step(_AGREE.name, self._first_model, "coordinator"),
            Step(_ENCODE.name, _encode),
            *(lifted(step) for steps in rounds for step in steps),
            Step("hand out", _hand_out, "coordinator"),
            Step("take the model", _take),
        )

    def _pretrains(self) -> bool:
        """Return whether the model has phases before the rounds, and epochs for them."""
        phases = {"best": (), "pix2pix": (), "vigan": ("autoencoder", "cycle")}
        return any(self.settings.pretrain.get(p) for p in phases[self.estimator.model])

    def _first_model(
        self, parties: Sequence[Chair], inboxes: Sequence[Any], report_progress: Any
    ) -> list[tuple[Chair, Outbox]]:
        made = lifted(_AGREE).run(parties, inboxes, report_progress)
        if self._pretrains():
            return list(made)
        return [(replace(c, party=_at_round_one(c.party)), sent) for c, sent in made]

    def _design(self, columns: Columns) -> Design:
        model = self.estimator
        return Design(
            features=dict(columns.features),
            image_shapes={view: columns.shapes.get(view) for view in columns.features},
            learner=model._learner,
            local=model.local or LocalSettings(),
            settings=self.settings,
            strategy=make_strategy(model.strategy),
            seed=model.seed,
        )

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        return self._steps

    def start_coordinator(self) -> Chair:
        return Chair(self.members.sites, self.members.shared_views, self._design)

    @property
    def patience(self) -> float | None:
        return self._patience

    def may_lack_sites(self, number: int) -> bool:
        return number >= _SURVEYED

    # --- parties ------------------------------------------------------------------------------

    def start_site(self, data: LocalData) -> dict[str, Any]:
        return {data.site: self._party(data)}

    def _party(self, data: LocalData) -> RowParty:
        name = data.site
        views = {v: data.views[v] for v in self.members.shared_views if v in data.views}
        member = None
        if self.settings.secure:
            member = Member(name, COORDINATOR, data.signing_key, dict(data.known_keys))
        return RowParty(name, views, self._design, member=member)

    def state_of(self, party: RowParty | Chair) -> Any:
        inner = party.party if isinstance(party, Chair) else party.site
        kept: dict[str, Any] = {"columns": party.columns, "stage": type(inner).__name__}
        if isinstance(inner, Coordinator):
            made = ("settings", "strategy")
            kept["own"] = {
                f.name: getattr(inner, f.name) for f in fields(inner) if f.name not in made
            }
        if isinstance(inner, RowSite):
            kept["own"] = _kept_site(inner)
        if isinstance(party, RowParty):
            kept["weights"] = party.weights
        return kept

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> RowParty | Chair:
        found = state
        columns, stage = found["columns"], found["stage"]
        if data is None:
            chair = replace(self.start_coordinator(), columns=columns)
            if columns is None:
                return chair
            design = self._design(columns)
            if stage == Surveyor.__name__:
                return replace(chair, party=Surveyor(chair.names, design))
            own = found["own"]
            party = Coordinator(settings=design.settings, strategy=design.strategy, **own)
            return replace(chair, party=party)
        row = replace(self._party(data), columns=columns, weights=found["weights"])
        if columns is None:
            return row
        design, whole = self._design(columns), views_with_columns(row.views, columns)
        if stage == Newcomer.__name__:
            return replace(row, site=Newcomer(name, whole, design))
        site = _restored_site(name, found["own"], whole, design, row.member)
        return replace(row, site=site)

    # --- the end ------------------------------------------------------------------------------

    def finish(self, party: RowParty, data: LocalData) -> SiteResult:
        site, columns = party.site, party.columns
        if not isinstance(site, RowSite) or columns is None or party.weights is None:
            raise DataError(f"site {party.name!r} has not been handed the common model")
        model = self.estimator
        model.learner_, model.scalers_ = site.learner, dict(site.scalers)
        model.features_ = {name: scaler.features for name, scaler in model.scalers_.items()}
        model.weights_, model.notes_ = party.weights, site.notes
        done = model.complete(views_with_columns(party.views, columns))
        total = {"observed_rows": 0, "reconstructed_rows": 0, "reconstructed_cells": 0}
        total |= {"missing_cells": 0}
        tables: dict[str, Any] = {}
        for name in columns.features:
            tables |= {name: done.table(name), f"{name}_origin": done.origin_table(name)}
            counts = done.counts(name)
            total = {key: value + int(counts[key]) for key, value in total.items()}
        texts = {"notes.txt": "".join(f"{note}\n" for note in site.notes)}
        figures = RunFigures(
            sender=party.name, receiver=COORDINATOR, rows=done.views.n_individuals, figures=total
        )
        return SiteResult(tables, texts, figures)

    def summarise(self, party: Chair) -> dict[str, Any]:
        if not isinstance(party.party, Coordinator):
            return {}
        last = party.party
        return {
            "rounds": last.round - 1,
            "weights": len(last.weights),
            "curve": [dict(entry) for entry in last.curve],
            "notes": list(last.notes),
        }


# --- steps --------------------------------------------------------------------------------------


def _describe(
    parties: Sequence[RowParty], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowParty, Outbox]]:
    ready = []
    for party, inbox in zip(parties, inboxes, strict=True):
        columns = agreed_columns(inbox)
        newcomer = Newcomer(
            party.name, views_with_columns(party.views, columns), party.design(columns)
        )
        ready.append(replace(party, columns=columns, site=newcomer))
    return list(lifted(_DESCRIBE).run(ready, inboxes, report_progress))


def _encode(
    parties: Sequence[RowParty], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowParty, Outbox]]:
    made = lifted(_ENCODE).run(parties, inboxes, report_progress)
    return [(replace(p, site=_joined(p.site, p.member)), sent) for p, sent in made]


def _joined(site: Any, member: Member | None) -> RowSite:
    """Return a site that signs its keys of secure sums."""
    return replace(site, member=member)


def _at_round_one(party: Any) -> Coordinator:
    """Return a coordinator that has no pre-training before it."""
    return replace(party, round=1)


def _hand_out(
    parties: Sequence[Chair], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Chair, Outbox]]:
    made = []
    for chair in parties:
        last = chair.party
        assert isinstance(last, Coordinator)  # noqa: S101
        letters = [
            ModelWeights(sender=COORDINATOR, receiver=name, round=last.round, weights=last.weights)
            for name in chair.names
        ]
        made.append((chair, letters))
    return made


def _take(
    parties: Sequence[RowParty], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowParty, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        model = next((r for r in inbox if isinstance(r, ModelWeights)), None)
        made.append((party if model is None else replace(party, weights=model.weights), []))
    return made


# --- settings and states ------------------------------------------------------------------------


def _estimator(given: Mapping[str, Any]) -> FederatedCompletion:
    """Return the estimator that settings describe; sites are trained one by one."""
    own = ("model", "strategy", "network", "seed", "rounds", *_TRAINING)
    known = (*own, "local", *_SETTINGS)
    for name in given:
        if name not in known:
            listed = ", ".join(sorted((*known, "patience")))
            raise SettingError(f"federate has no setting {name!r}; it has {listed}")
    if given.get("model", "best") not in _MODELS:
        raise SettingError(f"model must be one of {', '.join(_MODELS)}, got {given['model']!r}")
    made = FederatedCompletion(**{name: given[name] for name in own if name in given})
    strategy = made.strategy
    if isinstance(strategy, Mapping):
        chosen = dict(strategy)
        named = str(chosen.pop("name", None))
        if named not in STRATEGIES:
            raise SettingError(f"strategy.name must be one of {', '.join(STRATEGIES)}")
        made.strategy = make_strategy(named, **chosen)
    made.seed = int(made.seed)
    made.local = made._local()
    local = dict(given.get("local", {}))
    if local.get("dp") is not None:
        local["dp"] = DPSettings(**local["dp"])
    made.local = replace(made.local, **local)
    settings = {name: given[name] for name in _SETTINGS if name in given}
    if isinstance(settings.get("secure"), Mapping):
        settings["secure"] = SecureSum(**settings["secure"])
    if settings.get("site_noise") is not None:
        settings["site_noise"] = SiteNoise(**settings["site_noise"])
    made.settings = RoundSettings(rounds=made.rounds, together=False, **settings)
    return made


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise SettingError(f"patience must be seconds above 0, got {value!r}")
    return float(value)


_OF_MEMBER = ("round", "stage", "seal_secret", "mask_secret", "own_mask", "roster", "own_shares")


def _kept_site(site: RowSite) -> dict[str, Any]:
    """Return what a site has become; its rows, model and settings are made again."""
    member = site.member
    secrets = None
    if member is not None:
        secrets = {name: getattr(member, name) for name in _OF_MEMBER}
        secrets["received"] = {name: tuple(shares) for name, shares in member.received.items()}
    return {
        "scalers": dict(site.scalers),
        "moments": [np.asarray(leaf) for leaf in jax.tree.leaves(site.moments)],
        "control": site.control,
        "notes": site.notes,
        "secret": site.secret,
        "member": secrets,
        "lesson": site.lesson,
    }


def _restored_site(
    name: str, own: Mapping[str, Any], views: MultiView, design: Design, me: Member | None
) -> RowSite:
    scalers = own["scalers"]
    shape = design.shape(scalers)
    learner = design.learner(shape)
    rows = rows_of(views, scalers, shape)
    site = site_of(name, rows, learner, design.local, design.settings, design.strategy, design.seed)
    structure = jax.tree.structure(design.local.make_optimizer().init(jnp.zeros(1)))
    moments = jax.tree.unflatten(structure, own["moments"]) if own["moments"] else None
    member = me if me is None or own["member"] is None else replace(me, **own["member"])
    return replace(
        site,
        scalers=scalers,
        moments=moments,
        control=own["control"],
        notes=own["notes"],
        secret=own["secret"],
        member=member,
        lesson=own["lesson"],
    )
