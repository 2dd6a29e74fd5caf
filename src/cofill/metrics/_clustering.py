"""How well groups found without labels agree with classes, or with other groups.

The scores are those of the Fed-VIGAN thesis (section 5.1.1) and the accuracy of the best one-to-one
naming of the groups. All come from one contingency table, so the names of groups and classes and
the order of the rows do not matter.
"""

import numpy as np
from jaxtyping import Float, Shaped

from cofill.errors import DataError
from cofill.metrics._categorical import _missing
from cofill.metrics._cells import same_shape


def purity(truth: Shaped[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Share of the rows that belong to the most frequent class of their group (Eq. 5.2).

    One group per row is trivially pure: compare only equal numbers of groups.

    Examples
    --------
    >>> purity(np.array([0, 0, 1, 1]), np.array(["a", "a", "a", "b"]))
    0.75
    """
    table = _contingency(truth, groups)
    return float(table.max(axis=0).sum() / table.sum())


def clustering_accuracy(truth: Shaped[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Share of the rows that are right under the best one-to-one naming of groups by classes.

    The naming is found by the Hungarian method. With more groups than classes the rows of the
    unnamed groups count as wrong; with fewer, those of the classes that got no group.

    Examples
    --------
    >>> clustering_accuracy(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 2, 0, 0]))
    0.8
    """
    from scipy.optimize import linear_sum_assignment

    table = _contingency(truth, groups)
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / table.sum())


def ari(truth: Shaped[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Agreement on pairs of rows, the adjusted Rand index (Eq. 5.3): 0 by chance, 1 when equal.

    Examples
    --------
    >>> ari(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    table = _contingency(truth, groups)
    together = _pairs(table)
    same_class, same_group = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    chance = same_class * same_group / max(_pairs(table.sum()), 1.0)
    best = (same_class + same_group) / 2
    # Both put everything together, or everything apart: equal, with nothing left to chance.
    return 1.0 if best == chance else float((together - chance) / (best - chance))


def mutual_information(truth: Shaped[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Information that the group carries about the class, in nats.

    Examples
    --------
    >>> round(mutual_information(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])), 4)
    0.6931
    """
    joint = _contingency(truth, groups)
    joint = joint / joint.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return max(float(np.sum(joint[seen] * np.log(joint[seen] / apart[seen]))), 0.0)


def nmi(truth: Shaped[np.ndarray, " n"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Mutual information over the mean of the two entropies (Eq. 5.4), from 0 to 1.

    Two partitions with a single part each are equal and score 1.

    Examples
    --------
    >>> nmi(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    0.0
    """
    table = _contingency(truth, groups)
    spread = (_entropy(table.sum(axis=1)) + _entropy(table.sum(axis=0))) / 2
    return min(mutual_information(truth, groups) / spread, 1.0) if spread > 0 else 1.0


def _contingency(
    truth: Shaped[np.ndarray, "..."], groups: Shaped[np.ndarray, "..."]
) -> Float[np.ndarray, "classes groups"]:
    """Count the rows of each class in each group."""
    same_shape(truth, groups, ("truth", "groups"))
    if truth.ndim != 1 or not len(truth):
        raise DataError(f"truth must hold one label for each of some rows, got {truth.shape}.")
    unlabelled = int(np.count_nonzero(_missing(truth) | _missing(groups)))
    if unlabelled:
        raise DataError(f"every row needs a class and a group, got {unlabelled} rows without one.")
    classes, i = np.unique(truth, return_inverse=True)
    names, j = np.unique(groups, return_inverse=True)
    counts = np.bincount(i * len(names) + j, minlength=len(classes) * len(names))
    return counts.reshape(len(classes), len(names)).astype(np.float64)


def _pairs(counts: Float[np.ndarray, "..."] | np.floating) -> float:
    """Count the pairs of rows within the cells."""
    return float(np.sum(counts * (counts - 1)) / 2)


def _entropy(counts: Float[np.ndarray, " k"]) -> float:
    share = counts / counts.sum()
    return float(-np.sum(share * np.log(share))) if len(share) > 1 else 0.0
