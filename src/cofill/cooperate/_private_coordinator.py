"""The coordinator of a private run: matches tokens, deals triples, hands on padded cells.

It learns how many people which views share and ask about, and the sizes of features. It sees no id
that it could test, no share, and no cell: it deals before there are shares, and cells pass it under
pads that their receivers and the computing sites share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_inputs import EVERYBODY
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

MOST_FRAMES, MOST_PARTS = 16, 100
"""How many messages of dealt words a computation may take, and parts of people a request."""
_FRAME = 64 * 2**20  # bytes of dealt words in a message, unless one matrix alone is larger


@storable
@dataclass(frozen=True, eq=False)
class Alignment:
    """Everybody's people in one order: each party's slots, whom it asks about, each slot's views.

    ``parts`` are the people who are left out of what predicts somebody, in the order of ``asks``.
    """

    plan: Plan
    slots: Mapping[str, np.ndarray] = field(repr=False)
    asks: Mapping[str, np.ndarray] = field(repr=False)
    parts: Mapping[str, np.ndarray] = field(repr=False)
    patterns: np.ndarray = field(repr=False)


@storable
@dataclass(frozen=True, eq=False)
class DealtRound:
    """What the coordinator keeps of a round of learning; `PrivateCoordinator` says what each is."""

    known: Plan | None
    learned: Learned | None
    choices: Mapping[str, np.ndarray]


_OF_A_ROUND = tuple(f.name for f in fields(DealtRound))


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
    part
        Which part of the people is asked about.
    frames, frame
        How many frames the words have that were dealt last, and how many of them are out.
    number_of_round, rounds
        The round of learning whose plan, masks and choices these are, and what was kept of all
        rounds that were left for another one.
    has_rounds
        Whether there is more than one: some site has rows with holes, and all may inform all.
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
    part: int = 0
    frames: int = 0
    frame: int = 0
    scalers: Mapping[str, Scaler] = field(default_factory=dict)
    number_of_round: int = 0
    rounds: tuple[DealtRound, ...] = ()
    has_rounds: bool = False

    def in_round(self, number: int) -> PrivateCoordinator:
        """Return the party with what it keeps of a round, an empty one after the last."""
        kept = DealtRound(**{name: getattr(self, name) for name in _OF_A_ROUND})
        at = self.number_of_round
        rounds = (*self.rounds[:at], kept, *self.rounds[at + 1 :])
        chosen = rounds[number] if number < len(rounds) else DealtRound(None, None, {})
        values = {name: getattr(chosen, name) for name in _OF_A_ROUND}
        return replace(self, rounds=rounds, number_of_round=number, **values)

    @property
    def parts(self) -> int:
        """In how many parts the people of the present alignment are asked about."""
        people = 0 if self.alignment is None else self.alignment.plan.slots
        return -(-people // self.settings.most_asked)

    @property
    def views(self) -> tuple[str, ...]:
        """All views, in order."""
        return tuple(dict.fromkeys(self.parties.values()))

    @property
    def split_views(self) -> dict[str, tuple[str, ...]]:
        """The parties of each view that several sites hold."""
        names = {v: tuple(p for p, of in self.parties.items() if of == v) for v in self.views}
        return {view: parties for view, parties in names.items() if len(parties) > 1}


_DEALT: dict[bytes, list[dict[str, np.ndarray]]] = {}
"""Frames of dealt words on their way, by key; what is missing is dealt again."""


Act = Callable[[PrivateCoordinator, Inbox], tuple[PrivateCoordinator, Outbox]]


def match_rows(number: int) -> Act:
    """Return the step in which people are ordered and learning is dealt for, by round."""

    def act(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
        party = replace(party.in_round(number), run=party.run + 1, learned=None, known=None)
        settings = party.settings
        alignment = _align(party, inbox, settings.folds, settings.most_people)
        alignment.plan.require_learnable(settings.min_overlap)
        if not number:
            is_asked = any(asks.any() for asks in alignment.asks.values())
            audiences = {group[2] for groups in alignment.plan.groups for group in groups}
            party = replace(party, has_rounds=is_asked and audiences == {EVERYBODY})
        party, dealer = _deal(replace(party, alignment=alignment))
        return _placed(party, alignment, dealer)

    return act


def match_asked(number: int) -> Act:
    """Return the step in which people asked about are ordered and the first part is dealt for."""
    return lambda party, inbox: _match_asked(party.in_round(number), inbox)


def _match_asked(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    party = replace(party, run=party.run + 1)
    alignment = _align(party, inbox, 1)
    plan, known = alignment.plan, party.known
    if known is None or party.learned is None:
        raise DataError("the coordinator has dealt no learning; fit first")
    if (plan.groups, plan.targets) != (known.groups, known.targets):
        raise DataError("sites have other features than they learned with; fit again")
    party = replace(party, alignment=alignment, part=0)
    if party.parts > MOST_PARTS:
        raise DataError(
            f"at most {MOST_PARTS * party.settings.most_asked:,} people can be asked about at "
            f"once, got {plan.slots:,}; raise most_asked, or ask about them in several runs"
        )
    party, dealer = _deal(party)
    return _placed(party, _part_of(alignment, party), dealer)


def deal_part(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Deal what the predictions of the next part of the people need, if there is one."""
    if party.alignment is None or party.part + 1 >= party.parts:
        return replace(party, alignment=None), []
    alignment = party.alignment
    party, dealer = _deal(replace(party, part=party.part + 1))
    return _placed(party, _part_of(alignment, party), dealer)


def deal_on(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Send the next frame of dealt words."""
    dealt = _DEALT.get(_token(party))
    if dealt is None or not dealt[party.frame]:  # by another process, or sent and forgotten
        party = replace(_deal(party)[0], frame=party.frame)
    party, words = _next_frame(party)
    return party, [DealtWords(sender=COORDINATOR, receiver=party.computing[1], words=words)]


def _next_frame(party: PrivateCoordinator) -> tuple[PrivateCoordinator, dict[str, np.ndarray]]:
    """Return a frame that has not been sent, and forget all when it is the last one."""
    token = _token(party)
    words = _DEALT[token][party.frame]
    _DEALT[token][party.frame] = {}  # a gigabyte in all
    party = replace(party, frame=party.frame + 1)
    if party.frame == party.frames:
        del _DEALT[token]
    return party, words


def _deal(party: PrivateCoordinator) -> tuple[PrivateCoordinator, Dealer]:
    """Deal for learning, or for the present part of the people, in frames of a bounded size."""
    alignment, settings = party.alignment, party.settings
    if alignment is None:
        raise DataError("the coordinator has aligned nobody; start a new run")
    plan, least = alignment.plan, settings.min_overlap
    run = f"{party.run}/{party.part}"
    keys = derive(party.secret, f"0/{run}"), derive(party.secret, f"1/{run}")
    dealer = Dealer(keys, derive(party.secret, f"own/{run}"))
    if plan.folds > 1 or party.learned is None or party.known is None:
        dealer = replace(dealer, weights=plan.weights(alignment.patterns, least))
        learned, _ = run_as_dealer(learn(dealer, plan, _zeros(plan, asking=False), least))
        party = replace(party, learned=learned, known=plan)
    else:
        part = _part_of(alignment, party)
        dealer = replace(dealer, weights=_asked_weights(part))
        zeros = _zeros(part.plan, asking=True)
        known = party.learned, party.known
        run_as_dealer(ask(dealer, part.plan, zeros, *known, party.choices, least))
    _DEALT[_token(party)] = frames = _framed(dealer.dealt)
    if len(frames) > MOST_FRAMES:
        raise DataError(
            f"this run would deal more than {MOST_FRAMES} messages of {_FRAME >> 20} MiB at "
            "once; lower features, most_people or most_asked"
        )
    return replace(party, frames=len(frames), frame=0), dealer


def _framed(words: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return words in frames: as many labels together as fit, and at least one."""
    frames: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for label, values in words.items():
        if frames[-1] and size + values.nbytes > _FRAME:
            frames.append({})
            size = 0
        frames[-1][label] = values
        size += values.nbytes
    return frames


def _token(party: PrivateCoordinator) -> bytes:
    return derive(party.secret, f"dealt/{party.run}/{party.part}")


def _part_of(alignment: Alignment, party: PrivateCoordinator) -> Alignment:
    """Return the alignment of every k-th slot, in which everybody else has none."""
    count, part = party.parts, party.part
    plan = replace(alignment.plan, slots=len(range(part, alignment.plan.slots, count)))
    slots = {
        name: np.where((at >= 0) & (at % count == part), at // count, -1)
        for name, at in alignment.slots.items()
    }
    patterns = alignment.patterns[part::count]
    return replace(alignment, plan=plan, slots=slots, patterns=patterns)


def _asked_weights(alignment: Alignment) -> dict[str, np.ndarray]:
    """Return, for each view, pattern and part asked, whose cells its regression predicts."""
    weights = {}
    for k, view in enumerate(alignment.plan.views):
        left_out = np.full(alignment.plan.slots, -1)  # of those who are asked about
        for name in alignment.plan.parties[k]:
            is_asked = alignment.asks[name] & (alignment.slots[name] >= 0)
            left_out[alignment.slots[name][is_asked]] = alignment.parts[name][is_asked]
        others = alignment.patterns & ~(1 << k)
        for bits, part in alignment.plan.asked[view]:
            chosen = (left_out == part) & (others == bits)
            weights[f"asked/{view}/{bits}/{part}"] = chosen.astype(np.uint64)
    return weights


def _align(
    party: PrivateCoordinator, inbox: Inbox, folds: int, most: int | None = None
) -> Alignment:
    flags = {r.sender: r for r in inbox if isinstance(r, RowFlags)}
    points = {r.origin: split_points(r.points) for r in inbox if isinstance(r, BlindedPoints)}
    sizes: dict[str, tuple[int, int, int]] = {}
    groups: dict[str, tuple[tuple[int, ...], ...]] = {}
    for name, view in party.parties.items():
        if name not in flags or len(points.get(name, ())) != len(flags[name].flags):
            raise DataError(f"the blinded ids of {name!r} are not those it announced; refused")
        same = groups.setdefault(view, flags[name].groups) == flags[name].groups
        if sizes.setdefault(view, _three(flags[name].sizes)) != flags[name].sizes or not same:
            raise DataError(f"{name!r} has other features than the sites of its view; refused")
    words = np.frombuffer(derive(party.secret, f"order/{party.run}"), np.uint32)
    asks = {name: flags[name].flags & 2 > 0 for name in party.parties}
    parts = {name: (flags[name].flags >> 2).astype(np.int64) for name in party.parties}
    known = party.known
    if any((at > (known.folds if known else 0)).any() for at in parts.values()):
        raise DataError("a site names a part of the people that nobody learned from; refused")
    plan, slots, patterns = common_order(
        party.parties,
        points,
        {name: flags[name].flags & 1 > 0 for name in party.parties},
        {name: asks[name] & (view in party.choices) for name, view in party.parties.items()},
        parts,
        sizes,
        groups,
        folds,
        np.random.default_rng(words),
        most,
    )
    return Alignment(plan, slots, asks, parts, patterns)


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    features, factors, targets = sizes
    return features, factors, targets


def _zeros(plan: Plan, *, asking: bool) -> dict[str, np.ndarray]:
    return {k: np.zeros(s, np.uint64) for k, s in plan.input_shapes(asking=asking).items()}


def _placed(
    party: PrivateCoordinator, alignment: Alignment, dealer: Dealer
) -> tuple[PrivateCoordinator, Outbox]:
    """Tell every site its slots and keys, and the second computing site what was dealt first."""
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
                groups=dict(zip(plan.views, plan.groups, strict=True)),
                keys=input_keys(dealer.keys, name),
                dealer_key=b"" if number is None else dealer.keys[number],
            )
        )
        if number == 1:
            party, words = _next_frame(party)
            releases.append(DealtWords(sender=COORDINATOR, receiver=name, words=words))
    return party, releases


def keep_choices(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Keep what owners have chosen: it decides which triples asking needs."""
    if party.known is None:
        raise DataError("the coordinator has dealt no learning; fit first")
    return replace(party, alignment=None, choices=chosen_penalties(inbox, party.known)), []


def select(party: PrivateCoordinator, inbox: Inbox) -> tuple[PrivateCoordinator, Outbox]:
    """Hand each site the padded shares of those it asked about, and of nobody else."""
    if party.alignment is None:
        raise DataError("the coordinator has aligned nobody; start a new run")
    alignment = _part_of(party.alignment, party)
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
        patterns = [bits for bits, _ in plan.asked[view]]
        known = np.isin(alignment.patterns[slots] & ~bit, patterns)
        # Nothing is sent of people whom no other site knows, nor by whom they are known.
        is_sent = alignment.asks[receiver] & (slots >= 0) & known
        ids = np.flatnonzero(is_sent & (receiver in first))
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
    return party, releases
