"""The yardsticks: by hand, against scikit-learn, and against each other."""

import jax
import numpy as np
import pytest
from sklearn.impute import KNNImputer

from cofill.errors import SettingError
from cofill.impute import (
    CentralCompleter,
    IterativeCompleter,
    MeanCompleter,
    NeighboursCompleter,
)
from cofill.metrics import r2
from cofill.nets import FusionSettings
from cofill.views import Feature, Kind, MultiView, View

SMALL = FusionSettings(
    hidden=(16,),
    weight_decays=(0.01,),
    members=1,
    fold_members=1,
    folds=2,
    dropout=0.0,
    learning_rate=2e-2,
    steps=500,
)
COLOUR = Feature("colour", Kind.CATEGORICAL, ("red", "green", "blue"), "string")
OLD = Feature("old", Kind.BINARY, (False, True), "bool")
COUNT = Feature("count", dtype="int64")


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def related(n=80, seed=0):
    """Two views of numbers in unequal units; one person in four is missing from each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1, 10, 100] + 5
    y = np.column_stack([x[:, 0] * 2, x[:, 2] - x[:, 1]]) + rng.normal(size=(n, 2))
    presence = {"x": np.arange(n) % 4 != 0, "y": np.arange(n) % 4 != 1}
    return MultiView.from_arrays({"x": x, "y": y}, presence=presence)


def product(n=250):
    """Return the views x and y = (x₀·x₁, sin 3x₀) with rows of y hidden, and the truth there."""
    x = np.random.default_rng(0).normal(size=(n, 2))
    y = np.column_stack([x[:, 0] * x[:, 1], np.sin(3 * x[:, 0])])
    seen = np.arange(n) % 5 != 0
    return MultiView.from_arrays({"x": x, "y": y}, presence={"y": seen}), y[~seen], ~seen


@pytest.mark.parametrize(
    ("feature", "cells", "fill"),
    [
        (Feature("dose"), [1.0, 2.0, np.nan, 6.0], 3.0),
        (Feature("dose"), [1.0, 2.0], 1.5),
        (COUNT, [1.0, 2.0, 2.0], 2.0),
        (COUNT, [1.0, 1.0, 2.0, np.nan], 1.0),
        (OLD, [1.0, 1.0, 0.0], 1.0),
        (OLD, [1.0, 0.0, np.nan], 0.0),
        (COLOUR, [2.0, 2.0, 0.0], 2.0),
        (COLOUR, [2.0, 1.0, 1.0, 2.0], 1.0),
        (COLOUR, [2.0, np.nan, np.nan], 2.0),
    ],
)
def test_the_mean_or_the_commonest_value_by_hand(feature, cells, fill):
    everyone = np.arange(len(cells) + 2)
    views = MultiView(
        [
            View("a", everyone, everyone[:, None] * 1.0),
            View("b", everyone[:-2], np.array(cells)[:, None], [feature]),
        ]
    )
    done = MeanCompleter().fit_complete(views).cells["b"].ravel()
    holes = np.append(np.isnan(cells), [True, True])
    np.testing.assert_array_equal(done[holes], fill)
    np.testing.assert_array_equal(done[~holes], np.array(cells)[~holes[:-2]])


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 4])
def test_knn_is_scikit_learns_on_columns_of_equal_scale(k, weights):
    views = related()
    done = NeighboursCompleter(n_neighbors=k, weights=weights).fit_complete(views)
    raw = np.hstack([views.aligned(name) for name in views])
    mean, std = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
    theirs = KNNImputer(n_neighbors=k, weights=weights).fit_transform((raw - mean) / std)
    ours = np.hstack([done.cells[name] for name in views])
    np.testing.assert_allclose(ours, theirs * std + mean, rtol=1e-9)


def test_neighbours_are_sought_among_so_many_individuals_at_most():
    views = related()
    known, hidden = views.present("y"), ~views.present("y")
    distinct = {}
    for most in (6, 10_000):
        method = NeighboursCompleter(n_neighbors=1, max_rows=most, seed=2)
        cells = method.fit_complete(views).cells["y"]
        assert set(cells[hidden, 0]) - {cells[known, 0].mean()}
        distinct[most] = len(set(cells[hidden, 0].round(9)))
    assert distinct[6] <= 6 < distinct[10_000]


@pytest.mark.parametrize("method", [NeighboursCompleter, IterativeCompleter])
@pytest.mark.parametrize("most", [1, 0, -3])
def test_fewer_than_two_rows_are_refused(method, most):
    with pytest.raises(SettingError, match=f"max_rows must be at least 2, got {most}"):
        method(max_rows=most).fit(related())


def test_the_iterative_imputer_finds_a_linear_relation():
    x = np.random.default_rng(0).normal(size=(60, 2))
    views = MultiView.from_arrays({"x": x, "y": 3 * x + 1}, presence={"y": np.arange(60) > 9})
    cells = IterativeCompleter().fit_complete(views).cells["y"]
    assert r2(3 * x[:10] + 1, cells[:10]) > 0.99


def test_another_model_is_refused():
    with pytest.raises(SettingError, match="model must be 'mlp' or 'ridge', got 'x'"):
        CentralCompleter(model="x").fit(related())


def test_networks_beat_ridge_where_the_relation_is_not_linear():
    views, truth, hidden = product()
    scores = {
        model: r2(
            truth,
            CentralCompleter(model=model, settings=SMALL).fit_complete(views).cells["y"][hidden],
        )
        for model in ("mlp", "ridge")
    }
    assert scores["ridge"] < 0.2
    assert scores["mlp"] > 0.7


PEOPLE = np.random.default_rng(0).normal(size=(12, 2))
APART = View(
    "apart",
    [100, 101, 102],
    np.array([[1.0, 3, 0, 2], [2.0, 4, 1, 2], [6.0, 4, 1, 0]]),
    [Feature("dose"), COUNT, OLD, COLOUR],
)
TYPICAL = [3.0, 4, 1, 2]


@pytest.mark.parametrize(
    "method", [MeanCompleter(), NeighboursCompleter(), CentralCompleter(model="ridge")]
)
def test_a_view_that_shares_nobody_is_filled_with_typical_values(method):
    shared = View("x", np.arange(12), PEOPLE), View("y", np.arange(8), PEOPLE[:8, :1] * 2)
    cells = method.fit_complete(MultiView([*shared, APART])).cells
    np.testing.assert_allclose(cells["apart"][:12], np.tile(TYPICAL, (12, 1)))
    np.testing.assert_allclose(cells["y"][12:], 2 * PEOPLE[:8, 0].mean())
    # A regression of x knows only those who are in another view too.
    rows = slice(8) if isinstance(method, CentralCompleter) else slice(12)
    np.testing.assert_allclose(cells["x"][12:], np.tile(PEOPLE[rows].mean(axis=0), (3, 1)))


@pytest.mark.parametrize("model", ["mlp", "ridge"])
def test_where_no_view_shares_anybody_all_are_filled_with_typical_values(model):
    views = MultiView([View("x", np.arange(12), PEOPLE), APART])
    cells = CentralCompleter(model=model).fit_complete(views).cells
    np.testing.assert_allclose(cells["apart"][:12], np.tile(TYPICAL, (12, 1)))
    np.testing.assert_allclose(cells["x"][12:], np.tile(PEOPLE.mean(axis=0), (3, 1)))
