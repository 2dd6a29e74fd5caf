"""How well it works: each metric per view or part, the method beside its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from cofill.metrics import ResultRecord
from cofill.pages import (
    Html,
    Part,
    Quantity,
    Section,
    bars,
    bullets,
    choice,
    details,
    heading,
    join,
    paragraph,
    plot,
    table_html,
)
from cofill.report._records import Records
from cofill.report._words import Figures, Metric, metric_of, pools_rows, title_of

__all__ = ["errors"]

_MOST_BARS = 8
_WAYS = {"x2y": "1st → 2nd", "y2x": "2nd → 1st"}
Bar: TypeAlias = tuple[float, float | None] | None
_FIRST = ("mse", "psnr", "accuracy")


def errors(records: Records) -> Section | None:
    """Return the figures of every result record."""
    found = [r for r in records.of("result") if r.content.values]
    if not found:
        return None
    body: list[Part] = []
    for record in found:
        if len(found) > 1:
            body.append(heading(title_of(record.content)))
        body += _one(record.content)
    return Section(
        "How well it works",
        body,
        "errors",
        "Figures are means over repeats, each with other hidden rows or seeds; error bars are one "
        "standard deviation.",
    )


def _one(record: ResultRecord) -> list[Part]:
    figures = Figures(record)
    metrics = sorted(figures.metrics, key=lambda m: _FIRST.index(m) if m in _FIRST else len(_FIRST))
    body: list[Part] = []
    if record.name == "evaluation":
        share = record.settings.get("share")
        hidden = f"{100 * share:g} % of the" if isinstance(share, float) else "Some"
        body.append(
            paragraph(
                f"{hidden} known rows were hidden, completed by each method and compared with what "
                "they were."
            )
        )
    elif record.settings.get("protocol"):
        body.append(paragraph(f"{record.settings['protocol']}."))
    body.append(choice("figure", {metric_of(m).name: _metric(figures, m) for m in metrics}))
    told = record.settings.get("methods")
    if isinstance(told, Mapping):
        methods = bullets([f"{name}: {words}" for name, words in told.items()])
        body.append(details("The methods", methods))
    return body


def _metric(figures: Figures, metric: str) -> Html:
    methods, places = figures.methods(metric), figures.places(metric)
    said, pooled = metric_of(metric), pools_rows()
    marked = {m: f"{m} †" if m in pooled else m for m in methods}
    shown = {
        marked[m]: [_bar(figures.of(m, metric, place)) for place in places]
        for m in _few(figures, metric)
    }
    record = figures.record
    table = table_html(
        ["method", *(_WAYS.get(p, p) for p in places)],
        [[marked[m], *(figures.of(m, metric, place) for place in places)] for m in methods],
        caption=f"{said.name}, {len(record.seeds)} repeat{'s' * (len(record.seeds) != 1)}",
        hints={"all": "mean over the parts, per repeat"},
        strong_rows=[0] if record.name == "evaluation" else (),
    )
    if len(methods) * len(places) == 1:
        return table
    left = len(methods) - len(shown)
    more = f" {left} more methods are in the table." if left else ""
    daggers = any(m in pooled for m in methods)
    note = " † sees all rows in one place: a yardstick, not allowed between organisations."
    last = {m: figures.of(m, metric, places[-1]) for m in methods}
    words = ", ".join(f"{m} {value}" for m, value in last.items() if value is not None)
    most = _most(shown, said)
    cut = "" if most is None else f" Bars are cut off at {most:g}; the table has them in full."
    picture = plot(
        bars(
            [_WAYS.get(p, p) for p in places],
            shown,
            axis=said.name,
            line_at=said.line_at,
            most=most,
        ),
        f"{said.words}{cut}{more}{note * daggers}",
        f"Bars of {said.name} by method; {places[-1]}: {words}",
    )
    return join(picture, table)


def _few(figures: Figures, metric: str) -> list[str]:
    """Return as many methods as bars can be told apart: the first and the best of the others."""
    first, *rest = figures.methods(metric)
    sign = 1 if metric_of(metric).lower_is_better else -1
    place = figures.places(metric)[-1]

    def rank(method: str) -> float:
        found = figures.of(method, metric, place)
        return float("inf") if found is None or found.value is None else sign * found.value

    best = sorted(rest, key=rank)[: _MOST_BARS - 1]
    return [first, *(m for m in rest if m in best)]


def _most(shown: Mapping[str, Sequence[Bar]], said: Metric) -> float | None:
    """Return where to cut bars off, because one that failed would hide all others; or None."""
    tops = [bar[0] for series in shown.values() for bar in series if bar is not None]
    far = said.lower_is_better and said.line_at and max(tops) > 5 * said.line_at
    return 2.5 * said.line_at if far and said.line_at else None


def _bar(found: Quantity | None) -> Bar:
    if found is None or found.value is None:
        return None
    return float(found.value), None if found.spread is None else float(found.spread)
