"""Pictures of the experiments on rows at many sites: errors, rounds, and images as they were made.

The thesis's Figures 4.9 to 4.12 (generated modalities after so many rounds), and its tables of
rounds as curves. Images are digits of a public test set.
"""

from __future__ import annotations

from typing import Any

from cofill.metrics import ResultRecord, psnr, unpacked_images
from cofill_papers._draw import bars_of, grouped_bars, image_grid, line_chart

__all__ = ["draw_rows"]

_WAYS = {"x2y": "edge from image", "y2x": "image from edge", "all": "both"}


def draw_rows(record: ResultRecord) -> dict[str, str]:
    """Return ``{name of the picture: SVG}``.

    Examples
    --------
    >>> record = ResultRecord("fed-vigan", seeds=[0], values={"fed-best/psnr/all": [30.0]})
    >>> list(draw_rows(record))
    ['psnr']
    """
    drawn = {}
    methods = list(dict.fromkeys(key.split("/")[0] for key in record.values))
    series = bars_of(record, methods, "psnr", list(_WAYS))
    if any(value for values in series.values() for value in values):
        drawn["psnr"] = grouped_bars(
            f"Peak signal-to-noise ratio on test images: {record.name}",
            list(_WAYS.values()),
            series,
            axis="dB",
            caption=f"Mean ± standard deviation over {len(record.seeds)} repeats.",
            order=tuple(methods),
        )
    curves: dict[str, Any] = record.extra.get("curves", {})
    lines = {
        method: [(entry["round"], psnr(entry["all"])) for entry in entries if entry["round"]]
        for method, entries in curves.items()
    }
    lines = {method: points for method, points in lines.items() if len(points) > 1}
    if lines:
        drawn["rounds"] = line_chart(
            f"Quality after each round: {record.name}",
            lines,
            x_axis="rounds",
            y_axis="PSNR on test images, dB",
            caption="First repeat, mean of both directions.",
        )
    drawn |= _mechanism(curves)
    for method, rounds in record.extra.get("images", {}).items():
        rows: dict[str, Any] = {}
        for when, by_name in rounds.items():
            for name, images in by_name.items():
                generated = " from " in name
                grey = unpacked_images(images) / 255
                rows[f"{name}, {when}" if generated else name] = grey
        shown = ("image", "edge")
        ordered = {name: rows[name] for name in shown if name in rows} | {
            name: grey for name, grey in rows.items() if name not in shown
        }
        columns = [str(k + 1) for k in range(len(next(iter(ordered.values()))))]
        drawn[f"images_{method}"] = image_grid(
            f"Test images and what was made of them: {method}", ordered, columns=columns
        )
    return drawn


def _mechanism(curves: dict[str, Any]) -> dict[str, str]:
    """Return the errors of the thesis's parts: in pre-training by epoch, then by round."""
    drawn = {}
    entries = curves.get("local-pretraining", []) + curves.get("fed-faithful", [])
    parts = {"autoencoder": "autoencoder", "generators_all": "cycle"}
    epochs = {
        f"{figure.partition('_')[0]} alone": [
            (e["epoch"], e[figure]) for e in entries if e.get("phase") == phase
        ]
        for figure, phase in parts.items()
    }
    rounds = {
        name: [(e["round"], e[figure]) for e in entries if "phase" not in e and figure in e]
        for name, figure in (
            ("system", "all"), ("autoencoder", "autoencoder"), ("generators", "generators_all")
        )
    }  # fmt: skip
    for name, lines, axis in (("epochs", epochs, "epochs"), ("parts", rounds, "rounds")):
        shown = {words: points for words, points in lines.items() if points}
        if shown:
            drawn[name] = line_chart(
                f"Squared error of the thesis's parts by {axis}",
                shown,
                x_axis=axis,
                y_axis="squared error (0 to 255)²",
                caption="Test images, first repeat.",
            )
    return drawn
