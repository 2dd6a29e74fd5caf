"""The floor: what somebody guesses who looks for two groups and knows next to nothing else."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from cofill.attack._base import AbstractMeanAttack, Noise, Records, check_records
from cofill.metrics import clustering_accuracy

__all__ = ["KMeansFloor", "kmeans_accuracy"]


class KMeansFloor(AbstractMeanAttack):
    """K-means with two clusters; the one whose centre is nearer to the mean is taken for positive.

    Parameters
    ----------
    starts
        How often K-means starts anew; the tightest clusters are kept.
    seed
        Of the starts.

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

    centres_: Float[np.ndarray, "2 features"]

    def __init__(self, *, starts: int = 10, seed: int = 0) -> None:
        self.starts = starts
        self.seed = seed

    def _fit(
        self,
        records: Records,
        mean: Float[np.ndarray, " features"],
        prior: float,
        noise: Noise | None,
    ) -> None:
        centres = _two_means(records, self.starts, self.seed).cluster_centers_
        nearer = ((centres - mean) ** 2).sum(axis=1).argsort()
        self.centres_ = centres[nearer]

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        squares = euclidean_distances(records, self.centres_, squared=True).astype(np.float64)
        whole = squares.sum(axis=1)
        return np.where(whole > 0, squares[:, 1] / np.where(whole > 0, whole, 1.0), 0.5)


def kmeans_accuracy(
    records: Any, labels: Bool[np.ndarray, " records"], *, starts: int = 10, seed: int = 0
) -> float:
    """Return the accuracy of two-means under the better naming of its clusters.

    Without a mean nobody can tell which cluster is which; this grants the better guess.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> kmeans_accuracy(x, np.array([True, True, False, False]))
    1.0
    """
    rows = check_records(records, sparse_allowed=True)
    return clustering_accuracy(labels, _two_means(rows, starts, seed).labels_)


def _two_means(records: Records, starts: int, seed: int) -> Any:
    return KMeans(n_clusters=2, n_init=starts, random_state=seed).fit(records)  # pyright: ignore[reportArgumentType]
