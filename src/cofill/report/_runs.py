"""How runs went: curves over rounds and steps, groups, and what sites reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from cofill.pages import (
    Cell,
    Line,
    Part,
    Quantity,
    Section,
    badge,
    bars,
    choice,
    code,
    key_figures,
    lines,
    paragraph,
    picture,
    plot,
    table_html,
)
from cofill.report._errors import metric_of
from cofill.report._records import Record, Records, headed_section

_NOT_LOSSES = ("round", "sites")
_TONES: Mapping[str, Any] = {"finished": "good", "failed": "bad", "stopped": "warn"}
_DIRECTIONS = {
    "all": "squared error, both directions",
    "x2y": "squared error, second view from first",
    "y2x": "squared error, first view from second",
}


def rounds(records: Records) -> Section | None:
    """Return how training went, for whatever kept a curve."""
    losses = [
        (record.title, [_losses(curve)])
        for record in records.of("completion")
        if (curve := record.content.get("curve"))
    ]
    curves = [(record.title, _curves(extra)) for record, extra in records.extras("curves")]
    return headed_section(
        "How it learned",
        "rounds",
        "A curve that is still falling wants more rounds.",
        [*losses, *curves],
    )


def _losses(curve: Sequence[Mapping[str, Any]]) -> Markup:
    names = dict.fromkeys(n for entry in curve for n in entry if n not in _NOT_LOSSES)
    by_name = {name: _line(curve, name) for name in names}
    last = ", ".join(f"{name} {line.y[-1]:.4g}" for name, line in by_name.items())
    sites = sorted({entry["sites"] for entry in curve if "sites" in entry})
    count = " to ".join(str(n) for n in dict.fromkeys((*sites[:1], *sites[-1:]))) or "–"
    return plot(
        lines(by_name, x_axis="round", y_axis="loss"),
        f"Losses of the sites, weighted by their rows, after each round; {count} sites took part.",
        f"Losses over {len(curve)} rounds; at the end: {last}",
    )


def _curves(curves: Mapping[str, Any]) -> list[Part]:
    """Return curves of methods: of rounds, or per case of steps."""
    first = next(iter(curves.values()))
    if isinstance(first, Mapping):
        cases = dict.fromkeys(case for by_case in curves.values() for case in by_case)
        return [choice("case", {case: _by_step(curves, case) for case in cases})]
    keys = [k for k in first[0] if k != "round" and isinstance(first[0][k], int | float)]
    plots = {_DIRECTIONS.get(str(k), str(k)): _by_round(curves, str(k)) for k in keys}
    return [choice("figure", plots)] if plots else []


def _by_round(curves: Mapping[str, Sequence[Mapping[str, Any]]], key: str) -> Markup:
    by_method = {method: _line(entries, key) for method, entries in curves.items()}
    return plot(
        lines(by_method, x_axis="round", y_axis=_DIRECTIONS.get(key, metric_of(key).name)),
        "First repeat, on test images, in grey levels² from 0 to 255.",
        f"{_DIRECTIONS.get(key, key)} after each round for {', '.join(by_method)}",
    )


def _by_step(curves: Mapping[str, Mapping[str, Mapping[str, Any]]], case: str) -> Markup:
    by_method = {method: by_case[case] for method, by_case in curves.items() if case in by_case}
    plots = {}
    for key in dict.fromkeys(k for curve in by_method.values() for k in curve if k != "steps"):
        shown = {m: Line(c["steps"], c[key]) for m, c in by_method.items() if key in c}
        plots[metric_of(key).name] = plot(
            lines(shown, x_axis="training steps", y_axis=metric_of(key).name),
            "First repeat.",
            f"{key} in training for {', '.join(shown)}",
        )
    return choice("figure", plots)


def _line(entries: Iterable[Mapping[str, Any]], key: str) -> Line:
    """Return a figure over the rounds that have it."""
    points = [(entry["round"], entry[key]) for entry in entries if key in entry]
    return Line([x for x, _ in points], [y for _, y in points])


def federation(records: Records) -> Section | None:
    """Return every run's outcome; a run that two records report is shown once."""
    runs: dict[str, Mapping[str, Any]] = {}
    for record in records.of("run"):
        runs[record.content["order"]["run"]] = {**record.content, **record.content["order"]}
    for record in records.of("outcome"):
        runs[record.content["run"]] = record.content
    if not runs:
        return None
    body: list[Part] = []
    for run, facts in runs.items():
        state = str(facts["state"])
        experiment, why = facts["experiment"], facts.get("why")
        verdict = badge(state, _TONES.get(state, "plain"))
        body.append(
            paragraph("Run ", code(run), f" of {experiment} ", verdict, f": {why}" if why else ".")
        )
        if facts["metrics"]:
            body.append(_metrics(facts["metrics"]))
    return Section(
        "Between the machines",
        body,
        "federation",
        "What sites reported to the coordinator: figures of their own, no rows.",
    )


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> Markup:
    numbers = {
        view: {key: Quantity(v) for key, v in figures.items() if isinstance(v, int | float)}
        for view, figures in metrics.items()
    }
    names = list(dict.fromkeys(name for figures in numbers.values() for name in figures))
    rows: list[list[Cell]] = [
        [view, str(metrics[view].get("site", "")), *(figures.get(name) for name in names)]
        for view, figures in numbers.items()
    ]
    return table_html(["view", "site", *(n.replace("_", " ") for n in names)], rows)


def clusters(records: Records) -> Section | None:
    """Return the groups of every clustering."""
    return headed_section(
        "Groups",
        "clusters",
        "Individuals who are alike, found without showing a row.",
        [(record.title, _groups(records, record)) for record in records.of("clustering")],
    )


def _groups(records: Records, record: Record) -> list[Part]:
    facts = record.content
    sizes, choice = facts["sizes"], facts.get("choice_of_k")
    names = [f"group {k}" if len(sizes) <= 12 else str(k) for k in range(len(sizes))]
    chosen = f"chosen by {choice['method']}" if choice else "as asked for"
    body: list[Part] = [
        key_figures(
            [
                ("groups", Quantity(facts["k"]), chosen),
                ("individuals", Quantity(sum(sizes)), f"at {len(facts['individuals'])} sites"),
                (
                    "mean confidence",
                    Quantity(facts["mean_confidence"], digits=2),
                    "1 where everybody clearly belongs to one group",
                ),
            ]
        ),
        plot(
            bars(names, {"individuals": sizes}, axis="individuals"),
            "Individuals per group.",
            f"Sizes of {len(sizes)} groups from {min(sizes):,} to {max(sizes):,}",
        ),
    ]
    path = records.beside(record, "map.svg")
    if path is not None:
        body.append(
            picture(
                path.read_text(encoding="utf-8"),
                caption="Where groups lie, in bins; those with fewer than 3 people are blank.",
                alt=f"Density of each of {len(sizes)} groups on a plane",
            )
        )
    if choice:
        body.append(_choice(choice, facts["k"]))
    return body


def _choice(choice: Mapping[str, Any], k: int) -> Markup:
    table = choice["table"]
    scores = Line(
        [row["k"] for row in table],
        [row["score"] for row in table],
        [row["score"] - (row["error"] or 0) for row in table],
        [row["score"] + (row["error"] or 0) for row in table],
        marks=True,
    )
    method = choice["method"]
    return plot(
        lines({method: scores}, x_axis="number of groups", y_axis=f"score ({method})"),
        f"{k} groups were chosen.",
        f"Score of {len(table)} numbers of groups; {k} was chosen",
    )
