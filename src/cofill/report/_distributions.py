"""Observed and completed cells: how they are distributed, and how well they match the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cofill.pages import (
    Html,
    Part,
    Section,
    bars,
    choice,
    columns,
    density,
    heading,
    histogram,
    join,
    plot,
)
from cofill.report._records import Records

__all__ = ["agreement", "distributions"]


def distributions(records: Records) -> Section | None:
    """Return histograms per feature, of observed and of completed cells."""
    found = [r for r in records.of("completion") if r.content.get("distributions")]
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(record.folder or record.name))
        views = record.content["distributions"]
        body.append(choice("view", {name: _view(features) for name, features in views.items()}))
    return Section(
        "Observed and completed values",
        body,
        "distributions",
        "Completed values vary less than observed ones where a feature cannot be told from other "
        "views: the method then stays near the mean. Bins with fewer than 3 people are merged with "
        "their neighbours, and the outer bins hold the tails.",
    )


def _view(features: Mapping[str, Mapping[str, Any]]) -> Html:
    return choice("feature", {name: _feature(name, counts) for name, counts in features.items()})


def _feature(name: str, counts: Mapping[str, Any]) -> Html:
    both = {
        which: np.asarray(counts[which], dtype=np.float64) for which in ("observed", "completed")
    }
    shares = {
        which: 100 * values / values.sum() for which, values in both.items() if values.sum() > 0
    }
    sizes = " and ".join(f"{int(v.sum()):,} {which}" for which, v in both.items())
    caption = f"{name}: {sizes} cells."
    if "values" in counts:
        colours = {"observed": "--known", "completed": "--filled"}
        made = bars(
            counts["values"],
            {which: values.tolist() for which, values in shares.items()},
            axis="share of rows, %",
            colours=colours,
        )
        return plot(made, caption, f"Shares of the values of {name}, observed and completed")
    edges, step = np.asarray(counts["edges"], dtype=np.float64), float(counts["step"])
    # A merged bin is as high as its parts are on average.
    heights = {which: values * step / np.diff(edges) for which, values in shares.items()}
    made = histogram(edges, heights, axis=name, unit=f"% of rows per {step:g}")
    centres = (edges[:-1] + edges[1:]) / 2
    means = ", ".join(f"{w} {np.average(centres, weights=v):.4g}" for w, v in shares.items())
    return plot(made, caption, f"Distributions of {name}; means of the bins: {means}")


def agreement(records: Records) -> Section | None:
    """Return densities of true against completed values of rows that were hidden."""
    found = [
        r
        for r in records.of("result")
        if isinstance(r.content.extra.get("agreement"), Mapping)
        and r.content.extra["agreement"].get("views")
    ]
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(record.folder or record.name))
        said = record.content.extra["agreement"]
        made = [_plane(name, cells, said) for name, cells in said["views"].items()]
        body.append(columns(*made))
    return Section(
        "True and completed values",
        body,
        "agreement",
        "Hidden cells by their true value and by what was filled in, both in standard deviations "
        "from the mean of their feature. On the dotted line the two are equal. Where fewer than 3 "
        "people lie, nothing is drawn.",
    )


def _plane(name: str, cells: list[list[int]], said: Mapping[str, Any]) -> Html:
    edges = np.asarray(said["edges"], dtype=np.float64)
    counts = np.zeros((len(edges) - 1, len(edges) - 1))
    for true, made, count in cells:
        counts[made, true] = count
    drawn = density(
        counts,
        edges,
        edges,
        x_axis="true value, standardised",
        y_axis="completed value, standardised",
        diagonal=True,
    )
    total = int(counts.sum())
    centres = (edges[:-1] + edges[1:]) / 2
    true, made = counts.sum(axis=0) @ centres / total, counts.sum(axis=1) @ centres / total
    both = (centres - made) @ counts @ (centres - true)
    spread = np.sqrt(
        (counts.sum(axis=0) @ (centres - true) ** 2) * (counts.sum(axis=1) @ (centres - made) ** 2)
    )
    alike = both / spread if spread > 0 else 0.0
    caption = join(
        f"{name}, by {said.get('method', 'the method')}: {total:,} hidden cells, ",
        f"correlation {alike:.2f} between these bins.",
    )
    return plot(
        drawn, caption, f"Density of true and completed values of {name}; correlation {alike:.2f}"
    )
