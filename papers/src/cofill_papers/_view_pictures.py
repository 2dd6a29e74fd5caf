"""Pictures of the experiments on reconstruction: Figures 6 to 9 of the paper, and the masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from cofill.metrics import ResultRecord
from cofill_papers._draw import bars_of, grouped_bars, heat_maps, image_grid

__all__ = ["draw_views"]

_COMPARED = ("equal", "mwm", "best", "central", "mean")
_BARS = {
    "mse": ("Mean squared error per view", "MSE, standardised units"),
    "mrd": ("Mean relative difference per view", "MRD, standardised units"),
    "accuracy": ("Accuracy of binary and categorical cells", "accuracy"),
    "class_diff": ("Classification Difference per view", "reconstructed − original, points"),
}
_TITLES = {"mwm": "Masks of the paper's system", "best": "Masks of the best method"}


def draw_views(record: ResultRecord) -> dict[str, str]:
    """Return ``{name of the picture: SVG}``.

    Examples
    --------
    >>> record = ResultRecord("wdbc", seeds=[0], values={"mwm/mse/view_mean": [0.2]})
    >>> list(draw_views(record))
    ['mse']
    """
    drawn = {}
    for metric, (title, axis) in _BARS.items():
        svg = _bars(record, metric, f"{title}: {record.name}", axis)
        if svg:
            drawn[metric] = svg
    for method, masks in record.extra.get("masks", {}).items():
        panels = {
            f"view {view}": {f"from {source}": weights for source, weights in sources.items()}
            for view, sources in masks.items()
        }
        if panels:
            title = _TITLES.get(method, f"Masks, {method}")
            drawn[f"masks_{method}"] = heat_maps(
                f"{title}: {record.name}", panels, caption=_caption(record)
            )
    if "digits" in record.extra:
        drawn |= _digits(record.extra["digits"])
    return drawn


def _bars(record: ResultRecord, metric: str, title: str, axis: str) -> str | None:
    keys = [key.split("/") for key in record.summary]
    views = list(dict.fromkeys(w for _, m, w in keys if m == metric and w != "all"))
    methods = [m for m in _COMPARED if [m, metric] in [key[:2] for key in keys]]
    factor = 1.0
    if metric == "class_diff":  # in points; that of the mean is far off the scale of the others
        methods, factor = [m for m in methods if m != "mean"], 100.0
    if not views or not methods:
        return None
    return grouped_bars(
        title,
        [view.removeprefix("view_") for view in views],
        bars_of(record, methods, metric, views, factor=factor),
        axis=axis,
        caption=_caption(record, spread=True),
        order=_COMPARED,
    )


def _caption(record: ResultRecord, *, spread: bool = False) -> str:
    n = len(record.seeds)
    spread = spread and n > 1
    return f"Mean {'± standard deviation ' * spread}over {n} repeat{'s' * (n != 1)}."


def _digits(digits: dict[str, Any]) -> dict[str, str]:
    """Draw the digits that were reconstructed best and worst (Fig. 7 and 8)."""
    shape = tuple(digits["shape"])
    words = {"best": "Digits reconstructed well", "worst": "Digits reconstructed poorly"}
    drawn = {}
    for part, title in words.items():
        rows = {
            name: np.array(images, dtype=np.float64).reshape(-1, *shape)
            for name, images in digits[part].items()
            if name not in ("rows", "names")
        }
        drawn[f"digits_{part}"] = image_grid(
            f"{title} from the other views (by {digits['by']})", rows, columns=digits[part]["names"]
        )
    return drawn
