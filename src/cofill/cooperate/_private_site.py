"""A site of a private run: its steps from blinded ids to completed cells.

Every site hands in its rows under masks; two of them compute on shares, and every site gets the
cells it has asked for. `_private_protocol.py` has the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_inputs import Choice, LocalModel
from cofill.cooperate._private_learner import (
    PREDICTED_BITS,
    SCORE_BITS,
    SPREAD_BITS,
    Learned,
    ask,
    learn,
    variants,
)
from cofill.cooperate._private_plan import Plan
from cofill.errors import DataError
from cofill.privacy import (
    BlindedPoints,
    ChosenPenalties,
    DealtWords,
    MaskedRows,
    OpenedShares,
    PaddedCells,
    PadKey,
    RowFlags,
    ScoreShares,
    SelectedCells,
    SlotPlan,
)
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import (
    ComputingSite,
    derive,
    from_words,
    mask_input,
    multiply_points,
    points_of,
    random_words,
)
from cofill.views import View

Named = Mapping[str, np.ndarray]


@storable
@dataclass(frozen=True)
class PrivateSettings:
    """What all sites do alike; `PrivateCompletion` documents the parameters."""

    features: int = 150
    folds: int = 3
    min_overlap: int = 20


@storable
@dataclass(frozen=True, eq=False)
class PredictedTargets:
    """Target columns that others' rows predict, for some of the ids that a site asked about."""

    ids: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class PrivateSite:
    """One party of the protocol. A value: steps return changed copies.

    Attributes
    ----------
    views, computing
        All views in order, and the two whose sites compute.
    secret
        Start of the site's randomness; it never leaves. ``run`` counts its alignments.
    people
        Ids whose cells the site asks for although its view has no row of them.
    ids
        The ids of the present alignment, in the shuffled order in which they went out.
    plan, slots, keys, dealer_key, dealt
        What the coordinator has told it.
    inputs, received
        Of a computing site: masked rows by label, and what the other one has opened so far.
    known, learned, choices
        Of a computing site: plan and moments of learning, and what owners have chosen.
    choice
        What this owner has chosen for its own targets.
    pads
        Keys of pads, by view (of a computing site) or by number of the computing site (``"0"``).
    """

    name: str
    view: View
    settings: PrivateSettings
    views: tuple[str, ...]
    computing: tuple[str, str]
    secret: bytes = field(repr=False)
    seed: int = 0
    people: np.ndarray | None = None
    run: int = 0
    model: LocalModel | None = None
    ids: np.ndarray | None = None
    plan: Plan | None = None
    slots: np.ndarray | None = None
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    dealer_key: bytes = field(default=b"", repr=False)
    dealt: Named = field(default_factory=dict, repr=False)
    inputs: Named = field(default_factory=dict, repr=False)
    received: tuple[Named, ...] = field(default=(), repr=False)
    known: Plan | None = None
    learned: Learned | None = None
    scores: Named = field(default_factory=dict, repr=False)
    choices: Named = field(default_factory=dict)
    choice: Choice | None = None
    pads: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    predicted: PredictedTargets | None = None

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

    def key_for(self, purpose: str) -> bytes:
        """Return the key of one purpose in the present run."""
        return derive(self.secret, f"{purpose}/{self.run}")


# --- alignment ------------------------------------------------------------------------------------


def prepare(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Learn features and targets from the site's own rows, and send its ids out blinded."""
    settings = site.settings
    model = LocalModel.fit(site.view, settings.features, len(site.views), site.seed)
    return _blind(replace(site, model=model, run=site.run + 1), site.view.ids)


def request(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send the ids of the site's rows and of people it asks about out blinded."""
    ids = site.view.ids
    if site.people is not None:
        # A site may ask about people of whom it has rows already.
        ids = np.concatenate([ids, site.people[site.view.positions(site.people) < 0]])
    return _blind(replace(site, run=site.run + 1, predicted=None), ids)


def _blind(site: PrivateSite, ids: np.ndarray) -> tuple[PrivateSite, Outbox]:
    words = np.frombuffer(site.key_for("order"), np.uint32)
    ids = ids[np.random.default_rng(words).permutation(len(ids))]
    rows = site.view.positions(ids)
    asks = rows < 0
    asks[~asks] = np.isnan(site.view.cells[rows[~asks]]).any(axis=1)
    flags = (rows >= 0).astype(np.uint8) | (asks.astype(np.uint8) << 1)
    sizes = site.fitted.sizes
    points = multiply_points(points_of(ids), _exponent(site))
    site = replace(
        site, ids=ids, plan=None, slots=None, dealt={}, inputs={}, received=(), pads={}
    )
    return site, [
        RowFlags(sender=site.name, receiver=COORDINATOR, flags=flags, sizes=sizes),
        BlindedPoints(sender=site.name, receiver=_next(site), origin=site.name, points=points),
    ]


def pass_on(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Multiply another site's points by this site's secret number and pass them on."""
    (release,) = (r for r in inbox if isinstance(r, BlindedPoints))
    return site, [_multiplied(site, release, _next(site))]


def hand_in(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Multiply another site's points, as the last of all, and hand them to the coordinator."""
    (release,) = (r for r in inbox if isinstance(r, BlindedPoints))
    return site, [_multiplied(site, release, COORDINATOR)]


def _multiplied(site: PrivateSite, release: BlindedPoints, receiver: str) -> BlindedPoints:
    points = multiply_points(release.points, _exponent(site))
    return replace(release, sender=site.name, receiver=receiver, points=points)


def _exponent(site: PrivateSite) -> bytes:
    # Below the curve's order but for a chance of 2^-32, in which the curve refuses it.
    return site.key_for("exponent")


def _next(site: PrivateSite) -> str:
    return site.views[(site.views.index(site.name) + 1) % len(site.views)]


# --- handing in -----------------------------------------------------------------------------------


def share_rows(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send the rows to learn from, under masks, to the two computing sites."""
    return _hand_in_rows(_with_plan(site, inbox), asking=False)


def share_asked(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send the rows to predict from, under masks, and keys for pads on what will come back."""
    site, outbox = _hand_in_rows(_with_plan(site, inbox), asking=True)
    pads = {str(k): site.key_for(f"pad/{k}") for k in (0, 1)}
    releases = [
        PadKey(sender=site.name, receiver=other, key=pads[str(k)])
        for k, other in enumerate(site.computing)
        if other != site.name
    ]
    return replace(site, pads=pads), [*outbox, *releases]


def _with_plan(site: PrivateSite, inbox: Inbox) -> PrivateSite:
    (told,) = (r for r in inbox if isinstance(r, SlotPlan))
    sizes = [told.sizes[view] for view in site.views]
    widths, factors, targets = (tuple(s[k] for s in sizes) for k in range(3))
    plan = Plan(
        site.views, told.everyone, widths, factors, targets, told.patterns, told.people, told.asked
    )
    dealt = next((r.words for r in inbox if isinstance(r, DealtWords)), {})
    if site.ids is None or len(told.slots) != len(site.ids):
        raise DataError(f"site {site.name!r} was told slots for other people than it has; refused")
    return replace(
        site, plan=plan, slots=told.slots, keys=told.keys, dealer_key=told.dealer_key, dealt=dealt
    )


class _FixedPoint:
    """Encodes a site's own numbers; the computation encodes in the same way."""

    encode = staticmethod(ComputingSite(0, b"").encode)


def _hand_in_rows(site: PrivateSite, *, asking: bool) -> tuple[PrivateSite, Outbox]:
    assert site.plan is not None and site.slots is not None and site.ids is not None
    rows = site.view.positions(site.ids)
    at = np.empty(len(site.view), np.int64)
    at[rows[rows >= 0]] = site.slots[rows >= 0]
    words = site.fitted.inputs(site.view, at, site.plan, _FixedPoint, asking=asking)
    first, second = site.keys
    masked = {
        f"{site.name}/{label}": mask_input((first, second), label, values)
        for label, values in words.items()
    }
    if site.number is not None:
        site = replace(site, inputs=masked)
    return site, [
        MaskedRows(sender=site.name, receiver=other, words=masked, rows=len(site.view))
        for other in site.computing
        if other != site.name
    ]


# --- computing ------------------------------------------------------------------------------------

_RUNNING: dict[bytes, tuple[int, Named, Generator[Any, Any, Any]]] = {}
"""Computations under way, by key; one that is missing is run again from what was received."""


def start_computing(asking: bool) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step in which computing sites begin, once they have everybody's masked rows."""

    def start(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if site.number is None or site.plan is None:
            return site, []
        inputs = dict(site.inputs)
        pads = {r.sender: r.key for r in inbox if isinstance(r, PadKey)}
        for release in inbox:
            if isinstance(release, MaskedRows):
                if not all(label.startswith(f"{release.sender}/") for label in release.words):
                    raise DataError(f"{release.sender!r} sent rows in another's name; refused")
                inputs |= release.words
        expected = site.plan.input_shapes(asking=asking)
        for label, shape in expected.items():
            if label not in inputs or inputs[label].shape != shape:
                sender = label.split("/")[0]
                raise DataError(
                    f"the masked rows {label!r} of site {sender!r} must have the shape {shape}, "
                    f"got {inputs[label].shape if label in inputs else 'none'}; refused"
                )
        site = replace(site, inputs=inputs, pads={**site.pads, **pads})
        shares = _shares_to_open(site, asking)
        return site, [_opened(site, shares)]

    return start


def compute(asking: bool) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step of one round: read what the other computing site opened, open the next."""

    def advance(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if site.number is None:
            return site, []
        site = _with_received(site, inbox, asking)
        shares = _shares_to_open(site, asking)
        return site, [_opened(site, shares)]

    return advance


def finish_learning(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send shares of each view's errors to its owner."""
    if site.number is None:
        return site, []
    learned, scores = _result(_with_received(site, inbox, False), asking=False)
    by_view = {
        view: {label: words for label, words in scores.items() if label.rsplit("/", 1)[0] == view}
        for view in site.views
    }
    site = replace(
        site, learned=learned, known=site.plan, inputs={}, received=(), dealt={},
        scores=by_view[site.name],
    )
    return site, [
        ScoreShares(sender=site.name, receiver=view, words=words)
        for view, words in by_view.items()
        if view != site.name and words
    ]


def finish_asking(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send shares of everybody's cells, under their receivers' pads, to the coordinator."""
    if site.number is None:
        return site, []
    predicted = _result(_with_received(site, inbox, True), asking=True)
    own = {site.name: site.pads[str(site.number)]}
    padded = {}
    for label, words in predicted.items():
        key = {**site.pads, **own}[label.rsplit("/", 1)[0]]
        padded[label] = words + random_words(key, label, words.shape)
    site = replace(site, inputs={}, received=(), dealt={})
    return site, [PaddedCells(sender=site.name, receiver=COORDINATOR, words=padded)]


def _opened(site: PrivateSite, shares: Named) -> OpenedShares:
    other = site.computing[1 - site.computing.index(site.name)]
    return OpenedShares(
        sender=site.name, receiver=other, round=len(site.received), words=dict(shares)
    )


def _with_received(site: PrivateSite, inbox: Inbox, asking: bool) -> PrivateSite:
    """Return the site with what the other computing site opened, which must fit its own shares."""
    own = _shares_to_open(site, asking)
    opened = [r for r in inbox if isinstance(r, OpenedShares)]
    if len(opened) != 1 or opened[0].round != len(site.received):
        raise DataError(
            f"site {site.name!r} needs the shares of round {len(site.received)} and got those of "
            f"{', '.join(str(r.round) for r in opened) or 'none'}; refused"
        )
    words = opened[0].words
    if {k: v.shape for k, v in words.items()} != {k: v.shape for k, v in own.items()}:
        raise DataError(f"site {opened[0].sender!r} sent shares of other shapes; refused")
    return replace(site, received=(*site.received, words))


def _computation(site: PrivateSite, asking: bool) -> Generator[Any, Any, Any]:
    assert site.plan is not None
    computer = ComputingSite(site.number or 0, site.dealer_key, site.dealt)
    least = site.settings.min_overlap
    if not asking:
        return learn(computer, site.plan, site.inputs, least)
    if site.learned is None or site.known is None:
        raise DataError(f"site {site.name!r} has not learned yet; fit first")
    return ask(
        computer, site.plan, site.inputs, site.learned, site.known, site.choices, least
    )


def _shares_to_open(site: PrivateSite, asking: bool) -> Named:
    """Return the shares that come after all that was received so far."""
    token = derive(site.dealer_key, site.name)
    done, shares, computation = _RUNNING.pop(token, (-1, {}, None))
    if computation is None or not 0 <= len(site.received) - done <= 1:
        computation = _computation(site, asking)
        done, shares = 0, next(computation)
    for words in site.received[done:]:
        shares = computation.send({label: shares[label] + words[label] for label in shares})
    _RUNNING[token] = len(site.received), shares, computation
    return shares


def _result(site: PrivateSite, asking: bool) -> Any:
    """Return what a computation comes to after its last round."""
    try:
        _shares_to_open(site, asking)
    except StopIteration as stop:
        return stop.value
    raise DataError("the computation has more rounds than the protocol; report this")


# --- choosing and completing ----------------------------------------------------------------------


def choose(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Open the errors of the site's own targets, choose penalties and tell those who compute."""
    parts = [r.words for r in inbox if isinstance(r, ScoreShares)]
    parts += [site.scores] if site.scores else []
    if len(parts) != 2 or site.plan is None:
        return replace(site, choice=None), []  # nobody shares enough people with this view
    labels = [f"{site.name}/{int(pairs)}" for pairs in variants(site.plan)]
    scores = np.stack([from_words(parts[0][k] + parts[1][k], SCORE_BITS) for k in labels])
    spread = f"{site.name}/spread"
    choice = Choice.of(scores, from_words(parts[0][spread] + parts[1][spread], SPREAD_BITS))
    told = np.stack([choice.variant, choice.penalty]).astype(np.int64)
    receivers = [*(c for c in site.computing if c != site.name), COORDINATOR]
    return replace(site, choice=choice, scores={}, choices={site.name: told}), [
        ChosenPenalties(sender=site.name, receiver=r, choices=told, rows=len(site.view))
        for r in receivers
    ]


def keep_choices(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Keep what owners have chosen, where this site computes."""
    told = {r.sender: r.choices for r in inbox if isinstance(r, ChosenPenalties)}
    return replace(site, choices={**site.choices, **told}), []


def receive_cells(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Take the pads off and add the shares up: the targets of those the site asked about."""
    parts = sorted((r for r in inbox if isinstance(r, SelectedCells)), key=lambda r: r.part)
    if site.plan is None or site.ids is None or len(parts) != 2:
        return site, []
    shape = (site.plan.slots, site.fitted.targets.width)
    ids, targets = [], []
    for label, positions in parts[0].ids.items():
        total = np.zeros((len(positions), shape[1]), np.uint64)
        for part in parts:
            pad = random_words(site.pads[str(part.part)], label, shape)
            total += part.words[label] - pad[part.slots[label]]
        ids.append(site.ids[positions])
        targets.append(from_words(total, PREDICTED_BITS) * np.sqrt(site.plan.slots))
    if not ids:
        return replace(site, predicted=None), []
    return replace(
        site, predicted=PredictedTargets(np.concatenate(ids), np.concatenate(targets))
    ), []
