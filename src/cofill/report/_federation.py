"""Runs between machines: how they ended and what each site measured itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from cofill.pages import Cell, Part, Quantity, Section, badge, code, paragraph, table_html
from cofill.report._records import Records

_TONES: Mapping[str, Any] = {"finished": "good", "failed": "bad", "stopped": "warn"}


def federation(records: Records) -> Section | None:
    """Return every run's outcome; a run that two records report is shown once."""
    runs: dict[str, Mapping[str, Any]] = {}
    for record in records.of("run"):
        runs[record.content["order"]["run"]] = {**record.content, **record.content["order"]}
    for record in records.of("outcome"):
        runs[record.content["run"]] = record.content
    if not runs:
        return None
    body: list[Part] = []
    for run, facts in runs.items():
        state = str(facts["state"])
        experiment, why = facts["experiment"], facts.get("why")
        verdict = badge(state, _TONES.get(state, "plain"))
        body.append(
            paragraph("Run ", code(run), f" of {experiment} ", verdict, f": {why}" if why else ".")
        )
        if facts["metrics"]:
            body.append(_metrics(facts["metrics"]))
    return Section(
        "Between the machines",
        body,
        "federation",
        "What sites reported to the coordinator: figures of their own, no rows.",
    )


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> Markup:
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
