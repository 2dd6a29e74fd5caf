"""Counts of completed cells by value: none of them tells of fewer than three people."""

import numpy as np
import pandas as pd
import pytest

from cofill.completion import Completed
from cofill.completion._distributions import LEAST, Agreement, _merged, distributions
from cofill.views import MultiView, View


def counted(values):
    values = np.asarray(values, dtype=float)
    people = MultiView(
        [View("a", np.arange(len(values)), values[:, None]), View("b", [0], [[1.0]])]
    )
    done = Completed.merge(people, {"b": np.full((len(values), 1), 2.0)})
    return distributions(done)


@pytest.mark.parametrize("seed", range(5))
def test_no_bin_tells_of_fewer_than_three_people(seed):
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(size=rng.integers(3, 80)), [1e6, -1e6]])
    found = counted(values)["a"]["a_0"]
    assert sum(found["observed"]) == len(values)
    assert all(n == 0 or n >= LEAST for n in found["observed"])
    assert len(found["edges"]) == len(found["observed"]) + 1
    assert not np.isin(np.abs(found["edges"]), np.abs(values)).any()


def test_merging_never_leaves_a_small_count():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 5, size=(2, rng.integers(1, 12)))
        groups = _merged(counts)
        if groups is None:
            assert ((counts.sum(axis=1) > 0) & (counts.sum(axis=1) < LEAST)).any()
            continue
        assert [k for group in groups for k in group] == list(range(counts.shape[1]))
        for group in groups:
            total = counts[:, group].sum(axis=1)
            assert ((total == 0) | (total >= LEAST)).all()


def test_rare_categories_are_told_together():
    names = ["x"] * 10 + ["y"] * 5 + ["z", "only"]
    frame = pd.DataFrame({"id": np.arange(len(names)), "kind": names})
    people = MultiView.from_frames({"a": frame}, id="id")
    found = distributions(Completed.merge(people, {}))["a"]["kind"]
    assert "only" not in found["values"]
    assert found["values"][-1] == "other"
    assert min(n for n in found["observed"] if n) >= LEAST
    assert sum(found["observed"]) == 17


def test_agreement_needs_three_people_in_a_cell():
    cells = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [1.0]])
    truth = MultiView([View("a", np.arange(6), cells)])
    counter = Agreement()
    for _ in range(3):  # the same people, whom several seeds may hide
        counter.add(Completed.merge(truth, {}), truth, {"a": np.ones(6, bool)})
    found = counter.to_json()["views"]["a"]
    assert [count for *_, count in found] == [9]  # three at 0; two people thrice are still two
