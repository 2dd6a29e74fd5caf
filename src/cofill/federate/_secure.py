"""A round whose answers are added up under masks: the steps of `cofill.privacy`'s secure sum.

``invite → train → roll → share → deliver → mask → survivors → reveal → aggregate``. A site trains
first and joins the sum with keys of this round when it has something sound to add. One that leaves
after that is survived as long as a threshold of sites stays; with fewer the round fails with a
`DataError` and every party is as it was. The coordinator learns who was in the sum, the sum, and
the sites' numbers of rows, which are public here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from cofill.errors import DataError
from cofill.federate._aggregation import LocalUpdate, SumState
from cofill.federate._local_updates import answers
from cofill.federate._parties import NO_TRAINING_ROWS, Coordinator, RowSite, join_notes
from cofill.privacy import (
    MaskedVector,
    Member,
    PublicKeys,
    RevealedShares,
    Roster,
    SealedShares,
    Survivors,
    advertise_keys,
    deliver_shares,
    make_rosters,
    mask_vector,
    name_survivors,
    reveal_shares,
    share_secrets,
    unmask_sum,
)
from cofill.protocol import Inbox, Outbox, Step, first_of_type, one_by_one

Result = TypeVar("Result")


# --- the sites' steps ---------------------------------------------------------------------------


def join_sum(site: RowSite, update: LocalUpdate) -> tuple[RowSite, Outbox]:
    """Return a site that holds its update ready for the sum, and its keys.

    A site whose update cannot be added sends nothing and notes why.
    """
    secure_sum = site.design.settings.secure_sum
    most = secure_sum.largest / max(update.rows, 1)
    # A figure that does not fit is left out: it is no reason to leave the round.
    figures = {name: value for name, value in update.figures.items() if abs(value) <= most}
    update = replace(update, figures=figures)
    fault = secure_sum.fault(site.packing(update).pack(update))
    if fault is not None:
        return site.with_note(f"round {update.round}: site {site.name!r}: {fault}; not sent"), []
    member, keys = advertise_keys(site.member or Member(site.name), update.round)
    return replace(site, member=member, update=update), [keys]


def _share(site: RowSite, inbox: Inbox) -> tuple[RowSite, Outbox]:
    roster = first_of_type(inbox, Roster)
    if roster is None or site.member is None:
        return _leave(site), []
    member, shares = share_secrets(site.member, roster)
    return replace(site, member=member), [shares]


def _mask(site: RowSite, inbox: Inbox) -> tuple[RowSite, Outbox]:
    boxes, update, member = first_of_type(inbox, SealedShares), site.update, site.member
    roster = None if member is None else member.roster
    if boxes is None or update is None or member is None or roster is None:
        return _leave(site), []
    if not answers(site, update.round):  # drop-outs are being tried
        return _leave(site), []
    packing = site.packing(update)
    vector, event = packing.pack(update), update.event
    if packing.noise is not None:
        vector, event = packing.noise.protect(vector), packing.noise.event()
    code = site.design.settings.secure_sum.code(len(roster.keys))
    member, masked = mask_vector(member, boxes, vector, code, rows=update.rows, event=event)
    return replace(site, member=member, update=None), [masked]


def _reveal(site: RowSite, inbox: Inbox) -> tuple[RowSite, Outbox]:
    survivors, noise = first_of_type(inbox, Survivors), site.design.settings.site_noise
    # The noise of fewer sites would not be what the release says it is.
    enough = survivors is not None and (noise is None or len(survivors.names) >= noise.sites)
    if survivors is None or site.member is None or not enough:
        return _leave(site), []
    member, shares = reveal_shares(site.member, survivors)
    return _leave(replace(site, member=member)), [shares]


def _leave(site: RowSite) -> RowSite:
    """Return a site that has forgotten the secrets of a sum, though not that it was in it."""
    if site.member is None:
        return site
    return replace(site, member=site.member.forget_round(), update=None)


# --- the coordinator's steps --------------------------------------------------------------------


def _roll(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    idle = coordinator.idle_sites(inbox)
    joining = [release for release in inbox if release.sender not in idle]
    keys, notes = coordinator.sound_messages(joining, PublicKeys, coordinator.invited)
    where = f"round {coordinator.round}: site"
    notes += [f"{where} {name!r} {NO_TRAINING_ROWS}; left out" for name in sorted(idle)]
    notes += coordinator.absence_notes(coordinator.invited, inbox)
    threshold = _threshold(coordinator, len(keys), notes)
    rosters = _attempt(coordinator, notes, lambda: make_rosters(keys, threshold=threshold))
    return replace(coordinator, sum_state=SumState(rosters[0], notes=tuple(notes))), rosters


def _threshold(coordinator: Coordinator, joined: int, notes: Sequence[str]) -> int | None:
    """Return how many sites must stay: as set, and so many that their noise suffices."""
    settings = coordinator.design.settings
    threshold, noise = settings.secure_sum.threshold, settings.site_noise
    if noise is None:
        return threshold
    threshold = min(2 * joined // 3 + 1, joined) if threshold is None else threshold
    threshold = max(threshold, noise.sites)
    if threshold > joined:
        raise DataError(
            f"round {coordinator.round}: no secure sum: the noise of {noise.sites} sites is "
            f"counted on, and {joined} joined{join_notes(notes)}"
        )
    return threshold


def _deliver(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    state = _sum_state(coordinator)
    names = {keys.sender for keys in state.roster.keys}
    sealed, notes = coordinator.sound_messages(inbox, SealedShares, names)
    complete = [shares for shares in sealed if set(shares.boxes) >= names - {shares.sender}]
    notes = [*state.notes, *notes, *coordinator.absence_notes(names, complete)]
    boxes = _attempt(coordinator, notes, lambda: deliver_shares(complete, state.roster))
    state = replace(state, sealed=tuple(complete), notes=tuple(notes))
    return replace(coordinator, sum_state=state), boxes


def _name_survivors(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    state = _sum_state(coordinator)
    names, length = {shares.sender for shares in state.sealed}, (coordinator.packing.length,)

    def fault(vector: MaskedVector) -> str | None:
        shape = vector.words.shape
        return None if shape == length else f"sent a vector of shape {shape} for {length}"

    masked, notes = coordinator.sound_messages(inbox, MaskedVector, names, fault)
    notes = [*state.notes, *notes, *coordinator.absence_notes(names, inbox)]
    survivors = _attempt(coordinator, notes, lambda: name_survivors(masked, state.roster))
    state = replace(state, masked=tuple(masked), notes=tuple(notes))
    return replace(coordinator, sum_state=state), survivors


def open_sum(coordinator: Coordinator, inbox: Inbox) -> tuple[np.ndarray, int, list[str]]:
    """Return the sum of a round, of how many sites it is, and the notes."""
    state = _sum_state(coordinator)
    names = {vector.sender for vector in state.masked}
    revealed, notes = coordinator.sound_messages(inbox, RevealedShares, names)
    notes = [*state.notes, *notes]
    code = coordinator.design.settings.secure_sum.code(len(state.roster.keys))
    parts = state.roster, state.sealed, state.masked, revealed, code
    total = _attempt(coordinator, notes, lambda: unmask_sum(*parts))
    return total, len(state.masked), notes


SUMMING: tuple[Step[Any], ...] = (
    Step("roll", one_by_one(_roll), "coordinator"),
    Step("share", one_by_one(_share)),
    Step("deliver", one_by_one(_deliver), "coordinator"),
    Step("mask", one_by_one(_mask)),
    Step("survivors", one_by_one(_name_survivors), "coordinator"),
    Step("reveal", one_by_one(_reveal)),
)
"""The steps of a secure sum between training and aggregation."""


def _sum_state(coordinator: Coordinator) -> SumState:
    if coordinator.sum_state is None:
        raise DataError(f"round {coordinator.round}: no secure sum is under way; start a new round")
    return coordinator.sum_state


def _attempt(
    coordinator: Coordinator, notes: Sequence[str], function: Callable[[], Result]
) -> Result:
    """Return the function's result; where it fails, say which sites are missing."""
    try:
        return function()
    except DataError as error:
        raise DataError(
            f"round {coordinator.round}: no secure sum: {error}{join_notes(notes)}"
        ) from error
