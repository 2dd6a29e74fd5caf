"""The coordinator of a private run: matches tokens, deals triples, hands on padded cells.

It learns how many people which views share and ask about, and the sizes of features. It sees no id
that it could test, no share, and no cell: it deals before there are shares, and cells pass it under
pads that their receivers and the computing sites share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_learner import Learned, ask, learn
from cofill.cooperate._private_order import common_order
from cofill.cooperate._private_plan import Plan
from cofill.cooperate._private_site import PrivateSettings, chosen_penalties, require_words
from cofill.errors import DataError
from cofill.privacy import (
    BlindedPoints,
    DealtWords,
    PaddedCells,
    RowFlags,
    SelectedCells,
    SlotPlan,
)
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import Dealer, derive, input_keys, run_as_dealer, split_points
from cofill.views import Scaler


@storable
@dataclass(frozen=True, eq=False)
class Alignment:
    """Everybody's people in one order: each view's slots, whom it asks about, each slot's views."""

    plan: Plan
    slots: Mapping[str, np.ndarray] = field(repr=False)
    asks: Mapping[str, np.ndarray] = field(repr=False)
    patterns: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class PrivateCoordinator:
    """The coordinator's party.

    Attributes
    ----------
    secret
        Start of its randomness; ``run`` counts alignments.
    parties
        The view of each party, in order.
    scalers
        How the sites of a view that several hold have agreed to scale it.
    known, learned
        The plan of learning, and the masks of what was learned.
    alignment
        The present one.
    """

    parties: Mapping[str, str]
    computing: tuple[str, str]
    settings: PrivateSettings
    secret: bytes = field(repr=False)
    run: int = 0
    known: Plan | None = None
    learned: Learned | None = None
    choices: Mapping[str, np.ndarray] = field(default_factory=dict)
    alignment: Alignment | None = None
    scalers: Mapping[str, Scaler] = field(default_factory=dict)

    @property
    def views(self) -> tuple[str, ...]:
        """All views, in order."""
        return tuple(dict.fromkeys(self.parties.values()))

    @property
    def split_views(self) -> dict[str, tuple[str, ...]]:
        """The parties of each view that several sites hold."""
        names = {v: tuple(p for p, of in self.parties.items() if of == v) for v in self.views}
        return {view: parties for view, parties in names.items() if len(parties) > 1}


def match_rows(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Order everybody's people for learning, and deal what the learning needs."""
    party = replace(party, run=party.run + 1)
    settings = party.settings
    alignment, least = (
        _align(party, inbox, settings.folds, settings.most_people),
        settings.min_overlap,
    )
    plan = alignment.plan
    plan.require_learnable(least)
    dealer = replace(_dealer(party), weights=plan.weights(alignment.patterns, least))
    learned, _ = run_as_dealer(learn(dealer, plan, _zeros(plan, asking=False), least))
    party = replace(party, learned=learned, known=plan)
    return party, _placements(party, alignment, dealer)


def match_asked(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Order the people of a request, and deal what the predictions need."""
    party = replace(party, run=party.run + 1)
    alignment = _align(party, inbox, 1)
    plan, known, learned = alignment.plan, party.known, party.learned
    if known is None or learned is None:
        raise DataError("the coordinator has dealt no learning; fit first")
    if plan.widths != known.widths or plan.targets != known.targets:
        raise DataError("sites have other features than they learned with; fit again")
    dealer = replace(_dealer(party), weights=_asked_weights(alignment))
    zeros = _zeros(plan, asking=True)
    least = party.settings.min_overlap
    run_as_dealer(ask(dealer, plan, zeros, learned, known, party.choices, least))
    return replace(party, alignment=alignment), _placements(party, alignment, dealer)


def _asked_weights(alignment: Alignment) -> dict[str, np.ndarray]:
    """Return, for each view and pattern that is asked, whose cells its regression predicts."""
    weights = {}
    for k, view in enumerate(alignment.plan.views):
        is_asked = np.zeros(alignment.plan.slots, bool)
        for name in alignment.plan.parties[k]:
            is_asked[alignment.slots[name][alignment.asks[name]]] = True
        others = alignment.patterns & ~(1 << k)
        for bits in alignment.plan.asked[view]:
            chosen = is_asked & (others == bits)
            weights[f"asked/{view}/{bits}"] = chosen.astype(np.uint64)
    return weights


def _align(
    party: PrivateCoordinator, inbox: Inbox, folds: int, most: int | None = None
) -> Alignment:
    flags = {r.sender: r for r in inbox if isinstance(r, RowFlags)}
    points = {r.origin: split_points(r.points) for r in inbox if isinstance(r, BlindedPoints)}
    sizes: dict[str, tuple[int, int, int]] = {}
    for name, view in party.parties.items():
        if name not in flags or len(points.get(name, ())) != len(flags[name].flags):
            raise DataError(f"the blinded ids of {name!r} are not those it announced; refused")
        if sizes.setdefault(view, _three(flags[name].sizes)) != flags[name].sizes:
            raise DataError(f"{name!r} has other features than the sites of its view; refused")
    words = np.frombuffer(derive(party.secret, f"order/{party.run}"), np.uint32)
    asks = {name: flags[name].flags & 2 > 0 for name in party.parties}
    plan, slots, patterns = common_order(
        party.parties,
        points,
        {name: flags[name].flags & 1 > 0 for name in party.parties},
        {name: asks[name] & (view in party.choices) for name, view in party.parties.items()},
        sizes,
        folds,
        np.random.default_rng(words),
        most,
    )
    return Alignment(plan, slots, asks, patterns)


def _dealer(party: PrivateCoordinator) -> Dealer:
    keys = derive(party.secret, f"0/{party.run}"), derive(party.secret, f"1/{party.run}")
    return Dealer(keys, derive(party.secret, f"own/{party.run}"))


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    features, factors, targets = sizes
    return features, factors, targets


def _zeros(plan: Plan, *, asking: bool) -> dict[str, np.ndarray]:
    return {k: np.zeros(s, np.uint64) for k, s in plan.input_shapes(asking=asking).items()}


def _placements(party: PrivateCoordinator, alignment: Alignment, dealer: Dealer) -> Outbox:
    plan = alignment.plan
    sizes = {
        v: (plan.widths[k], plan.factors[k], plan.targets[k]) for k, v in enumerate(plan.views)
    }
    releases: list[SlotPlan | DealtWords] = []
    for name in party.parties:
        number = party.computing.index(name) if name in party.computing else None
        releases.append(
            SlotPlan(
                sender=COORDINATOR,
                receiver=name,
                slots=alignment.slots[name],
                everyone=plan.slots,
                sizes=sizes,
                patterns=plan.patterns,
                people=plan.people,
                asked=plan.asked,
                keys=input_keys(dealer.keys, name),
                dealer_key=b"" if number is None else dealer.keys[number],
            )
        )
        if number == 1:
            releases.append(DealtWords(sender=COORDINATOR, receiver=name, words=dealer.dealt))
    return releases


def keep_choices(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Keep what owners have chosen: it decides which triples asking needs."""
    if party.known is None:
        raise DataError("the coordinator has dealt no learning; fit first")
    return replace(party, choices=chosen_penalties(inbox, party.known)), []


def select(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Hand each site the padded shares of those it asked about, and of nobody else."""
    alignment = party.alignment
    if alignment is None:
        raise DataError("the coordinator has aligned nobody; start a new run")
    padded = {r.sender: r.words for r in inbox if isinstance(r, PaddedCells)}
    plan = alignment.plan
    shapes = {
        name: (plan.slots, plan.targets[plan.views.index(view)])
        for name, view in party.parties.items()
    }
    first = padded.get(party.computing[0], {})
    for name in party.computing:
        if name not in padded:
            raise DataError(f"the coordinator needs padded cells of {name!r}; start a new run")
        require_words(padded[name], {p: s for p, s in shapes.items() if p in first}, name)
    releases = []
    for receiver, view in party.parties.items():
        slots, bit = alignment.slots[receiver], 1 << plan.views.index(view)
        known = np.isin(alignment.patterns[slots] & ~bit, plan.asked[view])
        # Nothing is sent of people whom no other site knows, nor by whom they are known.
        ids = np.flatnonzero(alignment.asks[receiver] & known & (receiver in first))
        releases += [
            SelectedCells(
                sender=COORDINATOR,
                receiver=receiver,
                part=part,
                ids=ids,
                slots=slots[ids],
                words={receiver: padded[name][receiver][slots[ids]]} if receiver in first else {},
            )
            for part, name in enumerate(party.computing)
        ]
    return replace(party, alignment=None), releases
