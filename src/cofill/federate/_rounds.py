"""Rounds as steps: the coordinator invites sites, they train and answer, it aggregates.

``invite → train → aggregate`` is one round; round 0 is the pre-training of models that have one.
With secure sums the answers are masked, and the steps that open their sum come in between
(`_secure`). Nothing but models, updates and what a secure sum needs crosses a border, as declared
releases through the gate. A site that does not answer, or answers with something unsound, is named
and left out; the round goes on with the others. Between rounds nothing is under way, so that a
checkpoint is the parties themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.federate._aggregation import LocalUpdate
from cofill.federate._local_updates import answers, train_locally
from cofill.federate._parties import NO_TRAINING_ROWS, Coordinator, RowSite, join_notes, same_note
from cofill.federate._secure import SUMMING, join_sum, open_sum
from cofill.privacy import ModelWeights, Update
from cofill.protocol import COORDINATOR, Inbox, Outbox, Step, first_of_type, one_by_one

_PATIENCE = 5  # rounds without a better model after which there will be none


def round_steps(*, pretrain: bool = False, secure: bool = False) -> tuple[Step[Any], ...]:
    """Return the steps of one round."""
    return (
        Step("invite", one_by_one(_invite), "coordinator"),
        Step("pre-train", partial(_train, pretrain=True)) if pretrain else Step("train", _train),
        *(SUMMING if secure else ()),
        Step("aggregate", one_by_one(_aggregate), "coordinator"),
    )


def _invite(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    design, number = coordinator.design, coordinator.round
    if coordinator.finished:
        return replace(coordinator, invited=(), sum_state=None), []
    invited = sorted(coordinator.names)  # whom chance takes must not depend on their order
    size = design.settings.cohort_size(len(invited))
    if number and size < len(invited):  # everybody pre-trains
        rng = np.random.default_rng([design.seed, 0xC0, number])
        invited = sorted(rng.permutation(invited)[:size].tolist())
    extras = {"control": coordinator.state["control"]} if design.strategy.controls else {}
    coordinator = replace(coordinator, invited=tuple(invited), sum_state=None)
    return coordinator, _model_releases(coordinator, invited, extras)


def _model_releases(
    coordinator: Coordinator, receivers: Sequence[str], extras: dict[str, np.ndarray]
) -> list[ModelWeights]:
    model = ModelWeights(
        sender=COORDINATOR,
        receiver="",
        round=coordinator.round,
        weights=coordinator.weights,
        extras=extras,
    )
    return [replace(model, receiver=name) for name in receivers]


def _train(
    sites: Sequence[RowSite], inboxes: Sequence[Inbox], _: Any, *, pretrain: bool = False
) -> list[tuple[RowSite, Outbox]]:
    """Train at every invited site that has rows for it, and answer."""
    models = {}
    for k, (site, inbox) in enumerate(zip(sites, inboxes, strict=True)):
        model = first_of_type(inbox, ModelWeights)
        if model is not None:
            _require_round(site, model.round, pretrain=pretrain)
        # In a secure sum a site leaves later: after it has shared its keys.
        if model is not None and (site.design.settings.secure or answers(site, model.round)):
            models[k] = model
    trained = train_locally(sites, models, pretrain=pretrain)
    return [
        _answer(*trained[k], models[k].round) if k in trained else (site, [])
        for k, site in enumerate(sites)
    ]


def _require_round(site: RowSite, number: int, *, pretrain: bool) -> None:
    """Raise a `DataError` unless a round comes after the last one that a site has trained in."""
    last = site.design.settings.rounds
    if number <= site.trained_round or number > last or pretrain != (number == 0):
        raise DataError(
            f"site {site.name!r} trains in every round once, up to round {last}, and has trained "
            f"in round {site.trained_round}; it was sent round {number}; refused"
        )


def _answer(site: RowSite, update: LocalUpdate | None, number: int) -> tuple[RowSite, Outbox]:
    site = replace(site, trained_round=number)
    if update is not None and site.design.settings.secure:
        return join_sum(site, update)
    # Without rows too: the coordinator should know that the site is there.
    update = update or LocalUpdate(number, np.zeros(0, dtype=np.float32), 0)
    release = Update(
        sender=site.name,
        receiver=COORDINATOR,
        round=number,
        change=update.change,
        rows=update.rows,
        extras=dict(update.extras),
        metrics=dict(update.figures),
        event=update.event,
    )
    return site, [release]


def _aggregate(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    settings = coordinator.design.settings
    if coordinator.finished:
        return coordinator, []
    if settings.secure:
        total, sites, notes = open_sum(coordinator, inbox)
        _require_possible(coordinator, total, sites, notes)
    else:
        updates, notes = _sound_updates(coordinator, inbox)
        total, sites = coordinator.packing.add_up(updates), len(updates)
    if sites < settings.min_sites:
        raise DataError(
            f"round {coordinator.round}: {sites} of {len(coordinator.invited)} sites gave a sound "
            f"answer, and min_sites is {settings.min_sites}{join_notes(notes)}"
        )
    return _advance(coordinator, total, sites, notes), []


def _require_possible(
    coordinator: Coordinator, total: np.ndarray, sites: int, notes: Sequence[str]
) -> None:
    """Raise a `DataError` that names all sites of a sum that honest ones cannot have made."""
    packing, robust, state = (
        coordinator.packing,
        coordinator.design.settings.robust,
        coordinator.sum_state,
    )
    if packing.noise is not None or state is None:
        return
    claimed = sum(vector.rows for vector in state.masked) if packing.by_rows else sites
    weight = total[packing.vectors_length]
    fault = None
    if abs(weight - claimed) > 0.5:
        fault = "does not weigh what its sites say that they have"
    elif robust is not None and robust.norm is not None:
        change = packing.means(total, sites)[0]["change"]
        if np.linalg.norm(change) > robust.norm * (1 + 1e-6):
            fault = f"is longer than the norm of {robust.norm:g} that every site keeps to"
    if fault is not None:
        raise DataError(
            f"{coordinator.stage}: the sum {fault}; one of {coordinator.summed_sites} has sent "
            f"something else than its update{join_notes(notes)}"
        )


def _sound_updates(coordinator: Coordinator, inbox: Inbox) -> tuple[list[LocalUpdate], list[str]]:
    """Return the sound answers in the order of their sites, and notes on the others."""
    coordinator.idle_sites(inbox)
    invited = coordinator.invited
    releases, notes = coordinator.sound_messages(
        inbox,
        Update,
        invited,
        lambda release: _fault(release, coordinator),
        number=coordinator.round,
    )
    updates = [LocalUpdate(r.round, r.change, r.rows, r.extras, r.metrics) for r in releases]
    return updates, [*notes, *coordinator.absence_notes(invited, inbox)]


def _fault(update: Update, coordinator: Coordinator) -> str | None:
    """Return what is wrong with an update, in words; None when nothing is."""
    if update.rows == 0:
        return NO_TRAINING_ROWS
    if (fault := coordinator.fault_of_rows(update.rows)) is not None:
        return fault
    size, largest = (coordinator.packing.size,), coordinator.learner.largest_change
    vectors = {"change": update.change}
    vectors |= {name: update.extras.get(name) for name in coordinator.packing.extras}
    for name, vector in vectors.items():
        if not isinstance(vector, np.ndarray):
            return f"sent no {name}"
        if vector.shape != size:
            return f"sent a {name} of shape {vector.shape} for {size}"
        if vector.dtype.kind != "f":
            return f"sent a {name} of type {vector.dtype}, not of real numbers"
        if not np.isfinite(vector).all():
            return f"sent a {name} with {int((~np.isfinite(vector)).sum())} numbers not finite"
        if np.abs(vector).max(initial=0.0) > largest:
            return f"sent a {name} of more than {largest:g}, which no training makes"
    return None


def _advance(
    coordinator: Coordinator, total: np.ndarray, sites: int, notes: Sequence[str]
) -> Coordinator:
    """Return the coordinator after a round whose updates add up to a total."""
    number, notes_before = coordinator.round, coordinator.notes
    mean, figures = coordinator.packing.means(total, sites)
    state, weights = coordinator.learner.after_round(coordinator, mean, sites)
    judged = _judged(coordinator, figures.get("held_out", math.nan))
    new_notes = (note for note in notes if not same_note(note, notes_before))
    return replace(
        judged,
        weights=weights,
        state=state,
        round=number + 1,
        notes=(*notes_before, *new_notes),
        curve=(*coordinator.curve, {"round": number, "sites": sites, **figures}),
        sum_state=None,
        finished=judged.finished or coordinator.learner.is_done(weights),
    )


def _judged(coordinator: Coordinator, error: float) -> Coordinator:
    """Return the coordinator after sites have judged the weights that the round began with.

    Weights that were best are kept. Once a quarter of all rounds has brought none that are better,
    and at least `_PATIENCE` rounds, the best weights are the model.
    """
    number, patience = coordinator.round, max(_PATIENCE, coordinator.design.settings.rounds // 4)
    if error < coordinator.best_error:
        best = coordinator.weights
        return replace(coordinator, best=best, best_error=error, best_round=number - 1)
    waited = number - 1 - coordinator.best_round
    finished = coordinator.best is not None and waited >= patience
    return replace(coordinator, finished=finished)


def final_weights(coordinator: Coordinator) -> Float[np.ndarray, " P"]:
    """Return the common model: the last weights, or the best where later ones were worse.

    The last weights were never judged: those a round before speak for them, within a tenth.
    """
    errors = [entry["held_out"] for entry in coordinator.curve if "held_out" in entry]
    worse = bool(errors) and errors[-1] > 1.1 * coordinator.best_error
    best = coordinator.best if coordinator.finished or worse else None
    return coordinator.weights if best is None else best


# --- after the last round -----------------------------------------------------------------------


def _hand_out(coordinator: Coordinator, inbox: Inbox) -> tuple[Coordinator, Outbox]:
    coordinator = replace(coordinator, weights=final_weights(coordinator))
    return coordinator, _model_releases(coordinator, coordinator.names, {})


def _take_model(site: RowSite, inbox: Inbox) -> tuple[RowSite, Outbox]:
    model = first_of_type(inbox, ModelWeights)
    if model is None:
        return site, []
    return replace(site.learner.learn_from_own(site, model.weights), weights=model.weights), []


HANDING_OUT: tuple[Step[Any], ...] = (
    Step("hand out the model", one_by_one(_hand_out), "coordinator"),
    Step("take the model", one_by_one(_take_model)),
)
"""The steps after the last round, in which every site gets the common model."""
