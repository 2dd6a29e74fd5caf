"""What may be clustered, and what is said about the rest; one scaling for all sites."""

import numpy as np
import pytest

from cofill.cluster import FederatedKMeans
from cofill.cluster._rows import gather_rows, read_rows
from cofill.cluster._scale import combine_sums, sum_columns
from cofill.errors import DataError, SettingError
from cofill.privacy import GroupSums
from cofill.views import Feature, Kind, MultiView, Scaler, View

ROWS = np.arange(24.0).reshape(8, 3)


@pytest.mark.parametrize(
    ("data", "k", "error", "message"),
    [
        (ROWS, 1, SettingError, "k must be at least 2, got 1"),
        (ROWS, 9, SettingError, "at most the number of individuals, got 9 groups for 8"),
        (np.where(ROWS == 5, np.nan, ROWS), 2, DataError, "1 of 8 individuals have cells"),
        (np.where(ROWS == 5, np.inf, ROWS), 2, DataError, "not finite"),
        ({"a": ROWS, "b": ROWS[:0]}, 2, DataError, "site 'b' has no rows"),
        ({"a": ROWS, "b": ROWS[:, :2]}, 2, DataError, "site 'b' has 2 columns, 'a' has 3"),
        ({"a": ROWS[[0, 0, 0]], "b": ROWS[[1, 1]]}, 3, DataError, "3 groups for 2 different rows"),
        ({}, 2, DataError, "no site"),
        ({"coordinator": ROWS}, 2, SettingError, "may be called 'coordinator'"),
        (ROWS[0], 2, DataError, "individuals × columns"),
        (np.array([["a", "b"]]), 2, DataError, "rows must be numbers"),
        ([[1.0], [1.0, 2.0]], 2, DataError, "one length"),
    ],
)
def test_faults_are_told_in_one_sentence(data, k, error, message):
    with pytest.raises(error, match=message) as fault:
        FederatedKMeans(k, seed_group=1).fit(data)
    assert "\n" not in str(fault.value)


def test_sites_must_call_columns_alike():
    one, two = (
        View("lab", [1, 2], ROWS[:2], ["a", "b", "c"]),
        View("lab", [3], ROWS[:1], ["a", "b", "x"]),
    )
    with pytest.raises(DataError, match=r"calls column 'lab.c' otherwise"):
        gather_rows({"n": MultiView([one]), "s": MultiView([two])})


def test_an_incomplete_individual_is_refused():
    views = MultiView([View("a", [1, 2], ROWS[:2]), View("b", [2, 3], ROWS[:2])])
    with pytest.raises(DataError, match="2 of 3 individuals are not in every view"):
        read_rows(views)


def test_views_stand_side_by_side_and_kinds_are_coded():
    ward = Feature("ward", Kind.CATEGORICAL, ("x", "y", "z"))
    smokes = Feature("smokes", Kind.BINARY, ("no", "yes"))
    views = MultiView(
        [
            View("lab", [2, 1], [[5.0], [4.0]]),
            View("stay", [1, 2], [[2, 1], [0, 0]], [ward, smokes]),
        ]
    )
    site = read_rows(views)
    assert site.rows.tolist() == [[4, 0, 0, 1, 1], [5, 1, 0, 0, 0]]
    assert site.kinds.names[1:] == ("stay.ward=x", "stay.ward=y", "stay.ward=z", "stay.smokes=yes")
    assert site.kinds.numeric == (True, False, False, False, False)
    model = FederatedKMeans(2, seed_group=1, rounds=5).fit(views)
    assert model.scaling_.center[1:].tolist() == [0, 0, 0, 0]


def test_images_keep_their_shape():
    one = MultiView.from_arrays({"image": np.ones((3, 4, 6))})
    both = MultiView.from_arrays({"image": np.ones((3, 4, 6)), "edge": np.ones((3, 4, 6))})
    other = MultiView.from_arrays({"image": np.ones((3, 4, 6)), "lab": np.ones((3, 2))})
    shapes = [read_rows(views).kinds.shape for views in (one, both, other)]
    assert shapes == [(1, 4, 6), (2, 4, 6), None]


@pytest.mark.parametrize("method", ["standard", "overall", "robust"])
def test_scaling_is_that_of_all_rows(method):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 3)) * [1, 100, 0.01] + [1e6, 0, 3]
    numeric = np.array([True, True, False])
    where = rng.integers(3, size=50) if method != "robust" else np.zeros(50, int)
    releases = [
        GroupSums(sender=str(s), receiver="c", round=0, sums=sums, counts=counts)
        for s in np.unique(where)
        for sums, counts in [sum_columns(rows[where == s], method)]
    ]
    scaling = combine_sums(releases, method, numeric)
    if method == "overall":
        assert scaling.center[0] == pytest.approx(rows[:, :2].mean())
        assert scaling.scale[1] == pytest.approx(rows[:, :2].std())
    else:
        oracle = Scaler.fit(View("x", np.arange(50), rows), method=method)
        np.testing.assert_allclose(
            scaling.apply(rows)[:, :2], oracle.encode(rows)[:, :2], rtol=1e-6, atol=1e-8
        )
    assert (scaling.center[2], scaling.scale[2]) == (0.0, 1.0)
    np.testing.assert_allclose(scaling.undo(scaling.apply(rows)), rows, rtol=1e-9)


def test_a_constant_column_does_no_harm():
    rows = np.column_stack([np.full(40, 0.1), np.repeat([0.0, 5.0], 20)])
    model = FederatedKMeans(2, rounds=5).fit({"a": rows[:7], "b": rows[7:]})
    assert model.scaling_.scale[0] == 1.0
    assert len(set(model.labels_[:20])) == len(set(model.labels_[20:])) == 1
