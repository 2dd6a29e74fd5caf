"""Rows that stand twice in a table are found again by the cells that both still know."""

from __future__ import annotations

import numpy as np
import pytest

from cofill.codec import decode, encode
from cofill.impute import fit_table
from cofill.impute._neighbours import TwinRows, Twins
from cofill.impute._practice import Seen
from cofill.views import Feature


def doubled(n=150, d=8, rate=0.25):
    """A table of noise in which everybody stands twice, with holes of their own in each row."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    actual = np.vstack([rows, rows])[rng.permutation(2 * n)]
    hidden = rng.random(actual.shape) < rate
    return np.where(hidden, np.nan, actual), actual, hidden


def test_a_row_that_stands_twice_is_filled_from_its_twin():
    cells, actual, hidden = doubled()
    model = fit_table(cells, [Feature(f"c{k}") for k in range(8)], effort="quick")
    error = np.mean((model.predict(cells) - actual)[hidden] ** 2)
    # Columns are unrelated: without twins nothing tells a cell, and the error is the variance, one.
    # A quarter of the twins lack the cell as well.
    assert error < 0.75
    twins = model.blend.weights[:, model.blend.names.index("twins")]
    assert (twins > 0.3).all()


def test_distances_count_known_cells_only_and_categories_as_one_cell():
    # The second column is a category of two places.
    rows = np.array([[1.0, 0.5, -0.5], [3.0, -0.5, 0.5]])
    known = np.array([[True, True], [True, False]])
    model = TwinRows(rows, known, np.array([[10.0], [20.0]]), np.array([0, 1]), 0.1, 1)
    seen = Seen(np.array([[1.0, 9.0, 9.0]]), np.zeros((1, 1)), np.array([[True, False]]))
    apart, absent = model.distances(seen)
    np.testing.assert_allclose(apart, [[0.0, 4.0]])
    np.testing.assert_allclose(absent, [[1.0, 1.0]])
    np.testing.assert_allclose(model.predict(seen), [[10.0]])


def test_twins_can_be_stored():
    model = TwinRows(np.eye(2), np.eye(2) > 0, np.ones((2, 1)), np.array([0, 1]), 0.1, 1)
    again = decode(encode(model, format="twins", version=1), format="twins", version=1)
    np.testing.assert_array_equal(again.known, model.known)


@pytest.mark.parametrize("count", [1, 4])
def test_fewer_rows_than_twins_do_no_harm(count):
    model = TwinRows(np.ones((2, 1)), np.ones((2, 1), bool), np.ones((2, 1)), np.array([0]), 0.1, 9)
    assert model.mean(np.ones((3, 2)), count).shape == (3, 1)
    assert Twins().name == "twins"
