"""Charts as plain SVG text: bars in groups with error bars, heat maps, grids of small images.

No drawing library, so that a record becomes pictures wherever cofill runs. Every function takes
numbers and words and returns the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cofill_papers._charts._svg import (
    CHAR,
    FAINT,
    GRID,
    INK,
    TITLE,
    colour_of,
    key,
    page,
    png,
    shade,
    text,
    ticks,
)

__all__ = ["grouped_bars", "heat_maps", "image_grid"]


def grouped_bars(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[int | float, int | float] | None]],
    *,
    axis: str,
    caption: str = "",
    order: Sequence[str] | None = None,
) -> str:
    """Draw one group of bars per view, one bar per method, with ± one standard deviation.

    Parameters
    ----------
    title, axis, caption
        Words above, along the vertical axis, and below.
    groups
        Names of the groups.
    series
        Per method a mean and a deviation for each group, None where there is none.
    order
        All names that charts of this kind have, so that each keeps its colour in all of them.

    Examples
    --------
    >>> svg = grouped_bars("MSE", ["a"], {"mwm": [(0.2, 0.01)]}, axis="MSE")
    >>> svg.startswith("<svg") and "mwm" in svg
    True
    """
    bar = max(7, min(22, 640 // max(len(groups) * (len(series) + 1), 1)))
    left, top, tall = 74, 54, 240
    group_width = max(
        bar * (len(series) + 1),
        8 + CHAR * 12 * max(map(len, groups)),
        max(400, TITLE * len(title) - left) / len(groups),
    )
    width = left + group_width * len(groups) + 24
    named = list(series if order is None else order)
    colours = {name: colour_of(named.index(name)) for name in series}
    keys, key_height = key(colours, left, top, group_width * len(groups))
    top += key_height
    known = [v for values in series.values() for v in values if v is not None]
    low = min([0.0, *(m - s for m, s in known)])
    high = max([0.0, *(m + s for m, s in known)])
    marks = ticks(low, high)
    low, high = min(low, marks[0]), max(high, marks[-1])

    def y(value: int | float) -> float:
        return top + tall * (high - value) / (high - low)

    parts = [text(16, 26, title, size=15, weight=600), keys]
    digits = max(0, -math.floor(math.log10(marks[1] - marks[0]) + 1e-9))
    for tick in marks:
        colour = FAINT if tick == 0 else GRID
        parts.append(f'<path d="M{left} {y(tick):.1f}H{width - 16:.1f}" stroke="{colour}"/>')
        label = f"{tick:.{digits}f}".replace("-", "−")
        parts.append(text(left - 8, y(tick) + 4, label, size=11, colour=FAINT, anchor="end"))
    middle = top + tall / 2
    parts.append(
        f'<g transform="rotate(-90 18 {middle})">'
        f"{text(18, middle + 4, axis, size=12, colour=FAINT, anchor='middle')}</g>"
    )
    for g, group in enumerate(groups):
        start = left + g * group_width + (group_width - bar * len(series)) / 2
        for k, (name, values) in enumerate(series.items()):
            value = values[g]
            if value is not None:
                parts.append(_bar(start + k * bar, bar, value, y, colours[name]))
        centre = left + (g + 0.5) * group_width
        parts.append(text(centre, top + tall + 18, group, size=12, anchor="middle"))
    if caption:
        parts.append(text(16, top + tall + 42, caption, size=11, colour=FAINT))
        width = max(width, 32 + CHAR * 11 * len(caption))
    return page(title, width, top + tall + (54 if caption else 30), parts)


def heat_maps(
    title: str,
    panels: Mapping[str, Mapping[str, Mapping[str, int | float]]],
    *,
    caption: str = "",
) -> str:
    """Draw weights as panels of rows × columns: ``{panel: {row: {column: value}}}``.

    Values from −1 (orange) over 0 (white) to 1 (blue); beyond that the colour stays. Columns are
    named, and values written, where there is room.
    """
    columns = max(len(row) for rows in panels.values() for row in rows.values())
    cell = max(3.0, min(46.0, 640 / columns))
    written = cell >= 40
    label = CHAR * 12 * max(len(r) for rows in panels.values() for r in rows)
    left, y = 24 + label, 74.0
    parts = [text(16, 26, title, size=15, weight=600), _scale(16, 40)]
    width = max(left + cell * columns + 24, TITLE * len(title) + 32, 330)
    for panel, rows in panels.items():
        names = list(next(iter(rows.values())))
        parts.append(text(16, y + 14, panel, weight=600))
        y += 22
        slanted = written and max(map(len, names)) * CHAR * 10 > cell
        if written:
            room = max(map(len, names)) * CHAR * 10
            y += room * 0.6 + 10 if slanted else 12
            width = max(width, left + cell * len(names) + room * 0.8 + 16) if slanted else width
            parts += [
                _name(left + (k + 0.5) * cell, y - 4, n, slanted) for k, n in enumerate(names)
            ]
        for row, weights in rows.items():
            parts.append(text(left - 8, y + 15, row, size=12, colour=FAINT, anchor="end"))
            for k, value in enumerate(weights.values()):
                x = left + k * cell
                line = ' stroke="white" stroke-width="0.5"' if cell > 8 else ""
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell:.2f}" height="22" '
                    f'fill="{shade(value)}"{line}/>'
                )
                if written:
                    ink = "white" if abs(value) > 0.6 else INK
                    shown = f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # no −0.00
                    parts.append(
                        text(x + cell / 2, y + 15, shown, size=10, colour=ink, anchor="middle")
                    )
            y += 22
        y += 14
    if caption:
        parts.append(text(16, y + 10, caption, size=11, colour=FAINT))
        width = max(width, 32 + CHAR * 11 * len(caption))
    return page(title, width, y + 24, parts)


def image_grid(
    title: str,
    rows: Mapping[str, np.ndarray],
    *,
    columns: Sequence[str] = (),
    high: int | float | None = None,
) -> str:
    """Draw small grey images: one row of images per name, dark ink for large values.

    Parameters
    ----------
    title
        Words above.
    rows
        Per name an array ``(images, height, width)``.
    columns
        A word above each image.
    high
        The value drawn black (0 is white); the largest of the first row when left out.
    """
    first = next(iter(rows.values()))
    top_value = float(high if high is not None else first.max()) or 1.0
    tall, wide = first.shape[1:]
    size = 64 / max(tall, wide)
    label = 28 + CHAR * 13 * max(map(len, rows))
    y = 48.0 + (18 if columns else 0)
    parts = [text(16, 26, title, size=15, weight=600)]
    for k, name in enumerate(columns):
        centre = label + k * 72 + wide * size / 2
        parts.append(text(centre, y - 6, name, size=12, colour=FAINT, anchor="middle"))
    for name, images in rows.items():
        parts.append(text(16, y + tall * size / 2 + 4, name))
        for k, image in enumerate(images):
            grey = np.rint(255 * (1 - np.clip(image / top_value, 0, 1))).astype(np.uint8)
            parts.append(
                f'<image x="{label + k * 72:.1f}" y="{y:.1f}" width="{wide * size:.1f}" '
                f'height="{tall * size:.1f}" style="image-rendering:pixelated" '
                f'preserveAspectRatio="none" href="data:image/png;base64,{png(grey)}"/>'
            )
        y += tall * size + 8
    width = max(label + len(first) * 72 + 16, TITLE * len(title) + 32)
    return page(title, width, y + 8, parts)


def _bar(
    x: int | float,
    wide: int | float,
    value: tuple[int | float, int | float],
    y: Callable[[int | float], float],
    colour: str,
) -> str:
    mean, spread = value
    top, base = sorted((y(mean), y(0.0)))
    centre, upper, lower = x + (wide - 1) / 2, y(mean + spread), y(mean - spread)
    whisker = (
        f'<path d="M{centre:.1f} {upper:.1f}V{lower:.1f}M{centre - 3:.1f} {upper:.1f}h6'
        f'M{centre - 3:.1f} {lower:.1f}h6" stroke="{INK}" fill="none"/>'
    )
    return (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide - 1:.1f}" height="{base - top:.1f}" '
        f'fill="{colour}"/>{whisker if spread > 0 else ""}'
    )


def _name(x: int | float, y: int | float, words: str, slanted: bool) -> str:
    """Write the name of a column above it, slanted where it is wider than the column."""
    if not slanted:
        return text(x, y, words, size=10, colour=FAINT, anchor="middle")
    return (
        f'<g transform="rotate(-35 {x:.1f} {y:.1f})">{text(x, y, words, size=10, colour=FAINT)}</g>'
    )


def _scale(x: int | float, y: int | float) -> str:
    """Draw the colours of −1 to 1 with their numbers."""
    boxes = "".join(
        f'<rect x="{x + 34 + 6 * k}" y="{y}" width="6" height="12" fill="{shade(k / 10 - 1)}"/>'
        for k in range(21)
    )
    ends = text(x, y + 10, "≤ −1", size=11, colour=FAINT) + text(
        x + 166, y + 10, "≥ 1", size=11, colour=FAINT
    )
    middle = text(x + 97, y + 24, "0", size=11, colour=FAINT, anchor="middle")
    return boxes + ends + middle
