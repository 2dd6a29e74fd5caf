"""What was completed: rows known and filled per view, in counts."""

from __future__ import annotations

from cofill.pages import (
    Part,
    Section,
    bars,
    bullets,
    heading,
    hint,
    join,
    paragraph,
    plot,
    table_html,
)
from cofill.report._records import Record, Records

__all__ = ["completion"]


def completion(records: Records) -> Section | None:
    """Return who was known where and what was filled."""
    found = records.of("completion")
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(record.folder or record.name))
        body += _one(record)
    return Section(
        "What was completed",
        body,
        "completed",
        "Observed cells are never changed; every filled cell is marked as such in the result.",
    )


def _one(record: Record) -> list[Part]:
    facts = record.content
    views, people = facts["views"], facts["individuals"]
    names = list(views)
    known = [views[n]["observed_rows"] for n in names]
    filled = [views[n]["reconstructed_rows"] for n in names]
    left = [max(people - k - f, 0) for k, f in zip(known, filled, strict=True)]
    series = {"known": known, "filled": filled}
    if any(left):
        series["still missing"] = left
    colours = {"known": "--known", "filled": "--filled", "still missing": "--empty"}
    picture = bars(names, series, axis="individuals", colours=colours, stacked=True, sideways=True)
    rows = [
        [
            name,
            counts["features"],
            counts["observed_rows"],
            counts["reconstructed_rows"],
            counts["reconstructed_cells"],
            counts["missing_cells"],
        ]
        for name, counts in views.items()
    ]
    table = table_html(
        ["view", "features", "rows known", "rows filled", "cells filled", "left empty"],
        rows,
        caption=f"Completed by {facts['settings']['method']}",
        hints={
            "rows known": "individuals whose row this view had",
            "rows filled": "individuals whose whole row was made from other views",
            "cells filled": "cells of filled rows, and holes inside known rows",
            "left empty": "cells about which nothing could be said",
        },
    )
    interval = facts["settings"].get("intervals")
    with_intervals = (
        f" {100 * interval:g} % intervals stand beside every filled number." if interval else ""
    )
    words = ", ".join(
        f"{name}: {k:,} known and {f:,} filled"
        for name, k, f in zip(names, known, filled, strict=True)
    )
    told: list[Part] = [
        paragraph(
            f"{people:,} individuals in {len(names)} views, completed by the method ",
            hint(
                facts["settings"]["method"], "`cofill methods` lists the methods and what they do"
            ),
            f" in {facts['duration_s']:.0f} s.{with_intervals}",
        ),
        plot(picture, join("Rows of each view, of ", f"{people:,} individuals."), words),
        table,
    ]
    if facts["notes"]:
        told.append(bullets([str(note) for note in facts["notes"]]))
    return told
