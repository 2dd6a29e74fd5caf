"""The in-process driver: many federations advance together, so that they train as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Generic

from cofill.errors import SettingError
from cofill.privacy import Budget, Gate, Ledger, Release, SentLog
from cofill.protocol._protocol import COORDINATOR, AbstractProtocol, ReportProgress, Site, Step


@dataclass
class Federation(Generic[Site]):
    """Sites that work together, their coordinator if they have one, and the ledger of releases.

    ``sites`` are parties by name, ``coordinator`` is its party or None. The gate refuses a release
    beyond a site's budget. Releases themselves are kept in ``sent`` for an audit, where it is
    given. ``next_step`` and ``inboxes`` are where the protocol stands: the number of the next step,
    and what has arrived and was not read yet.
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


def run_protocol(
    protocol: AbstractProtocol,
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
    federations
        All of the same protocol; seeds and data may differ.
    progress
        Called with a step's name and the share done of the steps that this call runs.
    after_step
        Called with the number of a step that has ended and a federation, for checkpoints.
    until
        Stop before this step; run all of them unless stated.
    """
    steps = protocol.steps if until is None else protocol.steps[:until]
    optional = [protocol.is_optional(number) for number in range(len(steps))]
    counts = [0, *accumulate(not left_out for left_out in optional)]
    _advance(steps, protocol.next_step, federations, progress, after_step, counts)


def _advance(
    steps: Sequence[Step[Any]],
    next_step: Callable[[int, Any], int],
    federations: Sequence[Federation[Any]],
    progress: Callable[[str, float], None] | None,
    after_step: Callable[[int, Federation[Any]], None] | None = None,
    counts: Sequence[int] | None = None,
) -> None:
    end = len(steps)
    counts = range(end + 1) if counts is None else counts  # of steps before each that count
    copies = [federation._copy() for federation in federations]
    start = min((copy.next_step for copy in copies), default=end)
    while any(copy.next_step < end for copy in copies):
        number = min(copy.next_step for copy in copies)
        step = steps[number]
        acting = [copy for copy in copies if copy.next_step == number]

        def report_progress(share: float, at: int = number, name: str = step.name) -> None:
            if progress is not None:
                so_far, count = counts[at] - counts[start], counts[end] - counts[start]
                progress(name, min((so_far + share) / max(count, 1), 1.0))

        report_progress(0.0)
        _run_step(step, acting, report_progress)
        for copy in acting:
            at_sites = step.at == "sites"
            copy.next_step = number + 1 if at_sites else next_step(number, copy.coordinator)
            if after_step is not None:
                after_step(number, copy)
    for federation, copy in zip(federations, copies, strict=True):
        for name in ("sites", "ledger", "coordinator", "next_step", "inboxes"):
            setattr(federation, name, getattr(copy, name))


def run_steps(
    steps: Sequence[Step[Any]],
    federations: Sequence[Federation[Any]],
    *,
    progress: Callable[[str, float], None] | None = None,
) -> None:
    """Run some steps one after another in every federation, whatever it has run before."""
    for federation in federations:
        federation.next_step, federation.inboxes = 0, {}
    _advance(steps, lambda number, _: number + 1, federations, progress)


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
            inbox = federation.inboxes.setdefault(release.receiver, [])
            inbox.append(gate.pass_on(release, step.name))
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
