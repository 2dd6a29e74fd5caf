"""What the coordinator makes of a round's inbox: sound answers, and notes on everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cofill.errors import DataError
from cofill.federate._parties import Coordinator
from cofill.privacy import Release, Update

NO_TRAINING_ROWS = "has no individual that this model can learn from"

Kind = TypeVar("Kind", bound=Release)


def first_of_type(inbox: Iterable[Release], kind: type[Kind]) -> Kind | None:
    """Return the first release of a type, None where there is none."""
    return next((release for release in inbox if isinstance(release, kind)), None)


def sound_messages(
    coordinator: Coordinator,
    inbox: Iterable[Release],
    kind: type[Kind],
    senders: Iterable[str],
    fault: Callable[[Kind], str | None] | None = None,
) -> tuple[list[Kind], list[str]]:
    """Return the sound messages of a round in the order of their senders, and notes on others.

    ``kind`` is the type that is due from ``senders``; ``fault`` returns what else is wrong with a
    message, in words, or None.
    """
    sound: dict[str, Kind] = {}
    notes = []
    for release in inbox:
        where = f"round {coordinator.round}: site {release.sender!r}"
        if release.sender in sound:
            notes.append(f"{where} answered twice; the first answer counts")
            continue
        if release.sender not in senders:
            words = "was not invited"
        elif not isinstance(release, kind):
            words = f"sent {type(release).kind} where {kind.kind} was due"
        elif getattr(release, "round", None) != coordinator.round:
            words = f"answered round {getattr(release, 'round', None)}"
        elif (words := fault(release) if fault else None) is None:
            sound[release.sender] = release
            continue
        notes.append(f"{where} {words}; left out")
    return [sound[name] for name in sorted(sound)], notes


def idle_sites(coordinator: Coordinator, inbox: Iterable[Release]) -> set[str]:
    """Return the invited sites that answered that they have no rows to train on.

    Raises a `DataError` if these are all sites: no round can ever train anything.
    """
    idle = {r.sender for r in inbox if isinstance(r, Update) and r.rows == 0}
    if idle >= set(coordinator.names):
        raise DataError(
            f"round {coordinator.round}: no site has an individual with more than one modality, so "
            "there is nothing to learn from; check that modalities name individuals by the same ids"
        )
    return idle & set(coordinator.invited)


def absence_notes(
    coordinator: Coordinator, names: Iterable[str], messages: Iterable[Release]
) -> list[str]:
    """Return a note on each site that did not answer."""
    absent = set(names) - {message.sender for message in messages}
    return [
        f"round {coordinator.round}: site {name!r} did not answer; left out"
        for name in sorted(absent)
    ]


def join_notes(notes: Sequence[str]) -> str:
    """Return notes as the end of an error's sentence."""
    return f"; {'; '.join(notes)}" if notes else ""
