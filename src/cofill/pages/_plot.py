"""A plot in a page: a plotly figure as data, drawn by the one copy of plotly.js the page has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from markupsafe import Markup

from cofill.pages._html import Part, details, element

MARK = '<script type="application/json" class="figure">'
"""Where a plot's data begin; escaped words cannot spell it."""

_HEIGHT = 340


def plot(figure: Mapping[str, Any], caption: Part, alt: str, *, data: Part = "") -> Markup:
    """Return a plotly figure with its caption.

    Colours may name the page's colours as ``"--s1"`` … ``"--s8"``, ``"--ink"``, ``"--faint"``,
    ``"--line"``, ``"--known"``, ``"--filled"``, ``"--good"``, ``"--warn"``, ``"--bad"``, and a
    colour scale ``"--diverging"`` or ``"--density"``; they follow light and dark.

    Parameters
    ----------
    figure
        ``{"data": [...], "layout": {...}}`` in plotly's JSON form; arrays of numpy are fine, and
        what is not finite becomes a gap. ``layout["height"]`` is kept, the width is the page's.
    caption
        What is to be seen and how to read it.
    alt
        The picture's message in words, for those who do not see it.
    data
        The same as a table, folded below the picture.

    Examples
    --------
    >>> markup = plot({"data": [{"y": [1, float("nan")]}]}, "one < two", "a line")
    >>> '"y":[1,null]' in markup, "one &lt; two" in markup
    (True, True)
    """
    height = figure.get("layout", {}).get("height", _HEIGHT)
    content = json.dumps(_plain(figure), separators=(",", ":"), allow_nan=False)
    # A script's text knows no entities, so JSON's own escapes keep words from ending the script.
    content = content.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
    return element(
        "figure",
        element("div", class_="canvas", role="img", aria_label=alt, style=f"height:{height:.0f}px"),
        Markup(f"{MARK}{content}</script>"),  # noqa: S704  escaped above, JSON's way
        element("figcaption", caption),
        details("The figures as a table", data) if data else "",
        class_="plot",
    )


@cache
def plotly_script() -> str:
    """Return plotly.js as the installed package has it; some 5 MB."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", r"<\/script")


def _plain(value: Any) -> Any:
    """Return arrays as lists, numpy's numbers as Python's and what is not finite as None."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        # Six digits are more than a picture shows, and a third of the bytes.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
