"""Charts of many points as plain SVG text: lines over a common axis, and maps of where points lie.

Words of any length are wrapped rather than cut, and no point of a map can be seen alone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.errors import SettingError
from cofill_papers._charts._svg import (
    CHAR,
    FAINT,
    GRID,
    INK,
    TITLE,
    colour_of,
    page,
    shade,
    text,
    ticks,
)

__all__ = ["Points", "density_maps", "line_chart"]

Points: TypeAlias = Sequence[Sequence[int | float]] | Float[np.ndarray, "_ 2"]
"""Pairs of x and y, as a list or as an array."""

_DASHES = ("none", "8 4", "2 3", "9 3 2 3", "16 4", "5 2", "9 3 2 3 2 3")
"""Seven beside eight colours: 56 lines until one looks like another."""

_LEVELS = 10
_NAME = 0.68
"""Width of a character of a name or number in units of the font size, generous where it is bold."""


def line_chart(
    title: str,
    series: Mapping[str, Points],
    *,
    x_axis: str,
    y_axis: str,
    caption: str = "",
    y_range: tuple[int | float, int | float] | None = None,
    x_log: bool = False,
) -> str:
    """Draw one line per name, told apart by colour and by dashes.

    Parameters
    ----------
    title, x_axis, y_axis, caption
        Words above, along the axes, and below.
    series
        Per name its points in the order in which they are joined. Points that are not finite are
        left out and their neighbours joined; a lone point becomes a dot. Everything given is
        drawn, so the distribution of a column of persons is to be given as quantiles.
    y_range
        Lowest and highest value of the vertical axis, beyond which lines are cut; round numbers
        around the points when left out.
    x_log
        Whether the horizontal axis is logarithmic; points at or below zero are then left out.

    Examples
    --------
    >>> steps = {"mwm": [(1, 0.5), (10, 0.8), (100, 0.9)], "equal": [(1, 0.5), (100, 0.6)]}
    >>> svg = line_chart("Accuracy", steps, x_axis="step", y_axis="share", x_log=True)
    >>> svg.startswith("<svg") and "equal" in svg
    True
    """
    lines = {name: _finite(name, points) for name, points in series.items()}
    if x_log:
        lines = {name: points[points[:, 0] > 0] for name, points in lines.items()}
    if not any(map(len, lines.values())):
        raise SettingError(
            f"series must have a point that can be drawn, got {len(lines)} lines without any"
        )
    if y_range is not None and not -math.inf < y_range[0] < y_range[1] < math.inf:
        raise SettingError(f"y_range must be a lower and a higher number, got {y_range}")
    across, up = np.concatenate(list(lines.values())).T
    x = _axis((across.min(), across.max()), 560, log=x_log)
    y = _axis(y_range or (up.min(), up.max()), 260, outward=y_range is None)
    side = textwrap.wrap(y_axis, int(y.length / (CHAR * 12)))
    left = 22 + 16 * len(side) + y.room
    width = left + x.length + max(24, x.room / 2 + 8)
    head, top = _words(title, 16, 26, width - 32, size=15, char=TITLE / 15, weight=600)
    shown = [name if len(points) else f"{name} (no values)" for name, points in lines.items()]
    keys, top = _line_key(shown, left, top + 8, x.length)
    # A page within the page cuts what lies beyond; 4 wider, for lines that run along the edge.
    inner = [left - 4, top - 4, x.length + 8, y.length + 8]
    box = 'x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" '.format(*inner)
    box += 'viewBox="{:.1f} {:.1f} {:.1f} {:.1f}"'.format(*inner)
    drawn = [
        _line(left + x.at(points[:, 0]), top + y.length - y.at(points[:, 1]), k)
        for k, points in enumerate(lines.values())
    ]
    frame = _frame(x, y, left, top, side, grid=True)
    parts = [head, keys, frame, f"<svg {box}>", *drawn, "</svg>"]
    foot, height = _below(x_axis, caption, left + x.length / 2, top + y.length, x.length, width)
    return page(title, width, height, [*parts, foot])


def density_maps(
    title: str,
    panels: Mapping[str, Points],
    *,
    x_axis: str,
    y_axis: str,
    bins: int = 48,
    least: int = 5,
    caption: str = "",
) -> str:
    """Draw where the points of each panel lie: counts in bins, darker where there are more.

    All panels have the same axes. Colours grow with the logarithm of the count up to the fullest
    bin of the panel, so that a rare class shows its shape beside a frequent one. No point is
    visible alone: bins of fewer than `least` points are blank, and the axes end where bins do.

    Parameters
    ----------
    title, x_axis, y_axis, caption
        Words above, along the axes, and below.
    panels
        Per name its points. Points that are not finite are left out.
    bins
        Number of bins along each axis, before blank ones at its ends are left out. They reach as
        far as `least` points of a panel, or one in a thousand, still lie beyond.
    least
        Number of points that a bin must have to be drawn.

    Examples
    --------
    >>> cloud = np.random.default_rng(0).normal(size=(2000, 2))
    >>> svg = density_maps("Where", {"a": cloud, "b": cloud + 2}, x_axis="PC 1", y_axis="PC 2")
    >>> svg.startswith("<svg") and "2 000 points" in svg
    True
    """
    if not 1 <= bins <= 240:
        raise SettingError(f"bins must be from 1 to 240, got {bins}")
    if least < 2:
        raise SettingError(f"least must be at least 2 so that no point shows alone, got {least}")
    clouds = {name: _finite(name, points) for name, points in panels.items()}
    most = max(map(len, clouds.values()), default=0)
    if most < least:
        raise SettingError(
            f"panels must have one with at least {least} finite points, got {most} at most"
        )
    ends = [_ends([c[:, k] for c in clouds.values() if len(c) >= least], least) for k in (0, 1)]
    counts = [np.histogram2d(*c.T, bins=bins, range=ends)[0] for c in clouds.values()]
    seen = np.stack(counts) >= least
    kept = [_kept(np.any(seen, axis=(0, 2))), _kept(np.any(seen, axis=(0, 1)))]
    sizes = [max(1, 240 // (last - first)) for first, last in kept]
    x, y = (
        _axis((low + (high - low) * a / bins, low + (high - low) * b / bins), size * (b - a))
        for (low, high), (a, b), size in zip(ends, kept, sizes, strict=True)
    )
    side = textwrap.wrap(y_axis, int(y.length / (CHAR * 12)))
    left, apart = 22 + 16 * len(side) + y.room, max(x.length, 150) + max(28, x.room / 2)
    span = apart * (len(clouds) - 1) + x.length
    width = max(left + span + max(24, x.room / 2 + 8), 360)
    head, top = _words(title, 16, 26, width - 32, size=15, char=TITLE / 15, weight=600)
    names = [
        _words(name, left + k * apart, top + 6, x.length, size=13, char=_NAME, weight=600)
        for k, name in enumerate(clouds)
    ]
    top = max(end for _, end in names) + 28
    parts = [head, *(words for words, _ in names)]
    for k, (table, cloud) in enumerate(zip(counts, clouds.values(), strict=True)):
        inner = table[slice(*kept[0]), slice(*kept[1])].astype(np.int64)
        here = left + k * apart, top
        parts.append(_panel(inner, len(cloud), least, here, sizes, -1 if k % 2 else 1))
        parts.append(_frame(x, y, *here, side if k == 0 else None))
    foot, height = _below(x_axis, caption, left + span / 2, top + y.length, span, width)
    return page(title, width, height, [*parts, foot])


class _Axis(NamedTuple):
    """A range of values along a length, with the round numbers in it as they are written."""

    low: int | float
    high: int | float
    length: int | float
    marks: dict[float, str]
    log: bool

    def at(self, values: Float[np.ndarray, " values"]) -> Float[np.ndarray, " values"]:
        """Return how far along the axis values lie."""
        if self.log:
            start, span = math.log10(self.low), math.log10(self.high / self.low)
            return self.length * (np.log10(values) - start) / span
        return self.length * (values - self.low) / (self.high - self.low)

    @property
    def room(self) -> float:
        """The width of the widest number."""
        return _NAME * 11 * max(map(len, self.marks.values()))


def _axis(
    ends: tuple[int | float, int | float],
    length: int | float,
    *,
    outward: bool = False,
    log: bool = False,
) -> _Axis:
    """Return an axis from end to end, or outward to the next round numbers."""
    low, high = _widened(*ends, log=log)
    marks = _log_marks(low, high) if log else _marks(low, high)
    if outward:
        low, high = marks[0], marks[-1]
    slack = 1e-9 * (high - low)
    inner = [mark for mark in marks if low - slack <= mark <= high + slack]
    return _Axis(low, high, length, dict(zip(inner, _labels(inner, log), strict=True)), log)


def _labels(marks: Sequence[float], log: bool) -> list[str]:
    """Write round numbers with the digits in which they differ, long ones with a power of ten."""
    power = math.floor(math.log10(marks[1] - marks[0]) + 1e-9)
    largest = max(map(abs, marks))
    digits = max(0, math.floor(math.log10(largest) + 1e-9) - power)
    if log:
        written = [f"{mark:,.6g}" for mark in marks]
    elif power < -5 or largest >= 1e6:
        written = [f"{mark:.{digits}e}" if mark else "0" for mark in marks]
    else:
        written = [f"{mark:,.{max(0, -power)}f}" for mark in marks]
    short = [w.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e") for w in written]
    return [w.replace(",", " ").replace("-", "−") for w in short]


def _finite(name: str, points: Points) -> Float[np.ndarray, "_ 2"]:
    """Return the points of which both numbers are finite."""
    if any(len(point) != 2 for point in points):
        raise SettingError(f"the points of {name!r} must be pairs of x and y, got other lengths")
    pairs = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    return pairs[np.isfinite(pairs).all(axis=1)]


def _widened(low: int | float, high: int | float, *, log: bool = False) -> tuple[float, float]:
    """Return a range that is not empty, with a single value in its middle."""
    low, high = float(low), float(high)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    if log:
        return low / 2, high * 2
    aside = abs(low) / 2 or 0.5
    return low - aside, high + aside


def _ends(columns: Sequence[Float[np.ndarray, " _"]], least: int) -> tuple[float, float]:
    """Return a range common to all panels that no few points can stretch."""
    lows, highs = [], []
    for column in columns:
        ordered = np.sort(column)
        beyond = min(max(least, len(column) // 1000), (len(column) + 1) // 2)
        lows.append(ordered[beyond - 1])
        highs.append(ordered[-beyond])
    low, high = _widened(min(lows), max(highs))
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _kept(seen: Bool[np.ndarray, " bins"]) -> tuple[int, int]:
    """Return the first bin and the one after the last: all that are seen and at least half."""
    bins, where = len(seen), np.flatnonzero(seen)
    if not len(where):
        return 0, bins
    first, last = int(where[0]) - 1, int(where[-1]) + 2
    lack = max(0, bins // 2 - (last - first))
    return max(0, first - lack // 2), min(bins, last + lack // 2)


def _marks(low: int | float, high: int | float) -> list[float]:
    """Return round numbers around a range of any size, four to eight steps apart."""
    unit = 10.0 ** math.floor(math.log10(high - low))
    step = unit * ticks(0.0, 0.6 * (high - low) / unit)[1]
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def _log_marks(low: int | float, high: int | float) -> list[float]:
    """Return powers of ten, or simple multiples of them where the range is short."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [m * 10.0**p for p in range(first, last + 1) for m in (1, 2, 5)]
    marks = [m for m in marks if low <= m <= high]
    if len(marks) > 8:
        powers = range(first, last + 1, math.ceil((last - first) / 8))
        marks = [10.0**p for p in powers if low <= 10.0**p <= high]
    return marks if len(marks) > 2 else [m for m in _marks(low, high) if m > 0]


def _words(
    words: str,
    x: int | float,
    y: int | float,
    room: int | float,
    *,
    size: int = 12,
    char: float = CHAR,
    weight: int = 400,
    colour: str = INK,
    anchor: str = "start",
) -> tuple[str, float]:
    """Write words in as many lines as they need; also return the baseline of the next line."""
    lines = textwrap.wrap(words, max(1, int(room / (char * size))))
    written = [
        text(x, y + k * (size + 4), line, size=size, weight=weight, colour=colour, anchor=anchor)
        for k, line in enumerate(lines)
    ]
    return "".join(written), float(y + (size + 4) * len(lines))


def _below(
    x_axis: str,
    caption: str,
    middle: int | float,
    bottom: int | float,
    room: int | float,
    width: int | float,
) -> tuple[str, float]:
    """Write what the horizontal axis is and the caption; also return where the page ends."""
    axis, end = _words(x_axis, middle, bottom + 40, room, colour=FAINT, anchor="middle")
    foot, end = _words(caption, 16, end + 6, width - 32, size=11, colour=FAINT)
    return axis + foot, end if caption else end - 8


def _style(position: int) -> str:
    dash = _DASHES[position % len(_DASHES)]
    return f'fill="none" stroke="{colour_of(position)}" stroke-width="2" stroke-dasharray="{dash}"'


def _line_key(
    names: Sequence[str], left: int | float, top: int | float, room: int | float
) -> tuple[str, int | float]:
    """Draw a piece of each line beside its name; also return where the chart may begin."""
    parts, x, y, below = [], left, top, top
    for k, name in enumerate(names):
        wide = min(room, 60 + _NAME * 12 * len(name))
        if x > left and x + wide > left + room:
            x, y = left, below
        words, end = _words(name, x + 38, y, room - 38, char=_NAME, colour=FAINT)
        parts.append(f'<path d="M{x:.1f} {y - 4:.1f}h32" {_style(k)}/>{words}')
        x, below = x + wide, max(below, end + 2)
    return "".join(parts), below


def _line(x: Float[np.ndarray, " points"], y: Float[np.ndarray, " points"], position: int) -> str:
    """Join points, those on the same pixel as the one before left out; a lone one is a dot."""
    spots = np.stack([x, y], axis=1)
    kept = np.ones(len(spots), dtype=bool)
    kept[1:-1] = (np.diff(np.round(spots[:-1]), axis=0) != 0).any(axis=1)
    where = [f"{a:.1f} {b:.1f}" for a, b in spots[kept]]
    if len(set(where)) == 1:
        a, b = where[0].split()
        return f'<circle cx="{a}" cy="{b}" r="4" fill="{colour_of(position)}"/>'
    return f'<path d="M{"L".join(where)}" {_style(position)}/>' if where else ""


def _frame(
    x: _Axis,
    y: _Axis,
    left: int | float,
    top: int | float,
    side: Sequence[str] | None,
    *,
    grid: bool = False,
) -> str:
    """Draw a box with round numbers below and, where `side` says what they are, on the left."""
    bottom, middle = top + y.length, top + y.length / 2
    parts = [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{x.length:.1f}" height="{y.length:.1f}" '
        f'fill="none" stroke="{GRID}"/>'
    ]
    for place, label in zip(bottom - y.at(np.array(list(y.marks))), y.marks.values(), strict=True):
        end, colour = (f"h{x.length:.1f}", GRID) if grid else ("h-4", FAINT)
        parts.append(f'<path d="M{left:.1f} {place:.1f}{end}" stroke="{colour}"/>')
        if side is not None:
            parts.append(text(left - 8, place + 4, label, size=11, colour=FAINT, anchor="end"))
    places = left + x.at(np.array(list(x.marks)))
    every = math.ceil((x.room + 6) / np.diff(places).min())  # numbers that would touch are left out
    for k, (place, label) in enumerate(zip(places, x.marks.values(), strict=True)):
        parts.append(f'<path d="M{place:.1f} {bottom:.1f}v4" stroke="{FAINT}"/>')
        if k % every == 0:
            parts.append(text(place, bottom + 18, label, size=11, colour=FAINT, anchor="middle"))
    for k, line in enumerate(side or ()):
        at = left - y.room - 16 * (len(side or ()) - k) - 2
        words = text(at, middle + 4, line, colour=FAINT, size=12, anchor="middle")
        parts.append(f'<g transform="rotate(-90 {at:.1f} {middle:.1f})">{words}</g>')
    return "".join(parts)


def _panel(
    counts: Int[np.ndarray, "columns rows"],
    points: int,
    least: int,
    corner: tuple[int | float, int | float],
    sizes: Sequence[int],
    sign: int,
) -> str:
    """Draw the bins that may be seen, one path per colour, and above them what colours mean."""
    (left, top), (wide, tall), (columns, rows) = corner, sizes, counts.shape
    share = math.floor(100 * counts[counts >= least].sum() / max(points, 1))
    head = text(
        left, top - 26, _spaced(points) + f" points, {share} % drawn", size=11, colour=FAINT
    )
    fullest = int(counts.max())
    if fullest < least:
        place = left + wide * columns / 2, top + tall * rows / 2
        note = f"no bin has {least} points"
        return head + text(*place, note, size=11, colour=FAINT, anchor="middle")
    span = math.log(fullest / least) or math.inf
    levels = np.floor(_LEVELS * np.log(np.maximum(counts, least) / least) / span)
    levels = np.where(counts < least, -1, np.minimum(levels, _LEVELS - 1))
    start = left + CHAR * 11 * len(_spaced(least)) + 4
    parts = [head, text(left, top - 9, _spaced(least), size=11, colour=FAINT)]
    for level in range(_LEVELS):
        fill, at = shade(sign * (0.2 + 0.8 * level / (_LEVELS - 1))), start + 9 * level
        parts.append(f'<rect x="{at:.1f}" y="{top - 17:.1f}" width="9" height="9" fill="{fill}"/>')
        squares = "".join(
            f"M{left + i * wide:.1f} {top + (rows - 1 - j) * tall:.1f}h{wide}v{tall}h-{wide}z"
            for i, j in np.argwhere(levels == level)
        )
        if squares:
            parts.append(f'<path d="{squares}" fill="{fill}" shape-rendering="crispEdges"/>')
    end = start + 9 * _LEVELS + 4
    return "".join(
        [*parts, text(end, top - 9, f"{_spaced(fullest)} per bin", size=11, colour=FAINT)]
    )


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")
