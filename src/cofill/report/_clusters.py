"""Groups of individuals: how large, how sure, and where they lie on a plane."""

from __future__ import annotations

from typing import Any

from cofill.pages import (
    Line,
    Part,
    Quantity,
    Section,
    bars,
    heading,
    key_figures,
    lines,
    picture,
    plot,
)
from cofill.report._records import Record, Records

__all__ = ["clusters"]


def clusters(records: Records) -> Section | None:
    """Return the groups of every clustering."""
    found = records.of("clustering")
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(record.folder or record.name))
        body += _one(records, record)
    return Section(
        "Groups", body, "clusters", "Individuals who are alike, found without showing a row."
    )


def _one(records: Records, record: Record) -> list[Part]:
    facts = record.content
    sizes = facts["sizes"]
    people = sum(sizes)
    names = [f"group {k}" if len(sizes) <= 12 else str(k) for k in range(len(sizes))]
    body: list[Part] = [
        key_figures(
            [
                ("groups", Quantity(facts["k"]), _chosen(facts)),
                ("individuals", Quantity(people), f"at {len(facts['individuals'])} sites"),
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
    choice = facts.get("choice_of_k")
    if choice:
        table = choice["table"]
        ks, scores = [row["k"] for row in table], [row["score"] for row in table]
        low = [row["score"] - (row["error"] or 0) for row in table]
        high = [row["score"] + (row["error"] or 0) for row in table]
        body.append(
            plot(
                lines(
                    {choice["method"]: Line(ks, scores, low, high, marks=True)},
                    x_axis="number of groups",
                    y_axis=f"score ({choice['method']})",
                ),
                f"{facts['k']} groups were chosen.",
                f"Score of {len(ks)} numbers of groups; {facts['k']} was chosen",
            )
        )
    return body


def _chosen(facts: dict[str, Any]) -> str:
    choice = facts.get("choice_of_k")
    return f"chosen by {choice['method']}" if choice else "as asked for"
