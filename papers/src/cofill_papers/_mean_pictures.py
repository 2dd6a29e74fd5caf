"""Pictures of the experiments on released means: of figures, of training, of the records attacked.

The growPU paper's Figures 1 to 3 (what makes behavioural data look safe), 4 (how attacks learn), 5
(released means) and 6 (digits by their principal components). Individuals are shown as shares,
quantiles and bins only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cofill.metrics import ResultRecord
from cofill_papers._draw import bars_of, density_maps, grouped_bars, image_grid, line_chart
from cofill_papers._released import KINDS, cases_of

__all__ = ["draw_attacked_records", "draw_means", "draw_released"]

_SHOWN = (  # as many as there are colours
    "kmeans",
    "nnpu-3lp",
    "growpu-linear",
    "growpu-3lp",
    "discriminant",
    "likelihood",
    "best",
    "oracle-3lp",
)
_QUANTILES = np.linspace(0.0, 1.0, 101)


def draw_means(record: ResultRecord) -> dict[str, str]:
    """Return accuracies by kind of mean, and what happened in training, as ``{name: SVG}``.

    Examples
    --------
    >>> record = ResultRecord("growpu-mnist", seeds=[0], values={"best/accuracy/noisy": [0.9]})
    >>> list(draw_means(record))
    ['accuracy']
    """
    drawn = {}
    keys = [key.split("/") for key in record.summary]
    kinds = list(dict.fromkeys(w for _, metric, w in keys if metric == "accuracy" and w != "all"))
    names = list(dict.fromkeys(name for name, metric, _ in keys if metric == "accuracy"))
    names = [name for name in _SHOWN if name in names] or names[: len(_SHOWN)]
    if kinds:
        drawn["accuracy"] = grouped_bars(
            f"Records whose class was guessed: {record.name}",
            kinds,
            bars_of(record, names, "accuracy", kinds, factor=100),
            axis="accuracy, %",
            caption=f"Mean and standard deviation over {len(record.seeds)} repeats.",
        )
    curves: Mapping[str, Any] = record.extra.get("curves", {})
    for what, title in (("share", "Share classified positive"), ("accuracy", "Accuracy")):
        lines = {
            name: list(zip(of["noiseless"]["steps"], of["noiseless"][what], strict=True))
            for name, of in curves.items()
            if "noiseless" in of and of["noiseless"][what]
        }
        if lines:
            drawn[f"training_{what}"] = line_chart(
                f"{title} in training: {record.name}",
                lines,
                x_axis="steps",
                y_axis=title.lower(),
                caption="First repeat, noiseless mean.",
                y_range=(0.0, 1.0),
            )
    return drawn


def draw_released(record: ResultRecord) -> dict[str, str]:
    """Return the means that are attacked in the first repeat, as images: Figure 5."""
    simulated = record.extra.get("simulated", {}).get("mnist", {})
    if "0" not in simulated:
        return {}
    means = cases_of("mnist", [0], KINDS, simulated=simulated)[0].means
    images = np.stack([(means[kind].mean.reshape(28, 28) + 1) / 2 for kind in KINDS])
    columns = ["mean", "simulated", "noisy"]
    return {"means": image_grid("Released means of fives", {"": images}, columns=columns)}


def draw_attacked_records(source: str) -> dict[str, str]:
    """Return pictures of the records that are attacked, of the first seed."""
    case = cases_of(source, [0], ())[0]
    records, truth = case.records.astype(np.float64), case.truth
    classes = {"positive": records[truth], "negative": records[~truth]}
    drawn = {"components": _components(source, records, truth)}
    if source != "behaviour":
        return drawn
    most = 12
    counts = {name: (rows != 0).sum(axis=1) for name, rows in classes.items()}
    drawn["nonzero"] = line_chart(
        "Share of records by number of non-zero fields",
        {
            name: [(k, float((number == k).mean())) for k in range(1, most + 1)]
            for name, number in counts.items()
        },
        x_axis="non-zero fields",
        y_axis="share of records",
    )
    drawn["fields"] = line_chart(
        "Share of records that use each field",
        {
            name: [(k + 1, float(share)) for k, share in enumerate((rows != 0).mean(axis=0))]
            for name, rows in classes.items()
        },
        x_axis="field",
        y_axis="share of records",
    )
    for name, rows in classes.items():
        centre = rows.mean(axis=0)
        drawn[f"distance_{name}"] = line_chart(
            f"Distance to the mean of the {name} class",
            {
                other: [
                    (float(x), float(q))
                    for x, q in zip(
                        np.quantile(np.linalg.norm(of - centre, axis=1), _QUANTILES),
                        _QUANTILES,
                        strict=True,
                    )
                ]
                for other, of in classes.items()
            },
            x_axis="distance",
            y_axis="share of records nearer",
        )
    return drawn


def _components(source: str, records: np.ndarray, truth: np.ndarray) -> str:
    centred = records - records.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    plane = centred @ vectors[:, [-1, -2]]
    return density_maps(
        f"First two principal components: {source}",
        {"positive": plane[truth], "negative": plane[~truth]},
        x_axis="first component",
        y_axis="second component",
    )
