"""A round whose answers are added up under masks: the steps of `cofill.privacy`'s secure sum.

``invite → train → roll → share → deliver → mask → survivors → reveal → aggregate``. A site trains
first and joins the sum with keys of this round when it has something sound to add. One that leaves
after that is survived as long as a threshold of sites stays; with fewer the round fails with a
`DataError` and every party is as it was. The coordinator learns who was in the sum, the sum, and
the sites' numbers of rows, which are public here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from cofill.errors import DataError
from cofill.federate._aggregation import Lesson, SecureSum, Summing
from cofill.federate._lessons import answers
from cofill.federate._parties import Coordinator, RowSite
from cofill.privacy import (
    MaskedVector,
    Member,
    PublicKeys,
    Release,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
    Update,
    advertise_keys,
    deliver_shares,
    make_rosters,
    mask_vector,
    name_survivors,
    reveal_shares,
    share_secrets,
    unmask_sum,
)
from cofill.protocol import Step

__all__ = ["NOTHING", "SUMMING", "joined", "opened"]

NOTHING = "has no individual that this model can learn from"

Outbox = Sequence[Release]
Kind = TypeVar("Kind", bound=Release)


# --- the sites' steps ---------------------------------------------------------------------------


def joined(site: RowSite, lesson: Lesson) -> tuple[RowSite, Outbox]:
    """Return a site that keeps its lesson for the sum, and its keys; not if it cannot be added."""
    packing = site.packing(len(lesson.change), lesson.round)
    most = _sum_of(site).largest / max(lesson.rows, 1)
    # A figure that does not fit is left out: it is no reason to leave the round.
    figures = {name: value for name, value in lesson.figures.items() if abs(value) <= most}
    lesson = replace(lesson, figures=figures)
    fault = _sum_of(site).fault(packing.packed(lesson))
    if fault is not None:
        return site.noted(f"round {lesson.round}: site {site.name!r}: {fault}; not sent"), []
    member, keys = advertise_keys(site.member or Member(site.name), lesson.round)
    return replace(site, member=member, lesson=lesson), [keys]


def _share(
    sites: Sequence[RowSite], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowSite, Outbox]]:
    made = []
    for site, inbox in zip(sites, inboxes, strict=True):
        roster = _first(inbox, Roster)
        if roster is None or site.member is None:
            made.append((_left(site), []))
            continue
        member, shares = share_secrets(site.member, roster)
        made.append((replace(site, member=member), [shares]))
    return made


def _mask(
    sites: Sequence[RowSite], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowSite, Outbox]]:
    made = []
    for site, inbox in zip(sites, inboxes, strict=True):
        boxes, lesson, member = _first(inbox, SealedShares), site.lesson, site.member
        roster = None if member is None else member.roster
        if boxes is None or lesson is None or member is None or roster is None:
            made.append((_left(site), []))
            continue
        if not answers(site, lesson.round):
            made.append((_left(site), []))
            continue
        packing = site.packing(len(lesson.change), lesson.round)
        vector, event = packing.packed(lesson), lesson.event
        if packing.noise is not None:
            vector, event = packing.noise.protect(vector), packing.noise.event()
        code = _sum_of(site).code(len(roster.keys))
        member, masked = mask_vector(member, boxes, vector, code, rows=lesson.rows, event=event)
        made.append((replace(site, member=member, lesson=None), [masked]))
    return made


def _reveal(
    sites: Sequence[RowSite], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[RowSite, Outbox]]:
    made = []
    for site, inbox in zip(sites, inboxes, strict=True):
        survivors, noise = _first(inbox, Survivors), site.settings.site_noise
        # The noise of fewer sites would not be what the release says it is.
        enough = survivors is not None and (noise is None or len(survivors.names) >= noise.sites)
        if survivors is None or site.member is None or not enough:
            made.append((_left(site), []))
            continue
        member, shares = reveal_shares(site.member, survivors)
        made.append((_left(replace(site, member=member)), [shares]))
    return made


def _left(site: RowSite) -> RowSite:
    """Return a site that has forgotten the secrets of a sum, though not that it was in it."""
    if site.member is None:
        return site
    old = site.member
    kept = Member(old.name, old.coordinator, old.identity, old.known, old.entropy, old.round)
    return replace(site, member=kept, lesson=None)


def _sum_of(site: RowSite | Coordinator) -> SecureSum:
    return site.settings.summing or SecureSum()


# --- the coordinator's steps --------------------------------------------------------------------


def _roll(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        invited = set(party.invited)
        idle = {r.sender for r in inbox if isinstance(r, Update) and not r.rows} & invited
        rest = [r for r in inbox if r.sender not in idle]
        keys, notes = _accepted(rest, PublicKeys, party, invited)
        where = f"round {party.round}: site"
        notes += [f"{where} {name!r} {NOTHING}; left out" for name in sorted(idle)]
        absent = invited - {r.sender for r in inbox}
        notes += [_absent(party, name) for name in sorted(absent)]
        least = _threshold(party, len(keys), notes)
        rosters = _tried(party, notes, lambda k=keys, t=least: make_rosters(k, threshold=t))
        made.append((replace(party, summing=Summing(rosters[0], notes=tuple(notes))), rosters))
    return made


def _threshold(party: Coordinator, joined: int, notes: Sequence[str]) -> int | None:
    """Return how many sites must stay: as set, and so many that their noise suffices."""
    least, noise = _sum_of(party).threshold, party.settings.site_noise
    if noise is None:
        return least
    least = max(min(2 * joined // 3 + 1, joined) if least is None else least, noise.sites)
    if least > joined:
        why = f"; {'; '.join(notes)}" if notes else ""
        raise DataError(
            f"round {party.round}: no secure sum: the noise of {noise.sites} sites is counted on, "
            f"and {joined} joined{why}"
        )
    return least


def _deliver(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        summing = _under_way(party)
        names = {k.sender for k in summing.roster.keys}
        sealed, notes = _accepted(inbox, SealedShares, party, names)
        whole = [s for s in sealed if set(s.boxes) >= names - {s.sender}]
        absent = names - {s.sender for s in whole}
        notes = [*summing.notes, *notes, *(_absent(party, name) for name in sorted(absent))]
        boxes = _tried(party, notes, lambda w=whole, r=summing.roster: deliver_shares(w, r))
        now = replace(summing, sealed=tuple(whole), notes=tuple(notes))
        made.append((replace(party, summing=now), boxes))
    return made


def _survivors(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], report_progress: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party, inbox in zip(parties, inboxes, strict=True):
        summing = _under_way(party)
        names = {s.sender for s in summing.sealed}
        masked, notes = _accepted(inbox, MaskedVector, party, names)
        length = party.packing.length
        sound = [m for m in masked if m.words.shape == (length,)]
        notes += [
            f"round {party.round}: site {m.sender!r} sent a vector of shape {m.words.shape} for "
            f"{(length,)}; left out"
            for m in masked
            if m.words.shape != (length,)
        ]
        absent = names - {m.sender for m in masked}
        notes = [*summing.notes, *notes, *(_absent(party, name) for name in sorted(absent))]
        told = _tried(party, notes, lambda s=sound, r=summing.roster: name_survivors(s, r))
        now = replace(summing, masked=tuple(sound), notes=tuple(notes))
        made.append((replace(party, summing=now), told))
    return made


def opened(party: Coordinator, inbox: Sequence[Release]) -> tuple[np.ndarray, int, list[str]]:
    """Return the sum of a round, of how many sites it is, and the notes."""
    summing = _under_way(party)
    names = {m.sender for m in summing.masked}
    revealed, notes = _accepted(inbox, RevealedShares, party, names)
    notes = [*summing.notes, *notes]
    code = _sum_of(party).code(len(summing.roster.keys))
    total = _tried(
        party,
        notes,
        lambda: unmask_sum(summing.roster, summing.sealed, summing.masked, revealed, code),
    )
    return total, len(summing.masked), notes


SUMMING: tuple[Step[Any], ...] = (
    Step("roll", _roll, at="coordinator"),
    Step("share", _share),
    Step("deliver", _deliver, at="coordinator"),
    Step("mask", _mask),
    Step("survivors", _survivors, at="coordinator"),
    Step("reveal", _reveal),
)
"""The steps of a secure sum between training and aggregation."""


def _accepted(
    inbox: Sequence[Release], kind: type[Kind], party: Coordinator, senders: set[str]
) -> tuple[list[Kind], list[str]]:
    """Return the sound messages of a kind in the order of their senders, and notes on others."""
    found: dict[str, Kind] = {}
    notes = []
    for release in inbox:
        where = f"round {party.round}: site {release.sender!r}"
        if not isinstance(release, kind):
            notes.append(f"{where} sent {type(release).kind} where {kind.kind} was due; left out")
        elif release.sender not in senders:
            notes.append(f"{where} was not invited; left out")
        elif getattr(release, "round", None) != party.round:
            notes.append(f"{where} answered another round; left out")
        elif release.sender in found:
            notes.append(f"{where} answered twice; the first answer counts")
        else:
            found[release.sender] = release
    return [found[name] for name in sorted(found)], notes


def _absent(party: Coordinator, name: str) -> str:
    return f"round {party.round}: site {name!r} did not answer; left out"


def _under_way(party: Coordinator) -> Summing:
    if party.summing is None:
        raise DataError(f"round {party.round}: no secure sum is under way; start a new round")
    return party.summing


def _tried(party: Coordinator, notes: Sequence[str], job: Any) -> Any:
    """Return what a part of the sum makes; say which sites are missing where it cannot be made."""
    try:
        return job()
    except DataError as error:
        why = f"; {'; '.join(notes)}" if notes else ""
        raise DataError(f"round {party.round}: no secure sum: {error}{why}") from error


def _first(inbox: Sequence[Release], kind: type[Kind]) -> Kind | None:
    return next((r for r in inbox if isinstance(r, kind)), None)
