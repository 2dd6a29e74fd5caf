"""Rounds as a protocol: the coordinator invites sites, they train and answer, it aggregates.

``invite → train → aggregate`` is one round; round 0 is the pre-training of models that have one.
With secure sums the answers are masked, and the steps that open their sum come in between
(`_secure`). Nothing but models, updates and what a secure sum needs crosses a border, as declared
releases through the gate. A site that does not answer, or answers with something unsound, is named
and left out; the round goes on with the others. Between rounds nothing is under way, so that a
checkpoint is the parties themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cofill.errors import DataError, SettingError
from cofill.federate._aggregation import Lesson, Means
from cofill.federate._lessons import answers, taught
from cofill.federate._parties import Coordinator, RowSite
from cofill.federate._secure import NOTHING, SUMMING, joined, opened
from cofill.privacy import ModelWeights, Release, Update
from cofill.protocol import COORDINATOR, Federation, Step, run_steps

__all__ = ["round_steps", "run_rounds"]

Outbox = Sequence[Release]


def run_rounds(
    federations: Sequence[Federation[RowSite]],
    *,
    progress: Callable[[str, float], None] | None = None,
    after: Callable[[int], None] | None = None,
    until: int | None = None,
) -> None:
    """Run the rounds that are still to come, of several federations as one.

    Parameters
    ----------
    federations
        With as many rounds each (repeats with other seeds, say). One that is behind the others,
        because they were interrupted between two checkpoints, catches up first.
    progress
        Called with what is done and the share done.
    after
        Called with the number of each round that has ended (0 is the pre-training).
    until
        Stop after this round; all rounds unless told.
    """
    totals = {f.coordinator.settings.rounds for f in federations}
    if len(totals) != 1:
        raise SettingError(f"federations that run as one must have equal rounds, got {totals}")
    (total,) = totals
    last = total if until is None else min(until, total)
    for federation in federations:
        if federation.coordinator.round == 0 and not _pretrains(federation):
            federation.coordinator = replace(federation.coordinator, round=1)
    while (number := min(f.coordinator.round for f in federations)) <= last:

        def report_progress(what: str, share: float, at: int = number) -> None:
            if progress is not None:
                word = "pre-training" if at == 0 else f"round {at} of {total}"
                progress(word, (at + share) / (total + 1))

        behind = [f for f in federations if f.coordinator.round == number]
        for secure in (False, True):
            chosen = [f for f in behind if bool(f.coordinator.settings.secure) == secure]
            if chosen:
                steps = round_steps(pretrain=number == 0, secure=secure)
                run_steps(steps, chosen, progress=report_progress)
        if after is not None:
            after(number)
    if progress is not None:
        progress("rounds done", 1.0)


def _pretrains(federation: Federation[RowSite]) -> bool:
    site = next(iter(federation.sites.values()))
    return bool(site.settings.pretraining(site.learner))


def round_steps(*, pretrain: bool = False, secure: bool = False) -> list[Step[Any]]:
    """Return the steps of one round.

    Examples
    --------
    >>> [step.name for step in round_steps()]
    ['invite', 'train', 'aggregate']
    """
    return [
        Step("invite", _invite, at="coordinator"),
        Step("pre-train" if pretrain else "train", partial(_train, pretrain=pretrain)),
        *(SUMMING if secure else ()),
        Step("aggregate", _aggregate, at="coordinator"),
    ]


def _invite(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party in parties:
        invited = sorted(party.names)  # whom chance takes must not depend on their order
        wanted = party.settings.invited(len(invited))
        if party.round and wanted < len(invited):  # everybody pre-trains
            rng = np.random.default_rng([party.seed, 0xC0, party.round])
            invited = sorted(rng.permutation(invited)[:wanted].tolist())
        extras = {"control": party.state["control"]} if party.strategy.controls else {}
        letters = [
            ModelWeights(
                sender=COORDINATOR,
                receiver=name,
                round=party.round,
                weights=party.weights,
                extras=extras,
            )
            for name in invited
        ]
        made.append((replace(party, invited=tuple(invited), summing=None), letters))
    return made


def _train(
    sites: Sequence[RowSite], inboxes: Sequence[Any], report_progress: Any, *, pretrain: bool
) -> list[tuple[RowSite, Outbox]]:
    """Train at every invited site that has rows for it, and answer."""
    models = {}
    for k, (site, inbox) in enumerate(zip(sites, inboxes, strict=True)):
        model = next((r for r in inbox if isinstance(r, ModelWeights)), None)
        # In a secure sum a site leaves later: after it has shared its keys.
        if model is not None and (site.settings.secure or answers(site, model.round)):
            models[k] = model
    lessons = taught(sites, models, pretrain=pretrain)
    return [
        _answer(*lessons[k], models[k].round) if k in lessons else (site, [])
        for k, site in enumerate(sites)
    ]


def _answer(site: RowSite, lesson: Lesson | None, number: int) -> tuple[RowSite, Outbox]:
    if lesson is not None and site.settings.secure:
        return joined(site, lesson)
    # The coordinator should know that a site is there and has nothing to teach.
    lesson = lesson or Lesson(number, np.zeros(0, dtype=np.float32), 0)
    update = Update(
        sender=site.name,
        receiver=COORDINATOR,
        round=number,
        change=lesson.change,
        rows=lesson.rows,
        extras=dict(lesson.extras),
        metrics=dict(lesson.figures),
        event=lesson.event,
    )
    return site, [update]


def _aggregate(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        if party.settings.secure:
            total, sites, notes = opened(party, inbox)
        else:
            lessons, notes = _sound(party, inbox)
            total, sites = party.packing.added(lessons), len(lessons)
        _require_enough(party, sites, notes)
        made.append((_advanced(party, party.packing.means(total, sites), notes), []))
    return made


def _sound(party: Coordinator, inbox: Sequence[Release]) -> tuple[list[Lesson], list[str]]:
    """Return the sound answers in the order of their sites, and notes on the others."""
    sound: dict[str, Lesson] = {}
    notes = []
    for release in inbox:
        where = f"round {party.round}: site {release.sender!r}"
        if release.sender in sound:
            notes.append(f"{where} answered twice; the first answer counts")
            continue
        fault = _fault(release, party)
        if fault is not None or not isinstance(release, Update):
            notes.append(f"{where} {fault}; left out")
            continue
        sound[release.sender] = Lesson(
            release.round, release.change, release.rows, release.extras, release.metrics
        )
    answered = {release.sender for release in inbox}
    notes += [
        f"round {party.round}: site {name!r} did not answer; left out"
        for name in party.invited
        if name not in answered
    ]
    return [sound[name] for name in sorted(sound)], notes


def _fault(release: Release, party: Coordinator) -> str | None:
    """Return what is wrong with an answer, in words; None when nothing is."""
    if release.sender not in party.invited:
        return "was not invited"
    if not isinstance(release, Update):
        return f"sent {type(release).kind} where an update was asked for"
    if release.round != party.round:
        return f"answered round {release.round}"
    if not 1 <= release.rows < 2**53:
        return NOTHING if release.rows == 0 else f"says that it has {release.rows} individuals"
    vectors = {"change": release.change}
    vectors |= {name: release.extras.get(name) for name in party.packing.extras}
    for name, vector in vectors.items():
        if not isinstance(vector, np.ndarray):
            return f"sent no {name}"
        if vector.shape != party.weights.shape:
            return f"sent a {name} of shape {vector.shape} for {party.weights.shape}"
        if vector.dtype.kind != "f":
            return f"sent a {name} of type {vector.dtype}, not of real numbers"
        if not np.isfinite(vector).all():
            return f"sent a {name} with {int((~np.isfinite(vector)).sum())} numbers not finite"
    return None


def _require_enough(party: Coordinator, sites: int, notes: Sequence[str]) -> None:
    if sites < party.settings.min_sites:
        why = f"; {'; '.join(notes)}" if notes else ""
        raise DataError(
            f"round {party.round}: {sites} of {len(party.invited)} sites gave a sound answer, and "
            f"min_sites is {party.settings.min_sites}{why}"
        )


def _advanced(party: Coordinator, means: Means, notes: Sequence[str]) -> Coordinator:
    """Return the coordinator after a round."""
    before = party.weights
    mean = {name: vector.astype(before.dtype) for name, vector in means.vectors.items()}
    with np.errstate(over="ignore", invalid="ignore"):  # found below
        if party.round:
            part = means.sites / len(party.names)
            state, weights = party.strategy.apply(dict(party.state), before, mean, part)
        else:  # what pre-training made is averaged (Eq. 2.1), whatever the strategy
            state, weights = party.state, before + mean["change"]
    if not np.isfinite(weights).all():
        raise DataError(
            f"round {party.round}: the sites' updates are so large that the mean model is not "
            "finite; train with a smaller learning_rate or a clip"
        )
    return replace(
        party,
        weights=weights.astype(before.dtype),
        state=state,
        round=party.round + 1,
        notes=(*party.notes, *(n for n in notes if not _told(n, party.notes))),
        curve=(*party.curve, {"round": party.round, "sites": means.sites, **means.figures}),
        summing=None,
    )


def _told(note: str, before: Sequence[str]) -> bool:
    """Return whether the same was said of an earlier round."""
    return any(note.partition(":")[2] == other.partition(":")[2] for other in before)
