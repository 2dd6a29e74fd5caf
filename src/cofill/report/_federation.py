"""Runs between machines: how they ended and what each site measured of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cofill.pages import (
    Cell,
    Html,
    Part,
    Quantity,
    Section,
    badge,
    code,
    join,
    paragraph,
    table_html,
)
from cofill.report._records import Records

__all__ = ["federation"]

_TONES: Mapping[str, Any] = {"finished": "good", "failed": "bad", "stopped": "warn"}


def federation(records: Records) -> Section | None:
    """Return every run's outcome; a run that is told of twice is shown once."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in records.of("run"):
        found[record.content["order"]["run"]] = {**record.content, **record.content["order"]}
    for record in records.of("outcome"):
        found[record.content["run"]] = record.content
    if not found:
        return None
    body: list[Part] = []
    for run, facts in found.items():
        why = f": {facts['why']}" if facts.get("why") else "."
        state = str(facts["state"])
        body.append(
            paragraph(
                "Run ",
                code(run),
                f" of {facts['experiment']} ",
                badge(state, _TONES.get(state, "plain")),
                why,
            )
        )
        body.append(_metrics(facts["metrics"]))
    return Section(
        "Between the machines",
        body,
        "federation",
        "What sites reported to the coordinator: figures of their own, no rows.",
    )


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> Html:
    if not metrics:
        return join("")
    names = list(
        dict.fromkeys(
            key
            for figures in metrics.values()
            for key, value in figures.items()
            if isinstance(value, int | float)
        )
    )
    rows: list[list[Cell]] = [
        [view, str(figures.get("site", "")), *(_number(figures.get(name)) for name in names)]
        for view, figures in metrics.items()
    ]
    return table_html(["view", "site", *(n.replace("_", " ") for n in names)], rows)


def _number(value: Any) -> Cell:
    return Quantity(value) if isinstance(value, int | float) else None
