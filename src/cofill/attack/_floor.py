"""Floor and ceiling of attacks on means: K-means, and logistic regression with every label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Shaped
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cofill.attack._base import AbstractMeanAttack
from cofill.attack._inputs import Records, ReleasedMean, check_records
from cofill.attack._leak import exact_interval
from cofill.metrics import clustering_accuracy


@dataclass(kw_only=True, eq=False, repr=False)
class KMeansFloor(AbstractMeanAttack):
    """K-means with two clusters; the one whose centre is nearer to the mean is taken for positive.

    Parameters
    ----------
    seed
        Of K-means' starts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> floor = KMeansFloor().fit(x, mean=x[positive].mean(axis=0), prior=0.5)
    >>> bool((floor.labels_ == positive).mean() > 0.95)
    True
    """

    name: ClassVar[str] = "K-means"
    accepts_sparse: ClassVar[bool] = True

    seed: int = 0

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        centres = _cluster(records, 2, self.seed).cluster_centers_
        nearer = ((centres - released.mean) ** 2).sum(axis=1).argsort()
        self.centres_: Float[np.ndarray, "2 features"] = centres[nearer]

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        squares = euclidean_distances(records, self.centres_, squared=True).astype(np.float64)
        total = squares.sum(axis=1)
        return np.where(total > 0, squares[:, 1] / np.where(total > 0, total, 1.0), 0.5)


def kmeans_accuracy(
    records: Any, labels: Shaped[np.ndarray, " records"], *, seed: int = 0
) -> float:
    """Return the accuracy of as many clusters as classes, under the best naming of the clusters.

    Without a mean nobody can tell which cluster is which; this grants the best guess.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> kmeans_accuracy(x, np.array([True, True, False, False]))
    1.0
    """
    rows = check_records(records, sparse_allowed=True)
    clusters = _cluster(rows, len(np.unique(labels)), seed)
    return clustering_accuracy(labels, clusters.labels_)


def judge_guesses(
    records: Float[np.ndarray, "records features"],
    truth: Shaped[np.ndarray, " records"],
    guesses: Shaped[np.ndarray, " records"],
    groups: Mapping[str, Bool[np.ndarray, " records"]],
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the accuracy in each group with its interval, beside floor and ceiling.

    The floor is the larger class, and as many clusters as classes under the best naming; the
    ceiling is logistic regression with all labels, cross-validated.
    """
    judged: dict[str, Any] = {}
    right = guesses == truth
    for name, chosen in groups.items():
        if chosen.any():
            count, hits = int(chosen.sum()), int(right[chosen].sum())
            low, high = exact_interval(hits, count)
            judged[name] = {
                "individuals": count,
                "accuracy": round(hits / count, 4),
                "interval_95": [round(low, 4), round(high, 4)],
            }
    _, counts = np.unique(truth, return_counts=True)
    larger = float(counts.max() / counts.sum())
    judged["floor"] = {
        "larger_class": round(larger, 4),
        "clusters": round(kmeans_accuracy(records, truth, seed=seed), 4),
    }
    folds = min(5, int(counts.min()))
    supervised = larger if folds < 2 else _supervised_accuracy(records, truth, folds)
    judged["ceiling"] = {"supervised": round(supervised, 4)}
    return judged


def _cluster(records: Records, clusters: int, seed: int) -> Any:
    # Ten starts, of which the tightest clusters are kept: one may end in a poor optimum.
    model = KMeans(n_clusters=clusters, n_init=10, random_state=seed)  # pyright: ignore[reportArgumentType]
    return model.fit(records)


def _supervised_accuracy(records: np.ndarray, truth: np.ndarray, folds: int) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    return float(np.mean(cross_val_predict(model, records, truth, cv=split) == truth))
