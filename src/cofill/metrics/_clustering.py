"""How well groups found without labels agree with classes, or with other groups.

The scores are those of the Fed-VIGAN thesis (section 5.1.1) and the accuracy of the best one-to-one
naming of the groups. The names of groups and classes and the order of the rows do not matter.
"""

import numpy as np
from jaxtyping import Shaped

from cofill.errors import DataError
from cofill.metrics._reconstruction import is_missing, require_same_shape

Labels = Shaped[np.ndarray, " n"]


def purity(truth: Labels, groups: Labels) -> float:
    """Share of the rows that belong to the most frequent class of their group (Eq. 5.2).

    One group per row is trivially pure: compare only equal numbers of groups.

    Examples
    --------
    >>> purity(np.array([0, 0, 1, 1]), np.array(["a", "a", "a", "b"]))
    0.75
    """
    from sklearn.metrics.cluster import contingency_matrix

    table = np.asarray(contingency_matrix(*_coded(truth, groups)))
    return float(table.max(axis=0).sum() / table.sum())


def clustering_accuracy(truth: Labels, groups: Labels) -> float:
    """Share of the rows that are right under the best one-to-one naming of groups by classes.

    The naming is found by the Hungarian method. With more groups than classes the rows of the
    unnamed groups count as wrong; with fewer, those of the classes that got no group.

    Examples
    --------
    >>> clustering_accuracy(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 2, 0, 0]))
    0.8
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = np.asarray(contingency_matrix(*_coded(truth, groups)))
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / table.sum())


def ari(truth: Labels, groups: Labels) -> float:
    """Agreement on pairs of rows, the adjusted Rand index (Eq. 5.3): 0 by chance, 1 when equal."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_coded(truth, groups)))


def mutual_information(truth: Labels, groups: Labels) -> float:
    """Information that the group carries about the class, in nats."""
    from sklearn.metrics import mutual_info_score

    return float(mutual_info_score(*_coded(truth, groups)))


def nmi(truth: Labels, groups: Labels) -> float:
    """Mutual information over the mean of the two entropies (Eq. 5.4), from 0 to 1.

    Two partitions with a single part each are equal and score 1.
    """
    from sklearn.metrics import normalized_mutual_info_score

    score = normalized_mutual_info_score(*_coded(truth, groups))
    return float(min(score, 1.0))  # which rounding may pass


def _coded(truth: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and groups as whole numbers; every row must have both."""
    require_same_shape(truth, groups, "groups")
    if truth.ndim != 1 or not len(truth):
        raise DataError(f"truth must hold one label for each of some rows, got {truth.shape}.")
    unlabelled = int(np.count_nonzero(is_missing(truth) | is_missing(groups)))
    if unlabelled:
        raise DataError(f"every row needs a class and a group, got {unlabelled} rows without one.")
    # Codes, since scikit-learn warns of labels that are fractions.
    classes, names = (np.unique(labels, return_inverse=True)[1] for labels in (truth, groups))
    return classes, names
