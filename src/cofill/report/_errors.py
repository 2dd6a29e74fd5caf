"""How well it works: each metric per view or part, the method beside its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from cofill.report._metrics import Figures, Metric, metric_of, pools_rows
from cofill.report._records import Records, headed_section

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
        body.append(
            paragraph(
                f"{hidden} known rows or cells were hidden, completed by each method and compared "
                "with what they were."
            )
        )
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
