"""What attacks on released means guessed, beside floor and ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cofill.pages import Cell, Part, Quantity, Section, bullets, note, paragraph, table_html
from cofill.report._records import Records, headed_section


def attacks(records: Records) -> Section | None:
    """Return the facts of every attack on a mean that were kept as JSON."""
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
    body: list[Part] = [
        paragraph(
            f"{facts['records']:,} records of {facts['features']:,} features, attacked by "
            f"{facts['method']}; the mean had {protected}. The attack expects to be right about "
            f"{_percent(facts['expected_accuracy'])} of them."
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
