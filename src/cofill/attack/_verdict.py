"""How right guesses are, beside floor and ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy.special import betaincinv
from sklearn.cluster import KMeans

from cofill.metrics import clustering_accuracy

__all__ = ["exact_interval", "judge_guesses"]


def exact_interval(right: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper–Pearson interval of a share.

    Examples
    --------
    >>> [round(end, 4) for end in exact_interval(0, 10)]
    [0.0, 0.3085]
    """
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else float(betaincinv(right, count - right + 1, tail))
    high = 1.0 if right == count else float(betaincinv(right + 1, count - right, 1 - tail))
    return low, high


def judge_guesses(
    records: Float[np.ndarray, "records features"],
    truth: Shaped[np.ndarray, " records"],
    guesses: Shaped[np.ndarray, " records"],
    groups: Mapping[str, Bool[np.ndarray, " records"]],
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the accuracy in each group with its interval, beside what anybody and a judge have.

    The floor is the larger class and as many clusters as classes under the best naming; the
    ceiling is logistic regression with all labels, cross-validated.
    """
    found: dict[str, Any] = {}
    right = guesses == truth
    for name, chosen in groups.items():
        if chosen.any():
            count, hits = int(chosen.sum()), int(right[chosen].sum())
            low, high = exact_interval(hits, count)
            found[name] = {
                "individuals": count,
                "accuracy": round(hits / count, 4),
                "interval_95": [round(low, 4), round(high, 4)],
            }
    _, counts = np.unique(truth, return_counts=True)
    clusters: Any = KMeans(len(counts), n_init=10, random_state=seed)  # pyright: ignore[reportArgumentType]
    found["floor"] = {
        "larger_class": round(float(counts.max() / counts.sum()), 4),
        "clusters": round(clustering_accuracy(truth, clusters.fit_predict(records)), 4),
    }
    found["ceiling"] = {"supervised": round(_supervised(records, truth, int(counts.min())), 4)}
    return found


def _supervised(records: np.ndarray, truth: np.ndarray, fewest: int) -> float:
    """Return the cross-validated accuracy of logistic regression with all labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = min(5, fewest)
    if folds < 2:
        return float(np.unique(truth, return_counts=True)[1].max() / len(truth))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    return float(np.mean(cross_val_predict(model, records, truth, cv=split) == truth))
