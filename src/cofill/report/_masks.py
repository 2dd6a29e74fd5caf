"""Which view explains which feature: the masks by which a view weighs the others' predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from cofill.pages import Section, choice, heat_map, plot
from cofill.report._records import Records, headed_section

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
