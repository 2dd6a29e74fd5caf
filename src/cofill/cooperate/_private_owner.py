"""A private site's last steps: it opens the errors of its columns, and the cells it asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cofill.cooperate._private_inputs import Choice
from cofill.cooperate._private_learner import PREDICTED_BITS, SCORE_BITS, SPREAD_BITS, variants
from cofill.cooperate._private_site import PredictedTargets, PrivateSite
from cofill.errors import DataError
from cofill.privacy import ChosenPenalties, ScoreShares, SelectedCells
from cofill.protocol import COORDINATOR, Inbox, Outbox
from cofill.shares import from_words, random_words


def choose(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Open the errors of the site's own targets, choose penalties and tell those who compute."""
    parts = [r.words for r in inbox if isinstance(r, ScoreShares)]
    parts += [site.scores] if site.scores else []
    if len(parts) != 2:
        return replace(site, choice=None), []  # nobody shares enough people with this view
    labels = [f"{site.name}/{int(pairs)}" for pairs in variants(site.placed.plan)]
    scores = np.stack([from_words(parts[0][k] + parts[1][k], SCORE_BITS) for k in labels])
    spread = f"{site.name}/spread"
    choice = Choice.of(scores, from_words(parts[0][spread] + parts[1][spread], SPREAD_BITS))
    chosen = np.stack([choice.variant, choice.penalty]).astype(np.int64)
    receivers = [*(c for c in site.computing if c != site.name), COORDINATOR]
    return replace(site, choice=choice, scores={}, choices={site.name: chosen}), [
        ChosenPenalties(sender=site.name, receiver=r, choices=chosen, rows=len(site.view))
        for r in receivers
    ]


def keep_choices(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Keep what owners have chosen, where this site computes."""
    choices = {r.sender: r.choices for r in inbox if isinstance(r, ChosenPenalties)}
    return replace(site, choices={**site.choices, **choices}), []


def receive_cells(site: PrivateSite, inbox: Inbox) -> tuple[PrivateSite, Outbox]:
    """Take the pads off and add the shares up: the targets of those the site asked about."""
    parts = sorted((r for r in inbox if isinstance(r, SelectedCells)), key=lambda r: r.part)
    if len(parts) != 2:
        raise DataError(f"site {site.name!r} needs cells from two computing sites; start a new run")
    everyone = site.placed.plan.slots
    shape = (everyone, site.fitted.targets.width)
    if not len(parts[0].ids):
        return replace(site, predicted=None), []
    total = np.zeros((len(parts[0].ids), shape[1]), np.uint64)
    for part in parts:
        pad = random_words(site.pads[str(part.part)], site.name, shape)
        total += part.words[site.name] - pad[part.slots]
    targets = from_words(total, PREDICTED_BITS) * np.sqrt(everyone)
    return replace(site, predicted=PredictedTargets(parts[0].ids, targets)), []
