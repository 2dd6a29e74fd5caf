"""Pictures in a page: plots, drawn by the one copy of plotly.js the page has, images, drawings."""

from __future__ import annotations

import json
import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup

from cofill.errors import SettingError
from cofill.pages._html import Part, details, element, join, scroll_area

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
    caption, alt
        What is to be seen and how to read it; its message for those who do not see it.
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


def image_rows(
    rows: Mapping[str, Float[np.ndarray, "images height width"]],
    *,
    caption: str,
    high: int | float = 1.0,
) -> Markup:
    """Return grey images, one row per name, the same subject above one another.

    ``high`` is the value drawn white; 0 is black.

    Examples
    --------
    >>> markup = image_rows({"original": np.zeros((2, 8, 8))}, caption="two digits")
    >>> markup.count("data:image/png;base64"), 'alt="original, 1 of 2"' in markup
    (2, True)
    """
    if len({len(images) for images in rows.values()}) != 1:
        raise SettingError("image_rows: every row must have the same number of images")
    image = Markup('<img src="data:image/png;base64,{}" width="56" height="56" alt="{}, {} of {}">')
    lines = []
    for name, images in rows.items():
        grey = np.rint(255 * np.clip(images / high, 0, 1)).astype(np.uint8)
        drawn = (
            image.format(_png(pixels), name, k, len(grey)) for k, pixels in enumerate(grey, start=1)
        )
        cells = join(element("th", name, scope="row"), element("td", *drawn))
        lines.append(element("tr", cells))
    table = element("table", element("tbody", *lines))
    return _figure(scroll_area(caption, table, more_class="images"), caption)


def picture(svg: str, *, caption: Part, alt: str) -> Markup:
    """Return a drawing; as an image it can neither run scripts nor ask for anything."""
    data = b64encode(svg.encode()).decode()
    image = Markup('<img class="drawing" src="data:image/svg+xml;base64,{}" alt="{}">')
    return _figure(scroll_area(alt, image.format(data, alt)), caption)


def _figure(content: Markup, caption: Part) -> Markup:
    return element("figure", content, element("figcaption", caption))


def _png(grey: UInt8[np.ndarray, "height width"]) -> str:
    """Return a grey image as PNG in base 64; no image library for one kind of image."""
    height, width = grey.shape
    lines = b"".join(b"\0" + row.tobytes() for row in grey)  # each line: filter 0, then pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
