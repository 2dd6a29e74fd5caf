"""Groups: brute force over all namings and pairs as oracles; names never matter."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cofill import metrics
from cofill.errors import DataError
from cofill.metrics._clustering import _coded

SCORES = [
    metrics.purity,
    metrics.ari,
    metrics.mutual_information,
    metrics.nmi,
    metrics.clustering_accuracy,
]

labelings = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40).map(
    lambda rows: np.array(rows).T
)


def accuracy_by_hand(truth, groups):
    """Best over every way to give at most one group to each class."""
    classes, names = list(np.unique(truth)), list(np.unique(groups))
    classes += [-1] * (len(names) - len(classes))
    return max(
        np.mean(
            [truth[i] == dict(zip(names, naming, strict=True))[g] for i, g in enumerate(groups)]
        )
        for naming in permutations(classes, len(names))
    )


def entropy(shares):
    seen = shares[shares > 0]
    return float(-np.sum(seen * np.log(seen)))


@given(labelings)
def test_against_oracles(rows):
    truth, groups = rows
    joint = np.array([[(truth == c) & (groups == g) for g in range(5)] for c in range(4)]).mean(-1)
    classes, names = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    shared = classes + names - entropy(joint)
    assert metrics.mutual_information(truth, groups) == pytest.approx(shared, abs=1e-12)
    mean = (classes + names) / 2
    assert metrics.nmi(truth, groups) == pytest.approx(shared / mean if mean else 1, abs=1e-12)
    assert metrics.clustering_accuracy(truth, groups) == pytest.approx(
        accuracy_by_hand(truth, groups)
    )


@given(labelings, st.permutations(range(4)), st.permutations("abcde"))
def test_names_and_order_do_not_matter(rows, classes, names):
    truth, groups = rows
    renamed = np.array(classes)[truth][::-1].copy(), np.array(names)[groups][::-1].copy()
    for score in SCORES:
        assert score(*renamed) == pytest.approx(score(truth, groups), abs=1e-12)


@given(labelings)
@example(np.array([[0, 0, 0, 0, 0, 1, 2, 2], [0, 0, 0, 0, 0, 2, 1, 1]]))  # rounds beyond 1
def test_bounds(rows):
    truth, groups = rows
    purity, accuracy = (s(truth, groups) for s in (metrics.purity, metrics.clustering_accuracy))
    assert 0 < accuracy <= purity <= 1
    assert 0 <= metrics.nmi(truth, groups) <= 1
    assert metrics.ari(truth, groups) <= 1
    assert metrics.ari(truth, truth) == metrics.purity(truth, truth) == 1


def test_hand_values():
    truth = np.array(["x"] * 6 + ["o"] * 6 + ["d"] * 5)
    groups = np.array([0] * 5 + [1] + [0] + [1] * 4 + [2] + [2] * 3 + [0] * 2)
    # Group 0: 5 x, 1 o, 2 d; group 1: 1 x, 4 o; group 2: 1 o, 3 d.
    assert metrics.purity(truth, groups) == pytest.approx(12 / 17)
    assert metrics.clustering_accuracy(truth, groups) == pytest.approx(12 / 17)


def test_purity_is_of_the_groups():
    truth, groups = np.array([0, 0, 0, 0]), np.array([0, 1, 2, 2])
    assert metrics.purity(truth, groups) == 1.0
    assert metrics.purity(groups, truth) == 0.5
    assert metrics.clustering_accuracy(truth, groups) == 0.5


def test_agreement_on_pairs_by_hand():
    # Of six pairs two are together in both; 2 and 3 are together in each, so chance gives 1.
    truth, groups = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    assert metrics.ari(truth, groups) == pytest.approx((1 - 1) / (2.5 - 1))
    assert metrics.ari(truth, 1.0 - truth) == 1.0


def test_many_rows_do_not_overflow():
    truth = np.repeat(np.arange(2), 200_000)
    assert metrics.ari(truth, 1 - truth) == 1.0


def test_mistakes_are_named():
    with pytest.raises(DataError, match="groups must have the same shape"):
        _coded(np.zeros(3), np.zeros(2))
    with pytest.raises(DataError, match="some rows"):
        metrics.purity(np.zeros(0), np.zeros(0))
    with pytest.raises(DataError, match="1 rows without"):
        metrics.purity(np.array([0.0, np.nan]), np.array([0, 1]))
