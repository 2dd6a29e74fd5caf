"""An audit of a ledger: every type of release in it, by the auditor of that type."""

import time
from collections.abc import Callable, Iterable

from cofill.audit._audit import Audit
from cofill.audit._auditors import AUDITORS, Auditor
from cofill.audit._evidence import Evidence
from cofill.errors import DataError, SettingError
from cofill.privacy import Gate, Ledger, LedgerEntry

_DELTA = 1e-5  # at which a gate without budgets counts


def audit_ledger(
    ledgers: Ledger | Iterable[Ledger],
    evidence: Evidence | None = None,
    *,
    title: str = "A ledger",
    budget: float | int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Audit:
    """Audit everything that ledgers say has left.

    Parameters
    ----------
    ledgers
        One, or one for each site.
    evidence
        What was sent, and the owner's rows; without them only what needs none is attacked.
    title
        What is audited.
    budget
        ε that every site may have spent at δ = 1e-5.
    progress
        Called with what is attacked and the share done.

    Raises
    ------
    DataError
        If a ledger is empty or holds a type of release that no auditor knows.
    SettingError
        If a site has spent more than the budget.

    Examples
    --------
    >>> from cofill.privacy import LedgerEntry
    >>> ledger = Ledger([LedgerEntry("offer", "public-keys", "lab", "ward", 0, 64, None, {})])
    >>> audit_ledger(ledger).verdict
    'nothing about a person'
    """
    started = time.perf_counter()
    every = [ledgers] if isinstance(ledgers, Ledger) else ledgers
    entries = [entry for ledger in every for entry in ledger]
    if not entries:
        raise DataError("the ledger must hold at least one release, got none: nothing has left")
    groups: dict[tuple[str, str], list[LedgerEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.kind, entry.sender), []).append(entry)
    order = AUDITORS.names
    unknown = sorted({kind for kind, _ in groups if kind not in order})
    if unknown:
        raise DataError(
            f"every type of release must have an auditor, got {', '.join(map(repr, unknown))} in "
            "the ledger; the audit fails, because it would leave out something that has left"
        )
    gate = Gate(Ledger(list(entries)))
    spent = {site: (cost, _DELTA) for site, cost in gate.spent_by_site().items()}
    for site, (cost, delta) in spent.items():
        if budget is not None and cost > budget * (1 + 1e-9):
            raise SettingError(
                f"site {site!r} has spent ε = {cost:.4g} at δ = {delta:g}, more than its budget of "
                f"{budget:g}"
            )
    evidence = evidence or Evidence()
    releases = []
    for k, (kind, sender) in enumerate(sorted(groups, key=lambda group: order.index(group[0]))):
        if progress is not None:
            progress(f"{kind} of {sender}", k / len(groups))
        auditor: Auditor = AUDITORS.load(kind)
        releases.append(auditor(groups[kind, sender], evidence.releases(kind, sender), evidence))
    return Audit(
        title=title,
        releases=tuple(releases),
        spent=spent,
        settings={"audit": "ledger", "entries": len(entries)},
        duration_s=time.perf_counter() - started,
    )
