"""What attacks on released means guessed, beside floor and ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cofill.pages import (
    Cell,
    Part,
    Quantity,
    Section,
    bullets,
    heading,
    note,
    paragraph,
    table_html,
)
from cofill.report._records import Record, Records

__all__ = ["attacks"]


def attacks(records: Records) -> Section | None:
    """Return the facts of every attack on a mean that were kept as JSON."""
    found = records.of("attack")
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(record.name))
        body += _one(record)
    return Section(
        "What a released mean gave away",
        body,
        "attacks",
        "Somebody who has the records without the class, and the mean of a class, guesses "
        "everybody's class.",
    )


def _one(record: Record) -> list[Part]:
    facts = record.content
    noise = facts.get("noise")
    protected = f"noise {noise}" if noise else "no noise"
    body: list[Part] = [
        paragraph(
            f"{facts['records']:,} records of {facts['features']:,} features, attacked by "
            f"{facts['method']}; the mean had {protected}. The attack expects to be right about "
            f"{_share(facts['expected_accuracy'])} of them."
        )
    ]
    judged = facts.get("judged")
    if isinstance(judged, Mapping):
        body.append(table_html(["who", "individuals", "right", "95 % interval"], _rows(judged)))
        body.append(note(str(judged["measured"])))
    if facts.get("notes"):
        body.append(bullets([str(n) for n in facts["notes"]]))
    return body


def _rows(judged: Mapping[str, Any]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for name, found in judged.items():
        if isinstance(found, Mapping) and "accuracy" in found:
            low, high = found["interval_95"]
            interval = f"{_share(low)} to {_share(high)}"
            rows.append([name, found["individuals"], _percent(found["accuracy"]), interval])
    for which in ("floor", "ceiling"):
        for name, value in judged.get(which, {}).items():
            rows.append([f"{which}: {name.replace('_', ' ')}", None, _percent(value), "–"])
    return rows


def _percent(value: int | float) -> Quantity:
    return Quantity(100 * value, unit="%", digits=1)


def _share(value: int | float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
