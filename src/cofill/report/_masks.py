"""Who explains which feature: the masks by which a view weighs what others tell of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cofill.pages import Html, Part, Section, choice, heat_map, plot
from cofill.report._records import Records
from cofill.report._words import headed, title_of

__all__ = ["masks"]

_MOST_COLUMNS = 60


def masks(records: Records) -> Section | None:
    """Return a heat map per method and view."""
    body: list[tuple[str, Part]] = [
        (r.folder or r.name, _by_view(r.content["masks"]))
        for r in records.of("completion")
        if r.content.get("masks")
    ]
    for record in records.of("result"):
        found = record.content.extra.get("masks")
        if isinstance(found, Mapping) and found:
            made = choice("method", {m: _by_view(v) for m, v in found.items()})
            body.append((title_of(record.content), made))
    if not body:
        return None
    return Section(
        "Who explains what",
        headed(body),
        "masks",
        "A mask is the weight of another view in each feature. Blue adds, orange subtracts, and "
        "weights of a feature need not add up to 1.",
    )


def _by_view(views: Mapping[str, Mapping[str, Mapping[str, int | float]]]) -> Html:
    return choice("view", {view: _map(view, sources) for view, sources in views.items()})


def _map(view: str, sources: Mapping[str, Mapping[str, int | float]]) -> Html:
    features = list(dict.fromkeys(f for weights in sources.values() for f in weights))
    shown = features[:_MOST_COLUMNS]
    values = np.array(
        [[weights.get(f, np.nan) for f in shown] for weights in sources.values()], dtype=float
    )
    left = len(features) - len(shown)
    more = f" The first {_MOST_COLUMNS} of {len(features)} features are drawn." if left else ""
    strongest = {f: max(sources, key=lambda s, f=f: abs(sources[s].get(f, 0.0))) for f in shown}
    words = ", ".join(f"{f} mostly from {s}" for f, s in list(strongest.items())[:12])
    limit = min(max(float(np.nanmax(np.abs(values), initial=0.0)), 1.0), 2.0)
    return plot(
        heat_map(values, list(sources), shown, scale="weight", diverging=True, limit=limit),
        f"Weights of the other views in the features of {view}.{more}",
        f"Weights in {view}: {words}",
    )
