"""A private site's last steps: it opens the errors of its columns, and the cells it asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cofill.cooperate._private_inputs import Choice
from cofill.cooperate._private_learner import PREDICTED_BITS, SCORE_BITS, SPREAD_BITS, variants
from cofill.cooperate._private_site import (
    PredictedTargets,
    PrivateSite,
    chosen_penalties,
    require_words,
)
from cofill.errors import DataError
from cofill.privacy import ChosenPenalties, ScoreShares, SelectedCells
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import from_words, random_words


def choose(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Open the errors of the site's own targets, choose penalties and tell those who compute."""
    plan, targets = site.placed.plan, site.fitted.targets.width
    received = {r.sender: r.words for r in inbox if isinstance(r, ScoreShares)}
    parts = [*received.values(), *([site.scores] if site.scores else [])]
    if not parts:
        return replace(site, choice=None), []  # nobody shares enough people with this view
    if len(parts) != 2:
        raise DataError(
            f"site {site.name!r} needs errors from two computing sites, got {len(parts)}; refused"
        )
    view = site.parties[site.name]
    labels = [f"{view}/{variant}" for variant in range(len(variants(plan)))]
    shapes = dict.fromkeys(labels, (len(plan.penalties) * targets,))
    for sender, words in received.items():
        require_words(words, {**shapes, f"{view}/spread": (targets,)}, sender)
    scores = np.stack([from_words(parts[0][k] + parts[1][k], SCORE_BITS) for k in labels])
    spread = f"{view}/spread"
    choice = Choice.of(scores, from_words(parts[0][spread] + parts[1][spread], SPREAD_BITS))
    chosen = np.stack([choice.variant, choice.penalty]).astype(np.int64)
    receivers = [*(c for c in site.computing if c != site.name), COORDINATOR]
    site = replace(site, choice=choice, scores={}, choices={view: chosen})
    if site.name != site.peers[0]:
        return site, []  # all sites of a view choose alike, and one of them says what
    return site, [
        ChosenPenalties(sender=site.name, receiver=r, choices=chosen, rows=len(site.view))
        for r in receivers
    ]


def keep_choices(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Keep what owners have chosen, where this site computes."""
    return replace(site, choices={**site.choices, **chosen_penalties(inbox, site.placed.plan)}), []


def receive_cells(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Take the pads off and add the shares up: the targets of those the site asked about."""
    parts = sorted((r for r in inbox if isinstance(r, SelectedCells)), key=lambda r: r.part)
    if len(parts) != 2:
        raise DataError(f"site {site.name!r} needs cells from two computing sites; start a new run")
    everyone = site.placed.plan.slots
    shape = (everyone, site.fitted.targets.width)
    at, slots = parts[0].ids, parts[0].slots
    for part in parts:
        alike = np.array_equal(part.ids, at) and np.array_equal(part.slots, slots)
        is_known = ((at >= 0) & (at < len(site.order))).all()
        if not (alike and is_known and np.array_equal(site.placed.slots[at], slots)):
            raise DataError(f"site {site.name!r} was sent cells of others than it has; refused")
        shapes = {site.name: (len(at), shape[1])} if len(at) else {}
        require_words({k: w for k, w in part.words.items() if len(w)}, shapes, part.sender)
    if not len(at):
        return replace(site, pads={}), []
    total = np.zeros((len(at), shape[1]), np.uint64)
    for part in parts:
        pad = random_words(site.pads[f"#{part.part}"], site.name, shape)
        total += part.words[site.name] - pad[slots]
    targets = from_words(total, PREDICTED_BITS) * np.sqrt(everyone)
    if site.predicted is not None:  # of the parts of people before
        at = np.concatenate([site.predicted.at, at])
        targets = np.concatenate([site.predicted.targets, targets])
    return replace(site, predicted=PredictedTargets(at, targets), pads={}), []
