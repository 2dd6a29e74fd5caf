"""What crossed a border, as flows between sites, and what attackers learn from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cofill.pages import (
    Cell,
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
from cofill.report._records import Records, headed_section

_MOST_PARTIES = 24  # more streams than these cannot be told apart in one picture


def releases(records: Records) -> Section | None:
    """Return every ledger as a picture and a table."""
    ledgers = records.of("ledger")
    if not ledgers:
        return None
    names = Markup(", ").join(code(ledger.name) for ledger in ledgers)
    hashes = "Each ledger is a chain of hashes; all lines of "
    chain = paragraph(hashes, names, " are as they were written.")
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
        f"{site}: ε = {cost:.3g} at δ = 1e-05 over all its releases with a guarantee"
        for site, cost in Gate(Ledger([*entries])).spent_by_site().items()
    ]
    no_cost = note(
        "None of these releases carries a differential privacy guarantee: what they give away is "
        "for an audit to measure.",
        tone="warn",
    )
    return join(choice("release", by_kind), bullets(costs) if costs else no_cost)


def _flow(entries: Sequence[LedgerEntry]) -> Markup:
    """Draw all releases of a kind from one party to another as a stream."""
    names = _names(entries)
    streams: dict[tuple[str, str, str], list[LedgerEntry]] = {}
    for e in entries:
        streams.setdefault((names[e.sender], names[e.receiver], e.kind), []).append(e)
    links: list[tuple[str, str, str, int]] = []
    rows: list[list[Cell]] = []
    words: list[str] = []
    for (sender, receiver, kind), sent in streams.items():
        times, size, cost = len(sent), sum(e.bytes for e in sent), _cost(sent)
        people = max(e.individuals for e in sent)
        links.append((sender, receiver, f"{times} × {kind}, {cost}", size))
        rows.append([kind, sender, receiver, times, people, Quantity(size, unit="B"), cost])
        words.append(f"{sender} to {receiver}: {times} {kind}, {byte_size(size)}")
    table = table_html(
        ["release", "from", "to", "times", "individuals", "bytes", "ε of one"],
        rows,
        hints={
            "individuals": "people a release is about, the most of one release",
            "bytes": "as sent, all releases together",
            "ε of one": "privacy cost of one such release alone, the largest; less is more private",
        },
    )
    total = byte_size(sum(e.bytes for e in entries))
    return plot(
        flow(links),
        f"{len(entries):,} releases between {len(names)} parties, {total} in all; the width of a "
        "stream is its bytes.",
        "; ".join(words[:20]),
        data=table,
    )


def _cost(sent: Sequence[LedgerEntry]) -> str:
    costs = [e.epsilon for e in sent if e.epsilon is not None]
    if not costs:
        return "no guarantee"
    return f"ε ≤ {max(costs):.3g}" + "; some without" * (len(costs) < len(sent))


def _names(entries: Sequence[LedgerEntry]) -> dict[str, str]:
    """Return what each party is called; those who sent and got least share a name if many."""
    amounts: Counter[str] = Counter()
    for entry in entries:
        amounts[entry.sender] += entry.bytes
        amounts[entry.receiver] += entry.bytes
    largest = {name for name, _ in amounts.most_common(_MOST_PARTIES)}
    rest = len(amounts) - len(largest)
    return {name: name if name in largest else f"{rest} other parties" for name in amounts}


def attacks(records: Records) -> Section | None:
    """Return what every attack on a released mean guessed, beside floor and ceiling."""
    return headed_section(
        "What a released mean gave away",
        "attacks",
        "Somebody who has the records without the class, and the mean of a class, guesses "
        "everybody's class.",
        [(record.title, _attack(record.content)) for record in records.of("attack")],
    )


def _attack(facts: Mapping[str, Any]) -> list[Part]:
    noise = facts.get("noise")
    protected = f"noise {noise}" if noise else "no noise"
    expected = facts["expected_accuracy"]
    claim = (
        "no accuracy of itself"
        if expected is None
        else (f"to be right about {_percent(expected)} of them")
    )
    body: list[Part] = [
        paragraph(
            f"{facts['records']:,} records of {facts['features']:,} features, attacked by "
            f"{facts['method']}; the mean had {protected}. The attack expects {claim}."
        )
    ]
    judged = facts.get("judged")
    if isinstance(judged, Mapping):
        body.append(
            table_html(["who", "individuals", "right", "95 % interval"], _judged_rows(judged))
        )
        body.append(note(str(judged["measured"])))
    if facts.get("notes"):
        body.append(bullets([str(n) for n in facts["notes"]]))
    return body


def _judged_rows(judged: Mapping[str, Any]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for name, group in judged.items():
        if isinstance(group, Mapping) and "accuracy" in group:
            low, high = group["interval_95"]
            interval = f"{_percent(low)} to {_percent(high)}"
            rows.append([name, group["individuals"], _percent(group["accuracy"]), interval])
    for which in ("floor", "ceiling"):
        for name, value in judged.get(which, {}).items():
            rows.append([f"{which}: {name.replace('_', ' ')}", None, _percent(value), "–"])
    return rows


def _percent(share: int | float | None) -> Quantity:
    return Quantity(None if share is None else 100 * share, unit="%", digits=1)


def audit(records: Records) -> Section | None:
    """Return the verdicts and figures of every audit."""
    from cofill.audit import audit_body  # loads every attack, which only this section needs

    return headed_section(
        "What an attacker learns",
        "audit",
        "Every release was attacked, or the reason why not is stated. What people like these are "
        "like is kept apart from what the release tells of a person in it.",
        [(record.title, audit_body(record.content)) for record in records.of("audit")],
    )
