"""What was completed: rows known and filled per view, in counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cofill.pages import Part, Section, bars, bullets, hint, paragraph, plot, table_html
from cofill.report._records import Records, headed_section


def completion(records: Records) -> Section | None:
    """Return how many rows each view knew and how many were filled."""
    return headed_section(
        "What was completed",
        "completed",
        "Observed cells are never changed; every filled cell is marked as such in the result.",
        [(record.title, _completed(record.content)) for record in records.of("completion")],
    )


def _completed(facts: Mapping[str, Any]) -> list[Part]:
    views, people, method = facts["views"], facts["individuals"], facts["settings"]["method"]
    known = [counts["observed_rows"] for counts in views.values()]
    filled = [counts["reconstructed_rows"] for counts in views.values()]
    left = [max(people - k - f, 0) for k, f in zip(known, filled, strict=True)]
    series = {"known": known, "filled": filled} | ({"still missing": left} if any(left) else {})
    colours = {"known": "--known", "filled": "--filled", "still missing": "--empty"}
    figure = bars(
        list(views), series, axis="individuals", colours=colours, stacked=True, sideways=True
    )
    shown = (
        "features",
        "observed_rows",
        "reconstructed_rows",
        "reconstructed_cells",
        "missing_cells",
    )
    table = table_html(
        ["view", "features", "rows known", "rows filled", "cells filled", "left empty"],
        [[name, *(counts[key] for key in shown)] for name, counts in views.items()],
        caption=f"Completed by {method}",
        hints={
            "rows known": "individuals whose row this view had",
            "rows filled": "individuals whose whole row was made from other views",
            "cells filled": "cells of filled rows, and holes inside known rows",
            "left empty": "cells about which nothing could be said",
        },
    )
    level = facts["settings"].get("intervals")
    intervals = f" {100 * level:g} % intervals stand beside every filled number." if level else ""
    words = ", ".join(
        f"{name}: {k:,} known and {f:,} filled"
        for name, k, f in zip(views, known, filled, strict=True)
    )
    body: list[Part] = [
        paragraph(
            f"{people:,} individuals in {len(views)} views, completed by the method ",
            hint(method, "`cofill methods` lists the methods and what they do"),
            f" in {facts['duration_s']:.0f} s.{intervals}",
        ),
        plot(figure, f"Rows of each view, of {people:,} individuals.", words),
        table,
    ]
    if facts["notes"]:
        body.append(bullets([str(note) for note in facts["notes"]]))
    return body
