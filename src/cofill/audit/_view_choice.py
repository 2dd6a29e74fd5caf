"""What is made of a trial of defences: the one that is advised, in words, and the curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cofill.audit._audit import Curve
from cofill.audit._code_trial import TradeOff, inferred_at, trade_off
from cofill.audit._view_settings import Family, ViewAuditSettings
from cofill.audit._view_trial import NO_DEFENCE, Found
from cofill.cooperate import CodeDefence

__all__ = ["choose", "curve_of", "limits"]

_LEAK = "R² of the row behind a code, mean over views"
_GROWTH = "growth of the error of completed rows, %"


def choose(
    first: Mapping[str, Found],
    second: Mapping[str, Found],
    defences: Mapping[str, CodeDefence],
    settings: ViewAuditSettings,
) -> tuple[dict[str, Any], str, str]:
    """Choose by the first half what is advised; tell what it comes to in the second."""
    weighed = trade_off({n: f.point for n, f in first.items()}, settings.most_leak, settings.growth)
    advised = weighed.within
    there = second[weighed.best]
    reached = there.leak < settings.most_leak and there.growth < settings.growth
    choice = {
        "advised": advised,
        "defence": _changed(defences.get(advised, CodeDefence())),
        **_figures(second[advised]),
        "reached": reached,
        "best": {
            "name": weighed.best,
            "defence": _changed(defences.get(weighed.best, CodeDefence())),
            **_figures(there),
        },
        "frontier": list(weighed.frontier),
    }
    change = _advice(advised, second, defences, settings)
    return choice, change, _conclusion(weighed, reached, first, second, settings)


def _figures(found: Found) -> dict[str, Any]:
    return {
        "leak": found.leak,
        "worst_leak": found.worst,
        "leak_outside_pilot": found.outside,
        "growth": found.growth,
        "growth_interval": list(found.growth_ends),
        "inferred": found.inferred,
    }


def _changed(defence: CodeDefence) -> dict[str, Any]:
    """Return the settings of a defence that are not the usual ones."""
    usual = asdict(CodeDefence())
    return {name: value for name, value in asdict(defence).items() if value != usual[name]}


def _advice(
    advised: str,
    second: Mapping[str, Found],
    defences: Mapping[str, CodeDefence],
    settings: ViewAuditSettings,
) -> str:
    allowed = f"{100 * settings.growth:g} %"
    if advised == NO_DEFENCE:
        return (
            f"No defence tried here leaks less at a growth of the error of at most {allowed}: "
            "send codes to fewer receivers and of fewer people, or accept a larger error."
        )
    given = ", ".join(f"{k}={v!r}" for k, v in _changed(defences[advised]).items())
    found = second[advised]
    pilot = defences[advised].pilot
    exposed = f", the {pilot} people of the pilot counted as without a defence" if pilot else ""
    beyond = (
        f"; that is above the {allowed} that was allowed, which it kept among those who chose it"
        if found.growth > settings.growth
        else ""
    )
    return (
        f"Of the defences tried, CodeDefence({given}) leaks least at a growth of the error of at "
        f"most {allowed}: {found.words}{exposed}, where without a defence it is R² "
        f"{second[NO_DEFENCE].leak:.2f}{beyond}."
    )


def _conclusion(
    weighed: TradeOff,
    reached: bool,
    first: Mapping[str, Found],
    second: Mapping[str, Found],
    settings: ViewAuditSettings,
) -> str:
    goal = (
        f"A leak below R² {settings.most_leak:g} at a growth of the error below "
        f"{100 * settings.growth:g} %"
    )
    best = f"{weighed.best}: {second[weighed.best].words}"
    if reached:
        return f"{goal} can be had, by {best}."
    if weighed.reached:
        return f"{goal} was seen only among the people who chose the defence, by {best}."
    return (
        f"{goal} was not reached by any of the {len(first) - 1} settings tried. The best trade-off "
        f"is {best}."
    )


def limits(inferred: float, least: float | None, settings: ViewAuditSettings) -> list[str]:
    """Say what no codes can do better than.

    Parameters
    ----------
    inferred
        Share of the rows that is inferred without a defence.
    least
        Least leak to a receiver with all codes where regressions are linear; None where the people
        are too few to say so.
    settings
        What is asked.
    """
    growth = f"a growth of the error of {100 * settings.growth:g} %"
    said = []
    told = inferred_at(settings.growth, inferred)
    if told >= settings.most_leak:
        said.append(
            "Whatever the codes are: what completes a row gives it away. Who has a person's codes "
            "from all views but one, and as many pairs as the parties learn from, completes that "
            f"view's row as they do, without its code: at {growth} R² {told:.2f}. Against such a "
            "receiver the goal is out of reach; the figures above are of one view's codes alone."
        )
    if least is not None and least >= settings.most_leak:
        said.append(
            "Where regressions are linear, a receiver who puts all codes that it gets together "
            f"explains at least R² {least:.2f} of the rows behind them at {growth}."
        )
    return said


# --- curves ---------------------------------------------------------------------------------------


def curve_of(
    family: Family,
    found: Mapping[str, Found],
    settings: ViewAuditSettings,
    notes: tuple[str, ...],
) -> Curve:
    points = [found[name] for name in family.defences]
    if any(defence.pilot for _, defence in family.defences.values()):
        notes = (
            *notes,
            f"where a pilot says what is needed, its people count as without a defence; without "
            f"them the leaks are {', '.join(f'{one.outside:.2f}' for one in points)}",
        )
    plain = found[NO_DEFENCE]
    return Curve(
        name=family.name,
        strength=family.strength,
        x=tuple(x for x, _ in family.defences.values()),
        leak=tuple(one.leak for one in points),
        leak_name=_LEAK,
        utility=tuple(100 * one.growth for one in points),
        utility_name=_GROWTH,
        low=tuple(one.ends[0] for one in points),
        high=tuple(one.ends[1] for one in points),
        worst=tuple(one.worst for one in points),
        floor=0.0,
        without=(plain.leak, 100 * plain.growth),
        goal=(settings.most_leak, 100 * settings.growth),
        labels=tuple(family.defences),
        notes=notes,
    )
