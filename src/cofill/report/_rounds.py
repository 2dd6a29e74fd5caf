"""Curves over rounds and steps: losses of a federation, accuracies of attacks in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cofill.pages import Html, Line, Part, Section, choice, lines, plot
from cofill.report._records import Records
from cofill.report._words import headed, metric_of, title_of

__all__ = ["rounds"]

_NOT_LOSSES = ("round", "sites")
_WAYS = {
    "all": "squared error, both directions",
    "x2y": "squared error, second view from first",
    "y2x": "squared error, first view from second",
}


def rounds(records: Records) -> Section | None:
    """Return how training went, for whatever kept a curve."""
    body: list[tuple[str, Part]] = []
    for record in records.of("completion"):
        curve = record.content.get("curve")
        if curve:
            body.append((record.folder or record.name, _losses(curve)))
    for record in records.of("result"):
        curves = record.content.extra.get("curves")
        if isinstance(curves, Mapping) and curves:
            body.append((title_of(record.content), _curves(curves)))
    if not body:
        return None
    return Section(
        "How it learned", headed(body), "rounds", "A curve that is still falling wants more rounds."
    )


def _losses(curve: Sequence[Mapping[str, Any]]) -> Html:
    names = list(dict.fromkeys(n for entry in curve for n in entry if n not in _NOT_LOSSES))
    drawn = {
        name: Line(
            [entry["round"] for entry in curve if name in entry],
            [entry[name] for entry in curve if name in entry],
        )
        for name in names
    }
    last = ", ".join(f"{name} {line.y[-1]:.4g}" for name, line in drawn.items())
    sites = [entry["sites"] for entry in curve if "sites" in entry]
    took = (
        f"{min(sites)} to {max(sites)}"
        if sites and min(sites) < max(sites)
        else str(max(sites, default="–"))
    )
    return plot(
        lines(drawn, x_axis="round", y_axis="loss"),
        f"Losses of the sites, weighted by their rows, after each round; {took} sites took part.",
        f"Losses over {len(curve)} rounds; at the end: {last}",
    )


def _curves(curves: Mapping[str, Any]) -> Html:
    """Return curves of methods: of rounds, or per case of steps."""
    first = next(iter(curves.values()))
    if isinstance(first, Mapping):
        cases = list(dict.fromkeys(case for by_case in curves.values() for case in by_case))
        return choice("case", {case: _steps(curves, case) for case in cases})
    keys = [k for k in first[0] if k != "round" and isinstance(first[0][k], int | float)]
    if not keys:
        return Html("")
    return choice("figure", {_WAYS.get(str(k), str(k)): _by_round(curves, str(k)) for k in keys})


def _by_round(curves: Mapping[str, Sequence[Mapping[str, Any]]], key: str) -> Html:
    drawn = {
        method: Line(
            [e["round"] for e in entries if key in e], [e[key] for e in entries if key in e]
        )
        for method, entries in curves.items()
    }
    return plot(
        lines(drawn, x_axis="round", y_axis=_WAYS.get(key, metric_of(key).name)),
        "First repeat, on test images, in grey levels² from 0 to 255.",
        f"{_WAYS.get(key, key)} after each round for {', '.join(drawn)}",
    )


def _steps(curves: Mapping[str, Mapping[str, Mapping[str, Any]]], case: str) -> Html:
    own = {method: by_case[case] for method, by_case in curves.items() if case in by_case}
    figures = list(dict.fromkeys(k for c in own.values() for k in c if k != "steps"))
    made = {}
    for key in figures:
        drawn = {m: Line(c["steps"], c[key]) for m, c in own.items() if key in c}
        made[metric_of(key).name] = plot(
            lines(drawn, x_axis="training steps", y_axis=metric_of(key).name),
            "First repeat.",
            f"{key} in training for {', '.join(drawn)}",
        )
    return choice("figure", made)
