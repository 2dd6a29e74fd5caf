"""Wide tables of several views: a view that a row lacks is told as a whole from the others."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.completion import load_model, make
from cofill.impute import PooledCompleter
from cofill.impute._absent import KernelRidge, NearestRows, compare, kernel_of
from cofill.views import MultiView, drop_rows

WIDE = 40  # columns of each of three views: too many for a model of each column


def quick(**settings):
    return PooledCompleter(effort="quick", **settings)


def in_classes(n_classes=40, each=8, spread=0.3):
    """Views that are told by a person's class, of which there are many and small ones."""
    rng = np.random.default_rng(1)
    classes = np.repeat(np.arange(n_classes), each)
    views = {}
    for name in "abc":
        centres = rng.normal(size=(n_classes, WIDE))
        views[name] = centres[classes] + spread * rng.normal(size=(len(classes), WIDE))
    return MultiView.from_arrays(views)


def bent(n=300):
    """Views of which one is a bent function of a few directions of the others."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(n, 3))
    views = {name: z @ rng.normal(size=(3, WIDE)) for name in "ab"}
    views["c"] = np.cos(z @ rng.normal(size=(3, WIDE)) + 1) + 0.05 * rng.normal(size=(n, WIDE))
    return MultiView.from_arrays(views)


def error(truth, holed, done):
    """Return the mean squared error of rows that were hidden, in units of variance."""
    errors = []
    for name, view in truth.items():
        actual, filled = done.beside(truth, name, ~holed.present(name))
        errors.append(((actual - filled) ** 2).mean() / view.cells.var())
    return np.mean(errors)


@pytest.mark.parametrize("draw", [in_classes, bent])
def test_views_are_told_far_better_than_by_a_gaussian_or_nearest_rows_alone(draw):
    truth = draw()
    holed, _ = drop_rows(truth, 0.25, key=0)
    model = quick().fit(holed)
    assert len(model.model_.blend.absent) == 3
    assert any("told as a whole" in note for note in model.notes_)
    reached = error(truth, holed, model.complete(holed))
    model.model_ = replace(model.model_, blend=replace(model.model_.blend, absent=()))
    assert reached < 0.7 * error(truth, holed, model.complete(holed))
    assert reached < error(truth, holed, make("knn").fit_complete(holed))


def test_nearest_rows_rule_many_classes_and_kernels_rule_bent_functions():
    for draw, nearest_rules in ((in_classes, True), (bent, False)):
        holed, _ = drop_rows(draw(), 0.25, key=0)
        weights = quick().fit(holed).model_.blend.absent[2].weights.mean(axis=0)
        assert (weights[-1] > 0.5) == nearest_rules


def test_predictions_left_out_are_those_of_fits_without_each_row():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(14, 3)), rng.normal(size=(14, 1))
    kernel = kernel_of(*compare(rows, rows), 2.0)
    model, left_out = KernelRidge.fit(kernel, targets, 2.0)
    dual = model.coefficients[:, 0].astype(np.float64)
    ridge = float(((targets[:, 0] - kernel @ dual) / dual).mean())  # (K + λ) dual = targets
    for k in range(14):
        rest = np.arange(14) != k
        system = kernel[np.ix_(rest, rest)] + ridge * np.eye(13)
        without = kernel[k, rest] @ np.linalg.solve(system, targets[rest, 0])
        assert left_out[k, 0] == pytest.approx(without, abs=1e-4)


def test_nearest_rows_compare_what_both_have():
    rows = np.array([[0.0, 9.0], [1.0, 0.0], [0.1, 0.1]], np.float32)
    shown = np.array([[True, False], [True, True], [True, True]])
    cells = np.array([[1.0], [2.0], [3.0]], np.float32)
    model = NearestRows(rows, shown, cells, np.array([0, 1]))
    asked = np.zeros((2, 2), np.float32)
    told = model.means(asked, np.array([[True, False], [False, True]]), (1,))[0]
    assert told[:, 0].tolist() == [1.0, 2.0]  # the first row's 9 is no cell
    inside = model.means(rows, shown, (1,), inside=True)[0]
    assert inside[:, 0].tolist() == [3.0, 3.0, 1.0]


def test_known_cells_stay_and_cells_of_a_view_known_in_part_are_told_one_by_one():
    truth = in_classes()
    cells = {name: np.array(view.cells) for name, view in truth.items()}
    cells["a"][:5, 3:6] = np.nan
    cells["b"][5:60] = np.nan
    holed = MultiView.from_arrays(cells)
    done = quick().fit_complete(holed)
    for name in holed:
        known = ~np.isnan(holed.aligned(name))
        assert (done.cells[name][known] == holed.aligned(name)[known]).all()
        assert np.isfinite(done.cells[name]).all()
    gaps = done.cells["a"][:5, 3:6] - truth["a"].cells[:5, 3:6]
    assert (gaps**2).mean() < 0.5 * truth["a"].cells.var()


def test_a_stored_model_tells_the_same_and_intervals_hold_what_they_say(tmp_path):
    truth = in_classes()
    holed, _ = drop_rows(truth, 0.25, key=0)
    model = quick(interval=0.9).fit(holed)
    done = model.complete(holed)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model").complete(holed)
    for name in holed:
        np.testing.assert_array_equal(done.cells[name], again.cells[name])
        np.testing.assert_array_equal(done.lower[name], again.lower[name])
    inside = []
    for name in holed:
        gone = ~holed.present(name)
        cells = truth[name].cells[gone]
        inside.append((done.lower[name][gone] <= cells) & (cells <= done.upper[name][gone]))
    assert 0.85 < np.mean(np.concatenate(inside)) < 0.95


def test_a_view_that_few_have_is_left_to_the_gaussian():
    truth = in_classes()
    cells = {name: np.array(view.cells) for name, view in truth.items()}
    cells["b"][10:] = np.nan
    model = quick().fit(MultiView.from_arrays(cells))
    assert [view.start for view in model.model_.blend.absent] == [0, 2 * WIDE]
