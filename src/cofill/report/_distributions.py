"""Observed and completed cells: how they are distributed, and how well they match the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from cofill.pages import Section, bars, choice, columns, density, histogram, plot
from cofill.report._records import Records, headed_section


def distributions(records: Records) -> Section | None:
    """Return histograms per feature, of observed and of completed cells."""
    return headed_section(
        "Observed and completed values",
        "distributions",
        "Completed values vary less than observed ones where a feature cannot be told from other "
        "views: the method then stays near the mean. Bins with fewer than 3 people are merged with "
        "their neighbours, and the outer bins hold the tails.",
        [
            (record.title, [choice("view", {n: _view(features) for n, features in views.items()})])
            for record in records.of("completion")
            if (views := record.content.get("distributions"))
        ],
    )


def _view(features: Mapping[str, Mapping[str, Any]]) -> Markup:
    return choice("feature", {name: _feature(name, counts) for name, counts in features.items()})


def _feature(name: str, counts: Mapping[str, Any]) -> Markup:
    cells = {
        which: np.asarray(counts[which], dtype=np.float64) for which in ("observed", "completed")
    }
    shares = {
        which: 100 * values / values.sum() for which, values in cells.items() if values.sum() > 0
    }
    sizes = " and ".join(f"{int(values.sum()):,} {which}" for which, values in cells.items())
    caption = f"{name}: {sizes} cells."
    if "values" in counts:
        figure = bars(
            counts["values"],
            {which: values.tolist() for which, values in shares.items()},
            axis="share of rows, %",
            colours={"observed": "--known", "completed": "--filled"},
        )
        return plot(figure, caption, f"Shares of the values of {name}, observed and completed")
    edges, step = np.asarray(counts["edges"], dtype=np.float64), float(counts["step"])
    # A merged bin is as high as its parts are on average.
    heights = {which: values * step / np.diff(edges) for which, values in shares.items()}
    figure = histogram(edges, heights, axis=name, unit=f"% of rows per {step:g}")
    centres = _centres(edges)
    means = ", ".join(f"{w} {np.average(centres, weights=v):.4g}" for w, v in shares.items())
    return plot(figure, caption, f"Distributions of {name}; means of the bins: {means}")


def agreement(records: Records) -> Section | None:
    """Return densities of true against completed values of rows that were hidden."""
    return headed_section(
        "True and completed values",
        "agreement",
        "Hidden cells by their true value and by what was filled in, both in standard deviations "
        "from the mean of their feature. On the dotted line the two are equal. Where fewer than 3 "
        "people lie, nothing is drawn.",
        [
            (
                record.folder or record.name,
                [columns(*(_plane(name, cells, facts) for name, cells in views.items()))],
            )
            for record, facts in records.extras("agreement")
            if (views := facts.get("views"))
        ],
    )


def _plane(name: str, cells: list[list[int]], facts: Mapping[str, Any]) -> Markup:
    """Draw counts of ``[true bin, completed bin, cells]``."""
    edges = np.asarray(facts["edges"], dtype=np.float64)
    true_bins, completed_bins, sizes = np.asarray(cells, dtype=np.int64).reshape(-1, 3).T
    counts = np.zeros((len(edges) - 1, len(edges) - 1))
    counts[completed_bins, true_bins] = sizes
    figure = density(
        counts,
        edges,
        edges,
        x_axis="true value, standardised",
        y_axis="completed value, standardised",
    )
    centres, weights = _centres(edges), sizes / max(sizes.sum(), 1)
    true, completed = centres[true_bins], centres[completed_bins]
    true, completed = true - weights @ true, completed - weights @ completed
    spread = np.sqrt((weights @ true**2) * (weights @ completed**2))
    correlation = weights @ (true * completed) / spread if spread > 0 else 0.0
    return plot(
        figure,
        f"{name}, by {facts.get('method', 'the method')}: {sizes.sum():,} hidden cells, "
        f"correlation {correlation:.2f} between these bins.",
        f"Density of true and completed values of {name}; correlation {correlation:.2f}",
    )


def _centres(edges: np.ndarray) -> np.ndarray:
    return (edges[:-1] + edges[1:]) / 2
