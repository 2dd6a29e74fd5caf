"""Rows that clustering is tested on, and a quick deep clustering."""

import numpy as np
import pytest

from cofill.cluster import DeepClustering, NetworkSettings


@pytest.fixture(scope="session")
def blobs():
    """Four round groups in five columns of different units, and which row is in which."""
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(4, 5)) * 6
    labels = rng.integers(4, size=400)
    rows = centers[labels] + rng.normal(size=(400, 5))
    return rows * np.array([1.0, 10.0, 0.1, 3.0, 1.0]) + 50, labels


@pytest.fixture
def deal():
    """Split rows over sites: evenly by chance, unevenly, or by group."""

    def split(rows, labels, how, sites=3):
        if how == "by group":
            where = labels % sites
        elif how == "uneven":
            where = np.minimum(np.arange(len(rows)) // 20, sites - 1)
        else:
            where = np.random.default_rng(0).permutation(len(rows)) % sites
        return {f"site_{s}": rows[where == s] for s in range(sites)}, np.argsort(
            where, kind="stable"
        )

    return split


@pytest.fixture(scope="session")
def quick():
    """Make a deep clustering that takes a second or two."""

    def make(k, **changed):
        small = {
            "restarts": 2,  # as many as finalists: one program to compile
            "rounds": 4,
            "apart": 0,  # the same
            "local_steps": 10,
            "batch": 32,
            "learning_rate": 0.01,
            "network": NetworkSettings((8,), (16,)),
        }
        return DeepClustering(k, **(small | changed))

    return make
