"""Small images side by side, as pixels inside the page."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup

from cofill.errors import SettingError
from cofill.pages._html import Part, element, join
from cofill.pages._table import scroll_area


def image_rows(
    rows: Mapping[str, Float[np.ndarray, "images height width"]],
    *,
    caption: str,
    high: int | float = 1.0,
) -> Markup:
    """Return grey images, one row per name, the same subject above one another.

    Parameters
    ----------
    rows
        Images by what they are ("original", "made from edges").
    caption
        What is to be seen.
    high
        The value drawn white; 0 is black.

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
    """Return a drawing; as an image it can neither run scripts nor ask for anything.

    Examples
    --------
    >>> picture("<svg/>", caption="a map", alt="three groups").count("data:image/svg+xml")
    1
    """
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
