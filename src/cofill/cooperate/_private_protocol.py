"""Completion on secret shares as one protocol object: no row and no code leaves a site.

The ideal: a trusted machine takes all tables and gives each site the cells it asked for about
people whom others know (of people whom it knows in part, and of some whom it knows, predictions of
all its columns), with errors in cross-validation for each of its columns, and tells everybody how
many people which views share. Where rows have holes it does so in a few rounds, between which sites
fill them by what they were given. What the real protocol shows beside that:

- the two computing sites: eigenvalues of covariances of features over all shared people (one set
  for each regression of each round), and uniform words;
- the coordinator: nothing but the counts, the sizes of features, the choice of penalties and, of
  rows that are asked about, the fold in which they were learned from;
- everybody else: nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from cofill.cooperate import _private_coordinator as coordinator
from cofill.cooperate._policy import CompletionPolicy
from cofill.cooperate._private_completion import completed_by, feature_r2, own_cell_imputers
from cofill.cooperate._private_schedule import Schedule
from cofill.cooperate._private_site import PrivateSettings, PrivateSite
from cofill.errors import SettingError, StoreError
from cofill.privacy import RunFigures, digest_of
from cofill.protocol import (
    COORDINATOR,
    AbstractProtocol,
    Demands,
    LocalData,
    Membership,
    SiteResult,
    Step,
)
from cofill.settings import typed_settings, types_of
from cofill.shares import derive
from cofill.views import MultiView, View

_NOT_IN_STATE = ("name", "view", "settings", "people", "informs", "parties", "computing")


def _digest(people: np.ndarray | None) -> str:
    """Return a hash by which a changed list of people is noticed: states hold positions in it."""
    return "" if people is None else digest_of(people)


def _with_views(members: Membership, names: tuple[str, ...] | None) -> Membership:
    """Return who takes part with some of the views, all where none are named."""
    if names is None:
        return members
    every = {view for view, _ in members.parties.values()}
    if unknown := sorted(set(names) - every):
        raise SettingError(
            f"views must be of those that the federation has ({', '.join(sorted(every))}), got "
            f"{unknown[0]!r}"
        )
    chosen = {s: tuple(v for v in held if v in names) for s, held in members.site_views.items()}
    return Membership(chosen, tuple(v for v in members.shared_views if v in names))


@dataclass(frozen=True, kw_only=True)
class PrivateProtocol(AbstractProtocol):
    """Split by view, on secret shares: each site gets the cells it asks for, and nothing else.

    Parameters
    ----------
    members
        The sites of each view; a party is a view at a site.
    settings
        What all sites do alike.
    policy
        What a site does with features that cannot be reconstructed.
    computing
        The two parties that compute: views, or ``view@site`` of views that several sites hold; the
        first two of different sites unless stated. The coordinator deals, so that it cannot be one
        of them.
    seed, is_local, is_reproducible
        Start of the randomness in what parties make of their own rows, where all of them are in
        one process (`is_local`), and of their secrets as well for tests (`is_reproducible`). Else
        every party draws its own from the operating system: whoever knew the seed could take all
        masks off.

    Examples
    --------
    >>> members = Membership({"lab": ("blood",), "ward": ("signs",)})
    >>> PrivateProtocol(members=members).computing_parties
    ('blood', 'signs')
    """

    name = "private"
    splits_by_view = True

    members: Membership
    settings: PrivateSettings = field(default_factory=PrivateSettings)
    policy: CompletionPolicy = field(default_factory=CompletionPolicy)
    computing: tuple[str, ...] = ()
    seed: int = 0
    is_local: bool = False
    is_reproducible: bool = False

    def __post_init__(self) -> None:
        if len({view for view, _ in self.members.parties.values()}) < 2:
            raise SettingError(
                "private needs sites with different views, and federation.toml has one view only; "
                "run federate, cluster or mean"
            )
        if COORDINATOR in self.computing:
            raise SettingError(
                "the coordinator deals and cannot be a computing site as well: together it would "
                "see everything; name two views of different sites"
            )
        sites = [self.party_sites.get(party) for party in self.computing_parties]
        if len(sites) != 2 or None in sites or sites[0] == sites[1]:
            raise SettingError(
                "computing must name two views of different sites (view@site where several hold "
                f"it), got {', '.join(self.computing_parties) or 'none'}; one site would see both "
                "shares"
            )

    @property
    def computing_parties(self) -> tuple[str, ...]:
        """The two parties that compute."""
        if self.computing:
            return self.computing
        first: dict[str, str] = {}
        for party, site in self.party_sites.items():
            first.setdefault(site, party)
        return tuple(first[site] for site in self.members.sites if site in first)[:2]

    @cached_property
    def _split(self) -> tuple[str, ...]:
        """The parties of views that several sites hold."""
        views = [view for view, _ in self.members.parties.values()]
        return tuple(p for p, (view, _) in self.members.parties.items() if views.count(view) > 1)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> PrivateProtocol:
        """Return the protocol with parameters of `PrivateCompletion`.

        ``views`` are those that take part, all unless stated.
        """
        shared, local = types_of(PrivateSettings), types_of(CompletionPolicy)
        names = tuple[str, ...] | None
        others = {"computing": names, "views": names, "seed": int}
        values = typed_settings(cls.name, {**shared, **local, **others}, settings)
        return cls(
            members=_with_views(members, values.get("views")),
            settings=PrivateSettings(**{k: v for k, v in values.items() if k in shared}),
            policy=CompletionPolicy(**{k: v for k, v in values.items() if k in local}),
            computing=values.get("computing") or (),
            seed=values.get("seed", 0),
        )

    # --- steps ----------------------------------------------------------------------------------

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        """The steps of learning, then those of asking."""
        return self._schedule.steps

    @cached_property
    def _schedule(self) -> Schedule:
        parties, pair = tuple(self.members.parties), self._computing_pair
        return Schedule(parties, pair, self._split, self.settings.rounds)

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's."""
        return self._schedule.next_step(number, coordinator)

    def is_optional(self, number: int) -> bool:
        """Return whether a step may be left out: further frames, parts and rounds."""
        return self._schedule.is_optional(number)

    def may_be_missed(self, number: int) -> bool:
        """Return whether a site that has not done a step can go on: where it may be left out."""
        return self.is_optional(number)

    @property
    def learning(self) -> range:
        """Numbers of the steps up to the last choice of penalties."""
        return range(self.asking.start)

    @property
    def asking(self) -> range:
        """Numbers of the steps from asking to completed cells."""
        return range(self._schedule.asking, len(self._schedule.steps))

    # --- parties --------------------------------------------------------------------------------

    @property
    def party_sites(self) -> Mapping[str, str]:
        """The site of each party: of each view, or of each part of one that several hold."""
        return {party: site for party, (_, site) in self.members.parties.items()}

    @property
    def demands(self) -> Demands:
        """Words that are uniform to their receivers, and what the choice of penalties tells.

        Where several sites hold a view, its columns, and sums over so many sites as hold it.
        """
        groups = {"min_overlap": self.settings.min_overlap}
        plain = ("row-flags", "chosen-penalties")
        if not self._split:
            return Demands(plain, groups=groups, rounds=self.settings.rounds)
        sites = Counter(self.members.parties[party][0] for party in self._split)
        plain = (*plain, "columns", "masked-vector")
        least = min(sites.values())
        return Demands(plain, groups=groups, rounds=self.settings.rounds, summed_sites=least)

    @property
    def is_star(self) -> bool:
        """No: computing sites open shares to each other, which the coordinator must not see."""
        return False

    @property
    def _computing_pair(self) -> tuple[str, str]:
        first, second = self.computing_parties
        return first, second

    def _secret(self, name: str) -> bytes:
        if not self.is_reproducible:
            return os.urandom(32)
        return derive(np.random.default_rng([self.seed, 0x5EC]).bytes(32), name)

    def start_site(self, data: LocalData) -> dict[str, PrivateSite]:
        """Return a party for each view that the site holds."""
        names = {
            view: party
            for party, (view, site) in self.members.parties.items()
            if site == data.site and view in data.views
        }
        if unknown := sorted(set(data.informs) - set(data.views)):
            raise SettingError(
                f"informs must name views that site {data.site!r} has, got {unknown[0]!r}"
            )
        for view, party in names.items():
            if data.informs.get(view) and party in self._split:
                raise SettingError(
                    f"several sites hold view {view!r}, and cannot say yet which of its columns "
                    "may inform whom; leave columns out of the run instead"
                )
        # Which rows a kernel is built on is a site's own affair, like its secret.
        is_seeded = self.is_local or self.is_reproducible
        seed = self.seed if is_seeded else int.from_bytes(os.urandom(4))
        return {
            party: PrivateSite(
                name=party,
                view=data.views[view],
                people=data.people,
                informs=data.informs,
                secret=self._secret(party),
                seed=seed,
                **self._common,
            )
            for view, party in names.items()
        }

    @property
    def _common(self) -> dict[str, Any]:
        return {
            "settings": self.settings,
            "parties": {party: view for party, (view, _) in self.members.parties.items()},
            "computing": self._computing_pair,
        }

    def start_coordinator(self) -> coordinator.PrivateCoordinator:
        """Return a coordinator that has dealt nothing yet."""
        return coordinator.PrivateCoordinator(secret=self._secret(COORDINATOR), **self._common)

    def audit_keys(self, party: PrivateSite) -> dict[str, bytes]:
        """Return how many places there are and those of the party's rows, learning and asking."""
        if party.placement is None:
            return {}
        stage = "learn" if party.placement.plan.folds > 1 else "ask"
        if party.number_of_round:
            stage += f", round {party.number_of_round + 1}"
        places = np.append(party.placed.plan.slots, party.places)
        return {f"{party.name}/{stage}": places.astype("<i8").tobytes()}

    def state_of(self, party: Any) -> dict[str, Any]:
        """Return what a party has learned and received, without rows and ids it can read again."""
        stored = [f.name for f in fields(party) if f.name not in _NOT_IN_STATE]
        state = {name: getattr(party, name) for name in stored}
        return {**state, "people": _digest(getattr(party, "people", None))}

    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        """Return the party of a view, or the coordinator's, with a state."""
        state = dict(state)
        people = state.pop("people")
        if data is None:
            return coordinator.PrivateCoordinator(**self._common, **state)
        view = data.views.get(self.members.parties[name][0])
        if view is None:
            raise StoreError(f"the view of {name!r} is not at this site any more; start a new run")
        if people != _digest(data.people):
            raise StoreError(
                f"the list of people of view {name!r} has changed since the run began, so it "
                "cannot go on; start a new run"
            )
        local = {"view": view, "people": data.people, "informs": data.informs}
        return PrivateSite(name=name, **local, **self._common, **state)

    # --- results --------------------------------------------------------------------------------

    def finish(self, party: PrivateSite, data: LocalData) -> SiteResult:
        """Return the completed view and the origin of its cells."""
        view = party.view
        name, views = view.name, [view]
        if data.people is not None and len(data.people):
            # A second view only makes these people known by their ids.
            views.append(View(f"people of {name}", data.people, np.zeros((len(data.people), 1))))
        parties = {party.name: party}
        imputers = own_cell_imputers(parties, spread=self.policy.interval is not None)
        done = completed_by(MultiView(views), parties, self.policy, "private", imputers)
        counts = done.counts(name)
        r2 = feature_r2(party)
        figures = RunFigures(
            sender=party.name,
            receiver=COORDINATOR,
            rows=counts["observed_rows"],
            figures={
                **{key: int(count) for key, count in counts.items()},
                "reconstructable_features": int((r2 >= self.policy.threshold).sum()),
                "mean_r2": float(np.mean(np.clip(r2, 0.0, 1.0))),
            },
        )
        tables = {name: done.filled(name), f"{name}_origin": done.origin_table(name)}
        notes = "".join(f"{note}\n" for note in done.notes)
        return SiteResult(tables, {f"{name}_notes.txt": notes}, figures)
