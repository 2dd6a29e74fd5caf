"""Steps and the in-process driver: many federations advance together, so that they train as one.

A step is a pure function of parties and their inboxes. It is written over a *list* of parties,
because all networks of one kind train as one program: the in-process driver hands it every site of
every federation (repeats are federations), a network driver hands it the one site that lives
there. A step must treat each party alone; nothing but releases goes from one to another. A step
belongs either to the sites or to the coordinator, which sequences, adds up and sees no data; a
party's inbox holds what has arrived since it last acted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from cofill.errors import SettingError
from cofill.privacy import Budget, Gate, Ledger, Release, SentLog

COORDINATOR = "coordinator"

Site = TypeVar("Site")
Kind = TypeVar("Kind", bound=Release)
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


def one_by_one(
    act: Callable[[Any, Inbox], tuple[Any, Outbox]],
) -> Callable[[Sequence[Any], Sequence[Inbox], ReportProgress], list[tuple[Any, Outbox]]]:
    """Return the function of a step whose parties act alone: ``(party, inbox) → (party, outbox)``.

    Examples
    --------
    >>> step = Step("count", one_by_one(lambda party, inbox: (party + len(inbox), [])))
    >>> step.run([1, 2], [(), ()], print)
    [(1, []), (2, [])]
    """

    def run(
        parties: Sequence[Any], inboxes: Sequence[Inbox], report_progress: ReportProgress
    ) -> list[tuple[Any, Outbox]]:
        return [act(party, inbox) for party, inbox in zip(parties, inboxes, strict=True)]

    return run


def first_of_type(inbox: Iterable[Release], kind: type[Kind]) -> Kind | None:
    """Return the first release of a type, None where there is none."""
    return next((release for release in inbox if isinstance(release, kind)), None)


@dataclass
class Federation(Generic[Site]):
    """Sites that work together, their coordinator if they have one, and the ledger of releases.

    Parameters
    ----------
    sites
        Parties by name.
    ledger
        What crossed a border so far.
    coordinator
        The coordinator's party, or None.
    budgets
        What sites may spend on privacy: the gate refuses a release beyond that.
    sent
        Where the releases themselves are kept for an audit, or None to keep none.
    next_step, inboxes
        Where the protocol stands: the number of the next step, and what has arrived and was not
        read yet.
    """

    sites: dict[str, Site]
    ledger: Ledger = field(default_factory=Ledger)
    coordinator: Any = None
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    sent: SentLog | None = None
    next_step: int = 0
    inboxes: dict[str, list[Release]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if COORDINATOR in self.sites:
            raise SettingError(f"no site may be called {COORDINATOR!r}; choose another name")
        for name in self.budgets:
            if name not in self.sites:
                raise SettingError(f"budgets: there is no site {name!r}")

    def party(self, name: str) -> Any:
        """Return a site's party, or the coordinator's."""
        return self.coordinator if name == COORDINATOR else self.sites[name]

    @property
    def party_names(self) -> tuple[str, ...]:
        """The sites in their order, then the coordinator if there is one."""
        return (*self.sites, *(() if self.coordinator is None else (COORDINATOR,)))

    def _copy(self) -> Federation[Site]:
        return replace(
            self,
            sites=dict(self.sites),
            ledger=Ledger(list(self.ledger)),
            inboxes={name: list(inbox) for name, inbox in self.inboxes.items()},
        )

    def _become(self, other: Federation[Site]) -> None:
        for name in ("sites", "ledger", "coordinator", "next_step", "inboxes"):
            setattr(self, name, getattr(other, name))


@runtime_checkable
class HasSteps(Protocol):
    """The part of a protocol that the in-process driver needs."""

    @property
    def steps(self) -> tuple[Step[Any], ...]:
        """All steps, in order."""
        ...

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's."""
        ...


def run_protocol(
    protocol: HasSteps,
    federations: Sequence[Federation[Any]],
    *,
    progress: Callable[[str, float], None] | None = None,
    after_step: Callable[[int, Federation[Any]], None] | None = None,
    until: int | None = None,
) -> None:
    """Run the steps that are still to come in every federation.

    Federations that are at the same step run it as one batch; one that is behind catches up first.
    After an error or an interrupt every federation is as it was before the call.

    Parameters
    ----------
    protocol
        Whose steps to run.
    federations
        All of the same protocol; seeds and data may differ.
    progress
        Called with a step's name and the share done of the steps that this call runs.
    after_step
        Called with the number of a step that has ended and a federation, for checkpoints.
    until
        Stop before this step; run all of them unless stated.
    """
    steps = protocol.steps
    end = len(steps) if until is None else until
    copies = [federation._copy() for federation in federations]
    start = min((copy.next_step for copy in copies), default=end)
    while any(copy.next_step < end for copy in copies):
        number = min(copy.next_step for copy in copies)
        step = steps[number]
        acting = [copy for copy in copies if copy.next_step == number]

        def report_progress(share: float, at: int = number, name: str = step.name) -> None:
            if progress is not None:
                progress(name, (at - start + share) / (end - start))

        report_progress(0.0)
        _run_step(step, acting, report_progress)
        for copy in acting:
            at_sites = step.at == "sites"
            copy.next_step = (
                number + 1 if at_sites else protocol.next_step(number, copy.coordinator)
            )
            if after_step is not None:
                after_step(number, copy)
    for federation, copy in zip(federations, copies, strict=True):
        federation._become(copy)


@dataclass(frozen=True)
class _Sequence:
    """Steps one after another."""

    steps: tuple[Step[Any], ...]

    def next_step(self, number: int, coordinator: Any) -> int:
        return number + 1


def run_steps(
    steps: Sequence[Step[Any]],
    federations: Sequence[Federation[Any]],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Run some steps one after another in every federation, whatever it has run before."""
    for federation in federations:
        federation.next_step, federation.inboxes = 0, {}
    run_protocol(_Sequence(tuple(steps)), federations, progress=progress)


def _run_step(
    step: Step[Any], federations: Sequence[Federation[Any]], report_progress: ReportProgress
) -> None:
    """Run a step of all these federations as one call and carry what it sends through the gates."""
    at_coordinator = step.at == "coordinator"
    actors = [
        (federation, name)
        for federation in federations
        for name in federation.party_names
        if (name == COORDINATOR) == at_coordinator
    ]
    results = step.run(
        [federation.party(name) for federation, name in actors],
        [tuple(federation.inboxes.pop(name, ())) for federation, name in actors],
        report_progress,
    )
    outboxes: dict[int, list[Release]] = {}
    for (federation, name), (party, outbox) in zip(actors, results, strict=True):
        if name == COORDINATOR:
            federation.coordinator = party
        else:
            federation.sites[name] = party
        for release in outbox:
            check_sender(release, name, federation.party_names, step.name)
        outboxes.setdefault(id(federation), []).extend(outbox)
    for federation in federations:
        gate = Gate(federation.ledger, federation.budgets)
        sent = outboxes.get(id(federation), [])
        # Steps come back every round; the number of its first release in the ledger does not.
        first_entry = len(federation.ledger)
        for release in sent:
            federation.inboxes.setdefault(release.receiver, []).append(
                gate.pass_on(release, step.name)
            )
        if federation.sent is not None and sent:
            federation.sent.write(first_entry, step.name, sent)


def check_sender(release: Any, sender: str, parties: Sequence[str], step: str) -> None:
    """Raise a `SettingError` unless a party may send this release in this federation."""
    if not isinstance(release, Release):
        raise SettingError(
            f"step {step!r}: {type(release).__name__} is no declared type of release and may "
            "not leave a site"
        )
    if release.sender != sender:
        raise SettingError(f"step {step!r}: site {sender!r} may not send as {release.sender!r}")
    if release.receiver not in parties or release.receiver == sender:
        raise SettingError(f"step {step!r}: there is no other site {release.receiver!r} to send to")
