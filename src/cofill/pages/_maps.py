"""Figures between two sets of names or axes in plotly's JSON form: planes of cells, streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cofill.pages._figures import (
    Figure,
    Number,
    Numbers,
    dotted_line,
    layout_of,
    plain_words,
    series_colour,
)
from cofill.pages._quantity import byte_size

_MOST_NUMBERS = 16  # columns; the digits of more of them overlap on a page of 1,000 pixels


def heat_map(
    values: Sequence[Numbers] | np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    scale: str,
    limit: Number | None = None,
) -> Figure:
    """Return a table of colours for both signs, the first row on top.

    Parameters
    ----------
    values
        One row of numbers per name in `rows`; what is not a number stays blank.
    rows, columns
        Names.
    scale
        What the colours measure.
    limit
        The value of the strongest colour; the largest there is when left out.

    Examples
    --------
    >>> figure = heat_map([[1.0, -2.0]], ["lab"], ["a", "b"], scale="weight")
    >>> figure["data"][0]["zmin"], figure["data"][0]["zmax"]
    (-2.0, 2.0)
    """
    table = np.asarray(values, dtype=np.float64)
    largest = np.abs(table[np.isfinite(table)]).max(initial=0.0)
    top = float(largest if limit is None else limit) or 1.0
    axes = [plain_words(column) for column in columns], [plain_words(row) for row in rows]
    hover = f"%{{y}}, %{{x}}: %{{z:.3~f}}<extra>{plain_words(scale)}</extra>"
    trace = _plane(table, *axes, (-top, top), "--diverging", scale, hover) | {"xgap": 1, "ygap": 1}
    if len(columns) <= _MOST_NUMBERS:
        trace |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}}
    layout = layout_of("", "")
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
    layout = layout_of(x_axis, y_axis)
    low, high = max(x[0], y[0]), min(x[-1], y[-1])
    layout["shapes"] = [dotted_line(x0=low, y0=low, x1=high, y1=high)]
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
        "colorbar": {"title": {"text": plain_words(measured), "side": "right"}},
        "hovertemplate": hover,
    }


def flow(links: Sequence[tuple[str, str, str, Number]]) -> Figure:
    """Return what went from whom to whom: senders on the left, receivers on the right.

    Parameters
    ----------
    links
        ``(sender, receiver, words, bytes)`` each; the words are shown on hover.

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
            "label": [plain_words(name) for name in (*senders, *receivers)],
            "color": [series_colour(parties.index(name)) for name in (*senders, *receivers)],
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
            "label": [plain_words(f"{words}: {byte_size(size)}") for _, _, words, size in links],
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
