"""What was completed, in counts, and by which views: the masks by which a view weighs others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from cofill.pages import (
    Part,
    Section,
    bars,
    bullets,
    choice,
    heat_map,
    hint,
    paragraph,
    plot,
    table_html,
)
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
    lying = {"stacked": True, "sideways": True}
    figure = bars(list(views), series, axis="individuals", colours=colours, **lying)
    shown = {
        "features": "features",
        "observed_rows": "rows known",
        "reconstructed_rows": "rows filled",
        "reconstructed_cells": "cells filled",
        "missing_cells": "left empty",
    }
    table = table_html(
        ["view", *shown.values()],
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
    counts = zip(views, known, filled, strict=True)
    words = ", ".join(f"{name}: {k:,} known and {f:,} filled" for name, k, f in counts)
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


_MOST_COLUMNS = 60


def masks(records: Records) -> Section | None:
    """Return a heat map per method and view."""
    completions = [
        (record.title, [_by_view(record.content["masks"])])
        for record in records.of("completion")
        if record.content.get("masks")
    ]
    experiments = [
        (record.title, [choice("method", {m: _by_view(v) for m, v in by_method.items()})])
        for record, by_method in records.extras("masks")
    ]
    return headed_section(
        "Who explains what",
        "masks",
        "A mask is the weight of another view in each feature. Blue adds, orange subtracts, and "
        "weights of a feature need not add up to 1.",
        [*completions, *experiments],
    )


def _by_view(views: Mapping[str, Mapping[str, Mapping[str, int | float]]]) -> Markup:
    return choice("view", {view: _map(view, sources) for view, sources in views.items()})


def _map(view: str, sources: Mapping[str, Mapping[str, int | float]]) -> Markup:
    features = list(dict.fromkeys(f for weights in sources.values() for f in weights))
    shown = features[:_MOST_COLUMNS]
    values = np.array(
        [[weights.get(f, np.nan) for f in shown] for weights in sources.values()], dtype=float
    )
    left = len(features) - len(shown)
    more = f" The first {_MOST_COLUMNS} of {len(features)} features are drawn." if left else ""
    strongest = {f: max(sources, key=lambda s, f=f: abs(sources[s].get(f, 0.0))) for f in shown}
    words = ", ".join(f"{f} mostly from {s}" for f, s in list(strongest.items())[:12])
    # Weights near 1 are usual; one that ran away must not make all others pale.
    limit = min(max(float(np.nanmax(np.abs(values), initial=0.0)), 1.0), 2.0)
    return plot(
        heat_map(values, list(sources), shown, scale="weight", limit=limit),
        f"Weights of the other views in the features of {view}.{more}",
        f"Weights in {view}: {words}",
    )
