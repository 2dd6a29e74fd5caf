"""How leaks are shown: the colours of verdicts, and curves of what defences cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from cofill.errors import SettingError
from cofill.pages._figures import Line, lines
from cofill.pages._html import Cell, Part, badge, columns, details, note, table_html
from cofill.pages._pictures import plot

VERDICT_TONES: Mapping[str, Literal["good", "plain", "warn", "bad"]] = {
    "nothing about a person": "good",
    "not attacked": "plain",
    "none seen": "good",
    "small": "plain",
    "considerable": "warn",
    "near-total": "bad",
}
"""How the steps of an audit's scale are coloured, from the best to the worst."""


def verdict_badge(verdict: str) -> Markup:
    """Return a step of an audit's scale in its colour."""
    return badge(verdict, VERDICT_TONES.get(verdict, "plain"))


_WINDOW = 6  # times the goal's cost, beyond which lines leave the picture


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What a defence costs: leak and utility over its strength.

    ``x`` are strengths, one a point, and ``strength`` says what they are. ``leak`` is what an
    attacker gets, ``utility`` what the release is still worth (better when lower if it
    ``is_error``), each with the name of its figure. Where there are such, ``low`` and ``high`` are
    the interval of the leak at each point, ``worst`` is the leak where it is worst (of several
    views, say), ``floor`` its floor, and ``without`` leak and utility without the defence, where
    the curve begins. ``goal`` is leak and utility that a defence should stay below: curves that
    have one are drawn as leak against utility. ``labels`` are words for each point, such as what
    was claimed.

    Examples
    --------
    >>> Curve(name="noise", strength="ε", x=(0.1, 1), leak=(0.5, 0.9), leak_name="accuracy",
    ...       utility=(0.3, 0.1), utility_name="error").x
    (0.1, 1)
    """

    name: str
    strength: str
    x: tuple[float | int, ...]
    leak: tuple[float | int, ...]
    leak_name: str
    utility: tuple[float | int, ...]
    utility_name: str
    utility_is_error: bool = True
    low: tuple[float | int, ...] = ()
    high: tuple[float | int, ...] = ()
    worst: tuple[float | int, ...] = ()
    floor: float | int | None = None
    without: tuple[float | int, float | int] | None = None
    goal: tuple[float | int, float | int] | None = None
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what in ("leak", "utility", "low", "high", "worst", "labels"):
            values = getattr(self, what)
            if len(values) != len(self.x) and (values or what in ("leak", "utility")):
                raise SettingError(
                    f"the curve {self.name!r} must have one {what} for each of {len(self.x)} "
                    f"strengths, got {len(values)}"
                )

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Curve:
        """Return the curve of a record."""
        fields: dict[str, Any] = {
            n: tuple(v) if isinstance(v, list) else v for n, v in facts.items()
        }
        return cls(**fields)


def draw_curves(curves: Sequence[Curve]) -> list[Part]:
    """Return pictures, tables and notes; curves of one leak and utility share a picture."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.leak_name, curve.utility_name), []).append(curve)
    parts: list[Part] = []
    for group in groups.values():
        parts.append(_over_strength(group) if group[0].goal is None else _trade_off(group))
        parts.append(details("The figures as a table", _points(group)))
        parts += [note(words) for words in dict.fromkeys(w for c in group for w in c.notes)]
    return parts


def _over_strength(group: Sequence[Curve]) -> Markup:
    """Draw leak and utility over the strength of defences of one scale."""
    leak, utility = group[0].leak_name, group[0].utility_name
    axis = " / ".join(dict.fromkeys(c.strength for c in group))
    left = {c.name: Line(c.x, c.leak, c.low or None, c.high or None, marks=True) for c in group}
    right = {c.name: Line(c.x, c.utility, marks=True) for c in group}
    log = all(x > 0 for c in group for x in c.x)
    floor = next((c.floor for c in group if c.floor is not None), None)
    better = "lower" if group[0].utility_is_error else "higher"
    return columns(
        plot(
            lines(left, x_axis=axis, y_axis=leak, log_x=log, line_at=floor),
            "Leak over the strength of the defence; the dotted line is the floor.",
            f"{leak} over {axis}",
        ),
        plot(
            lines(right, x_axis=axis, y_axis=utility, log_x=log, log_y=_is_wide(group)),
            f"Utility over the strength; {better} is better.",
            f"{utility} over {axis}",
        ),
    )


def _trade_off(group: Sequence[Curve]) -> Markup:
    """Draw leak against utility, a line a defence, each beginning where there is none."""
    series: dict[str, Line] = {}
    words: dict[str, list[str]] = {}
    for c in group:
        start = [] if c.without is None else [c.without]
        points = [*start, *zip(c.leak, c.utility, strict=True)]
        series[c.name] = Line([u for _, u in points], [leak for leak, _ in points], marks=True)
        names = c.labels or tuple(f"{c.strength}: {x:g}" for x in c.x)
        words[c.name] = ["without a defence"] * len(start) + list(names)
    figure = lines(series, x_axis=group[0].utility_name, y_axis=group[0].leak_name)
    for trace, hover_words in zip(figure["data"], words.values(), strict=True):
        trace["text"] = hover_words
        trace["hovertemplate"] = "%{text}: leak %{y:.2f}, cost %{x:.3~g}<extra></extra>"
    leak, cost = group[0].goal or (0, 0)
    costs = [*(x for c in group for x in c.utility), 0.0]
    left, right = min(costs), max(costs)
    edges = [left - 0.2 * cost, min(right, _WINDOW * cost) + 0.2 * cost]
    layout = figure["layout"]
    layout["xaxis"]["range"], layout["yaxis"]["range"], layout["height"] = edges, [0, 1.02], 460
    layout["xaxis"].pop("dtick", None)
    corner = {"type": "rect", "x0": edges[0], "x1": cost, "y0": 0, "y1": leak, "opacity": 0.2}
    line = {"color": "--good", "width": 1.5, "dash": "dot"}
    layout["shapes"] = [{**corner, "fillcolor": "--good", "line": line}]
    middle = {"x": (edges[0] + cost) / 2, "y": leak / 2}
    layout["annotations"] = [{**middle, "text": "goal", "showarrow": False}]
    beyond = " Lines that leave the picture go on in the table." if right > edges[1] else ""
    return plot(
        figure,
        "Leak against what the defence costs: each line joins the strengths of a defence, weakest "
        f"first; further down and further left is better. The goal is the corner below {leak:g} "
        f"and left of {cost:g}.{beyond}",
        f"{group[0].leak_name} against {group[0].utility_name}",
    )


def _points(group: Sequence[Curve]) -> Markup:
    """Return every point of curves as a table; the worst only where a curve has it."""
    worst = ["worst"] if any(c.worst for c in group) else []
    header = ["defence", "strength", "", group[0].leak_name, *worst, group[0].utility_name]
    rows: list[list[Cell]] = []
    for c in group:
        for k, x in enumerate(c.x):
            label, leak, utility = c.labels[k] if c.labels else "", c.leak[k], c.utility[k]
            at_worst = [float(c.worst[k]) if c.worst else "–" for _ in worst]
            rows.append([c.name, float(x), label, float(leak), *at_worst, float(utility)])
    return table_html(header, rows, hints={"worst": "the same of the view that leaks most"})


def _is_wide(curves: Sequence[Curve]) -> bool:
    """Whether a utility goes over more than two powers of ten."""
    utilities = [value for curve in curves for value in curve.utility]
    return min(utilities) > 0 and max(utilities) > 100 * min(utilities)
