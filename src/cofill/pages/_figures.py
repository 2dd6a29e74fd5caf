"""Figures in plotly's JSON form: bars, lines and histograms, and what all figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np

from cofill.errors import SettingError

Figure = dict[str, Any]
Number = int | float
Numbers = Sequence[Number | None] | np.ndarray

_OUTLINES = {"observed": "--known", "completed": "--filled"}


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with a band around it where `low` and `high` are given.

    ``marks`` draws the points too; ``steps`` keeps each height up to the next point; ``colour`` is
    one of the page's (see `plot`).
    """

    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    marks: bool = False
    steps: bool = False
    colour: str = ""


def bars(
    categories: Sequence[str],
    series: Mapping[str, Sequence[tuple[Number, Number | None] | Number | None]],
    *,
    axis: str,
    colours: Mapping[str, str] | None = None,
    stacked: bool = False,
    sideways: bool = False,
    line_at: Number | None = None,
    most: Number | None = None,
) -> Figure:
    """Return bars in groups, one per category, with error bars where a spread is given.

    Parameters
    ----------
    categories
        Names of the groups.
    series
        Per name one entry a category: a number, ``(mean, spread)`` or None for no bar.
    axis
        What the bars measure, with its unit.
    colours
        Colours of series, such as ``{"filled": "--filled"}``.
    stacked
        Whether the bars of a group stand on one another.
    sideways
        Whether bars lie, for long names.
    line_at
        A value to compare with, drawn as a dotted line.
    most
        Where the axis ends; longer bars are cut off.

    Examples
    --------
    >>> figure = bars(["lab"], {"mean": [(1.0, 0.1)], "ours": [0.3]}, axis="error")
    >>> figure["data"][0]["error_y"]["array"], figure["data"][1]["y"]
    ([0.1], [0.3])
    """
    value, error, name = ("x", "error_x", "y") if sideways else ("y", "error_y", "x")
    traces = []
    for k, (label, entries) in enumerate(series.items()):
        if len(entries) != len(categories):
            raise SettingError(
                f"bars: {label!r} must have {len(categories)} entries, one a category, got "
                f"{len(entries)}"
            )
        pairs = [e if isinstance(e, tuple) else (e, None) for e in entries]
        trace: Figure = {
            "type": "bar",
            "name": plain_words(label),
            name: [plain_words(category) for category in categories],
            value: [mean for mean, _ in pairs],
            "orientation": "h" if sideways else "v",
            "marker": {"color": (colours or {}).get(label, series_colour(k))},
            "hovertemplate": f"%{{{name}}}: %{{{value}:.4~g}}<extra>%{{fullData.name}}</extra>",
        }
        if any(spread is not None for _, spread in pairs):
            spreads = [spread or 0 for _, spread in pairs]
            trace[error] = {"type": "data", "array": spreads, "color": "--ink", "thickness": 1.2}
        traces.append(trace)
    layout = layout_of(*((axis, "") if sideways else ("", axis)), legend=len(series) > 1)
    count = len(categories) * (1 if stacked else max(len(series), 1))
    # A few bars are not made as wide as the page.
    gap = 0.25 if sideways else max(0.25, 1 - 0.09 * count)
    layout |= {"barmode": "stack" if stacked else "group", "bargap": gap}
    layout[f"{name}axis"]["type"] = "category"
    if sideways:
        layout["yaxis"]["autorange"] = "reversed"
        layout["height"] = 90 + 26 * count
    if most is not None:
        layout[f"{value}axis"]["range"] = [0, most]
    if line_at is not None:
        layout["shapes"] = [_dotted_at(line_at, value)]
    return {"data": traces, "layout": layout}


def lines(
    series: Mapping[str, Line],
    *,
    x_axis: str,
    y_axis: str,
    log_x: bool = False,
    log_y: bool = False,
    line_at: Number | None = None,
) -> Figure:
    """Return lines, each with its band.

    Examples
    --------
    >>> band = Line([1, 2], [3, 1], low=[2, 0], high=[4, 2])
    >>> figure = lines({"loss": band}, x_axis="round", y_axis="loss")
    >>> [trace.get("fill") for trace in figure["data"]]
    ['toself', None]
    """
    traces: list[Figure] = []
    for k, (name, line) in enumerate(series.items()):
        colour = line.colour or series_colour(k)
        common = {"type": "scatter", "legendgroup": name}
        if line.low is not None and line.high is not None:
            # One outline, there along the upper ends and back along the lower ones.
            band = {
                "x": [*line.x, *reversed(list(line.x))],
                "y": [*line.high, *reversed(list(line.low))],
                "fill": "toself",
                "fillcolor": colour,
                "opacity": 0.18,
                "line": {"width": 0},
                "mode": "lines",
                "hoverinfo": "skip",
                "showlegend": False,
            }
            traces.append(common | band)
        points = {
            "name": plain_words(name),
            "x": list(line.x),
            "y": list(line.y),
            "mode": "lines+markers" if line.marks or len(line.x) < 2 else "lines",
            "line": {"color": colour, "width": 2, "shape": "hv" if line.steps else "linear"},
            "marker": {"color": colour, "size": 7},
            "hovertemplate": f"{'from ' * line.steps}%{{x:.4~g}}: %{{y:.4~g}}"
            "<extra>%{fullData.name}</extra>",
        }
        traces.append(common | points)
    layout = layout_of(x_axis, y_axis, legend=len(series) > 1)
    x_values = [x for line in series.values() if not line.steps for x in line.x if x is not None]
    if x_values and all(x == int(x) for x in x_values) and max(x_values) - min(x_values) <= 12:
        layout["xaxis"]["dtick"] = 1  # rounds and counts have no halves
    for axis, is_log in (("xaxis", log_x), ("yaxis", log_y)):
        if is_log:
            layout[axis] |= {"type": "log", "dtick": 1}
    if line_at is not None:
        layout["shapes"] = [_dotted_at(line_at, "y")]
    return {"data": traces, "layout": layout}


def histogram(edges: Numbers, counts: Mapping[str, Numbers], *, axis: str, unit: str) -> Figure:
    """Return outlines of distributions over the same bins; None or NaN is a blank bin.

    Examples
    --------
    >>> shares = {"observed": [70, 30], "completed": [60, 40]}
    >>> figure = histogram([0, 1, 2], shares, axis="age", unit="share of rows, %")
    >>> figure["data"][0]["x"], figure["data"][0]["y"], figure["data"][0]["line"]["shape"]
    ([0, 1, 2], [70, 30, 30], 'hv')
    """
    outlines = {}
    for name, shares in counts.items():
        if len(shares) != len(edges) - 1:
            raise SettingError(
                f"histogram: {name!r} must have {len(edges) - 1} bins, one fewer than edges, got "
                f"{len(shares)}"
            )
        # The last bin would have no right end without its height twice.
        outlines[name] = Line(
            edges, [*shares, shares[-1]], steps=True, colour=_OUTLINES.get(name, "")
        )
    figure = lines(outlines, x_axis=axis, y_axis=unit)
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure


def layout_of(x_axis: str, y_axis: str, *, legend: bool = False) -> Figure:
    """Return a layout with titles, broken into lines where plotly would cut them off."""
    titles = {"xaxis": wrap(x_axis, 44), "yaxis": wrap(y_axis, 32)}
    axes: Figure = {
        axis: {"title": {"text": "<br>".join(map(plain_words, lines))}} if lines else {}
        for axis, lines in titles.items()
    }
    return {"height": 340, "showlegend": legend, **axes}


def plain_words(text: str) -> str:
    """Return words in which plotly finds none of the little markup that it knows."""
    return escape(text, quote=False)


def series_colour(position: int) -> str:
    """Return the colour of a series by its position; the page has eight."""
    return f"--s{position % 8 + 1}"


def dotted_line(**ends: Any) -> Figure:
    """Return a dotted line to compare with, between two ends."""
    return {"type": "line", "line": {"color": "--faint", "dash": "dot", "width": 1.5}, **ends}


def _dotted_at(value: Number, axis: str) -> Figure:
    """Return a dotted line across the whole figure at a value of an axis."""
    across = "y" if axis == "x" else "x"
    from_edge_to_edge = {f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1}
    return dotted_line(**{f"{axis}0": value, f"{axis}1": value}, **from_edge_to_edge)
