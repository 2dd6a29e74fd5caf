"""Trees as arrays say what scikit-learn's own say, and weights know what averaging is worth."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from cofill import codec
from cofill.errors import StoreError
from cofill.impute import _blend, fit_table
from cofill.impute._held_out import HeldOut, blend_weights
from cofill.impute._model import make_plan
from cofill.impute._practice import Seen
from cofill.impute._table import Encoding
from cofill.impute._trees import BoostedColumn, TreeSum
from cofill.views import Feature, Kind


def rows(n=400, holes=False):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(n, 4)).astype(np.float32)
    targets = np.sin(inputs[:, 0]) + inputs[:, 1] * (inputs[:, 2] > 0)
    if holes:
        inputs[rng.random(inputs.shape) < 0.3] = np.nan
    return inputs, targets


def test_a_forest_as_arrays_says_what_scikit_learns_says():
    inputs, targets = rows()
    both = np.column_stack([targets, -2 * targets])
    forest = ExtraTreesRegressor(7, random_state=0).fit(inputs, both)
    trees = TreeSum.of_forest([tree.tree_ for tree in forest.estimators_], 4)
    np.testing.assert_allclose(trees.predict(inputs), forest.predict(inputs), atol=1e-6)


def test_boosting_as_arrays_says_what_scikit_learns_says_also_of_holes():
    inputs, targets = rows(holes=True)
    model = HistGradientBoostingRegressor(max_iter=30).fit(inputs, targets)
    trees = TreeSum.of_boosting(
        [parts[0] for parts in model._predictors], 4, float(model._baseline_prediction.item())
    )
    np.testing.assert_allclose(trees.predict(inputs)[:, 0], model.predict(inputs), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_classes_come_back_as_probabilities(classes):
    inputs, targets = rows()
    labels = np.digitize(targets, [-0.4, 0.4][: classes - 1])
    model = HistGradientBoostingClassifier(max_iter=10).fit(inputs, labels)
    sums = tuple(
        TreeSum.of_boosting(part, 4, float(base))
        for part, base in zip(
            zip(*model._predictors, strict=True), model._baseline_prediction.ravel(), strict=True
        )
    )
    # A fourth class is rare: it has no trees and keeps its share.
    centre = np.append(np.full(classes, 0.9 / classes), 0.1)
    column = BoostedColumn(sums, np.arange(classes), centre, 2.0)
    nothing = np.zeros((len(inputs), classes + 1))
    chances = column.predict(Seen(inputs, nothing, nothing > 0)) * 2.0 + centre
    np.testing.assert_allclose(chances[:, :-1], 0.9 * model.predict_proba(inputs), atol=1e-5)
    np.testing.assert_allclose(chances[:, -1], 0.1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: {"left": np.where(t.left > 0, 10**6, t.left)},
        lambda t: {"right": np.where(t.right > 0, 0, t.right)},
        lambda t: {"feature": np.full_like(t.feature, 4)},
        lambda t: {"sizes": t.sizes + 1},
        lambda t: {"sizes": -t.sizes},
        lambda t: {"left": np.where(t.left > 0, t.left, -7)},
        lambda t: {"width": 40, "feature": np.where(t.feature == 0, 39, t.feature)},
    ],
)
def test_damaged_trees_are_refused_before_compiled_code_follows_them(damage):
    inputs, targets = rows(50)
    forest = ExtraTreesRegressor(2, random_state=0).fit(inputs, targets)
    trees = TreeSum.of_forest([tree.tree_ for tree in forest.estimators_], 4)
    with pytest.raises(StoreError, match="damaged"):
        replace(trees, **damage(trees)).predict(inputs)


def test_a_stored_imputer_fills_and_bounds_as_before():
    inputs, targets = rows(150)
    cells = np.column_stack([inputs, targets, np.digitize(targets, [-0.4, 0.4])]).astype(float)
    cells[np.random.default_rng(1).random(cells.shape) < 0.2] = np.nan
    features = [Feature(f"x{k}") for k in range(5)]
    features.append(Feature("kind", Kind.CATEGORICAL, ("a", "b", "c")))
    model = fit_table(cells, features)
    stored = codec.decode(codec.encode(model, format="test"), format="test")
    np.testing.assert_array_equal(stored.predict(cells), model.predict(cells))
    for ends, again in zip(stored.intervals(cells, 0.9), model.intervals(cells, 0.9), strict=True):
        np.testing.assert_array_equal(ends, again)


def test_weights_count_what_the_average_over_folds_does_without():
    """Two candidates err alike where one fold tells; the second's folds differ by most of that."""
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(500, 1))
    gaps = rng.normal(size=(2, 500, 1))
    at_holes = np.zeros((5, 2, 200, 1))
    held = HeldOut(actual, actual + gaps, actual, np.ones((500, 1), bool), at_holes)
    plain = blend_weights([held], 2)[0]
    assert plain[0] == pytest.approx(plain[1], abs=0.1)
    noise = rng.normal(size=(5, 200, 1))
    at_holes[:, 1] = noise * np.sqrt(1 / noise.var())
    averaged = blend_weights([replace(held, at_holes=at_holes)], 2)[0]
    assert averaged[1] > 3 * averaged[0]


def test_folds_that_differ_at_holes_alone_do_not_make_a_bad_candidate_good():
    """Holes may lie where a candidate's folds differ by more than it errs at known cells."""
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(500, 1))
    gaps = np.stack([0.1 * rng.normal(size=(500, 1)), rng.normal(size=(500, 1))])
    at_holes = np.zeros((5, 2, 200, 1))
    noise = rng.normal(size=(5, 200, 1))
    apart = noise - noise.mean(axis=0)
    at_holes[:, 1] = noise * np.sqrt((gaps[1] ** 2).mean() / (apart**2).mean())  # all of its error
    wild = HeldOut(actual, actual + gaps, actual, np.ones((500, 1), bool), at_holes)
    tame = replace(wild, at_holes=np.zeros((5, 2, 200, 1)))
    # What one column's folds seem to gain must not decide for the others either.
    assert (blend_weights([wild, tame], 2)[:, 0] > 0.9).all()


def test_large_tables_show_boosting_their_holes_and_small_ones_do_not():
    encoding = Encoding.fit(np.random.default_rng(0).normal(size=(50, 10)), [Feature("x")] * 10)
    small, _ = make_plan(5_000, encoding, "normal")
    large, notes = make_plan(50_000, encoding, "normal")
    assert not small.holes
    assert small.folds == 5
    assert large.holes
    assert large.folds == 1
    assert "large" in notes[0]


def test_a_wide_table_is_practised_on_few_rows(monkeypatch):
    """Inputs of all rows for every column would take gigabytes."""
    practised = []
    original = _blend.fill_practice

    def watch(matrix, *rest):
        practised.append(len(matrix))
        return original(matrix, *rest)

    monkeypatch.setattr(_blend, "fill_practice", watch)
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 120))
    hidden = rng.random(cells.shape) < 0.1
    model = fit_table(np.where(hidden, np.nan, cells), [Feature(f"x{k}") for k in range(120)])
    assert practised == [60]
    filled = model.predict(np.where(hidden, np.nan, cells))
    assert ((filled - cells)[hidden] ** 2).mean() < 0.1 * cells.var()


def test_a_large_table_is_told_from_holes_and_from_the_gaussian():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(12_000, 3))
    cells = np.column_stack(
        [base, base[:, 0] + base[:, 1], np.abs(base[:, 0]), base[:, 2] ** 2]
        + [rng.normal(size=12_000) for _ in range(4)]
    )
    truth = cells.copy()
    hidden = rng.random(cells.shape) < 0.2
    cells[hidden] = np.nan
    model = fit_table(cells, [Feature(f"x{k}") for k in range(10)])
    assert model.blend.holes
    filled = model.predict(cells)

    def error(k):
        gone = hidden[:, k]
        return ((filled - truth)[gone, k] ** 2).mean() / truth[:, k].var()

    assert error(3) < 0.3  # a sum, which the Gaussian tells
    assert error(4) < 0.35  # a kink, which only trees tell
    assert error(5) < 0.45
    assert error(9) < 1.05  # nothing tells it


def test_intervals_are_as_wide_as_errors_of_the_average_not_of_one_fold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    cells = np.hstack([x, np.sin(3 * x), x**2 + rng.normal(size=(200, 1))])
    cells[rng.random(cells.shape) < 0.2] = np.nan
    model = fit_table(cells, [Feature(f"c{k}") for k in range(3)], effort="quick")
    assert ((model.error_scales >= np.sqrt(0.5)) & (model.error_scales < 1)).all()
    wide = replace(model, error_scales=np.ones(3))
    lower, upper = model.intervals(cells, 0.5)
    wider = np.subtract(*wide.intervals(cells, 0.5)[::-1])
    assert np.nanmean((upper - lower) / wider) < 0.99
