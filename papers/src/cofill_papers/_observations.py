"""What single experiments look at beside errors: masks, noise, digits, subtypes.

An observation is a function ``(notebook, repeat, outcome)`` that is called once per repeat and
method, and writes figures to the recorder or sums to the notes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cofill.cooperate import masks_by_iteration, masks_in_closed_form
from cofill.metrics import accuracy, mrd
from cofill_papers._comparison import paper_forest
from cofill_papers._crs import Notebook, Outcome, Repeat

__all__ = [
    "collect_masks",
    "covered",
    "cube_masks",
    "digit_pictures",
    "informative_features",
    "mean_masks",
    "noise_is_flagged",
    "printed_iteration",
    "relative_differences",
    "subtypes",
]

LEVEL = 0.9
"""Level of the intervals whose coverage is measured."""

NEAR_ZERO = {"mrd_all": 0.0, "mrd_0.001": 0.001, "mrd_0.1": 0.1}
"""Other bounds than 0.01 below which a true value is left out of the MRD, by metric."""

ITERATIONS = 1_000
"""After which Eq. 8 counts as one that does not converge."""

RELATED = 0.3
"""Absolute correlation from which two features of Madelon count as related."""


def collect_masks(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Sum up each method's masks over the repeats."""
    if outcome.fitted.masks is None:
        return
    sums = notebook.notes.setdefault("mask_sums", {}).setdefault(outcome.method, {})
    for view, sources in outcome.fitted.masks.items():
        for source, weights in sources.items():
            total = sums.setdefault(view, {}).setdefault(source, {})
            for feature, weight in weights.items():
                # Where views are drawn anew, a feature is not in the same view every time.
                count, before = total.get(feature, (0, 0.0))
                total[feature] = count + 1, before + weight


def mean_masks(notebook: Notebook) -> dict[str, Any]:
    """Return the mean masks ``{method: {view: {source: {feature: weight}}}}``, and forget sums."""
    sums = notebook.notes.pop("mask_sums", {})
    return {
        method: {
            view: {
                source: {f: round(w / count, 6) for f, (count, w) in weights.items()}
                for source, weights in sources.items()
            }
            for view, sources in views.items()
        }
        for method, views in sums.items()
    }


def covered(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record the share of hidden numeric cells that lie in their interval, and its mean width.

    Widths are in standardised units, as the errors are. Only methods with intervals of their own
    take part, and of the cooperative ones only `best`: the paper's has in-sample residuals.
    """
    if outcome.method != "best":
        return
    for view, asked in repeat.tests.items():
        lower, upper = outcome.fitted.estimator.intervals(asked, view, LEVEL)
        known = ~np.isnan(lower) & ~np.isnan(repeat.truth[view])
        if not known.any():
            continue
        inside = (lower <= repeat.truth[view]) & (repeat.truth[view] <= upper)
        width = repeat.standardised(view, upper) - repeat.standardised(view, lower)
        record = notebook.recorder.add
        record("best", "coverage", f"view_{view}", float(inside[known].mean()), seed=repeat.seed)
        record("best", "width", f"view_{view}", float(np.nanmean(width)), seed=repeat.seed)


def cube_masks(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record the masks of shared and of other features (Table III).

    A feature is shared with a source when the source sees the same coordinate. The figure of the
    others is the mean absolute weight, since weights of both signs would cancel.
    """
    if outcome.fitted.masks is None:
        return
    shared, other = [], []
    for sources in outcome.fitted.masks.values():
        for source, weights in sources.items():
            known = set(repeat.train[source].feature_names)
            for feature, weight in weights.items():
                (shared if feature in known else other).append(weight)
    record = notebook.recorder.add
    record(outcome.method, "mask_shared", "all", float(np.mean(shared)), seed=repeat.seed)
    record(outcome.method, "mask_nonshared", "all", float(np.mean(np.abs(other))), seed=repeat.seed)


def relative_differences(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record Eq. 10 with other bounds near zero, and the median ratio, which needs none."""
    for view, cells in outcome.cells.items():
        if not repeat.held_out.scalers[view][0]:
            continue
        true, guess = (repeat.standardised(view, c) for c in (repeat.truth[view], cells))
        unit = np.ones(true.shape[1])
        scores = {m: mrd(true, guess, scale=unit, near_zero=b) for m, b in NEAR_ZERO.items()}
        known = np.abs(true) > 0
        scores["mrd_median"] = float(np.median(np.abs(guess - true)[known] / np.abs(true)[known]))
        for metric, value in scores.items():
            notebook.recorder.add(outcome.method, metric, f"view_{view}", value, seed=repeat.seed)


def printed_iteration(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record for how many features Eq. 8 converges in the order that is printed.

    All other weights are those of the last round. ``eq8_converges`` is the share of a view's
    features whose masks are then those of least error.
    """
    if outcome.method != "mwm":
        return
    for view, site in outcome.fitted.estimator.sites_.items():
        statistics = site.model.statistics
        with np.errstate(all="ignore"):
            reached, _ = masks_by_iteration(statistics, max_iterations=ITERATIONS, at_once=True)
        off = np.abs(reached - masks_in_closed_form(statistics)).max(axis=0)
        share = float(np.mean(off < 1e-3))
        notebook.recorder.add("mwm", "eq8_converges", f"view_{view}", share, seed=repeat.seed)


def informative_features(repeat: Repeat) -> set[str]:
    """Find Madelon's informative features without labels.

    Fifteen of the twenty are combinations of the other five, while probes are independent noise:
    a feature is informative when it correlates with any other one. On the 2,600 points the twenty
    have a largest correlation of at least 0.69, and no probe reaches 0.10.
    """
    views = repeat.data.views
    names = [f for v in views for f in views[v].feature_names]
    together = np.abs(np.corrcoef(np.hstack([views.aligned(v) for v in views]), rowvar=False))
    np.fill_diagonal(together, 0.0)
    return {n for n, most in zip(names, together.max(axis=1), strict=True) if most > RELATED}


def noise_is_flagged(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record whether reconstructability tells Madelon's informative features from its probes.

    ``informative_auc`` is the chance that an informative feature has a higher score than a probe;
    ``probes_flagged`` and ``informative_flagged`` are the shares below the estimator's threshold.
    """
    import narwhals as nw
    from sklearn.metrics import roc_auc_score

    frame = getattr(outcome.fitted.estimator, "reconstructability_", None)
    if frame is None:
        return
    rows = nw.from_native(frame, eager_only=True).rows(named=True)
    score = {str(r["feature"]): float(r["r2"]) for r in rows if r["source"] == "all"}
    informative = informative_features(repeat)
    true = np.array([name in informative for name in score])
    r2 = np.nan_to_num(np.array(list(score.values())), nan=-1.0)
    below = r2 < outcome.fitted.estimator.threshold
    record = notebook.recorder.add
    for metric, value in (
        ("informative_auc", roc_auc_score(true, r2)),
        ("probes_flagged", below[~true].mean()),
        ("informative_flagged", below[true].mean()),
    ):
        record(outcome.method, metric, "all", float(value), seed=repeat.seed)


def digit_pictures(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Keep each class's best and worst reconstructed digit of the first repeat (Fig. 7 and 8).

    Best and worst are by the squared error of the first method seen, so that all methods show the
    same digits.
    """
    if repeat.seed != notebook.recorder.seeds[0] or "pix" not in outcome.cells:
        return
    if outcome.method not in ("mwm", "best", "central", "mean"):
        return
    true, reconstructed = repeat.truth["pix"], outcome.cells["pix"]
    digits = notebook.notes.setdefault("digits", {})
    if not digits:
        digits["shape"] = list(repeat.train["pix"].image_shape or (true.shape[1], 1))
        digits["by"] = outcome.method
        order = np.argsort(((true - reconstructed) ** 2).mean(axis=1), kind="stable")
        labels = repeat.labels(repeat.tests["pix"].ids)
        for part, ranked in (("best", order), ("worst", order[::-1])):
            classes, first = np.unique(labels[ranked], return_index=True)
            rows = ranked[first]
            digits[part] = {
                "rows": rows.tolist(),
                "names": [repeat.data.class_names[c] for c in classes],
                "original": true[rows].tolist(),
            }
    for part in ("best", "worst"):
        digits[part][outcome.method] = reconstructed[digits[part]["rows"]].round(2).tolist()


def subtypes(notebook: Notebook, repeat: Repeat, outcome: Outcome) -> None:
    """Record what completed protein rows are worth for the individuals who never had one.

    The paper's forest is trained on the individuals whose protein row is known, and classifies
    those without: by the completed protein alone (``rf_missing``), and by all views with it
    (``rf_missing_joint``). The forest without protein, on mRNA and microRNA, is ``without``.
    """
    views, train = repeat.data.views, repeat.train
    never = ~views.present("protein")
    ids = views.ids[never]
    if not len(ids):
        return
    without = views.take(never)
    completed = np.array(outcome.fitted.reconstruct(without, "protein"), dtype=np.float64)
    completed = np.where(np.isnan(completed), np.nanmean(train["protein"].cells, axis=0), completed)
    known = train["protein"].ids
    other_views = [v for v in views if v != "protein"]
    learned, asked = (
        np.hstack([views[v].cells[views[v].positions(who)] for v in other_views])
        for who in (known, ids)
    )
    y, truth = repeat.labels(known), repeat.labels(ids)

    def reached(rows: np.ndarray, tested: np.ndarray) -> float:
        return accuracy(truth, paper_forest(repeat.seed).fit(rows, y).predict(tested))

    if notebook.first("without protein", repeat.seed):
        alone = reached(learned, asked)
        for metric in ("rf_missing", "rf_missing_joint"):
            notebook.recorder.add("without", metric, "all", alone, seed=repeat.seed)
    protein = train["protein"].cells
    record = notebook.recorder.add
    record(outcome.method, "rf_missing", "all", reached(protein, completed), seed=repeat.seed)
    joint = reached(np.hstack([learned, protein]), np.hstack([asked, completed]))
    record(outcome.method, "rf_missing_joint", "all", joint, seed=repeat.seed)
