"""A site of a private run: its view, what it has learned, and what it has been told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Int

from cofill.codec import storable
from cofill.cooperate._private_inputs import Choice, LocalModel
from cofill.cooperate._private_learner import Learned, variants
from cofill.cooperate._private_plan import MANY_VIEWS, Plan
from cofill.errors import DataError, SettingError
from cofill.privacy import ChosenPenalties, Release, require_whole
from cofill.protocol import Inbox
from cofill.shares import derive
from cofill.views import Scaler, View

MOST_FOLDS = 60  # so that a byte holds the number of one beside two flags
# Chosen on hidden cells of raisin, wine, health, parkinsons, yacht and blood. Each round shows
# a site once more what others predict.
MOST_ROUNDS = 3
Named = Mapping[str, np.ndarray]
Kind = TypeVar("Kind", bound=Release)

# Compared with 150 and 250 on rows hidden inside training rows of credit, Scene-15, WDBC and TCGA;
# 250 were a little better. Words, memory and time grow with the square of all views' features times
# the views: of more than four views each has fewer, so that they grow no further.
_MOST_FEATURES = 200


def only_release(inbox: Inbox, kind: type[Kind], receiver: str) -> Kind:
    """Return the one release of a type that must have arrived, or raise a `DataError`."""
    releases = [release for release in inbox if isinstance(release, kind)]
    if len(releases) != 1:
        raise DataError(
            f"{receiver!r} needs one release of the type {kind.kind!r} in this step, got "
            f"{len(releases)}; refused"
        )
    return releases[0]


def require_words(words: Named, shapes: Mapping[str, tuple[int, ...]], sender: str) -> None:
    """Raise a `DataError` unless a sender's words have exactly these labels and shapes."""
    for label in {**shapes, **words}:
        expected, received = shapes.get(label), words.get(label)
        if expected is None or received is None or received.shape != expected:
            raise DataError(
                f"the words {label!r} of {sender!r} must have the shape {expected or 'none'}, got "
                f"{'none' if received is None else received.shape}; refused"
            )


def chosen_penalties(inbox: Inbox, plan: Plan) -> dict[str, np.ndarray]:
    """Return what owners have chosen by view, or raise a `DataError` for what cannot be chosen."""
    leads = {parties[0]: view for view, parties in zip(plan.views, plan.parties, strict=True)}
    chosen_by = {r.sender: r.choices for r in inbox if isinstance(r, ChosenPenalties)}
    if set(chosen_by) - set(leads):
        raise DataError("only the first site of a view chooses penalties for it; refused")
    choices = {leads[sender]: chosen for sender, chosen in chosen_by.items()}
    limits = np.array([[len(variants(plan))], [len(plan.penalties)]])
    for view, chosen in choices.items():
        columns = plan.targets[plan.views.index(view)]
        if chosen.shape != (2, columns) or not (chosen < limits).all():
            raise DataError(
                f"{view!r} must choose a variant and a penalty of those there are for each of its "
                f"{columns} columns, and sent something else; refused"
            )
    return choices


@storable
@dataclass(frozen=True)
class PrivateSettings:
    """What all sites do alike; `PrivateCompletion` documents the parameters."""

    features: int | None = None
    folds: int = 3
    min_overlap: int = 20
    # Rounds: one to three were compared on cells hidden inside the known ones of raisin, wine,
    # health, parkinsons, yacht and blood; three were nearest to rows in one place on average.
    rounds: int = 3
    # Compared with 20,000 on rows hidden inside training rows of credit, Scene-15, WDBC and TCGA.
    most_people: int = 30_000
    most_asked: int = 10_000

    def __post_init__(self) -> None:
        require_whole("most_asked", self.most_asked, 10)
        require_whole("most_people", self.most_people, 100)
        if self.features is not None:
            require_whole("features", self.features, 1)
        require_whole("folds", self.folds, 2)
        if self.folds > MOST_FOLDS:
            raise SettingError(f"folds must be at most {MOST_FOLDS}, got {self.folds}")
        require_whole("min_overlap", self.min_overlap, 1)
        require_whole("rounds", self.rounds, 1)
        if self.rounds > MOST_ROUNDS:
            raise SettingError(f"rounds must be at most {MOST_ROUNDS}, got {self.rounds}")

    def features_of(self, views: int) -> int:
        """Return how many features a view may have among so many views."""
        if self.features is not None:
            return self.features
        return int(_MOST_FEATURES * min(1.0, MANY_VIEWS / views) ** 1.75)


@storable
@dataclass(frozen=True, eq=False)
class PredictedTargets:
    """Target columns that others' rows predict, and whose: positions among a site's ``ids``."""

    at: np.ndarray
    targets: np.ndarray


@storable
@dataclass(frozen=True, eq=False)
class Placement:
    """What the coordinator tells a site: the plan, its slots, keys of its masks, dealt words."""

    plan: Plan
    slots: np.ndarray
    keys: tuple[bytes, ...] = field(repr=False)
    dealer_key: bytes = field(default=b"", repr=False)
    dealt: Named = field(default_factory=dict, repr=False)


@storable
@dataclass(frozen=True, eq=False)
class SiteRound:
    """What a site keeps of a round of learning; `PrivateSite` says what each is."""

    parts: np.ndarray
    known: Plan | None
    learned: Learned | None
    choices: Named
    choice: Choice | None


_OF_A_ROUND = tuple(f.name for f in fields(SiteRound))


@dataclass(frozen=True, eq=False)
class PrivateSite:
    """One party of the protocol. A value: steps return changed copies.

    Attributes
    ----------
    parties, computing
        The view of each party, in order, and the two parties that compute.
    secret
        Start of the site's randomness; it never leaves. ``run`` counts its alignments.
    people
        Ids whose cells the site asks for although its view has no row of them.
    informs
        By own view and other view, the columns that may inform it; all where nothing is said.
    scaler
        Of a view that several sites hold: its columns, and how they have agreed to scale them.
    order
        Positions, among its rows' ids and then the people's, in which ids went out in the present
        alignment.
    parts
        Of each of its rows, the fold in which it was learned from, counted from 1; 0 where it was
        not.
    placement
        What the coordinator has told it in the present alignment.
    inputs, received
        Of a computing site: masked rows by label, and what the other one has opened so far.
    known, learned, choices
        Of a computing site: plan and moments of learning, and what owners have chosen.
    choice
        What this owner has chosen for its own targets.
    pads
        Keys of pads, by view (of a computing site) or by number of the computing site (``"#0"``).
    part
        How many parts of the people have been asked about in the present request.
    number_of_round, rounds
        The round of learning whose plan, moments and choices these are, and what was kept of all
        rounds that were left for another one.
    fills
        Cells for the holes inside its rows, one after another, as the rounds before made them.
    learned_fills
        These cells in each round of learning but the first, from its own rows as they are.
    earlier
        What rounds before this one predicted in the present request, at positions in `known_ids`.
    """

    name: str
    view: View
    settings: PrivateSettings
    parties: Mapping[str, str]
    computing: tuple[str, str]
    secret: bytes = field(repr=False)
    seed: int = 0
    people: np.ndarray | None = None
    informs: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    run: int = 0
    scaler: Scaler | None = None
    model: LocalModel | None = None
    order: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    parts: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8), repr=False)
    placement: Placement | None = None
    inputs: Named = field(default_factory=dict, repr=False)
    received: tuple[Named, ...] = field(default=(), repr=False)
    known: Plan | None = None
    learned: Learned | None = None
    scores: Named = field(default_factory=dict, repr=False)
    choices: Named = field(default_factory=dict)
    choice: Choice | None = None
    pads: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    predicted: PredictedTargets | None = None
    part: int = 0
    number_of_round: int = 0
    rounds: tuple[SiteRound, ...] = ()
    fills: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    learned_fills: tuple[np.ndarray, ...] = field(default=(), repr=False)
    earlier: tuple[PredictedTargets, ...] = ()

    @property
    def table(self) -> View:
        """Its view, holes inside rows filled as the rounds before made them, if there were any."""
        if not len(self.fills):
            return self.view
        cells = self.view.cells.copy()
        cells[np.isnan(cells)] = self.fills
        return self.view.with_rows(self.view.ids, cells)

    @property
    def choices_so_far(self) -> tuple[Choice | None, ...]:
        """What this owner chose for its targets, in each round up to the present one."""
        return (*(r.choice for r in self.rounds[: self.number_of_round]), self.choice)

    @property
    def views(self) -> tuple[str, ...]:
        """All views, in order."""
        return tuple(dict.fromkeys(self.parties.values()))

    @property
    def peers(self) -> tuple[str, ...]:
        """The parties of its view, itself among them."""
        return tuple(p for p, view in self.parties.items() if view == self.parties[self.name])

    @property
    def ring(self) -> str | None:
        """The next party of its view, or None where it is alone."""
        peers = self.peers
        return peers[(peers.index(self.name) + 1) % len(peers)] if len(peers) > 1 else None

    @property
    def agreed_scaler(self) -> Scaler:
        """How the sites of its view have agreed to scale it, or a `DataError`."""
        if self.scaler is None:
            raise DataError(f"site {self.name!r} has agreed on no scales; start a new run")
        return self.scaler

    @property
    def number(self) -> int | None:
        """Its number as a computing site, or None."""
        return self.computing.index(self.name) if self.name in self.computing else None

    @property
    def fitted(self) -> LocalModel:
        """What it has learned from its own rows, or a `DataError`."""
        if self.model is None:
            raise DataError(f"site {self.name!r} has not been fitted; fit it first")
        return self.model

    @property
    def placed(self) -> Placement:
        """What the coordinator has told it, or a `DataError`."""
        if self.placement is None:
            raise DataError(f"site {self.name!r} has not been aligned; start a new run")
        return self.placement

    @property
    def known_ids(self) -> np.ndarray:
        """The ids of its rows, then those of people it asks about and has no row of."""
        if self.people is None:
            return self.view.ids
        return np.concatenate([self.view.ids, self.people[self.view.positions(self.people) < 0]])

    @property
    def ids(self) -> np.ndarray:
        """The ids of the present alignment, in the order in which they went out."""
        return self.known_ids[self.order]

    @property
    def places(self) -> Int[np.ndarray, " rows"]:
        """The slot of each of its rows in the present alignment, -1 where it was left out."""
        rows = self.view.positions(self.ids)
        places = np.full(len(self.view), -1)
        places[rows[rows >= 0]] = self.placed.slots[rows >= 0]
        return places

    def holding(self, view: View, people: np.ndarray | None) -> PrivateSite:
        """Return the site with a view of other people, among them some it has learned from."""
        rows = self.view.positions(view.ids)

        def moved(parts: np.ndarray) -> np.ndarray:
            return np.where(rows >= 0, parts[rows], 0).astype(np.uint8)

        rounds = tuple(replace(kept, parts=moved(kept.parts)) for kept in self.rounds)
        site = replace(self, view=view, people=people, parts=moved(self.parts), rounds=rounds)
        same_cells = np.array_equal(view.cells, self.view.cells, equal_nan=True)
        if not (same_cells and np.array_equal(view.ids, self.view.ids)):
            site = replace(site, learned_fills=())
        return replace(site, fills=np.empty(0), earlier=())

    def in_round(self, number: int) -> PrivateSite:
        """Return the site with what it keeps of a round, an empty one after the last."""
        kept = SiteRound(**{name: getattr(self, name) for name in _OF_A_ROUND})
        at = self.number_of_round
        rounds = (*self.rounds[:at], kept, *self.rounds[at + 1 :])
        nothing = SiteRound(np.zeros(len(self.view), np.uint8), None, None, {}, None)
        values = rounds[number] if number < len(rounds) else nothing
        values = {name: getattr(values, name) for name in _OF_A_ROUND}
        return replace(self, rounds=rounds, number_of_round=number, **values)

    def without_shares(self) -> PrivateSite:
        """Return the site without shares, keys and words of a computation that is over."""
        placement = replace(self.placed, dealer_key=b"", dealt={})
        return replace(self, placement=placement, inputs={}, received=())

    def key_for(self, purpose: str) -> bytes:
        """Return the key of one purpose in the present run."""
        return derive(self.secret, f"{purpose}/{self.run}")
