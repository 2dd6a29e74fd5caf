"""Groups of individuals: how large, how sure, and where they lie on a plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from cofill.pages import Line, Part, Quantity, Section, bars, key_figures, lines, picture, plot
from cofill.report._records import Record, Records, headed_section


def clusters(records: Records) -> Section | None:
    """Return the groups of every clustering."""
    return headed_section(
        "Groups",
        "clusters",
        "Individuals who are alike, found without showing a row.",
        [(record.title, _groups(records, record)) for record in records.of("clustering")],
    )


def _groups(records: Records, record: Record) -> list[Part]:
    facts = record.content
    sizes, choice = facts["sizes"], facts.get("choice_of_k")
    names = [f"group {k}" if len(sizes) <= 12 else str(k) for k in range(len(sizes))]
    chosen = f"chosen by {choice['method']}" if choice else "as asked for"
    body: list[Part] = [
        key_figures(
            [
                ("groups", Quantity(facts["k"]), chosen),
                ("individuals", Quantity(sum(sizes)), f"at {len(facts['individuals'])} sites"),
                (
                    "mean confidence",
                    Quantity(facts["mean_confidence"], digits=2),
                    "1 where everybody clearly belongs to one group",
                ),
            ]
        ),
        plot(
            bars(names, {"individuals": sizes}, axis="individuals"),
            "Individuals per group.",
            f"Sizes of {len(sizes)} groups from {min(sizes):,} to {max(sizes):,}",
        ),
    ]
    path = records.beside(record, "map.svg")
    if path is not None:
        body.append(
            picture(
                path.read_text(encoding="utf-8"),
                caption="Where groups lie, in bins; those with fewer than 3 people are blank.",
                alt=f"Density of each of {len(sizes)} groups on a plane",
            )
        )
    if choice:
        body.append(_choice(choice, facts["k"]))
    return body


def _choice(choice: Mapping[str, Any], k: int) -> Markup:
    table = choice["table"]
    scores = Line(
        [row["k"] for row in table],
        [row["score"] for row in table],
        [row["score"] - (row["error"] or 0) for row in table],
        [row["score"] + (row["error"] or 0) for row in table],
        marks=True,
    )
    method = choice["method"]
    return plot(
        lines({method: scores}, x_axis="number of groups", y_axis=f"score ({method})"),
        f"{k} groups were chosen.",
        f"Score of {len(table)} numbers of groups; {k} was chosen",
    )
