"""Which pictures a record gives: Figures 6 to 9 of the paper, and the masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cofill.metrics import ResultRecord
from cofill_papers._draw import grouped_bars, heat_maps, image_grid

__all__ = ["pictures"]

_COMPARED = ("equal", "mwm", "best", "central", "mean")
_BARS = {
    "mse": ("Mean squared error per view", "MSE, standardised units"),
    "mrd": ("Mean relative difference per view", "MRD, standardised units"),
    "accuracy": ("Accuracy of binary and categorical cells", "accuracy"),
    "class_diff": ("Classification Difference per view", "reconstructed − original, points"),
}
_TITLES = {"mwm": "Masks of the paper's system", "best": "Masks of the best method"}


def pictures(record: ResultRecord) -> dict[str, str]:
    """Draw a record: ``{name of the picture: SVG}``.

    Examples
    --------
    >>> record = ResultRecord("wdbc", seeds=[0], values={"mwm/mse/view_mean": [0.2]})
    >>> list(pictures(record))
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
                f"{title}: {record.name}", panels, caption=_over(record)
            )
    if "digits" in record.extra:
        drawn |= _digits(record.extra["digits"])
    return drawn


def _bars(record: ResultRecord, metric: str, title: str, axis: str) -> str | None:
    summary = record.summary
    found = [tuple(k.split("/")) for k in summary if k.split("/")[1] == metric]
    places = list(dict.fromkeys(w for _, _, w in found if w != "all"))
    methods = [m for m in _COMPARED if any(m == f[0] for f in found)]
    if metric == "class_diff":
        methods = [m for m in methods if m != "mean"]
    if not places or not methods:
        return None
    factor = 100.0 if metric == "class_diff" else 1.0
    series: dict[str, Sequence[tuple[float, float] | None]] = {
        m: [_value(summary.get(f"{m}/{metric}/{w}"), factor) for w in places] for m in methods
    }
    groups = [w.removeprefix("view_") for w in places]
    caption = _over(record, spread=True)
    return grouped_bars(title, groups, series, axis=axis, caption=caption, order=_COMPARED)


def _value(found: Any, factor: float) -> tuple[float, float] | None:
    if found is None or found["mean"] is None:
        return None
    return factor * found["mean"], factor * (found["std"] or 0.0)


def _over(record: ResultRecord, *, spread: bool = False) -> str:
    n = len(record.seeds)
    spread = spread and n > 1
    return f"Mean {'± standard deviation ' * spread}over {n} repeat{'s' * (n != 1)}."


def _digits(kept: dict[str, Any]) -> dict[str, str]:
    """Draw the digits that were reconstructed best and worst (Fig. 7 and 8)."""
    shape = tuple(kept["shape"])
    words = {"best": "Digits reconstructed well", "worst": "Digits reconstructed poorly"}
    drawn = {}
    for part, title in words.items():
        rows = {
            name: np.array(images, dtype=np.float64).reshape(-1, *shape)
            for name, images in kept[part].items()
            if name not in ("rows", "names")
        }
        drawn[f"digits_{part}"] = image_grid(
            f"{title} from the other views (by {kept['by']})", rows, columns=kept[part]["names"]
        )
    return drawn
