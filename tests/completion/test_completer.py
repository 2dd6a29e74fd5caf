"""scikit-learn's manners, schema checks, scores, the registry."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cofill.completion import METHODS, Completed, evaluate, make, methods, with_intervals
from cofill.completion._intervals import conformal_radius
from cofill.errors import DataError, SettingError
from cofill.views import Feature, Kind, MultiView, View, drop_rows


def linked(n: int = 400, noise: float = 0.0, seed: int = 0) -> MultiView:
    """Two views of which one is a linear map of the other, plus noise."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, 3))
    second = first @ rng.normal(size=(3, 2)) + noise * rng.normal(size=(n, 2))
    return MultiView.from_arrays({"first": first, "second": second})


@pytest.mark.parametrize("name", [m.name for m in methods()])
def test_clone_and_parameters(name):
    completer = make(name)
    copy = clone(completer)
    assert copy.get_params() == completer.get_params()
    assert type(copy) is type(completer)
    for parameter, value in completer.get_params().items():
        assert completer.set_params(**{parameter: value}) is completer


@pytest.mark.parametrize("name", [m.name for m in methods()])
def test_an_unfitted_method_says_so(name):
    with pytest.raises(NotFittedError):
        make(name).complete(linked(20))


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(SettingError, match="did you mean 'mean'"):
        make("maen")


def test_a_taken_name_is_refused():
    with pytest.raises(SettingError, match="already"):
        METHODS.add("mean", "x:Y", "again", pools_rows=False)


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_classes_and_registry_agree_on_whether_rows_are_pooled(method):
    assert method.facts["pools_rows"] is method.load().pools_rows


def test_other_views_than_at_fit_are_refused():
    fitted = make("mean").fit(linked(20))
    with pytest.raises(DataError, match="fitted on the views"):
        fitted.complete(MultiView([View("third", [1], [[1.0]])]))
    other = MultiView([View("first", [1], [[1.0]], ["x"]), View("second", [1], [[1.0, 2.0]])])
    with pytest.raises(DataError, match="other features"):
        fitted.complete(other)


def test_an_empty_view_and_an_unknown_column_are_refused():
    empty = View("a", [1], [[1.0]]).take(np.array([False]))
    with pytest.raises(DataError, match="'a' has no rows"):
        make("mean").fit(MultiView([empty, View("b", [1], [[1.0]])]))
    hollow = MultiView([View("a", [1, 2], [[1.0, np.nan], [2.0, np.nan]], ["x", "y"])])
    with pytest.raises(DataError, match="column 'y' has no value"):
        make("mean").fit(hollow)


def test_ridge_recovers_a_linear_relation():
    truth = linked()
    holed, _ = drop_rows(truth, 0.2, key=1, names=["second"])
    completer = make("central-ridge").fit(holed)
    assert completer.score(holed, truth) > 0.98
    assert make("mean").fit(holed).score(holed, truth) < 0.1


def test_score_needs_something_to_score():
    views = linked(20)
    with pytest.raises(DataError, match="nothing to score"):
        make("mean").fit(views).score(views, views)


def test_merge_keeps_observed_cells_whatever_is_predicted():
    views = MultiView([View("a", [1, 2], [[5.0, np.nan], [6.0, 7.0]]), View("b", [3], [[1.0]])])
    done = Completed.merge(views, {"a": np.full((3, 2), -1.0), "b": np.full((3, 1), -2.0)})
    np.testing.assert_array_equal(done.cells["a"], [[5, -1], [6, 7], [-1, -1]])
    np.testing.assert_array_equal(done.origin("a"), [[0, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(done.cells["b"].ravel(), [-2, -2, 1])


def test_a_cell_that_was_not_predicted_is_missing():
    views = MultiView([View("a", [1], [[5.0]]), View("b", [2], [[1.0]])])
    done = Completed.merge(views, {"a": np.array([[np.nan], [3.0]])})
    np.testing.assert_array_equal(done.origin("a").ravel(), [0, 1])
    np.testing.assert_array_equal(done.origin("b").ravel(), [2, 0])
    assert done.origin_table("b").column(1).to_pylist() == ["observed"]  # as in its table
    assert len(done.views["b"]) == 1


def test_evaluation_ranks_methods_and_counts_the_parts():
    record = evaluate(
        linked(noise=0.1),
        {"mean": lambda s: make("mean"), "ridge": lambda s: make("central-ridge")},
        share=0.2,
        seeds=[0, 1, 2],
    )
    assert record.summary["mean/mse/all"]["mean"] == pytest.approx(1, abs=0.3)
    assert record.summary["ridge/mse/second"]["mean"] < 0.1
    assert record.summary["ridge/r2/second"]["mean"] > 0.9
    assert record.summary["ridge/mse/all"]["n"] == 3
    assert set(record.extra["features"]["ridge/mse"]["second"]) == {"second_0", "second_1"}


def test_evaluation_of_coded_cells_is_accuracy():
    rng = np.random.default_rng(0)
    kinds = Feature("housing", Kind.CATEGORICAL, categories=("own", "rent", "other"))
    coded = rng.choice(3, size=(400, 1), p=[0.6, 0.3, 0.1]).astype(float)
    numbers = View("bills", np.arange(400), rng.normal(size=(400, 2)))
    views = MultiView([View("clients", np.arange(400), coded, [kinds]), numbers])
    record = evaluate(views, {"mean": lambda s: make("mean")}, seeds=[0])
    assert record.summary["mean/accuracy/clients"]["mean"] == pytest.approx(0.6, abs=0.1)
    assert "mean/accuracy/bills" not in record.summary


@pytest.mark.parametrize(
    ("share", "width", "words"), [(0.0, 2, "share"), (1.0, 2, "share"), (0.1, 1, "one column")]
)
def test_evaluation_refuses_bad_settings(share, width, words):
    view = linked(30)["second"]
    data = MultiView([view.select(view.feature_names[:width])])
    with pytest.raises((SettingError, DataError), match=words):
        evaluate(data, {"mean": lambda s: make("mean")}, share=share)


def test_evaluation_hides_cells_where_cells_are_missing():
    view = linked(200, noise=0.01)["second"]
    cells = np.array(view.cells)
    cells[::3, 1] = np.nan
    holed = MultiView([linked(200)["first"], view.with_rows(view.ids, cells)])
    record = evaluate(holed, {"mean": lambda s: make("mean")}, share=0.2, seeds=[0])
    assert {"mean/mse/first", "mean/mse/second", "mean/cell_mse/second"} <= set(record.summary)
    assert "mean/cell_mse/first" not in record.summary
    # Holes are copied: only the second column has any, so only it loses cells.
    features = record.extra["features"]["mean/cell_mse"]["second"]
    assert features["second_1"] == pytest.approx(1, abs=0.4)
    assert features["second_0"] is None


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_as_promised(level):
    truth = linked(2000, noise=0.5)
    holed, hidden = drop_rows(truth, 0.2, key=5)
    done = with_intervals(
        make("central-ridge").fit_complete(holed), lambda: make("central-ridge"), level=level, key=6
    )
    inside = []
    for name in truth:
        at = hidden[name]
        actual = truth.aligned(name)[at]
        low, high = done.lower[name][at], done.upper[name][at]
        inside.append(((actual >= low) & (actual <= high)).mean())
        assert np.isnan(done.lower[name][~at]).all()  # observed cells need no interval
    assert np.mean(inside) == pytest.approx(level, abs=0.04)
    assert "second_0_low" in done.table("second").column_names


def test_the_radius_is_the_conformal_order_statistic():
    residuals = np.arange(1.0, 100.0)[:, None]
    assert conformal_radius(residuals, 0.9) == 90
    assert np.isnan(conformal_radius(residuals[:5], 0.9))
    with_gap = np.vstack([residuals, np.full((50, 1), np.nan)])
    assert conformal_radius(with_gap, 0.9) == 90
