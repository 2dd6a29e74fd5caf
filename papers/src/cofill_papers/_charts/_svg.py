"""The strokes that charts are made of: words, scales, keys, colours, pixels."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from jaxtyping import UInt8

__all__ = [
    "CHAR",
    "FAINT",
    "GRID",
    "INK",
    "TITLE",
    "colour_of",
    "key",
    "page",
    "png",
    "shade",
    "text",
    "ticks",
]

INK, FAINT, GRID = "#1d2733", "#6b7785", "#dfe4e8"
CHAR = 0.58
"""Width of a character in units of the font size, a little generous."""

TITLE = 0.66 * 15
"""Width of a character of a title."""

_COLOURS = ("#9aa7b3", "#2a78b5", "#f0962e", "#4f9d69", "#b0569e", "#c8b400", "#7a5c3e", "#444f5a")
_BLUE, _ORANGE = (31, 95, 153), (214, 112, 16)


def page(title: str, width: int | float, height: int | float, parts: Sequence[str]) -> str:
    """Put parts together into a whole file."""
    w, h = math.ceil(width), math.ceil(height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img">'
    )
    back = f'<rect width="{w}" height="{h}" fill="white"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", back, *parts, "</svg>"]) + "\n"


def text(
    x: int | float,
    y: int | float,
    words: str,
    *,
    colour: str = INK,
    size: int = 13,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    """Write words, their baseline at y."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def key(
    colours: Mapping[str, str], left: int | float, top: int | float, room: int | float
) -> tuple[str, int | float]:
    """Draw the colours of names, in as many lines as they need; also return the height."""
    parts, x, y = [], left, top
    for name, colour in colours.items():
        wide = 38 + 0.65 * 12 * len(name)
        if x > left and x + wide > left + room:
            x, y = left, y + 18
        parts.append(f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, y, name, size=12, colour=FAINT))
        x += wide
    return "".join(parts), y - top + 14


def colour_of(position: int) -> str:
    """Return the colour of a series."""
    return _COLOURS[position % len(_COLOURS)]


def shade(value: int | float) -> str:
    """Return a colour from orange (−1) over white (0) to blue (1).

    Examples
    --------
    >>> shade(0.0), shade(1.0), shade(-7.0)
    ('#ffffff', '#1f5f99', '#d67010')
    """
    share = min(abs(value), 1.0)
    end = _BLUE if value > 0 else _ORANGE
    return "#" + "".join(f"{round(255 + (c - 255) * share):02x}" for c in end)


def ticks(low: int | float, high: int | float) -> list[float]:
    """Return round numbers from below `low` to above `high`, about five steps apart.

    Examples
    --------
    >>> ticks(0.0, 0.43)
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    """
    span = high - low
    if not span > 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def png(grey: UInt8[np.ndarray, "height width"]) -> str:
    """Return a grey image as PNG in base 64."""
    tall, wide = grey.shape
    lines = b"".join(b"\0" + row.tobytes() for row in grey)  # each line: filter 0, then pixels
    head = struct.pack(">IIBBBBB", wide, tall, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
