"""Steps and the in-process driver: many federations advance together, so that they train as one.

A step is a pure function of parties and their inboxes. It is written over a *list* of parties,
because all networks of one kind train as one program: the in-process driver hands it every site of
every federation (repeats are federations), a network driver hands it the one site that lives
there. A step must treat each party alone; nothing but releases goes from one to another. A step
belongs either to the sites or to the coordinator, which sequences, adds up and sees no data; a
party's inbox holds what has arrived since it last acted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from cofill.errors import SettingError
from cofill.privacy import Budget, Gate, Ledger, Release

__all__ = ["COORDINATOR", "Federation", "Step", "run_steps"]

COORDINATOR = "coordinator"

Site = TypeVar("Site")
Inbox = tuple[Release, ...]
Outbox = Sequence[Release]
ReportProgress = Callable[[float], None]


@dataclass(frozen=True)
class Step(Generic[Site]):
    """A named step: parties and inboxes in, new parties and outboxes out, one of each per party.

    ``at`` says whose step it is: every site's, or the coordinator's.
    """

    name: str
    run: Callable[[Sequence[Site], Sequence[Inbox], ReportProgress], Sequence[tuple[Site, Outbox]]]
    at: Literal["sites", "coordinator"] = "sites"


@dataclass
class Federation(Generic[Site]):
    """Sites that work together, their coordinator if they have one, and the ledger of releases.

    ``budgets`` says what sites may spend on privacy: the gate refuses a release beyond that.
    """

    sites: dict[str, Site]
    ledger: Ledger = field(default_factory=Ledger)
    coordinator: Any = None
    budgets: Mapping[str, Budget] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if COORDINATOR in self.sites:
            raise SettingError(f"no site may be called {COORDINATOR!r}; choose another name")
        for name in self.budgets:
            if name not in self.sites:
                raise SettingError(f"budgets: there is no site {name!r}")


def run_steps(
    steps: Sequence[Step[Any]],
    federations: Sequence[Federation[Any]],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Run steps one after another in every federation, carrying releases through the gate.

    Parties are replaced in place only when the last step has ended: after an error or an interrupt
    every federation is as it was.
    """
    parties: dict[tuple[int, str], Any] = {}
    for f, federation in enumerate(federations):
        for name, site in federation.sites.items():
            parties[f, name] = site
        if federation.coordinator is not None:
            parties[f, COORDINATOR] = federation.coordinator
    ledgers = [Ledger(list(federation.ledger)) for federation in federations]
    gates = [Gate(ledger, f.budgets) for ledger, f in zip(ledgers, federations, strict=True)]
    inboxes: dict[tuple[int, str], list[Release]] = {place: [] for place in parties}
    for number, step in enumerate(steps):

        def report_progress(share: float, at: int = number, name: str = step.name) -> None:
            if progress is not None:
                progress(name, (at + share) / len(steps))

        report_progress(0.0)
        acting = [p for p in parties if (p[1] == COORDINATOR) == (step.at == "coordinator")]
        results = step.run(
            [parties[p] for p in acting], [tuple(inboxes[p]) for p in acting], report_progress
        )
        for place in acting:
            inboxes[place] = []
        for (f, name), (party, outbox) in zip(acting, results, strict=True):
            parties[f, name] = party
            for release in outbox:
                if not isinstance(release, Release):
                    raise SettingError(
                        f"step {step.name!r}: {type(release).__name__} is no declared type of "
                        "release and may not leave a site"
                    )
                if release.sender != name:
                    raise SettingError(
                        f"step {step.name!r}: site {name!r} may not send as {release.sender!r}"
                    )
                if (f, release.receiver) not in parties or release.receiver == name:
                    raise SettingError(
                        f"step {step.name!r}: there is no other site {release.receiver!r} to send "
                        "to"
                    )
                inboxes[f, release.receiver].append(gates[f].pass_on(release, step.name))
    for f, federation in enumerate(federations):
        federation.sites = {name: parties[f, name] for name in federation.sites}
        federation.coordinator = parties.get((f, COORDINATOR))
        federation.ledger = ledgers[f]
