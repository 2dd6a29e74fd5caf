"""What crossed a border: the ledgers as flows between sites, with bytes and privacy costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cofill.pages import (
    Cell,
    Quantity,
    Section,
    bullets,
    byte_size,
    choice,
    code,
    flow,
    join,
    note,
    paragraph,
    plot,
    table_html,
)
from cofill.privacy import Gate, Ledger, LedgerEntry
from cofill.report._records import Records

_DELTA = 1e-5
_MOST_PARTIES = 24  # more streams than these cannot be told apart in one picture


@dataclass
class _Flow:
    """All releases of a kind from one party to another."""

    kind: str
    sender: str
    receiver: str
    times: int = 0
    bytes: int = 0
    individuals: int = 0
    epsilon: float | None = None
    some_without: bool = False

    def add(self, entry: LedgerEntry) -> None:
        self.times += 1
        self.bytes += entry.bytes
        self.individuals = max(self.individuals, entry.individuals)
        if entry.epsilon is None:
            self.some_without = True
        else:
            self.epsilon = max(self.epsilon or 0.0, entry.epsilon)

    @property
    def cost(self) -> str:
        if self.epsilon is None:
            return "no guarantee"
        return f"ε ≤ {self.epsilon:.3g}" + ("; some without" if self.some_without else "")


def releases(records: Records) -> Section | None:
    """Return every ledger as a picture and a table."""
    ledgers = records.of("ledger")
    if not ledgers:
        return None
    names = Markup(", ").join(code(ledger.name) for ledger in ledgers)
    chain = paragraph(
        "Each ledger is a chain of hashes; all lines of ", names, " are as they were written."
    )
    return Section(
        "What crossed a border",
        [_flows([entry for ledger in ledgers for entry in ledger.content]), chain],
        "releases",
        "Everything that left a site is in its ledger: what, to whom, how much, at what privacy "
        "cost. Rows and cells are in none of it.",
    )


def _flows(entries: Sequence[LedgerEntry]) -> Markup:
    kinds = list(dict.fromkeys(e.kind for e in entries))
    by_kind = {"everything": _flow(entries)} if len(kinds) > 1 else {}
    by_kind |= {kind: _flow([e for e in entries if e.kind == kind]) for kind in kinds}
    costs = [
        f"{site}: ε = {cost:.3g} at δ = {_DELTA:g} over all its releases with a guarantee"
        for site, cost in spent_of(Ledger([*entries])).items()
    ]
    no_cost = note(
        "None of these releases carries a differential privacy guarantee: what they give away is "
        "for an audit to measure.",
        tone="warn",
    )
    return join(choice("release", by_kind), bullets(costs) if costs else no_cost)


def _flow(entries: Sequence[LedgerEntry]) -> Markup:
    names = _names(entries)
    by_parties: dict[tuple[str, str, str], _Flow] = {}
    for entry in entries:
        key = (names[entry.sender], names[entry.receiver], entry.kind)
        by_parties.setdefault(key, _Flow(entry.kind, *key[:2])).add(entry)
    flows = list(by_parties.values())
    figure = flow(
        [(f.sender, f.receiver, f"{f.times} × {f.kind}, {f.cost}", f.bytes) for f in flows]
    )
    rows: list[list[Cell]] = [
        [f.kind, f.sender, f.receiver, f.times, f.individuals, Quantity(f.bytes, unit="B"), f.cost]
        for f in flows
    ]
    table = table_html(
        ["release", "from", "to", "times", "individuals", "bytes", "ε of one"],
        rows,
        hints={
            "individuals": "people a release is about, the most of one release",
            "bytes": "as sent, all releases together",
            "ε of one": "privacy cost of one such release alone, the largest; less is more private",
        },
    )
    words = "; ".join(
        f"{f.sender} to {f.receiver}: {f.times} {f.kind}, {byte_size(f.bytes)}" for f in flows[:20]
    )
    total = byte_size(sum(f.bytes for f in flows))
    return plot(
        figure,
        f"{len(entries):,} releases between {len(names)} parties, {total} in all; the width of a "
        "stream is its bytes.",
        words,
        data=table,
    )


def _names(entries: Sequence[LedgerEntry]) -> dict[str, str]:
    """Return what each party is called; those who sent and got least share a name if many."""
    amounts: Counter[str] = Counter()
    for entry in entries:
        amounts[entry.sender] += entry.bytes
        amounts[entry.receiver] += entry.bytes
    largest = {name for name, _ in amounts.most_common(_MOST_PARTIES)}
    rest = len(amounts) - len(largest)
    return {name: name if name in largest else f"{rest} other parties" for name in amounts}


def spent_of(ledger: Ledger) -> dict[str, float]:
    """Return what each site's releases with a guarantee come to together, composed."""
    gate = Gate(ledger)
    sites = dict.fromkeys(e.sender for e in ledger if e.event is not None)
    return {site: gate.spent(site, delta=_DELTA) for site in sites}
