"""The one gate through which releases leave a site, and the budgets that it keeps.

A release that carries an event is composed with what its site has already spent *before* it passes:
releases about the same people add up, and sites hold different people, so every site has its own
budget. The very same noisy values sent to a second receiver cost nothing more. Releases without a
guarantee are written with ε None; a site whose budget says ``only_guaranteed`` sends none of them,
but for the types of which it has an `Allowance`: these are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy._accounting import epsilon, rough_epsilon
from cofill.privacy._checks import require_delta, require_positive, require_whole
from cofill.privacy._events import Event, Neighbours, Unit, require_relation
from cofill.privacy._ledger import Ledger, LedgerEntry
from cofill.privacy._release import Release, release_types

# At which ε of a site without a budget is written.
_DELTA = 1e-5


@storable
@dataclass(frozen=True)
class Allowance:
    """Releases of one type that may leave without a guarantee.

    ``people`` are the fewest individuals that any figure of it may tell of, ``most`` how many such
    releases a site sends in all its runs (None for any number), and ``to`` whom they may go to, by
    name (empty for anybody).
    """

    people: int = 10
    most: int | None = None
    to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_whole("people", self.people, 1)
        if self.most is not None:
            require_whole("most", self.most, 1)


@storable
@dataclass(frozen=True)
class Budget:
    """What a site may spend on its people, over all its releases together.

    ``neighbours`` and ``unit`` are what is to be hidden; releases about adding or removing a record
    also count for replacing one, not the other way round. With ``only_guaranteed``, releases that
    were made from records and carry no guarantee are refused, but for types in ``allowances``.
    ``per_run`` is the ε that one run may cost, None for all there is.
    """

    epsilon: float | int
    delta: float | int = 1e-5
    neighbours: Neighbours = "replace one"
    unit: Unit = "record"
    only_guaranteed: bool = False
    per_run: float | int | None = None
    allowances: Mapping[str, Allowance] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        if self.per_run is not None:
            require_positive("per_run", self.per_run)
        require_delta(self.delta)
        require_relation(self.neighbours, self.unit)

    def cost(self, events: Iterable[Event]) -> float:
        """Return what events about the same people cost together, in the budget's terms."""
        return epsilon(events, self.delta, neighbours=self.neighbours, unit=self.unit)

    def allows(self, events: list[Event]) -> bool:
        """Whether events about the same people stay within the budget together."""
        # By a quick upper bound first: the tight one takes seconds after thousands of steps.
        rough = rough_epsilon(events, self.delta, neighbours=self.neighbours, unit=self.unit)
        if rough <= self.epsilon:
            return True
        # A hair of tolerance, so that a budget can be spent to its very end.
        return self.cost(events) <= self.epsilon * (1 + 1e-9)


@dataclass(frozen=True)
class Gate:
    """Lets declared releases pass and writes each to the ledger; refuses anything else.

    It knows from the ledger what was spent. Sites that ``budgets`` do not name have no limit. With
    ``is_joint`` the ledger is that of one site: its parties, whatever their names, hold the same
    people and share one budget, and so do ``elsewhere``, its ledgers in other federations.
    ``run`` is the run under way, and ``homes`` the site of each party.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.privacy import Box, MeanDefence
    >>> gate = Gate(Ledger(), {"clinic": Budget(1.5)})
    >>> rows = np.random.default_rng(0).uniform(size=(100, 3))
    >>> defence = MeanDefence(Box(0.0, 1.0), 1.0)
    >>> for receiver in ("bank", "shop"):
    ...     noisy = defence.release(rows, sender="clinic", receiver=receiver)
    ...     _ = gate.pass_on(noisy, "send")
    >>> round(gate.spent("clinic"), 2)
    1.47
    """

    ledger: Ledger
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    is_joint: bool = False
    elsewhere: tuple[Ledger, ...] = ()
    run: str = ""
    homes: Mapping[str, str] = field(default_factory=dict)

    def pass_on(self, release: Release, step: str) -> Release:
        """Return the release, now in the ledger, or raise a `SettingError`."""
        if release_types().get(getattr(release, "kind", "")) is not type(release):
            raise SettingError(
                f"step {step!r}: {type(release).__name__} is no declared type of release and may "
                "not leave a site"
            )
        budget, event = self.budgets.get(release.sender), release.event
        # An event that does not pay for all that is in a release is no guarantee of the release.
        guaranteed = event is not None and not release.uncovered
        refusal = self.refusal(release, step)
        if refusal is not None:
            raise SettingError(refusal)
        cost = delta = None
        if event is not None and guaranteed:
            delta = _DELTA if budget is None else float(budget.delta)
            cost = epsilon(event, delta) if budget is None else budget.cost([event])
        self.ledger.write(
            LedgerEntry(
                step=step,
                kind=release.kind,
                sender=release.sender,
                receiver=release.receiver,
                individuals=release.n_individuals,
                bytes=release.n_bytes,
                epsilon=cost,
                facts=MappingProxyType(release.facts()),
                delta=delta,
                event=event,
                digest=None if event is None else release.digest,
            )
        )
        return release

    def spent(self, site: str, *, delta: float | int | None = None) -> float:
        """Return the ε that a site's releases with a guarantee come to together.

        At the budget's δ (1e-5 without one) unless another is given. Releases without a guarantee
        have no ε and are not in it: the ledger names them.
        """
        budget, events = self.budgets.get(site), self._paid(site).values()
        if budget is None:
            return epsilon(events, _DELTA if delta is None else delta)
        return (budget if delta is None else replace(budget, delta=delta)).cost(events)

    def spent_by_site(self) -> dict[str, float]:
        """Return what each site has spent, of those that sent a release with a guarantee."""
        sites = dict.fromkeys(entry.sender for entry in self.ledger if entry.event is not None)
        return {site: self.spent(site) for site in sites}

    def refusal(self, release: Release, step: str) -> str | None:
        """Return why a site's budget does not allow a release, in one sentence; None if it does."""
        budget = self.budgets.get(release.sender)
        if budget is None:
            return None
        guaranteed = release.event is not None and not release.uncovered
        what = f"step {step!r}: {release.kind} from {release.sender!r} to {release.receiver!r}"
        plain = None
        if budget.only_guaranteed and release.personal and not (guaranteed or release.masked):
            plain = self._plain_refusal(release, budget)
        why = plain or self._cost_refusal(release, budget)
        return None if why is None else f"{what} is refused, because {why}"

    def _entries(self, site: str) -> list[LedgerEntry]:
        """Return what a site has released, here and elsewhere."""
        entries = [entry for entry in self.ledger if self.is_joint or entry.sender == site]
        return [*entries, *(entry for ledger in self.elsewhere for entry in ledger)]

    def _paid(self, site: str, *, run: str = "") -> dict[str, Event]:
        """Return a site's events, or those of a run, those of the very same values once."""
        paid: dict[str, Event] = {}
        for number, entry in enumerate(self._entries(site)):
            if entry.event is not None and (not run or entry.step.endswith(f"(run {run})")):
                # The same noisy values sent to a second receiver tell nobody more.
                paid.setdefault(entry.digest or f"entry {number}", entry.event)
        return paid

    def _plain_refusal(self, release: Release, budget: Budget) -> str | None:
        allowance = budget.allowances.get(release.kind)
        receiver = self.homes.get(release.receiver, release.receiver)
        if allowance is None or (allowance.to and receiver not in allowance.to):
            plain = ", ".join(release.uncovered)
            why = f"its figures {plain} have" if release.event is not None else "it has"
            return (
                f"{why} no guarantee and the site's budget is only_guaranteed; add noise, or have "
                "the site's operator allow releases of this type"
            )
        fewest = release.fewest
        if fewest is not None and fewest < allowance.people:
            # Not how many there are: that would tell of a few people what it keeps back.
            return (
                f"a figure of it tells of fewer than {allowance.people} people and has no "
                "guarantee; ask for larger groups"
            )
        sent = sum(
            entry.kind == release.kind and entry.epsilon is None
            for entry in self._entries(release.sender)
        )
        if allowance.most is not None and sent >= allowance.most:
            return (
                f"the site has sent {sent} such releases without a guarantee, of {allowance.most} "
                "that it sends in all; add noise, or have its operator allow more"
            )
        return None

    def _cost_refusal(self, release: Release, budget: Budget) -> str | None:
        event = release.event
        paid = self._paid(release.sender)
        if event is None or (release.digest is not None and release.digest in paid):
            return None
        if budget.per_run is not None and self.run:
            once = replace(budget, epsilon=budget.per_run)
            in_run = [*self._paid(release.sender, run=self.run).values(), event]
            if not once.allows(in_run):
                return (
                    f"it would bring what the run costs to ε = {budget.cost(in_run):.4g} of "
                    f"{budget.per_run:g} at δ = {budget.delta:g}; release less or add more noise"
                )
        after = [*paid.values(), event]
        if budget.allows(after):
            return None
        charged = Counter(e.kind for e in self._entries(release.sender) if e.event is not None)
        on = ", ".join(f"{n} {kind}" for kind, n in charged.items())
        has = f"{budget.cost(paid.values()):.3g} on {on}" if on else "nothing"
        return (
            f"it would bring what the site has spent to ε = {budget.cost(after):.4g} of "
            f"{budget.epsilon:g} at δ = {budget.delta:g} (so far: {has}); release less, add more "
            "noise or raise the budget"
        )
