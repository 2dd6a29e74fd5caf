"""The one gate through which releases leave a site, and the budgets that it keeps.

A release that carries an event is composed with what its site has already spent *before* it passes:
releases about the same people add up, and sites hold different people, so every site has its own
budget. The very same noisy values sent to a second receiver cost nothing more. Releases without a
guarantee are written with ε None; a site whose budget says ``only_guaranteed`` sends none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, get_args

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy._accounting import epsilon, rough_epsilon
from cofill.privacy._checks import require_delta, require_one_of, require_positive
from cofill.privacy._events import Event, Neighbours, Unit
from cofill.privacy._ledger import Ledger, LedgerEntry
from cofill.privacy._release import Release, release_types

# At which ε of a site without a budget is written.
_DELTA = 1e-5


@storable
@dataclass(frozen=True)
class Budget:
    """What a site may spend on its people, over all its releases together.

    Parameters
    ----------
    epsilon, delta
        (ε, δ) that must not be exceeded.
    neighbours, unit
        What is to be hidden. Releases about adding or removing a record also count for replacing
        one, not the other way round.
    only_guaranteed
        Whether to refuse releases that were made from records and carry no guarantee.

    Examples
    --------
    >>> Budget(1.0, 1e-5).neighbours
    'replace one'
    """

    epsilon: float | int
    delta: float | int = 1e-5
    neighbours: Neighbours = "replace one"
    unit: Unit = "record"
    only_guaranteed: bool = False

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_delta(self.delta)
        require_one_of("neighbours", self.neighbours, get_args(Neighbours))
        require_one_of("unit", self.unit, get_args(Unit))


@dataclass(frozen=True)
class Gate:
    """Lets declared releases pass and writes each to the ledger; refuses anything else.

    Parameters
    ----------
    ledger
        Where it writes, and from where it knows what was spent.
    budgets
        What each site may spend; sites that are not named have no limit.

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

    def pass_on(self, release: Release, step: str) -> Release:
        """Return the release, now in the ledger, or raise a `SettingError`."""
        if release_types().get(getattr(release, "kind", "")) is not type(release):
            raise SettingError(
                f"step {step!r}: {type(release).__name__} is no declared type of release and may "
                "not leave a site"
            )
        budget = self.budgets.get(release.sender)
        guaranteed = release.event is not None and not release.uncovered
        if budget is not None:
            self._afford(release, step, budget, guaranteed)
        delta = _DELTA if budget is None else float(budget.delta)
        cost = None
        if guaranteed and release.event is not None:
            asked = (None, None) if budget is None else (budget.neighbours, budget.unit)
            cost = epsilon(release.event, delta, neighbours=asked[0], unit=asked[1])
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
                delta=None if cost is None else delta,
                event=release.event,
                digest=None if release.event is None else release.digest,
            )
        )
        return release

    def spent(self, site: str, *, delta: float | int | None = None) -> float:
        """Return the ε that a site's releases with a guarantee come to together.

        At the budget's δ (1e-5 without one) unless another is given. Releases without a guarantee
        have no ε and are not in it: the ledger names them.
        """
        budget = self.budgets.get(site)
        if delta is None:
            delta = _DELTA if budget is None else budget.delta
        asked = (None, None) if budget is None else (budget.neighbours, budget.unit)
        events = list(self._paid(site).values())
        return epsilon(events, delta, neighbours=asked[0], unit=asked[1])

    def _paid(self, site: str) -> dict[str, Event]:
        """Return a site's events, those of the very same values once."""
        paid: dict[str, Event] = {}
        for number, entry in enumerate(self.ledger):
            if entry.sender == site and entry.event is not None:
                paid.setdefault(entry.digest or f"entry {number}", entry.event)
        return paid

    def _afford(self, release: Release, step: str, budget: Budget, guaranteed: bool) -> None:
        """Raise a `SettingError` if a site's budget does not allow the release."""
        what = f"step {step!r}: {release.kind} from {release.sender!r} to {release.receiver!r}"
        if budget.only_guaranteed and release.personal and not guaranteed:
            plain = ", ".join(release.uncovered)
            why = f"its figures {plain} have" if release.event is not None else "it has"
            raise SettingError(
                f"{what} is refused, because {why} no guarantee and the site's budget is "
                "only_guaranteed; add noise, or allow plain releases in the budget"
            )
        if release.event is None:
            return
        paid = self._paid(release.sender)
        if release.digest is not None and release.digest in paid:
            return
        before, after = list(paid.values()), [*paid.values(), release.event]
        if _within(after, budget):
            return
        kinds = Counter(
            e.kind for e in self.ledger if e.sender == release.sender and e.event is not None
        )
        on = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
        so_far = _cost(before, budget)
        has = f"{so_far:.3g} on {on}" if on else "nothing"
        raise SettingError(
            f"{what} is refused, because it would bring what the site has spent to "
            f"ε = {_cost(after, budget):.4g} of {budget.epsilon:g} at δ = {budget.delta:g} "
            f"(so far: {has}); release less, add more noise or raise the budget"
        )


def _cost(events: list[Event], budget: Budget) -> float:
    return epsilon(events, budget.delta, neighbours=budget.neighbours, unit=budget.unit)


def _within(events: list[Event], budget: Budget) -> bool:
    """Whether events stay within a budget: by a quick upper bound, or else by the tight one."""
    asked: dict[str, Any] = {"neighbours": budget.neighbours, "unit": budget.unit}
    if rough_epsilon(events, budget.delta, **asked) <= budget.epsilon:
        return True
    # A hair of tolerance, so that a budget can be spent to its very end.
    return _cost(events, budget) <= budget.epsilon * (1 + 1e-9)
