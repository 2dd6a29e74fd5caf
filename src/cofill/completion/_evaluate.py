"""How well would these holes be filled? Hide rows that are known, complete, compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cofill.completion._completed import Completed
from cofill.completion._completer import AbstractCompleter, Progress
from cofill.completion._distributions import Agreement
from cofill.errors import DataError, SettingError
from cofill.metrics import (
    Recorder,
    ResultRecord,
    accuracy,
    mrd_per_feature,
    mse_per_feature,
    r2_per_feature,
)
from cofill.views import Kind, MultiView, Scaler, drop_rows

_NUMERIC_METRICS = {"mse": mse_per_feature, "r2": r2_per_feature, "mrd": mrd_per_feature}


def evaluate(
    views: MultiView,
    completers: Mapping[str, Callable[[int], AbstractCompleter]],
    *,
    share: float = 0.1,
    seeds: Sequence[int] = (0, 1, 2),
    name: str = "evaluation",
    progress: Progress | None = None,
) -> ResultRecord:
    """Hide a share of each view's known rows, complete them by each method, and score.

    Every method sees the same holes: those the views have and the hidden rows. Scores are of
    hidden rows only: standardised mean squared error (``mse``, 1 is as good as the mean), R²
    (``r2``) and mean relative difference (``mrd``) of numeric features, ``accuracy`` of binary and
    categorical ones.

    Parameters
    ----------
    views
        The data, with or without holes.
    completers
        Per name, a function that makes the completer from a seed.
    share
        Share of each view's rows to hide. An individual is never hidden from all its views.
    seeds
        One repeat per seed: other rows hidden, other initial weights.
    progress
        Called with what is being done and the share done.

    Returns
    -------
    ResultRecord
        Per-view scores, per-feature scores under ``extra["features"]`` and, under
        ``extra["agreement"]``, how many hidden cells of which value the first method filled with
        which (see `Agreement`).
    """
    if not 0 < share < 1:
        raise SettingError(f"share must be between 0 and 1, got {share}")
    if len(views) < 2:
        raise DataError("there is one view only; rows can be hidden and filled from two views on")
    recorder = Recorder(name, settings={"share": share, "methods": list(completers)}, seeds=seeds)
    features: dict[str, dict[str, dict[str, list[float]]]] = {}
    first, agreement = next(iter(completers)), Agreement()
    done, total = 0, len(seeds) * len(completers)
    for seed in seeds:
        holed, hidden = drop_rows(views, share, key=seed)
        for method, make in completers.items():
            if progress is not None:
                progress(f"evaluate {method}", done / total)
            completed = make(seed).fit_complete(holed)
            if method == first:
                agreement.add(completed, views, hidden)
            for view, scores in score_completed(completed, views, hidden).items():
                for metric, values in scores.items():
                    known = [v for v in values.values() if not np.isnan(v)]
                    if known:
                        recorder.add(method, metric, view, float(np.mean(known)), seed=seed)
                    for feature, value in values.items():
                        place = features.setdefault(f"{method}/{metric}", {}).setdefault(view, {})
                        place.setdefault(feature, []).append(value)
            done += 1
    if progress is not None:
        progress("evaluated", 1.0)
    means = {
        key: {view: {f: _mean(values) for f, values in per.items()} for view, per in places.items()}
        for key, places in features.items()
    }
    recorder.note("features", means)
    recorder.note("agreement", {"method": first, **agreement.to_json()})
    return recorder.finish()


def score_completed(
    completed: Completed, truth: MultiView, hidden: Mapping[str, np.ndarray]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``{view: {metric: {feature: value}}}`` over the hidden rows.

    `hidden` marks, per view, the individuals of ``truth.ids`` whose row was hidden. Numeric cells
    are standardised by the rows that were left, as a method without the hidden rows would.
    """
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for name, mask in hidden.items():
        view = truth[name]
        if not mask.any():
            continue
        actual, guess = completed.beside(truth, name, mask)
        left = completed.source[name]
        # A cell that a method leaves empty is scored as if the mean had been filled in.
        guess = np.where(np.isnan(guess), left.typical(), guess)
        numeric = [k for k, f in enumerate(view.features) if f.kind is Kind.NUMERIC]
        coded = [k for k, f in enumerate(view.features) if f.kind is not Kind.NUMERIC]
        out: dict[str, dict[str, float]] = {}
        if numeric:
            columns = [view.feature_names[k] for k in numeric]
            scaler = Scaler.fit(left.select(columns))
            scaled = [
                scaler.encode(cells[:, numeric].astype(np.float64)) for cells in (actual, guess)
            ]
            for metric, function in _NUMERIC_METRICS.items():
                values = function(*scaled)
                out[metric] = dict(zip(columns, map(float, values), strict=True))
        if coded:
            out["accuracy"] = {
                view.feature_names[k]: float(accuracy(actual[:, k], guess[:, k])) for k in coded
            }
        scores[name] = out
    return scores


def _mean(values: Sequence[float]) -> float | None:
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else None
