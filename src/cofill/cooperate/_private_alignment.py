"""A private site's first steps: blinded ids go round, masked rows go to those who compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cofill.cooperate._private_completion import fill_holes
from cofill.cooperate._private_inputs import EVERYBODY, LocalModel
from cofill.cooperate._private_plan import Plan
from cofill.cooperate._private_site import (
    Placement,
    PredictedTargets,
    PrivateSite,
    only_release,
)
from cofill.cooperate._private_survey import common_model
from cofill.errors import DataError
from cofill.privacy import BlindedPoints, DealtWords, MaskedRows, PadKey, RowFlags, SlotPlan
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import ComputingSite, blind_ids, mask_input, multiply_points

_MOST_PRACTICE = 1_000
_NONE = np.empty(0)


def prepare(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Learn features and targets from the site's own rows, and send its ids out blinded.

    Sites that hold the same view have agreed on both.
    """
    settings = site.settings
    if site.ring is not None:
        model = common_model(site, inbox)
    else:
        informs = site.informs.get(site.view.name, {})
        width = settings.features_of(len(site.views))
        model = LocalModel.fit(site.view, width, site.views, site.seed, informs)
    nowhere = np.zeros(len(site.view), np.uint8)
    return _blind(replace(site, model=model, run=site.run + 1, parts=nowhere), len(site.view))


def prepare_round(number: int) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step in which sites fill holes by what others predicted, to learn once more.

    Features and targets stay those of the first round, made from rows without holes now.
    """

    def act(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if any(group[2] != EVERYBODY for groups in site.placed.plan.groups for group in groups):
            raise DataError(
                "cells of columns that may not inform everybody would go on in those that were "
                f"filled from them; site {site.name!r} learns in one round only"
            )
        site = _with_holes_filled(site, fill_holes(site))
        learned_fills = (*site.learned_fills[: number - 1], site.fills)
        site = replace(site.in_round(number), run=site.run + 1, learned_fills=learned_fills)
        return _blind(site, len(site.view))

    return act


def request(
    number: int, *, only_rows: bool = False
) -> Callable[[PrivateSite, Inbox], tuple[PrivateSite, Outbox]]:
    """Return the step in which ids of rows and of people to ask about go out blinded, by round.

    ``only_rows`` asks about rows with holes and nobody else: learning goes on with them, and their
    holes are filled as this round of learning found them.
    """

    def act(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
        if not number:
            site = replace(site, fills=_NONE, earlier=())
        elif not only_rows:
            # Of rows that were learned from, the holes need not be filled by the same cells again.
            known = site.learned_fills[number - 1 : number]
            site = _with_holes_filled(site, known[0] if known else fill_holes(site))
        site = replace(site.in_round(number), run=site.run + 1, predicted=None)
        return _blind(site, len(site.view if only_rows else site.known_ids))

    return act


def _with_holes_filled(site: PrivateSite, fills: np.ndarray) -> PrivateSite:
    """Return the site with what was predicted kept, and the holes of its rows filled."""
    predicted = site.predicted
    if predicted is None:
        predicted = PredictedTargets(
            np.empty(0, np.int64), np.empty((0, site.fitted.targets.width))
        )
    else:
        predicted = replace(predicted, at=site.order[predicted.at])
    return replace(site, earlier=(*site.earlier, predicted), predicted=None, fills=fills)


def _blind(site: PrivateSite, count: int) -> tuple[PrivateSite, Outbox]:
    words = np.frombuffer(site.key_for("order"), np.uint32)
    order = np.random.default_rng(words).permutation(count)
    site = replace(site, order=order, placement=None, inputs={}, received=(), pads={}, part=0)
    ids = site.ids
    rows = site.view.positions(ids)
    asks = np.append(_asked_rows(site, words), True)[rows]  # a row at -1 is none
    flags = (rows >= 0).astype(np.uint8) | (asks.astype(np.uint8) << 1)
    flags[rows >= 0] |= site.parts[rows[rows >= 0]] << 2
    sizes = site.fitted.sizes
    points = blind_ids(ids, site.key_for("points"))
    return site, [
        RowFlags(
            sender=site.name,
            receiver=COORDINATOR,
            flags=flags,
            sizes=sizes,
            groups=site.fitted.group_sizes,
        ),
        BlindedPoints(sender=site.name, receiver=_next(site), origin=site.name, points=points),
    ]


def _asked_rows(site: PrivateSite, words: np.ndarray) -> np.ndarray:
    """Return which rows a site asks about: those with holes, and some whole ones to practise on.

    How its columns go together beside what others predict of them, only rows show in which all of
    them are known. The site could as well leave out a cell of each.
    """
    asks = np.asarray(np.isnan(site.view.cells).any(axis=1))
    if asks.any() and site.choice is not None:
        whole = np.flatnonzero(~asks)
        asks[np.random.default_rng([*words, 1]).permutation(whole)[:_MOST_PRACTICE]] = True
    return asks


def pass_on(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Multiply another site's points by this site's secret number and pass them on."""
    return site, [_multiplied(site, inbox, _next(site))]


def hand_in(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Multiply another site's points, as the last of all, and hand them to the coordinator."""
    return site, [_multiplied(site, inbox, COORDINATOR)]


def _multiplied(site: PrivateSite, inbox: Inbox, receiver: str) -> BlindedPoints:
    release = only_release(inbox, BlindedPoints, site.name)
    points = multiply_points(release.points, site.key_for("points"))
    return replace(release, sender=site.name, receiver=receiver, points=points)


def _next(site: PrivateSite) -> str:
    names = list(site.parties)
    return names[(names.index(site.name) + 1) % len(names)]


def share_rows(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send the rows to learn from, under masks, to the two computing sites."""
    site = _with_plan(site, inbox)
    folds = site.placed.plan.folds
    parts = np.where(site.places >= 0, site.places % folds + 1, 0).astype(np.uint8)
    return _hand_in_rows(replace(site, parts=parts), asking=False)


def share_asked(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Send the rows to predict from, under masks, and keys for pads on what will come back."""
    site, outbox = _hand_in_rows(_with_plan(site, inbox), asking=True)
    pads = {f"#{k}": site.key_for(f"pad/{k}/{site.part}") for k in (0, 1)}
    releases = [
        PadKey(sender=site.name, receiver=other, key=pads[f"#{k}"])
        for k, other in enumerate(site.computing)
        if other != site.name
    ]
    return replace(site, pads=pads, part=site.part + 1), [*outbox, *releases]


def _with_plan(site: PrivateSite, inbox: Inbox) -> PrivateSite:
    release = only_release(inbox, SlotPlan, site.name)
    slots = release.slots
    used = slots[slots != -1]
    if (
        len(slots) != len(site.order)
        or len(np.unique(used)) != len(used)
        or not ((used >= 0) & (used < release.everyone)).all()
        or set(release.sizes) != set(site.views)
        or len(release.keys) != 2
    ):
        raise DataError(
            f"site {site.name!r} needs a slot of its own for each of its {len(site.order)} people, "
            f"a size for each view and two keys, and got something else; start a new run"
        )
    if release.groups.get(site.view.name) != site.fitted.group_sizes or set(release.groups) != set(
        site.views
    ):
        raise DataError(
            f"the plan of the run does not keep to what view {site.view.name!r} may inform; no row "
            "is handed in"
        )
    sizes = [release.sizes[view] for view in site.views]
    widths, factors, targets = (tuple(s[k] for s in sizes) for k in range(3))
    counts = release.patterns, release.people, release.asked
    parties = tuple(tuple(p for p, v in site.parties.items() if v == view) for view in site.views)
    groups = tuple(release.groups[view] for view in site.views)
    sized = widths, factors, targets
    plan = Plan(site.views, release.everyone, *sized, *counts, parties, groups)
    dealt = {k: words for r in inbox if isinstance(r, DealtWords) for k, words in r.words.items()}
    placement = Placement(plan, release.slots, release.keys, release.dealer_key, dealt)
    return replace(site, placement=placement)


class _FixedPoint:
    """Encodes a site's own numbers; the computation encodes in the same way."""

    encode = staticmethod(ComputingSite(0, b"").encode)


def _hand_in_rows(site: PrivateSite, *, asking: bool) -> tuple[PrivateSite, Outbox]:
    placed = site.placed
    is_placed = site.places >= 0
    view, at = site.table.take(is_placed), site.places[is_placed]
    words = site.fitted.inputs(view, at, placed.plan, _FixedPoint, asking=asking)
    first, second = placed.keys
    masked = {
        f"{site.name}/{label}": mask_input((first, second), label, values)
        for label, values in words.items()
    }
    # The masks are on, and nobody needs this site's keys of them again.
    site = replace(site, placement=replace(placed, keys=()))
    if site.number is not None:
        site = replace(site, inputs=masked)
    return site, [
        MaskedRows(sender=site.name, receiver=other, words=masked, rows=len(view))
        for other in site.computing
        if other != site.name
    ]
