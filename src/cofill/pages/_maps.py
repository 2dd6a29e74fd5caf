"""Planes of coloured cells in plotly's JSON form: weights per pair of names, counts per bin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cofill.pages._figures import Figure, Number, Numbers, layout_of, plain_words

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
    trace: Figure = {
        "type": "heatmap",
        "z": table,
        "x": [plain_words(column) for column in columns],
        "y": [plain_words(row) for row in rows],
        "zmin": -top,
        "zmax": top,
        "colorscale": "--diverging",
        "colorbar": {"title": {"text": plain_words(scale), "side": "right"}},
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": f"%{{y}}, %{{x}}: %{{z:.3~f}}<extra>{plain_words(scale)}</extra>",
    }
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
    layout = layout_of(x_axis, y_axis)
    low, high = max(x[0], y[0]), min(x[-1], y[-1])
    line = {"color": "--faint", "dash": "dot", "width": 1.5}
    ends = {"x0": low, "y0": low, "x1": high, "y1": high}
    layout["shapes"] = [{"type": "line", **ends, "line": line}]
    return {"data": [trace], "layout": layout}
