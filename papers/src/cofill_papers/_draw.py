"""Pictures of figures as SVG text: bars, lines, heat maps, small images, and where points lie.

Words stay words in the SVG, so that they can be searched and read aloud, and the same figures give
the same text.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import cycle, islice
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from cofill.metrics import ResultRecord

__all__ = [
    "Points",
    "bars_of",
    "density_maps",
    "grouped_bars",
    "heat_maps",
    "image_grid",
    "line_chart",
]

Number: TypeAlias = int | float
Points: TypeAlias = Sequence[Sequence[Number]] | Float[np.ndarray, "_ 2"]
"""Pairs of x and y, as a list or as an array."""

_INK, _FAINT = "#1d2733", "#6b7785"
_COLOURS = ("#9aa7b3", "#2a78b5", "#f0962e", "#4f9d69", "#b0569e", "#c8b400", "#7a5c3e", "#444f5a")
# Seven beside eight colours: 56 lines until one looks like another.
_DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1, 1, 1)), (0, (8, 2)), (0, (2, 1)), "-.")
_DIVERGING = LinearSegmentedColormap.from_list("weights", ["#d67010", "#ffffff", "#1f5f99"])
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cofill",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "grid.color": "#dfe4e8",
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "legend.frameon": False,
}
_WRITTEN = 14  # columns of a heat map up to which names and values are written


def bars_of(
    record: ResultRecord,
    methods: Sequence[str],
    metric: str,
    groups: Sequence[str],
    *,
    factor: Number = 1.0,
) -> dict[str, list[tuple[float, float] | None]]:
    """Return each method's mean and deviation in each group, for `grouped_bars`."""
    bars: dict[str, list[tuple[float, float] | None]] = {method: [] for method in methods}
    for method, values in bars.items():
        for group in groups:
            figure = record.summary.get(f"{method}/{metric}/{group}")
            if figure is None or figure["mean"] is None:
                values.append(None)
            else:
                values.append((factor * figure["mean"], factor * (figure["std"] or 0.0)))
    return bars


def grouped_bars(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[tuple[Number, Number] | None]],
    *,
    axis: str,
    caption: str = "",
    order: Sequence[str] | None = None,
) -> str:
    """Return one group of bars per view, one bar per method, with ± one standard deviation.

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
    with rc_context(_STYLE):
        width = 2.6 + max(4.0, 0.16 * len(groups) * (len(series) + 1))
        figure, axes = _chart(width, 3.4)
        colours = dict(zip(order or series, cycle(_COLOURS), strict=False))
        bar = 0.8 / max(len(series), 1)
        for k, (name, values) in enumerate(series.items()):
            known = [(g, *value) for g, value in enumerate(values) if value is not None]
            axes.bar(
                [g + (k - (len(series) - 1) / 2) * bar for g, _, _ in known],
                [mean for _, mean, _ in known],
                bar,
                # No whisker where nothing deviates, or nothing was repeated.
                yerr=[deviation or math.nan for _, _, deviation in known],
                color=colours[name],
                label=name,
                error_kw={"ecolor": _INK, "capsize": 2, "elinewidth": 1},
            )
        axes.set_xticks(range(len(groups)), list(groups), color=_INK)
        axes.axhline(0, color=_FAINT, linewidth=0.8)
        axes.set_ylabel(axis)
        axes.grid(axis="y")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return _svg(figure, title, caption)


def line_chart(
    title: str,
    series: Mapping[str, Points],
    *,
    x_axis: str,
    y_axis: str,
    caption: str = "",
    y_range: tuple[Number, Number] | None = None,
) -> str:
    """Return one line per name, told apart by colour and by dashes.

    Points that are not finite are left out and their neighbours joined; a lone point becomes a dot.
    Everything given is drawn, so the distribution of a column of persons is to be given as
    quantiles.

    Examples
    --------
    >>> steps = {"mwm": [(1, 0.5), (10, 0.8), (100, 0.9)], "equal": [(1, 0.5), (100, 0.6)]}
    >>> svg = line_chart("Accuracy", steps, x_axis="step", y_axis="share")
    >>> svg.startswith("<svg") and "equal" in svg
    True
    """
    with rc_context(_STYLE):
        figure, axes = _chart(8.0, 3.6)
        styles = zip(series.items(), cycle(_COLOURS), cycle(_DASHES), strict=False)
        for (name, points), colour, dash in styles:
            x, y = _finite(points).T
            axes.plot(
                x,
                y,
                color=colour,
                linestyle=dash,
                linewidth=1.6,
                marker="o" if len(x) == 1 else "",
                label=name if len(x) else f"{name} (no values)",
            )
        if y_range is not None:
            axes.set_ylim(*y_range)
        axes.set_xlabel(x_axis)
        axes.set_ylabel(y_axis)
        axes.grid()
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return _svg(figure, title, caption)


def heat_maps(
    title: str,
    panels: Mapping[str, Mapping[str, Mapping[str, Number]]],
    *,
    caption: str = "",
) -> str:
    """Return weights as panels of rows × columns: ``{panel: {row: {column: value}}}``.

    Values from −1 (orange) over 0 (white) to 1 (blue); beyond that the colour stays. Columns are
    named, and values written, where there is room.
    """
    with rc_context(_STYLE):
        columns = max(len(row) for rows in panels.values() for row in rows.values())
        heights = [0.6 + 0.28 * len(rows) for rows in panels.values()]
        written = columns <= _WRITTEN
        wide = 3 + (0.62 * columns if written else 6.5)
        tall = sum(heights) + (0.5 * len(panels) if written else 0) + 0.6
        figure = Figure(figsize=(wide, tall), layout="constrained")
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for axes, (panel, rows) in zip(grid[:, 0], panels.items(), strict=True):
            _heat_map(axes, panel, rows, written)
        scale = figure.axes[0].images[0]
        figure.colorbar(scale, ax=grid[:, 0], extend="both", ticks=[-1, 0, 1], shrink=0.6)
        return _svg(figure, title, caption)


def _heat_map(
    axes: Axes, panel: str, rows: Mapping[str, Mapping[str, Number]], written: bool
) -> None:
    weights = np.array([list(row.values()) for row in rows.values()], dtype=np.float64)
    axes.imshow(weights, cmap=_DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_title(panel)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if not written:
        axes.set_xticks([])
        return
    names = list(next(iter(rows.values())))
    slanted = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), names, **(slanted if max(map(len, names)) > 6 else {}))
    for (j, i), value in np.ndenumerate(weights):
        shown = f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # no −0.00
        colour = "white" if abs(value) > 0.6 else _INK
        axes.text(i, j, shown, color=colour, ha="center", va="center", fontsize=7)


def image_grid(
    title: str,
    rows: Mapping[str, np.ndarray],
    *,
    columns: Sequence[str] = (),
    high: Number | None = None,
) -> str:
    """Return small grey images: one row of images per name, dark ink for large values.

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
    count, tall, wide = first.shape
    gap = max(1, round(max(tall, wide) / 8))
    high = float(high if high is not None else first.max()) or 1.0
    # One picture of all images: hundreds of axes would take seconds to lay out.
    sheet = np.zeros((len(rows) * (tall + gap), count * (wide + gap)))
    for j, images in enumerate(rows.values()):
        for i, image in enumerate(images):
            top, left = j * (tall + gap), i * (wide + gap)
            sheet[top : top + tall, left : left + wide] = image
    with rc_context(_STYLE):
        figure, axes = _chart(1.6 + 0.6 * count, 0.9 + 0.6 * len(rows) * tall / wide)
        axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=high, interpolation="nearest")
        axes.set_yticks([(j + 0.5) * (tall + gap) - gap / 2 for j in range(len(rows))], list(rows))
        axes.xaxis.tick_top()
        centres = [(i + 0.5) * (wide + gap) - gap / 2 for i in range(len(columns))]
        axes.set_xticks(centres, list(columns))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return _svg(figure, title)


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
    """Return where the points of each panel lie: counts in bins, darker where there are more.

    All panels have the same axes. Colours grow with the logarithm of the count up to the fullest
    bin of the panel, so that a rare class shows its shape beside a frequent one. No point is
    visible alone: bins of fewer than `least` points are blank, and as few cannot stretch the axes.

    Examples
    --------
    >>> cloud = np.random.default_rng(0).normal(size=(2000, 2))
    >>> svg = density_maps("Where", {"a": cloud, "b": cloud + 2}, x_axis="PC 1", y_axis="PC 2")
    >>> svg.startswith("<svg") and "2,000 points" in svg
    True
    """
    clouds = {name: _finite(points) for name, points in panels.items()}
    drawable = [cloud for cloud in clouds.values() if len(cloud) >= least]
    ends = [_common_range([cloud[:, k] for cloud in drawable], least) for k in (0, 1)]
    with rc_context(_STYLE):
        figure = Figure(figsize=(0.6 + 3.6 * len(clouds), 3.8), layout="constrained")
        grid = figure.subplots(1, len(clouds), squeeze=False, sharex=True, sharey=True)[0]
        maps = islice(cycle(("Blues", "Oranges")), len(clouds))
        for axes, (name, cloud), colours in zip(grid, clouds.items(), maps, strict=True):
            counts = np.histogram2d(*cloud.T, bins=bins, range=ends)[0].T
            shown = counts >= least
            share = math.floor(100 * counts[shown].sum() / max(len(cloud), 1))
            axes.set_title(f"{name}\n{len(cloud):,} points, {share} % drawn")
            axes.set_xlabel(x_axis)
            if not shown.any():
                words = f"no bin has {least} points"
                axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center")
                continue
            image = axes.imshow(
                np.where(shown, counts, np.nan),
                norm=LogNorm(least * 0.5, counts.max()),  # the least count is no white
                cmap=colours,
                origin="lower",
                extent=(*ends[0], *ends[1]),
                aspect="auto",
                interpolation="nearest",
            )
            scale = figure.colorbar(image, ax=axes, label="points per bin", format="%d")
            scale.set_ticks([least, counts.max()])
            scale.minorticks_off()
        grid[0].set_ylabel(y_axis)
        return _svg(figure, title, caption)


def _common_range(columns: Sequence[Float[np.ndarray, " _"]], least: int) -> tuple[float, float]:
    """Return a range beyond which `least` points of a panel, or one in a thousand, still lie."""
    if not columns:
        return 0.0, 1.0
    lows, highs = [], []
    for column in columns:
        ordered = np.sort(column)
        beyond = min(max(least, len(column) // 1000), (len(column) + 1) // 2)
        lows.append(float(ordered[beyond - 1]))
        highs.append(float(ordered[-beyond]))
    low, high = min(lows), max(highs)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value, put into the middle
        aside = abs(low) / 2 or 0.5
        low, high = low - aside, high + aside
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _finite(points: Points) -> Float[np.ndarray, "_ 2"]:
    pairs = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    return pairs[np.isfinite(pairs).all(axis=1)]


def _chart(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Figure, title: str, caption: str = "") -> str:
    """Return a figure with words above and below, wrapped to its width."""
    across = figure.get_figwidth()
    heading = textwrap.fill(title, int(11 * across))
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11, fontweight="bold")
    if caption:
        words = textwrap.fill(caption, int(16 * across))
        figure.supxlabel(words, x=0.01, ha="left", fontsize=8, color=_FAINT)
    text = StringIO()
    # Neither time nor version: the same record gives the same file.
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    return text.getvalue()[text.getvalue().index("<svg") :]
