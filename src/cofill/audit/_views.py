"""What defences of codes would cost, before any code is sent.

Parties that plan to complete their views by codes try every defence at several strengths on their
own people. Half of the people choose the defence, the other half give the figures that are
reported, so that no figure is of people it was chosen by.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from cofill.audit._audit import Audit
from cofill.audit._code_trial import TradeOff, least_inferred, weigh_defences
from cofill.audit._least_leak import least_leaks
from cofill.audit._view_trial import (
    NO_DEFENCE,
    DefenceFigures,
    Family,
    Trial,
    ViewAuditSettings,
    families_of,
    keep_whole_people,
    split_people,
)
from cofill.completion import silent
from cofill.cooperate import CodeDefence
from cofill.pages import Curve
from cofill.views import MultiView

Figures = Mapping[str, DefenceFigures]
"""What each defence came to, by its name."""

_LEAK = "R² of the row behind a code, mean over views"
_GROWTH = "growth of the error of completed rows, %"


def audit_views(
    views: MultiView,
    *,
    settings: ViewAuditSettings | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Audit:
    """Say what codes of views would give away, and what each defence would cost.

    Parameters
    ----------
    views
        Views of the same people; those whom every view knows without an empty cell are used.
    settings
        Defences, strengths and what is asked of them.
    progress
        Told what is done and the share done.

    Returns
    -------
    Audit
        A release for each view's codes without a defence, a curve for each kind of defence, and in
        ``choice`` the defence with the least leak that costs no more than allowed.

    Raises
    ------
    DataError
        If there are fewer than two views, too few people whom all of them know, or nothing to
        measure an error by.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.attack import DecoderSettings
    >>> from cofill.audit import TrialSettings
    >>> from cofill.nets import FusionSettings, TrainSettings
    >>> linear = DecoderSettings(folds=2, repeats=1, fusion=FusionSettings(hidden=()))
    >>> trial = TrialSettings(encoders=TrainSettings(epochs=20), attack=linear)
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(120, 2))
    >>> views = MultiView.from_arrays({
    ...     v: np.hstack([common, rng.normal(size=(120, 2))]) for v in ("lab", "ward")})
    >>> quick = ViewAuditSettings(widths=(0.5,), epsilons=(), bits=(), prices=(), trial=trial)
    >>> audit = audit_views(views, settings=quick)
    >>> [release.sender for release in audit.releases], [curve.name for curve in audit.curves]
    (['lab', 'ward'], ['narrower codes'])
    """
    settings = settings or ViewAuditSettings()
    report_progress = progress or silent
    started = time.perf_counter()
    complete_views, notes = keep_whole_people(views, settings)
    turns, chooses = split_people(complete_views, settings)
    held = turns[0]
    pilot = settings.pilot_of(held.train.n_individuals)
    families = families_of(settings, pilot)
    defences = {n: d for family in families for n, (_, d) in family.defences.items()}
    trial = Trial(turns, chooses, pilot, settings)
    halves = trial.run(
        {NO_DEFENCE: CodeDefence(), **defences}, lambda s: report_progress("trying defences", s)
    )
    choice, change, conclusion = choose(*halves, defences, settings)
    choosers, judges = (part.size for part in trial.asked)
    split_notes = (
        f"Half of the people chose the defence (of them {choosers} were held out, and completed); "
        f"all figures here are of the other half (of them {judges} were held out).",
    )
    least = least_leaks(held.train, [float(settings.growth)])[0].get("all")
    inferred = halves[1][NO_DEFENCE].inferred
    return Audit(
        title="Codes of views, before they are sent",
        releases=tuple(trial.releases(change, split_notes)),
        curves=tuple(curve_of(family, halves[1], settings, split_notes) for family in families),
        settings={
            "audit": "views",
            **{k: v for k, v in vars(settings).items() if k != "trial"},
            "pilot": pilot,
            "people": complete_views.n_individuals,
            "held_out": choosers + judges,
            "turns": len(turns),
        },
        choice={
            **choice,
            "least_leak": least,
            "inferred_at_growth": least_inferred(settings.growth, inferred),
        },
        notes=(conclusion, *limits(inferred, least, settings), *notes),
        duration_s=time.perf_counter() - started,
    )


def choose(
    first: Figures,
    second: Figures,
    defences: Mapping[str, CodeDefence],
    settings: ViewAuditSettings,
) -> tuple[dict[str, Any], str, str]:
    """Choose by the first half what is advised; tell what it comes to in the second."""
    weighed = weigh_defences(
        {n: f.point for n, f in first.items()}, settings.most_leak, settings.growth
    )
    advised = weighed.within
    best_figures = second[weighed.best]
    reached = best_figures.leak < settings.most_leak and best_figures.growth < settings.growth
    choice = {
        "advised": advised,
        "defence": _changed(defences.get(advised, CodeDefence())),
        **_figures(second[advised]),
        "reached": reached,
        "best": {
            "name": weighed.best,
            "defence": _changed(defences.get(weighed.best, CodeDefence())),
            **_figures(best_figures),
        },
        "frontier": list(weighed.frontier),
    }
    change = _advice(advised, second, defences, settings)
    return choice, change, _conclusion(weighed, reached, first, second, settings)


def _figures(figures: DefenceFigures) -> dict[str, Any]:
    names = ("leak", "worst_leak", "leak_outside_pilot", "growth", "growth_interval", "inferred")
    return {name: getattr(figures, name) for name in names}


def _changed(defence: CodeDefence) -> dict[str, Any]:
    """Return the settings of a defence that are not the usual ones."""
    usual = asdict(CodeDefence())
    return {name: value for name, value in asdict(defence).items() if value != usual[name]}


def _advice(
    advised: str, second: Figures, defences: Mapping[str, CodeDefence], settings: ViewAuditSettings
) -> str:
    allowed = f"{100 * settings.growth:g} %"
    if advised == NO_DEFENCE:
        return (
            f"No defence tried here leaks less at a growth of the error of at most {allowed}: "
            "send codes to fewer receivers and of fewer people, or accept a larger error."
        )
    table = json.dumps(_changed(defences[advised]))
    figures = second[advised]
    pilot = defences[advised].pilot
    exposed = f", the {pilot} people of the pilot counted as without a defence" if pilot else ""
    beyond = (
        f"; that is above the {allowed} that was allowed, which it kept among those who chose it"
        if figures.growth > settings.growth
        else ""
    )
    return (
        f"Of the defences tried, --set 'defence={table}' (of cofill complete --separate --method "
        f"cooperative) leaks least at a growth of the error of at most {allowed}: "
        f"{figures.words}{exposed}, where without a defence it is R² "
        f"{second[NO_DEFENCE].leak:.2f}{beyond}."
    )


def _conclusion(
    weighed: TradeOff, reached: bool, first: Figures, second: Figures, settings: ViewAuditSettings
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

    ``inferred`` is the share of the rows that is inferred without a defence, ``least`` the least
    leak to a receiver with all codes where regressions are linear; None for too few people.
    """
    growth = f"a growth of the error of {100 * settings.growth:g} %"
    sentences = []
    inferred_then = least_inferred(settings.growth, inferred)
    if inferred_then >= settings.most_leak:
        sentences.append(
            "Whatever the codes are: what completes a row gives it away. Who has a person's codes "
            "from all views but one, and as many pairs as the parties learn from, completes that "
            f"view's row as they do, without its code: at {growth} R² {inferred_then:.2f}. Against "
            "such a receiver the goal is out of reach; the figures above are of one view's codes "
            "alone."
        )
    if least is not None and least >= settings.most_leak:
        sentences.append(
            "Where regressions are linear, a receiver who puts all codes that it gets together "
            f"explains at least R² {least:.2f} of the rows behind them at {growth}."
        )
    return sentences


# --- curves ---------------------------------------------------------------------------------------


def curve_of(
    family: Family, figures: Figures, settings: ViewAuditSettings, notes: tuple[str, ...]
) -> Curve:
    points = [figures[name] for name in family.defences]
    if any(defence.pilot for _, defence in family.defences.values()):
        outside = ", ".join(f"{point.leak_outside_pilot:.2f}" for point in points)
        notes = (
            *notes,
            "where a pilot says what is needed, its people count as without a defence; without "
            f"them the leaks are {outside}",
        )
    plain = figures[NO_DEFENCE]
    return Curve(
        name=family.name,
        strength=family.strength,
        x=tuple(x for x, _ in family.defences.values()),
        leak=tuple(point.leak for point in points),
        leak_name=_LEAK,
        utility=tuple(100 * point.growth for point in points),
        utility_name=_GROWTH,
        low=tuple(point.interval[0] for point in points),
        high=tuple(point.interval[1] for point in points),
        worst=tuple(point.worst_leak for point in points),
        floor=0.0,
        without=(plain.leak, 100 * plain.growth),
        goal=(settings.most_leak, 100 * settings.growth),
        labels=tuple(family.defences),
        notes=notes,
    )
