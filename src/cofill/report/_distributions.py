"""Completed cells beside observed and true ones: distributions, densities, images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from cofill.metrics import unpacked_images
from cofill.pages import Section, bars, choice, columns, density, histogram, image_rows, plot
from cofill.report._records import Records, headed_section

_MOST = 12  # images a row
_NOT_IMAGES = ("rows", "names")


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
    cells = {w: np.asarray(counts[w], dtype=np.float64) for w in ("observed", "completed")}
    shares = {which: 100 * v / v.sum() for which, v in cells.items() if v.sum() > 0}
    sizes = " and ".join(f"{int(values.sum()):,} {which}" for which, values in cells.items())
    caption = f"{name}: {sizes} cells."
    if "values" in counts:
        colours = {"observed": "--known", "completed": "--filled"}
        series = {which: values.tolist() for which, values in shares.items()}
        figure = bars(counts["values"], series, axis="share of rows, %", colours=colours)
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
    axes = {"x_axis": "true value, standardised", "y_axis": "completed value, standardised"}
    figure = density(counts, edges, edges, **axes)
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


def images(records: Records) -> Section | None:
    """Return the images of records; records keep some of public test sets only."""
    shown = {record.name: _generated(extra) for record, extra in records.extras("images")}
    for record, extra in records.extras("digits"):
        shown[record.name] = shown.get(record.name, {}) | _reconstructed(extra)
    return headed_section(
        "Originals and completions",
        "images",
        "Images of a public test set that no training has seen, and what was made in their place.",
        [
            (record.title, [choice("images", shown[record.name])])
            for record in records.of("result")
            if shown.get(record.name)
        ],
    )


def _generated(methods: Mapping[str, Any]) -> dict[str, Markup]:
    """Return images of federated completion: per method, the last round's beside the originals."""
    by_method = {}
    for method, rounds in methods.items():
        rows: dict[str, np.ndarray] = {}
        for when, views in rounds.items():
            for name, pixels in views.items():
                label = f"{name}, {when}" if " from " in name else name
                rows[label] = unpacked_images(pixels)[:_MOST] / 255
        originals_first = dict(sorted(rows.items(), key=lambda row: " from " in row[0]))
        by_method[method] = image_rows(originals_first, caption=f"Made by {method}.")
    return by_method


def _reconstructed(digits: Mapping[str, Any]) -> dict[str, Markup]:
    """Return reconstructed pixel views: the best and the worst of each class."""
    tall, wide = digits["shape"]
    by_rank = {}
    for rank in ("best", "worst"):
        views = digits.get(rank)
        if not isinstance(views, Mapping):
            continue
        rows = {
            name: np.asarray(pixels[:_MOST], dtype=np.float64).reshape(-1, tall, wide)
            for name, pixels in views.items()
            if name not in _NOT_IMAGES
        }
        if rows:
            high = float(rows.get("original", next(iter(rows.values()))).max()) or 1.0
            caption = f"One of each class, the {rank} reconstructed by {digits['by']}."
            by_rank[f"{rank} of each class"] = image_rows(rows, caption=caption, high=high)
    return by_rank
