"""What completion is worth to a classifier: credit default told from one's own view and from all.

A lender knows the demographics of every client; bills, payments and their status are with others,
who know half of the clients each. A classifier is trained on some clients and serves others, who
come later and are completed by the model that was learned before.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cofill.completion import make
from cofill.metrics import Recorder
from cofill.views import MultiView, drop_rows, load
from cofill_papers import table

HOME_VIEW = "demo"
# Ridge links and few trees: what takes seconds on one core. Networks take a minute a seed.
METHODS: dict[str, dict[str, Any]] = {
    "cooperative": {"fusion": {"hidden": ()}},
    "pooled": {"effort": "quick"},
    "mean": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one seed, few clients")
    options = parser.parse_args()
    clients, later = (600, 600) if options.quick else (2_000, 4_000)
    seeds = [0] if options.quick else [0, 1, 2]
    settings = {
        "data": "credit",
        "own": HOME_VIEW,
        "clients": clients,
        "later": later,
        "missing": 0.5,
    }
    settings["methods"] = METHODS
    recorder = Recorder("bench_predict", seeds=seeds, settings=settings)
    data = load("credit")
    scores: dict[tuple[str, str], list[float]] = {}
    for seed in seeds:
        chosen = np.random.default_rng(seed).permutation(data.views.n_individuals)
        chosen = chosen[: clients + later]
        views, labels = data.views.take(chosen), np.asarray(data.labels)[np.sort(chosen)]
        is_later = np.random.default_rng([seed, 1]).permutation(len(chosen)) >= clients
        for key, score in _scores(views, labels, is_later, seed).items():
            scores.setdefault(key, []).append(score)
    for (cells, classifier), values in scores.items():
        recorder.add(cells, "auc", classifier, values)
    record = recorder.finish()
    print(table(record, metrics=["auc"]))
    if options.out:
        record.write(options.out)


def _scores(
    views: MultiView, labels: np.ndarray, is_later: np.ndarray, seed: int
) -> dict[tuple[str, str], float]:
    """Return areas under the ROC curve among later clients, by what is known and classifier."""
    others = [name for name in views if name != HOME_VIEW]
    holed, _ = drop_rows(views, 0.5, key=seed, names=others)
    cells = {
        "own": views.aligned(HOME_VIEW),
        "holes": _columns({name: holed.aligned(name) for name in views}),
        "all": _columns({name: views.aligned(name) for name in views}),
    }
    for method, parameters in METHODS.items():
        model = make(method, **parameters).fit(holed.take(~is_later))
        filled = np.empty(cells["all"].shape)
        for people in (~is_later, is_later):
            filled[people] = _columns(model.complete(holed.take(people)).cells)
        cells[method] = filled
    return {
        (name, classifier): _auc(model, values, labels, is_later)
        for name, values in cells.items()
        for classifier, model in _classifiers(seed).items()
        if classifier == "boosting" or name != "holes"
    }


def _classifiers(seed: int) -> dict[str, Any]:
    """Return a classifier that needs every cell, and one that takes holes as they are."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    scores = QuantileTransformer(n_quantiles=100, output_distribution="normal")
    return {
        "logistic": make_pipeline(scores, LogisticRegression(C=0.1, max_iter=500)),
        "boosting": HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=120, max_leaf_nodes=12, random_state=seed
        ),
    }


def _columns(cells: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.hstack([np.asarray(part, dtype=np.float64) for part in cells.values()])


def _auc(model: Any, cells: np.ndarray, labels: np.ndarray, is_later: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    model.fit(cells[~is_later], labels[~is_later])
    return float(roc_auc_score(labels[is_later], model.predict_proba(cells[is_later])[:, 1]))


if __name__ == "__main__":
    main()
