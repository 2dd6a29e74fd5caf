"""How well it works: what metrics are called, and their figures, the method beside baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from markupsafe import Markup

from cofill.metrics import ResultRecord
from cofill.pages import (
    Part,
    Quantity,
    Section,
    bars,
    bullets,
    choice,
    details,
    join,
    paragraph,
    plot,
    table_html,
)
from cofill.report._records import Records, headed_section


@dataclass(frozen=True)
class Metric:
    """A figure's name with its unit, how to read it, and a value to compare with."""

    name: str
    words: str
    digits: int = 3
    line_at: float | None = None
    lower_is_better: bool = False


_METRICS = {
    "mse": Metric(
        "standardised MSE",
        "Mean squared error in units of each feature's variance: 0 is perfect, 1 is as good as "
        "filling in the mean. Lower is better.",
        line_at=1.0,
        lower_is_better=True,
    ),
    "r2": Metric("R²", "Share of the variance that is explained: 1 is perfect, 0 is the mean."),
    "mrd": Metric(
        "mean relative difference",
        "Mean of |completed − true| over |true|. Lower is better.",
        lower_is_better=True,
    ),
    "accuracy": Metric("accuracy", "Share that is right: 1 is perfect. Higher is better."),
    "sureness": Metric("expected accuracy", "Share that the attack itself expects to be right."),
    "rf": Metric("random forest accuracy", "Share a random forest classifies rightly."),
    "class_diff": Metric(
        "classification difference",
        "Change of a random forest's accuracy when rows are replaced by their reconstructions.",
        line_at=0.0,
    ),
    "coverage": Metric("coverage", "Share of true values inside their interval."),
    "psnr": Metric("PSNR, dB", "Peak signal-to-noise ratio of images; higher is better.", 2),
    "mse255": Metric(
        "MSE, grey levels²", "Squared error on the scale of 0 to 255.", 1, lower_is_better=True
    ),
    "purity": Metric("purity", "Share of individuals in a group whose class is the commonest."),
    "nmi": Metric("NMI", "Normalised mutual information of groups and classes: 1 is the same."),
    "ari": Metric("ARI", "Adjusted Rand index: 1 is the same grouping, 0 is chance."),
}


def metric_of(name: str) -> Metric:
    """Return a metric; an unknown one is called by its key.

    Examples
    --------
    >>> metric_of("psnr").name, metric_of("us_per_step").name, metric_of("cell_r2").name
    ('PSNR, dB', 'us per step', 'R² of hidden cells')
    """
    whole = _METRICS.get(name.removeprefix("cell_"))
    if whole is not None and name.startswith("cell_"):
        return replace(whole, name=f"{whole.name} of hidden cells")
    return _METRICS.get(name, Metric(name.replace("_", " "), ""))


class Figures:
    """The figures of a result record, whose summary is made once."""

    def __init__(self, record: ResultRecord) -> None:
        self.record = record
        self.summary = record.summary

    def of(self, method: str, metric: str, where: str) -> Quantity | None:
        """Return a figure with its spread over the repeats, None where there is none."""
        figure = self.summary.get(f"{method}/{metric}/{where}")
        if figure is None or figure["mean"] is None:
            return None
        n = figure["n"]
        words = f"mean ± standard deviation over {n} repeats" if n > 1 else "one repeat"
        spread = figure["std"] if n > 1 else None
        return Quantity(figure["mean"], spread, digits=metric_of(metric).digits, words=words)

    @property
    def metrics(self) -> list[str]:
        """The metrics there are, in the record's order."""
        return list(dict.fromkeys(key.split("/")[1] for key in self.record.values))

    def methods(self, metric: str) -> list[str]:
        """Return the methods that have a metric, in the record's order."""
        keys = (key.split("/") for key in self.record.values)
        return list(dict.fromkeys(method for method, measured, _ in keys if measured == metric))

    def parts(self, metric: str) -> list[str]:
        """Return the views or parts that a metric was measured on, ``all`` last."""
        keys = (key.split("/") for key in self.summary)
        measured = list(dict.fromkeys(where for _, name, where in keys if name == metric))
        parts = [part for part in measured if part != "all"]
        # "all" beside a single part would say the same twice.
        return [*parts, "all"] if "all" in measured and len(parts) != 1 else parts


@cache
def pools_rows() -> frozenset[str]:
    """Return the methods that see all rows in one place."""
    from cofill.completion import methods

    return frozenset(m.name for m in methods() if m.facts.get("pools_rows"))


_MOST_BARS = 8  # the page has eight colours
_FIRST = ("mse", "psnr", "accuracy")
_DIRECTIONS = {"x2y": "1st → 2nd", "y2x": "2nd → 1st"}
Bar: TypeAlias = tuple[float, float | None] | None


def errors(records: Records) -> Section | None:
    """Return the figures of every result record."""
    return headed_section(
        "How well it works",
        "errors",
        "Figures are means over repeats, each with other hidden rows or seeds; error bars are one "
        "standard deviation.",
        [(r.title, _result(r.content)) for r in records.of("result") if r.content.values],
    )


def _result(record: ResultRecord) -> list[Part]:
    figures = Figures(record)
    metrics = sorted(figures.metrics, key=lambda m: _FIRST.index(m) if m in _FIRST else len(_FIRST))
    body: list[Part] = []
    if record.name == "evaluation":
        share = record.settings.get("share")
        hidden = f"{100 * share:g} % of the" if isinstance(share, float) else "Some"
        compared = "completed by each method and compared with what they were"
        body.append(paragraph(f"{hidden} known rows or cells were hidden, {compared}."))
    elif record.settings.get("protocol"):
        body.append(paragraph(f"{record.settings['protocol']}."))
    body.append(choice("figure", {metric_of(m).name: _metric(figures, m) for m in metrics}))
    descriptions = record.settings.get("methods")
    if isinstance(descriptions, Mapping):
        methods = bullets([f"{name}: {words}" for name, words in descriptions.items()])
        body.append(details("The methods", methods))
    return body


def _metric(figures: Figures, key: str) -> Markup:
    methods, parts = figures.methods(key), figures.parts(key)
    metric, pooled, record = metric_of(key), pools_rows(), figures.record
    labels = {m: f"{m} †" if m in pooled else m for m in methods}
    headings = [_DIRECTIONS.get(part, part) for part in parts]
    table = table_html(
        ["method", *headings],
        [[labels[m], *(figures.of(m, key, part) for part in parts)] for m in methods],
        caption=f"{metric.name}, {len(record.seeds)} repeat{'s' * (len(record.seeds) != 1)}",
        hints={"all": "mean over the parts, per repeat"},
        strong_rows=[0] if record.name == "evaluation" else (),
    )
    if len(methods) * len(parts) == 1:
        return table
    shown = {
        labels[m]: [_bar(figures.of(m, key, part)) for part in parts]
        for m in _drawn_methods(figures, key)
    }
    left = len(methods) - len(shown)
    more = f" {left} more methods are in the table." if left else ""
    daggers = any(m in pooled for m in methods)
    note = " † uses all rows in one place: for one owner, not between organisations."
    last = {m: figures.of(m, key, parts[-1]) for m in methods}
    words = ", ".join(f"{m} {value}" for m, value in last.items() if value is not None)
    most = _axis_end(shown, metric)
    cut = "" if most is None else f" Bars are cut off at {most:g}; the table has them in full."
    figure = bars(headings, shown, axis=metric.name, line_at=metric.line_at, most=most)
    caption = f"{metric.words}{cut}{more}{note * daggers}"
    alt = f"Bars of {metric.name} by method; {parts[-1]}: {words}"
    return join(plot(figure, caption, alt), table)


def _drawn_methods(figures: Figures, key: str) -> list[str]:
    """Return as many methods as bars can be told apart: the first and the best of the others."""
    first, *rest = figures.methods(key)
    sign = 1 if metric_of(key).lower_is_better else -1
    part = figures.parts(key)[-1]

    def rank(method: str) -> float:
        figure = figures.of(method, key, part)
        return float("inf") if figure is None or figure.value is None else sign * figure.value

    best = sorted(rest, key=rank)[: _MOST_BARS - 1]
    return [first, *(m for m in rest if m in best)]


def _axis_end(shown: Mapping[str, Sequence[Bar]], metric: Metric) -> float | None:
    """Return where to cut bars off, because one that failed would hide all others; or None."""
    tops = [bar[0] for series in shown.values() for bar in series if bar is not None]
    if metric.lower_is_better and metric.line_at and max(tops) > 5 * metric.line_at:
        return 2.5 * metric.line_at
    return None


def _bar(figure: Quantity | None) -> Bar:
    if figure is None or figure.value is None:
        return None
    return float(figure.value), None if figure.spread is None else float(figure.spread)
