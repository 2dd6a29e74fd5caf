"""Figures in plotly's JSON form: bars, lines, histograms, planes of cells and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np

from cofill.errors import SettingError
from cofill.pages._html import byte_size

Figure = dict[str, Any]
Number = int | float
Numbers = Sequence[Number | None] | np.ndarray

_MOST_NUMBERS = 16  # columns; the digits of more of them overlap on a page of 1,000 pixels
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
    series
        Per name one entry a category: a number, ``(mean, spread)`` or None for no bar.
    axis
        What the bars measure, with its unit.
    colours
        Colours of series, such as ``{"filled": "--filled"}``.
    stacked, sideways
        Whether the bars of a group stand on one another; whether bars lie, for long names.
    line_at, most
        A value to compare with, drawn as a dotted line; where the axis ends and cuts bars off.

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
            "name": _plain_words(label),
            name: [_plain_words(category) for category in categories],
            value: [mean for mean, _ in pairs],
            "orientation": "h" if sideways else "v",
            "marker": {"color": (colours or {}).get(label, _series_colour(k))},
            "hovertemplate": f"%{{{name}}}: %{{{value}:.4~g}}<extra>%{{fullData.name}}</extra>",
        }
        if any(spread is not None for _, spread in pairs):
            spreads = [spread or 0 for _, spread in pairs]
            trace[error] = {"type": "data", "array": spreads, "color": "--ink", "thickness": 1.2}
        traces.append(trace)
    layout = _layout_of(*((axis, "") if sideways else ("", axis)), legend=len(series) > 1)
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
        colour = line.colour or _series_colour(k)
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
            "name": _plain_words(name),
            "x": list(line.x),
            "y": list(line.y),
            "mode": "lines+markers" if line.marks or len(line.x) < 2 else "lines",
            "line": {"color": colour, "width": 2, "shape": "hv" if line.steps else "linear"},
            "marker": {"color": colour, "size": 7},
            "hovertemplate": f"{'from ' * line.steps}%{{x:.4~g}}: %{{y:.4~g}}"
            "<extra>%{fullData.name}</extra>",
        }
        traces.append(common | points)
    layout = _layout_of(x_axis, y_axis, legend=len(series) > 1)
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
        heights, colour = [*shares, shares[-1]], _OUTLINES.get(name, "")
        outlines[name] = Line(edges, heights, steps=True, colour=colour)
    figure = lines(outlines, x_axis=axis, y_axis=unit)
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure


def heat_map(
    values: Sequence[Numbers] | np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    scale: str,
    limit: Number | None = None,
) -> Figure:
    """Return a table of colours for both signs, the first row on top.

    ``values`` has one row of numbers per name in `rows`; what is not a number stays blank.
    ``scale`` says what the colours measure, ``limit`` is the value of the strongest colour (the
    largest there is when left out).

    Examples
    --------
    >>> figure = heat_map([[1.0, -2.0]], ["lab"], ["a", "b"], scale="weight")
    >>> figure["data"][0]["zmin"], figure["data"][0]["zmax"]
    (-2.0, 2.0)
    """
    table = np.asarray(values, dtype=np.float64)
    largest = np.abs(table[np.isfinite(table)]).max(initial=0.0)
    top = float(largest if limit is None else limit) or 1.0
    axes = [_plain_words(column) for column in columns], [_plain_words(row) for row in rows]
    hover = f"%{{y}}, %{{x}}: %{{z:.3~f}}<extra>{_plain_words(scale)}</extra>"
    trace = _plane(table, *axes, (-top, top), "--diverging", scale, hover) | {"xgap": 1, "ygap": 1}
    if len(columns) <= _MOST_NUMBERS:
        trace |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}}
    layout = _layout_of("", "")
    longest = max(map(len, columns), default=0)
    slanted = {"tickangle": -35} if longest * len(columns) > 110 else {}
    layout["xaxis"] |= {"showgrid": False, "type": "category", "ticks": "", **slanted}
    layout["yaxis"] |= {"showgrid": False, "type": "category", "autorange": "reversed"}
    layout["height"] = 80 + 28 * len(rows) + min(6 * longest, 90)
    # A phone has no room for slanted names.
    upright = {**layout["xaxis"], "tickangle": 90}
    tall = 80 + 28 * len(rows) + 7 * min(longest, 24)
    layout["meta"] = {"narrow": {"height": tall, "xaxis": upright}}
    return {"data": [trace], "layout": layout}


def density(
    counts: Sequence[Numbers] | np.ndarray,
    x_edges: Numbers,
    y_edges: Numbers,
    *,
    x_axis: str,
    y_axis: str,
) -> Figure:
    """Return how many lie in each bin of a plane (one row of `counts` per step of y).

    A dotted line shows where x and y are equal.

    Examples
    --------
    >>> figure = density([[3, None], [4, 9]], [0, 1, 2], [0, 1, 2], x_axis="true", y_axis="filled")
    >>> figure["data"][0]["zmax"]
    9.0
    """
    table = np.asarray(counts, dtype=np.float64)
    x, y = np.asarray(x_edges, dtype=np.float64), np.asarray(y_edges, dtype=np.float64)
    most = float(np.nanmax(table, initial=1.0))
    hover = "%{x:.3~g}, %{y:.3~g}: %{z:,}<extra></extra>"
    shown = np.where(table > 0, table, np.nan)  # an empty bin is blank, not the palest colour
    trace = _plane(shown, x, y, (0, most), "--density", "count", hover)
    layout = _layout_of(x_axis, y_axis)
    low, high = max(x[0], y[0]), min(x[-1], y[-1])
    layout["shapes"] = [_dotted_line(x0=low, y0=low, x1=high, y1=high)]
    return {"data": [trace], "layout": layout}


def _plane(
    z: np.ndarray,
    x: Numbers | Sequence[str],
    y: Numbers | Sequence[str],
    limits: tuple[Number, Number],
    colours: str,
    measured: str,
    hover: str,
) -> Figure:
    """Return a trace of coloured cells with its scale of colours."""
    return {
        "type": "heatmap",
        "z": z,
        "x": x,
        "y": y,
        "zmin": limits[0],
        "zmax": limits[1],
        "colorscale": colours,
        "colorbar": {"title": {"text": _plain_words(measured), "side": "right"}},
        "hovertemplate": hover,
    }


def flow(links: Sequence[tuple[str, str, str, Number]]) -> Figure:
    """Return what went from whom to whom: senders on the left, receivers on the right.

    A link is ``(sender, receiver, words, bytes)``; the words are shown on hover.

    Examples
    --------
    >>> figure = flow([("lab", "clinic", "codes", 1200), ("clinic", "lab", "codes", 800)])
    >>> figure["data"][0]["node"]["label"], figure["data"][0]["link"]["target"]
    (['lab', 'clinic', 'lab', 'clinic'], [3, 2])
    """
    parties = list(dict.fromkeys([*(link[0] for link in links), *(link[1] for link in links)]))
    senders = [name for name in parties if any(link[0] == name for link in links)]
    receivers = [name for name in parties if any(link[1] == name for link in links)]
    trace = {
        "type": "sankey",
        "arrangement": "fixed",
        "node": {
            "label": [_plain_words(name) for name in (*senders, *receivers)],
            "color": [_series_colour(parties.index(name)) for name in (*senders, *receivers)],
            "x": [0.001] * len(senders) + [0.999] * len(receivers),
            "y": [*_heights(links, senders, 0), *_heights(links, receivers, 1)],
            "pad": 22,
            "thickness": 14,
            "line": {"width": 0},
            "hovertemplate": "%{label}<extra></extra>",
        },
        "link": {
            "source": [senders.index(sender) for sender, *_ in links],
            "target": [len(senders) + receivers.index(receiver) for _, receiver, *_ in links],
            "value": [max(size, 1) for *_, size in links],
            "color": "--flow",
            "label": [_plain_words(f"{words}: {byte_size(size)}") for _, _, words, size in links],
            "hovertemplate": "%{source.label} → %{target.label}<br>%{label}<extra></extra>",
        },
        "textfont": {"color": "--ink", "size": 13},
    }
    height = 120 + 44 * max(len(senders), len(receivers))
    margin = {"l": 8, "r": 8, "t": 20, "b": 28}
    return {"data": [trace], "layout": {"height": height, "margin": margin}}


def _heights(
    links: Sequence[tuple[str, str, str, Number]], parties: Sequence[str], side: int
) -> list[float]:
    """Return where the middles of parties stand, from 0 on top to 1, by what flows there."""
    amounts = [sum(max(link[3], 1) for link in links if link[side] == name) for name in parties]
    shares = np.array(amounts, dtype=np.float64) / sum(amounts)
    return np.clip(np.cumsum(shares) - shares / 2, 0.001, 0.999).tolist()


# --- what all figures share ----------------------------------------------------------------------


def _layout_of(x_axis: str, y_axis: str, *, legend: bool = False) -> Figure:
    """Return a layout with titles, broken into lines where plotly would cut them off."""
    titles = {"xaxis": wrap(x_axis, 44), "yaxis": wrap(y_axis, 32)}
    axes: Figure = {
        axis: {"title": {"text": "<br>".join(map(_plain_words, lines))}} if lines else {}
        for axis, lines in titles.items()
    }
    return {"height": 340, "showlegend": legend, **axes}


def _plain_words(text: str) -> str:
    """Return words in which plotly finds none of the little markup that it knows."""
    return escape(text, quote=False)


def _series_colour(position: int) -> str:
    """Return the colour of a series by its position; the page has eight."""
    return f"--s{position % 8 + 1}"


def _dotted_line(**ends: Any) -> Figure:
    """Return a dotted line to compare with, between two ends."""
    return {"type": "line", "line": {"color": "--faint", "dash": "dot", "width": 1.5}, **ends}


def _dotted_at(value: Number, axis: str) -> Figure:
    """Return a dotted line across the whole figure at a value of an axis."""
    across = "y" if axis == "x" else "x"
    from_edge_to_edge = {f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1}
    return _dotted_line(**{f"{axis}0": value, f"{axis}1": value}, **from_edge_to_edge)
