"""Answers that are added up under masks: the steps of `cofill.privacy`'s secure sum.

``invite → train → roll → share → deliver → mask → survivors → reveal → aggregate`` is a round; the
survey of columns before the first one is such a sum too, with number 0. A site trains first and
joins the sum with keys of this round when it has something sound to add. One that leaves after that
is survived as long as a threshold of sites stays; with fewer the round fails with a `DataError` and
every party is as it was. The coordinator learns who was in the sum, the sum, and the sites' numbers
of rows, which are public here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cofill.errors import DataError
from cofill.federate._aggregation import LocalUpdate, SumState
from cofill.federate._local_updates import answers
from cofill.federate._parties import (
    NO_TRAINING_ROWS,
    SURVEY_NUMBER,
    AbstractCoordinator,
    Coordinator,
    RowSite,
    SurveyCoordinator,
    UnscaledSite,
    join_notes,
)
from cofill.privacy import (
    ImpossibleSumError,
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
Site = TypeVar("Site", UnscaledSite, RowSite)
Summer = TypeVar("Summer", SurveyCoordinator, Coordinator)


# --- the sites' steps ---------------------------------------------------------------------------


def join_sum(site: RowSite, update: LocalUpdate) -> tuple[RowSite, Outbox]:
    """Return a site that holds its update ready for the sum, and its keys.

    A site whose update cannot be added sends nothing and notes why.
    """
    secure_sum = site.learner.secure_sum(site.design.settings.secure_sum)
    most = secure_sum.largest / max(update.rows, 1)
    # A figure that does not fit is left out: it is no reason to leave the round.
    figures = {name: value for name, value in update.figures.items() if abs(value) <= most}
    update = replace(update, figures=figures)
    fault = secure_sum.fault(site.packing(update).pack(update))
    if fault is not None:
        return site.with_note(f"round {update.round}: site {site.name!r}: {fault}; not sent"), []
    number = SURVEY_NUMBER + 1 + update.round
    member, keys = advertise_keys(site.member or Member(site.name), number)
    return replace(site, member=member, update=update), [keys]


def join_survey(site: UnscaledSite) -> tuple[UnscaledSite, Outbox]:
    """Return a site that takes part in the survey of columns, and its keys."""
    member, keys = advertise_keys(site.member or Member(site.name), SURVEY_NUMBER)
    return replace(site, member=member), [keys]


def _share(site: Site, inbox: Inbox) -> tuple[Site, Outbox]:
    roster = first_of_type(inbox, Roster)
    if roster is None or site.member is None:
        return _leave(site), []
    member, shares = share_secrets(site.member, roster)
    return replace(site, member=member), [shares]


def _mask(site: Site, inbox: Inbox) -> tuple[Site, Outbox]:
    boxes, member = first_of_type(inbox, SealedShares), site.member
    roster = None if member is None else member.roster
    if boxes is None or member is None or roster is None or not _stays(site):
        return _leave(site), []
    summand = site.summand(len(roster.keys))
    if summand is None:
        return _leave(site), []
    member, masked = mask_vector(
        member, boxes, summand.values, summand.code, rows=summand.rows, event=summand.event
    )
    return replace(site.without_summand(), member=member), [masked]


def _stays(site: Site) -> bool:
    """Return whether a site stays in a sum, when drop-outs are being tried."""
    if not isinstance(site, RowSite) or site.update is None:
        return True
    return answers(site, site.update.round)


def _reveal(site: Site, inbox: Inbox) -> tuple[Site, Outbox]:
    survivors, noise = first_of_type(inbox, Survivors), site.sum_noise
    # The noise of fewer sites would not be what the release says it is.
    enough = survivors is not None and (noise is None or len(survivors.names) >= noise.sites)
    if survivors is None or site.member is None or not enough:
        return _leave(site), []
    member, shares = reveal_shares(site.member, survivors)
    return _leave(replace(site, member=member)), [shares]


def _leave(site: Site) -> Site:
    """Return a site that has forgotten the secrets of a sum, though not that it was in it."""
    if site.member is None:
        return site
    return replace(site.without_summand(), member=site.member.forget_round())


# --- the coordinator's steps --------------------------------------------------------------------


def _roll(coordinator: Summer, inbox: Inbox) -> tuple[Summer, Outbox]:
    if coordinator.finished:
        return coordinator, []
    idle = coordinator.idle_sites(inbox)
    joining = [release for release in inbox if release.sender not in idle]
    keys, notes = coordinator.sound_messages(joining, PublicKeys, coordinator.invited)
    where = f"{coordinator.stage}: site"
    notes += [f"{where} {name!r} {NO_TRAINING_ROWS}; left out" for name in sorted(idle)]
    notes += coordinator.absence_notes(coordinator.invited, inbox)
    threshold = _threshold(coordinator, len(keys), notes)
    rosters = _attempt(coordinator, notes, lambda: make_rosters(keys, threshold=threshold))
    return replace(coordinator, sum_state=SumState(rosters[0], notes=tuple(notes))), rosters


def _threshold(coordinator: AbstractCoordinator, joined: int, notes: Sequence[str]) -> int | None:
    """Return how many sites must stay: as set, and so many that their noise suffices."""
    threshold, noise = coordinator.design.settings.secure_sum.threshold, coordinator.sum_noise
    if noise is None:
        return threshold
    threshold = min(2 * joined // 3 + 1, joined) if threshold is None else threshold
    threshold = max(threshold, noise.sites)
    if threshold > joined:
        raise DataError(
            f"{coordinator.stage}: no secure sum: the noise of {noise.sites} sites is "
            f"counted on, and {joined} joined{join_notes(notes)}"
        )
    return threshold


def _deliver(coordinator: Summer, inbox: Inbox) -> tuple[Summer, Outbox]:
    if coordinator.finished:
        return coordinator, []
    state = _sum_state(coordinator)
    names = {keys.sender for keys in state.roster.keys}
    sealed, notes = coordinator.sound_messages(inbox, SealedShares, names)
    complete = [shares for shares in sealed if set(shares.boxes) >= names - {shares.sender}]
    notes = [*state.notes, *notes, *coordinator.absence_notes(names, complete)]
    boxes = _attempt(coordinator, notes, lambda: deliver_shares(complete, state.roster))
    state = replace(state, sealed=tuple(complete), notes=tuple(notes))
    return replace(coordinator, sum_state=state), boxes


def _name_survivors(coordinator: Summer, inbox: Inbox) -> tuple[Summer, Outbox]:
    if coordinator.finished:
        return coordinator, []
    state = _sum_state(coordinator)
    names, length = {shares.sender for shares in state.sealed}, (coordinator.sum_length,)

    def fault(vector: MaskedVector) -> str | None:
        shape = vector.words.shape
        if shape != length:
            return f"sent a vector of shape {shape} for {length}"
        return coordinator.fault_of_rows(vector.rows)

    masked, notes = coordinator.sound_messages(inbox, MaskedVector, names, fault)
    notes = [*state.notes, *notes, *coordinator.absence_notes(names, inbox)]
    survivors = _attempt(coordinator, notes, lambda: name_survivors(masked, state.roster))
    state = replace(state, masked=tuple(masked), notes=tuple(notes))
    return replace(coordinator, sum_state=state), survivors


def open_sum(coordinator: AbstractCoordinator, inbox: Inbox) -> tuple[Any, int, list[str]]:
    """Return the sum that the sites made, of how many sites it is, and the notes."""
    state = _sum_state(coordinator)
    names = {vector.sender for vector in state.masked}
    revealed, notes = coordinator.sound_messages(inbox, RevealedShares, names)
    notes = [*state.notes, *notes]
    code = coordinator.sum_code(len(state.roster.keys))

    def unmask() -> Any:
        try:
            return unmask_sum(state.roster, state.sealed, state.masked, revealed, code)
        except ImpossibleSumError as error:
            raise DataError(f"{error} (sites {coordinator.summed_sites})") from None

    return _attempt(coordinator, notes, unmask), len(state.masked), notes


SUMMING: tuple[Step[Any], ...] = (
    Step("roll", one_by_one(_roll), "coordinator"),
    Step("share", one_by_one(_share)),
    Step("deliver", one_by_one(_deliver), "coordinator"),
    Step("mask", one_by_one(_mask)),
    Step("survivors", one_by_one(_name_survivors), "coordinator"),
    Step("reveal", one_by_one(_reveal)),
)
"""The steps of a secure sum, between sites' keys and what is made of the sum."""


def _sum_state(coordinator: AbstractCoordinator) -> SumState:
    if coordinator.sum_state is None:
        raise DataError(f"{coordinator.stage}: no secure sum is under way; start a new round")
    return coordinator.sum_state


def _attempt(
    coordinator: AbstractCoordinator, notes: Sequence[str], function: Callable[[], Result]
) -> Result:
    """Return the function's result; where it fails, say which sites are missing."""
    try:
        return function()
    except DataError as error:
        raise DataError(
            f"{coordinator.stage}: no secure sum: {error}{join_notes(notes)}"
        ) from error
