"""How well would these holes be filled? Hide rows and cells that are known, complete, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cofill.completion._completed import Completed
from cofill.completion._completer import AbstractCompleter
from cofill.completion._distributions import Agreement
from cofill.completion._progress import Progress
from cofill.errors import DataError, SettingError
from cofill.metrics import (
    Recorder,
    ResultRecord,
    accuracy,
    mrd_per_feature,
    mse_per_feature,
    r2_per_feature,
)
from cofill.views import Kind, MultiView, Scaler, drop_cells, drop_rows

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
    """Hide a share of what is known as it is missing now, complete it by each method, and score.

    Of several views rows are hidden; of views with missing cells, and of a single view, cells,
    in the patterns of the view's own holes. Every method sees the same holes. Scores are of hidden
    rows: standardised mean squared error (``mse``, 1 is as good as the mean), R² (``r2``) and mean
    relative difference (``mrd``) of numeric features, ``accuracy`` of binary and categorical ones;
    and, named ``cell_mse`` and so on, of hidden cells in rows whose other cells are known.

    Parameters
    ----------
    views
        The data, with or without holes.
    completers
        Per name, a function that makes the completer from a seed.
    share
        Share of each view's rows, and of its cells, to hide. An individual is never hidden from
        all its views, and no row loses all its cells.
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
    recorder = Recorder(name, settings={"share": share, "methods": list(completers)}, seeds=seeds)
    features: dict[str, dict[str, dict[str, list[float]]]] = {}
    first, agreement = next(iter(completers)), Agreement()
    done, total = 0, len(seeds) * len(completers)
    for seed in seeds:
        holed, hidden = hide_known(views, share, seed)
        for method, make in completers.items():
            if progress is not None:
                progress(f"evaluate {method}", done / total)
            completed = make(seed).fit_complete(holed)
            if method == first:
                agreement.add(completed, views, hidden.get("", hidden.get("cell_", {})))
            for prefix, view, metric, values in _scores(completed, views, hidden):
                known = [v for v in values.values() if not np.isnan(v)]
                if known:
                    recorder.add(method, prefix + metric, view, float(np.mean(known)), seed=seed)
                by_view = features.setdefault(f"{method}/{prefix}{metric}", {})
                for feature, value in values.items():
                    by_view.setdefault(view, {}).setdefault(feature, []).append(value)
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


def hide_known(
    views: MultiView, share: float, seed: int
) -> tuple[MultiView, dict[str, dict[str, np.ndarray]]]:
    """Return views with further holes and, for rows (``""``) and cells (``"cell_"``), what is gone.

    Hidden rows mark individuals of ``views.ids``, hidden cells mark them and features.
    """
    holed, hidden = views, {}
    if len(views) > 1:
        holed, hidden[""] = drop_rows(views, share, key=seed)
    partial = [n for n, v in views.items() if v.n_missing_cells or len(views) == 1]
    partial = [n for n in partial if views[n].n_features > 1]
    if partial:
        rates = {n: min(share, _spare(holed[n].cells)) for n in partial}
        left, masks = drop_cells(holed, rates, mechanism="copied", key=seed)
        cells = {}
        for name in partial:
            cells[name] = np.zeros((views.n_individuals, views[name].n_features), dtype=bool)
            cells[name][np.searchsorted(views.ids, holed[name].ids)] = masks[name]
        holed, hidden["cell_"] = left, cells
    if not hidden:
        raise DataError("there is one column only; nothing is known of whom it is hidden from")
    return holed, hidden


def _spare(cells: np.ndarray) -> float:
    """Return the share of known cells that can go while every row keeps one."""
    known = int((~np.isnan(cells)).sum())
    return 0.9 * (known - len(cells)) / max(known, 1)


def _scores(
    completed: Completed, truth: MultiView, hidden: Mapping[str, Mapping[str, np.ndarray]]
) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    for prefix, masks in hidden.items():
        for view, scores in score_completed(completed, truth, masks).items():
            for metric, values in scores.items():
                yield prefix, view, metric, values


def score_completed(
    completed: Completed, truth: MultiView, hidden: Mapping[str, np.ndarray]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``{view: {metric: {feature: value}}}`` over the hidden rows or cells.

    `hidden` marks, per view, the individuals of ``truth.ids`` whose row was hidden, or their cells
    (see `Completed.beside`). Numeric cells
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
