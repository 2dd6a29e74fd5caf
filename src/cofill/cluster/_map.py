"""Individuals on a plane, and a picture of them in bins, so that nobody is visible alone."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.errors import DataError, SettingError
from cofill.views import Key

_LEAST = 3  # individuals in a bin that is drawn: one or two could be told from their neighbours
_BINS, _CELL = 32, 7  # on a side, and pixels of one
_SIDE = _BINS * _CELL
_GAP, _TOP, _LEFT = 28, 84, 40  # pixels between and around the groups' pictures
_PER_ROW = 4
_INK, _FAINT = "#1d2733", "#6b7785"
_HUES = ((31, 95, 153), (214, 112, 16))
_TITLE = "Groups on the plane that shows most of them"


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Points of the individuals that were drawn, their groups where given, in random order.

    ``explained`` is the share of the variance that the plane shows.
    """

    points: Float[np.ndarray, "drawn 2"]
    groups: Int[np.ndarray, " drawn"] | None
    explained: float


def plane_map(
    codes: Any, groups: Any = None, *, sample: int | None = 5_000, seed: Key = 0
) -> PlaneMap:
    """Lay individuals out on the plane of most variance of their codes (principal components).

    Parameters
    ----------
    codes
        A row of numbers each, such as ``model.codes(rows)`` or probabilities of groups.
    groups
        The group of each, to colour the picture by.
    sample
        Draw at most so many, chosen by chance in random order, so that the order in the map does
        not tell the order in the data; None draws all, still in random order.
    seed
        Which are drawn.

    Examples
    --------
    >>> line = np.arange(12.0)[:, None] * np.array([[3.0, 4.0, 0.0]])
    >>> drawn = plane_map(line)
    >>> drawn.points.shape, round(drawn.explained, 3)
    ((12, 2), 1.0)
    """
    table = np.asarray(codes, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2:
        raise DataError(
            f"codes must be rows of numbers of at least two individuals, got shape {table.shape}"
        )
    if not np.isfinite(table).all():
        raise DataError("codes must be finite numbers, got others; complete the individuals first")
    if sample is not None and sample < 2:
        raise SettingError(f"sample must be at least 2, got {sample}")
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    if labels is not None and labels.shape != (len(table),):
        raise DataError(
            f"groups must have one entry for each of {len(table)} codes, got {labels.shape}"
        )
    chosen = np.random.default_rng(seed).permutation(len(table))[:sample]
    middle = table - table.mean(axis=0)
    values, vectors = np.linalg.eigh(middle.T @ middle)
    axes = vectors[:, ::-1][:, :2]
    # Signs are fixed, so that maps can be compared: the largest entry of an axis is positive.
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    points, total = middle[chosen] @ axes, float(values.sum())
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))  # codes of one column are a line
    explained = float(values[-2:].sum() / total) if total > 0 else 1.0
    return PlaneMap(points, None if labels is None else labels[chosen], explained)


def map_picture(plane: PlaneMap) -> str | None:
    """Return an SVG with one panel a group, or None where no group has enough individuals.

    All panels have the same axes. Colours grow with the logarithm of the count up to the fullest
    bin of the panel, so that a small group shows its shape beside a large one. Bins of fewer than
    three individuals are blank, and as few cannot stretch the axes.
    """
    if plane.groups is None:
        raise SettingError("groups must be given to draw a map of them")
    labels = sorted(set(plane.groups.tolist()))
    clouds = {f"group {g}": plane.points[plane.groups == g] for g in labels}
    if max(map(len, clouds.values())) < _LEAST:
        return None
    ranges = [_common_range([c[:, k] for c in clouds.values() if len(c) >= _LEAST]) for k in (0, 1)]
    columns = min(len(clouds), _PER_ROW)
    rows = -(-len(clouds) // columns)
    width = max(2 * _LEFT + columns * (_SIDE + _GAP), 420)
    height = _TOP + rows * (_SIDE + 44) + 40
    parts = [_text(16, 26, _TITLE, size=15, weight=600)]
    for k, (name, points) in enumerate(clouds.items()):
        left = _LEFT + (k % columns) * (_SIDE + _GAP)
        top = _TOP + (k // columns) * (_SIDE + 44)
        counts = np.histogram2d(points[:, 0], points[:, 1], bins=_BINS, range=ranges)[0]
        parts.append(_text(left, top - 24, name, weight=600))
        parts.append(_panel(counts.astype(np.int64), len(points), left, top, _HUES[k % 2]))
    caption = (
        f"Across: first component, up: second component. {plane.explained:.0%} of the variance. "
        f"Bins with fewer than {_LEAST} individuals are blank."
    )
    parts.append(_text(16, height - 24, caption, size=11, colour=_FAINT))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" role="img">'
        f'<title>{_TITLE}</title><rect width="{width}" height="{height}" fill="white"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _common_range(columns: list[Float[np.ndarray, " _"]]) -> tuple[float, float]:
    """Return a range beyond which at least `_LEAST` individuals of a group, or 0.1 %, still lie."""
    lows, highs = [], []
    for column in columns:
        ordered = np.sort(column)
        beyond = min(max(_LEAST, len(column) // 1000), (len(column) + 1) // 2)
        lows.append(float(ordered[beyond - 1]))
        highs.append(float(ordered[-beyond]))
    low, high = min(lows), max(highs)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value, put into the middle
        aside = abs(low) / 2 or 0.5
        low, high = low - aside, high + aside
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _panel(
    counts: Int[np.ndarray, "bins bins"], points: int, left: int, top: int, hue: tuple[int, ...]
) -> str:
    drawn = 100 * int(counts[counts >= _LEAST].sum()) // points
    fullest = int(counts.max())
    words = f"{points:,} individuals, {drawn} % drawn, at most {fullest:,} in a bin"
    cells = [
        f'<rect x="{left + _CELL * i}" y="{top + _CELL * (_BINS - 1 - j)}" width="{_CELL}" '
        f'height="{_CELL}" fill="{_shade(hue, int(counts[i, j]), fullest)}"/>'
        for i, j in np.argwhere(counts >= _LEAST).tolist()
    ]
    frame = (
        f'<rect x="{left}" y="{top}" width="{_SIDE}" height="{_SIDE}" fill="none" '
        f'stroke="{_FAINT}"/>'
    )
    return _text(left, top - 8, words, size=10, colour=_FAINT) + "".join(cells) + frame


def _shade(hue: tuple[int, ...], count: int, fullest: int) -> str:
    span = np.log(fullest / _LEAST)
    share = 0.2 + 0.8 * (float(np.log(count / _LEAST) / span) if span else 1.0)
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in hue)


def _text(
    x: int, y: int, words: str, *, size: int = 13, weight: int = 400, colour: str = _INK
) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
