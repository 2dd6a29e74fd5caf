"""Steps and the in-process driver: many federations advance together, so that they train as one.

A step is a pure function of sites and their inboxes. It is written over a *list* of sites, because
all networks of one kind train as one program: the in-process driver hands it every site of every
federation (repeats are federations), a network driver hands it the one site that lives there. A
step must treat each site alone; nothing but releases goes from one to another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cofill.errors import SettingError
from cofill.privacy import Gate, Ledger, Release

__all__ = ["Federation", "Step", "run_steps"]

Site = TypeVar("Site")
Inbox = tuple[Release, ...]
Outbox = Sequence[Release]
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Step(Generic[Site]):
    """A named step: sites and inboxes in, new sites and outboxes out, one of each per site."""

    name: str
    run: Callable[[Sequence[Site], Sequence[Inbox], Tell], Sequence[tuple[Site, Outbox]]]


@dataclass
class Federation(Generic[Site]):
    """Sites that work together, and the ledger of what they released to each other."""

    sites: dict[str, Site]
    ledger: Ledger = field(default_factory=Ledger)


def run_steps(
    steps: Sequence[Step[Site]],
    federations: Sequence[Federation[Site]],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Run steps one after another in every federation, carrying releases through the gate.

    Sites are replaced in place only when the last step has ended: after an error or an interrupt
    every federation is as it was.
    """
    places = [(f, name) for f, federation in enumerate(federations) for name in federation.sites]
    sites = [federations[f].sites[name] for f, name in places]
    ledgers = [Ledger(list(federation.ledger)) for federation in federations]
    gates = [Gate(ledger) for ledger in ledgers]
    inboxes: list[Inbox] = [()] * len(sites)
    index = {place: k for k, place in enumerate(places)}
    for number, step in enumerate(steps):

        def tell(share: float, at: int = number, name: str = step.name) -> None:
            if progress is not None:
                progress(name, (at + share) / len(steps))

        tell(0.0)
        results = step.run(sites, inboxes, tell)
        sites = [site for site, _ in results]
        arrived: list[list[Release]] = [[] for _ in sites]
        for (f, name), (_, outbox) in zip(places, results, strict=True):
            for release in outbox:
                if not isinstance(release, Release):
                    raise SettingError(
                        f"step {step.name!r}: {type(release).__name__} is no declared type of "
                        "release and may not leave a site"
                    )
                _check_addresses(release, name, federations[f].sites, step.name)
                passed = gates[f].pass_on(release, step.name)
                arrived[index[f, release.receiver]].append(passed)
        inboxes = [tuple(releases) for releases in arrived]
    for (f, name), site in zip(places, sites, strict=True):
        federations[f].sites[name] = site
    for federation, ledger in zip(federations, ledgers, strict=True):
        federation.ledger = ledger


def _check_addresses(release: Release, sender: str, sites: Mapping[str, object], step: str) -> None:
    if release.sender != sender:
        raise SettingError(f"step {step!r}: site {sender!r} may not send as {release.sender!r}")
    if release.receiver not in sites or release.receiver == sender:
        raise SettingError(f"step {step!r}: there is no other site {release.receiver!r} to send to")
