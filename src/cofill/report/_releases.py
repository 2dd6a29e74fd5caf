"""What crossed a border: the ledgers as flows between sites, with bytes and privacy costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cofill.pages import (
    Cell,
    Html,
    Part,
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
from cofill.report._records import Record, Records

__all__ = ["releases", "spent_of"]

_DELTA = 1e-5
_MOST_PARTIES = 24
_NO_GUARANTEE = "no guarantee"


@dataclass
class _Flow:
    kind: str
    sender: str
    receiver: str
    times: int = 0
    bytes: int = 0
    individuals: int = 0
    epsilon: float | None = None
    plain: bool = False

    def add(self, entry: LedgerEntry) -> None:
        self.times += 1
        self.bytes += entry.bytes
        self.individuals = max(self.individuals, entry.individuals)
        if entry.epsilon is None:
            self.plain = True
        else:
            self.epsilon = max(self.epsilon or 0.0, entry.epsilon)


def releases(records: Records) -> Section | None:
    """Return every ledger as a picture and a table."""
    found = [r for r in records.of("ledger") if len(r.content)]
    if not found:
        return None
    body: list[Part] = [_flows([e for r in found for e in r.content])]
    body.append(
        paragraph(
            "Each ledger is a chain of hashes; all lines of ",
            join(*_separated([code(r.name) for r in found])),
            " are as they were written.",
        )
    )
    return Section(
        "What crossed a border",
        body,
        "releases",
        "Everything that left a site is in its ledger: what, to whom, how much, at what privacy "
        "cost. Rows and cells are in none of it.",
    )


def _flows(entries: Sequence[LedgerEntry]) -> Html:
    kinds = list(dict.fromkeys(e.kind for e in entries))
    made = {"everything": _flow(entries)} if len(kinds) > 1 else {}
    made |= {kind: _flow([e for e in entries if e.kind == kind]) for kind in kinds}
    spent = spent_of(Ledger([*entries]))
    words = [
        f"{site}: ε = {cost:.3g} at δ = {_DELTA:g} over all its releases with a guarantee"
        for site, cost in spent.items()
    ]
    told = (
        bullets(words)
        if words
        else note(
            "None of these releases carries a differential privacy guarantee: what they give away "
            "is for an audit to measure.",
            tone="warn",
        )
    )
    return join(choice("release", made), told)


def _flow(entries: Sequence[LedgerEntry]) -> Html:
    names = _names(entries)
    flows: dict[tuple[str, str, str], _Flow] = {}
    for entry in entries:
        key = (names[entry.sender], names[entry.receiver], entry.kind)
        flows.setdefault(key, _Flow(entry.kind, *key[:2])).add(entry)
    found = list(flows.values())
    total = sum(f.bytes for f in found)
    picture = flow(
        [(f.sender, f.receiver, f"{f.times} × {f.kind}, {_cost(f)}", f.bytes) for f in found]
    )
    rows: list[list[Cell]] = [
        [
            f.kind,
            f.sender,
            f.receiver,
            f.times,
            f.individuals,
            Quantity(f.bytes, unit="B"),
            _cost(f),
        ]
        for f in found
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
        f"{f.sender} to {f.receiver}: {f.times} {f.kind}, {byte_size(f.bytes)}" for f in found[:20]
    )
    return plot(
        picture,
        f"{len(entries):,} releases between {len(names)} parties, {byte_size(total)} in all; the "
        "width of a stream is its bytes.",
        words,
        data=table,
    )


def _names(entries: Sequence[LedgerEntry]) -> dict[str, str]:
    """Return what each party is called; those who sent and got least share a name if many."""
    amounts: Counter[str] = Counter()
    for entry in entries:
        amounts[entry.sender] += entry.bytes
        amounts[entry.receiver] += entry.bytes
    kept = [name for name, _ in amounts.most_common(_MOST_PARTIES)]
    rest = len(amounts) - len(kept)
    return {name: name if name in kept else f"{rest} other parties" for name in amounts}


def _cost(found: _Flow) -> str:
    if found.epsilon is None:
        return _NO_GUARANTEE
    return f"ε ≤ {found.epsilon:.3g}" + ("; some without" if found.plain else "")


def spent_of(ledger: Ledger) -> dict[str, float]:
    """Return what each site's releases with a guarantee come to together, composed."""
    gate = Gate(ledger)
    sites = dict.fromkeys(e.sender for e in ledger if e.event is not None)
    return {site: gate.spent(site, delta=_DELTA) for site in sites}


def _separated(parts: Sequence[Html]) -> list[Part]:
    return [piece for k, part in enumerate(parts) for piece in ((", " if k else ""), part)]


def ledgers(records: Records) -> list[Record]:
    """Return the ledgers that hold something."""
    return [r for r in records.of("ledger") if len(r.content)]
