"""What defences of codes would cost, before any code is sent.

Parties that plan to complete their views by codes try every defence at several strengths on their
own people. Half of the people choose the defence, the other half give the figures that are
reported, so that no figure is of people it was chosen by.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cofill.audit._audit import Audit
from cofill.audit._code_trial import least_inferred
from cofill.audit._least_leak import least_leak
from cofill.audit._view_choice import choose, curve_of, limits
from cofill.audit._view_settings import ViewAuditSettings, families_of
from cofill.audit._view_trial import NO_DEFENCE, Trial, keep_whole_people, split_people
from cofill.completion import silent
from cofill.cooperate import CodeDefence
from cofill.views import MultiView


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
    least = least_leak(held.train, float(settings.growth)).get("all")
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
