"""Common figures in plotly's JSON form: bars, lines, heat maps, histograms, points and flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, TypeAlias

import numpy as np

from cofill.errors import SettingError
from cofill.pages._html import byte_size

__all__ = [
    "Line",
    "bars",
    "density",
    "flow",
    "heat_map",
    "histogram",
    "lines",
    "scatter",
]

Figure: TypeAlias = dict[str, Any]
Number: TypeAlias = int | float
Numbers: TypeAlias = Sequence[Number | None] | np.ndarray


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with a band around it where `low` and `high` are given.

    ``dash`` is ``"solid"``, ``"dash"`` or ``"dot"``; ``marks`` draws the points too; ``colour`` is
    one of the page's (see `plot`).
    """

    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    dash: str = "solid"
    marks: bool = False
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
    >>> made = bars(["lab"], {"mean": [(1.0, 0.1)], "ours": [0.3]}, axis="error")
    >>> made["data"][0]["error_y"]["array"], made["data"][1]["y"]
    ([0.1], [0.3])
    """
    chosen = colours or {}
    value, error, name = ("x", "error_x", "y") if sideways else ("y", "error_y", "x")
    traces = []
    for k, (label, entries) in enumerate(series.items()):
        if len(entries) != len(categories):
            raise SettingError(f"bars: {label!r} must have {len(categories)} entries")
        pairs = [e if isinstance(e, tuple) else (e, None) for e in entries]
        trace: Figure = {
            "type": "bar",
            "name": _words(label),
            name: [_words(category) for category in categories],
            value: [mean for mean, _ in pairs],
            "orientation": "h" if sideways else "v",
            "marker": {"color": chosen.get(label, _series_colour(k))},
            "hovertemplate": f"%{{{name}}}: %{{{value}:.4~g}}<extra>%{{fullData.name}}</extra>",
        }
        if any(spread is not None for _, spread in pairs):
            spreads = [0 if s is None else s for _, s in pairs]
            trace[error] = {"type": "data", "array": spreads, "color": "--ink", "thickness": 1.2}
        traces.append(trace)
    layout = _layout(
        "" if not sideways else axis, axis if not sideways else "", legend=len(series) > 1
    )
    count = len(categories) * (1 if stacked else len(series))
    # A few bars are not made as wide as the page.
    gap = 0.25 if sideways else max(0.25, 1 - 0.09 * count)
    layout |= {"barmode": "stack" if stacked else "group", "bargap": gap}
    layout[f"{name}axis"]["type"] = "category"
    if sideways:
        layout["yaxis"]["autorange"] = "reversed"
        layout["height"] = 90 + 26 * len(categories) * (1 if stacked else max(len(series), 1))
    if most is not None:
        layout[f"{value}axis"]["range"] = [0, most]
    if line_at is not None:
        layout["shapes"] = [_rule(line_at, vertical=sideways)]
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
    >>> made = lines({"loss": Line([1, 2], [3, 1], [2, 0], [4, 2])}, x_axis="round", y_axis="loss")
    >>> [trace.get("fill") for trace in made["data"]]
    ['toself', None]
    """
    traces: list[Figure] = []
    for k, (name, line) in enumerate(series.items()):
        colour = line.colour or _series_colour(k)
        if line.low is not None and line.high is not None:
            traces.append(
                {
                    "type": "scatter",
                    "x": [*line.x, *reversed(list(line.x))],
                    "y": [*line.high, *reversed(list(line.low))],
                    "fill": "toself",
                    "fillcolor": colour,
                    "opacity": 0.18,
                    "line": {"width": 0},
                    "mode": "lines",
                    "hoverinfo": "skip",
                    "showlegend": False,
                    "legendgroup": name,
                }
            )
        traces.append(
            {
                "type": "scatter",
                "name": _words(name),
                "legendgroup": name,
                "x": list(line.x),
                "y": list(line.y),
                "mode": "lines+markers" if line.marks or len(line.x) < 2 else "lines",
                "line": {"color": colour, "width": 2, "dash": line.dash},
                "marker": {"color": colour, "size": 7},
                "hovertemplate": "%{x:.4~g}: %{y:.4~g}<extra>%{fullData.name}</extra>",
            }
        )
    layout = _layout(x_axis, y_axis, legend=len(series) > 1)
    places = [x for line in series.values() for x in line.x if x is not None]
    if places and all(x == int(x) for x in places) and max(places) - min(places) <= 12:
        layout["xaxis"]["dtick"] = 1  # rounds and counts have no halves
    if log_x:
        layout["xaxis"] |= {"type": "log", "dtick": 1}
    if log_y:
        layout["yaxis"] |= {"type": "log", "dtick": 1}
    if line_at is not None:
        layout["shapes"] = [_rule(line_at, vertical=False)]
    return {"data": traces, "layout": layout}


def heat_map(
    values: Sequence[Numbers] | np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    scale: str,
    diverging: bool = False,
    limit: Number | None = None,
    numbers: bool = True,
) -> Figure:
    """Return a table of colours, the first row on top.

    Parameters
    ----------
    values
        One row of numbers per name in `rows`; what is not a number stays blank.
    rows, columns
        Names.
    scale
        What the colours measure.
    diverging
        Whether the colours tell both signs, 0 in the middle.
    limit
        The value of the strongest colour; the largest there is when left out.
    numbers
        Whether the numbers are written into the cells where there is room.

    Examples
    --------
    >>> made = heat_map([[1.0, -2.0]], ["lab"], ["a", "b"], scale="weight", diverging=True)
    >>> made["data"][0]["zmin"], made["data"][0]["zmax"]
    (-2.0, 2.0)
    """
    table = np.asarray(values, dtype=np.float64)
    known = np.abs(table[np.isfinite(table)])
    top = float(limit if limit is not None else known.max(initial=0.0)) or 1.0
    trace: Figure = {
        "type": "heatmap",
        "z": table,
        "x": [_words(column) for column in columns],
        "y": [_words(row) for row in rows],
        "zmin": -top if diverging else 0.0,
        "zmax": top,
        "colorscale": "--diverging" if diverging else "--sequential",
        "colorbar": {"title": {"text": _words(scale), "side": "right"}},
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": f"%{{y}}, %{{x}}: %{{z:.3~f}}<extra>{_words(scale)}</extra>",
    }
    if numbers and len(columns) <= 16:
        trace["texttemplate"] = "%{z:.2f}"
        trace["textfont"] = {"size": 11}
    layout = _layout("", "", legend=False)
    longest = max(map(len, columns), default=0)
    slanted = {"tickangle": -35} if longest * len(columns) > 110 else {}
    layout["xaxis"] |= {"showgrid": False, "type": "category", "ticks": "", **slanted}
    layout["yaxis"] |= {"showgrid": False, "type": "category", "autorange": "reversed"}
    layout["height"] = 80 + 28 * len(rows) + min(6 * longest, 90)
    # Names stand upright on a phone.
    upright = {**layout["xaxis"], "tickangle": 90}
    tall = 80 + 28 * len(rows) + 7 * min(longest, 24)
    layout["meta"] = {"narrow": {"height": tall, "xaxis": upright}}
    return {"data": [trace], "layout": layout}


def histogram(
    edges: Numbers, counts: Mapping[str, Numbers], *, axis: str, unit: str = "share of rows, %"
) -> Figure:
    """Return outlines of distributions over the same bins; None or NaN is a blank bin.

    Examples
    --------
    >>> made = histogram([0, 1, 2], {"observed": [70, 30], "completed": [60, 40]}, axis="age")
    >>> made["data"][0]["x"], made["data"][0]["y"], made["data"][0]["line"]["shape"]
    ([0, 1, 2], [70, 30, 30], 'hv')
    """
    colours = {"observed": "--known", "completed": "--filled"}
    ends = list(edges)
    traces = []
    for k, (name, shares) in enumerate(counts.items()):
        values = list(shares)
        if len(values) != len(ends) - 1:
            raise SettingError(f"histogram: {name!r} must have {len(ends) - 1} bins")
        colour = colours.get(name, _series_colour(k))
        traces.append(
            {
                "type": "scatter",
                "name": _words(name),
                "x": ends,
                "y": [*values, values[-1]],
                "mode": "lines",
                "line": {"shape": "hv", "color": colour, "width": 2},
                "hovertemplate": "from %{x:.4~g}: %{y:.3~g}<extra>%{fullData.name}</extra>",
            }
        )
    layout = _layout(axis, unit, legend=len(counts) > 1)
    layout["yaxis"]["rangemode"] = "tozero"
    return {"data": traces, "layout": layout}


def density(
    counts: Sequence[Numbers] | np.ndarray,
    x_edges: Numbers,
    y_edges: Numbers,
    *,
    x_axis: str,
    y_axis: str,
    diagonal: bool = False,
) -> Figure:
    """Return how many lie where, as cells of a plane (one row of `counts` per step of y).

    Examples
    --------
    >>> made = density([[3, None], [4, 9]], [0, 1, 2], [0, 1, 2], x_axis="true", y_axis="completed")
    >>> made["data"][0]["zmax"]
    9.0
    """
    table = np.asarray(counts, dtype=np.float64)
    x, y = np.asarray(x_edges, dtype=np.float64), np.asarray(y_edges, dtype=np.float64)
    trace = {
        "type": "heatmap",
        "z": np.where(table > 0, table, np.nan),
        "x": x,
        "y": y,
        "zmin": 0,
        "zmax": float(np.nanmax(table, initial=1.0)),
        "colorscale": "--density",
        "colorbar": {"title": {"text": "count", "side": "right"}},
        "hovertemplate": "%{x:.3~g}, %{y:.3~g}: %{z:,}<extra></extra>",
    }
    layout = _layout(x_axis, y_axis, legend=False)
    if diagonal:
        low, high = max(x[0], y[0]), min(x[-1], y[-1])
        line = {"color": "--faint", "dash": "dot", "width": 1.5}
        layout["shapes"] = [
            {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "line": line}
        ]
    return {"data": [trace], "layout": layout}


def scatter(
    groups: Mapping[str, tuple[Numbers, Numbers]],
    *,
    x_axis: str,
    y_axis: str,
    words: Mapping[str, Sequence[str]] | None = None,
    sizes: Mapping[str, Numbers] | None = None,
) -> Figure:
    """Return points in groups, for figures of methods or cells of a map, never for people.

    Parameters
    ----------
    groups
        Per name the x and the y of its points.
    x_axis, y_axis
        What the axes measure.
    words
        Per name a word for each point, shown on hover.
    sizes
        Per name the diameters of its points, in pixels.

    Examples
    --------
    >>> made = scatter({"ours": ([1, 2], [3, 4])}, x_axis="leak", y_axis="error")
    >>> made["data"][0]["mode"]
    'markers'
    """
    traces = []
    for k, (name, (x, y)) in enumerate(groups.items()):
        own = (words or {}).get(name)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _words(name),
                "x": list(x),
                "y": list(y),
                "text": None if own is None else [_words(word) for word in own],
                "marker": {
                    "color": _series_colour(k),
                    "size": list(sizes[name]) if sizes else 9,
                    "symbol": k // 8,
                    "opacity": 0.85,
                },
                "hovertemplate": ("%{text}" if own is not None else "%{x:.4~g}, %{y:.4~g}")
                + "<extra>%{fullData.name}</extra>",
            }
        )
    return {"data": traces, "layout": _layout(x_axis, y_axis, legend=len(groups) > 1)}


def flow(
    links: Sequence[tuple[str, str, str, Number]], *, amount: str = "bytes", height: int = 0
) -> Figure:
    """Return what went from whom to whom: senders on the left, receivers on the right.

    Parameters
    ----------
    links
        ``(sender, receiver, words, amount)`` each; the words are shown on hover.
    amount
        Unit of the amount; bytes are shown with the unit that suits them.
    height
        Height in pixels, from the number of parties when left out.

    Examples
    --------
    >>> made = flow([("lab", "clinic", "codes", 1200), ("clinic", "lab", "codes", 800)])
    >>> made["data"][0]["node"]["label"], made["data"][0]["link"]["target"]
    (['lab', 'clinic', 'lab', 'clinic'], [3, 2])
    """
    every = list(dict.fromkeys([*(link[0] for link in links), *(link[1] for link in links)]))
    senders = [name for name in every if any(link[0] == name for link in links)]
    receivers = [name for name in every if any(link[1] == name for link in links)]
    names = [_words(name) for name in (*senders, *receivers)]
    colours = [_series_colour(every.index(n)) for n in (*senders, *receivers)]
    shown = [byte_size(n) if amount == "bytes" else f"{n:,} {amount}" for *_, n in links]
    trace = {
        "type": "sankey",
        "arrangement": "fixed",
        "node": {
            "label": names,
            "color": colours,
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
            "value": [max(n, 1) for *_, n in links],
            "color": "--flow",
            "label": [
                _words(f"{w}: {size}") for (_, _, w, _), size in zip(links, shown, strict=True)
            ],
            "hovertemplate": "%{source.label} → %{target.label}<br>%{label}<extra></extra>",
        },
        "textfont": {"color": "--ink", "size": 13},
    }
    tall = height or 120 + 44 * max(len(senders), len(receivers))
    margin = {"l": 8, "r": 8, "t": 20, "b": 28}
    return {"data": [trace], "layout": {"height": tall, "margin": margin}}


def _heights(
    links: Sequence[tuple[str, str, str, Number]], parties: Sequence[str], side: int
) -> list[float]:
    """Return where the middles of parties stand, from 0 on top to 1, by what flows there."""
    amounts = [sum(max(link[3], 1) for link in links if link[side] == name) for name in parties]
    shares = np.array(amounts, dtype=np.float64) / sum(amounts)
    return np.clip(np.cumsum(shares) - shares / 2, 0.001, 0.999).tolist()


def _layout(x_axis: str, y_axis: str, *, legend: bool) -> Figure:
    return {
        "height": 340,
        "showlegend": legend,
        "xaxis": {"title": {"text": _lines(x_axis, 44)}} if x_axis else {},
        "yaxis": {"title": {"text": _lines(y_axis, 32)}} if y_axis else {},
    }


def _lines(text: str, width: int) -> str:
    """Break a long title where plotly would cut it off."""
    return "<br>".join(_words(line) for line in wrap(text, width))


def _words(text: str) -> str:
    """Keep words from being read as the little markup that plotly knows."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _series_colour(position: int) -> str:
    return f"--s{position % 8 + 1}"


def _rule(value: Number, *, vertical: bool) -> Figure:
    along, across = ("x", "y") if vertical else ("y", "x")
    return {
        "type": "line",
        f"{along}0": value,
        f"{along}1": value,
        f"{across}ref": "paper",
        f"{across}0": 0,
        f"{across}1": 1,
        "line": {"color": "--faint", "dash": "dot", "width": 1.5},
    }
