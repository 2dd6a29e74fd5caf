"""The pooled method: a row's own cells come first, every cell is filled, whatever is missing."""

import numpy as np
import pytest

from cofill.completion import make
from cofill.errors import SettingError
from cofill.impute import PooledCompleter
from cofill.metrics import r2
from cofill.views import Feature, Kind, MultiView, View

COLOUR = Feature("colour", Kind.CATEGORICAL, ("red", "green", "blue"), "string")


def quick(**settings):
    return PooledCompleter(effort="quick", **settings)


def line(n=80, seed=0):
    """One table in which y = 2x, the colour follows x, and a third column is noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    cells = np.column_stack([x, 2 * x, np.digitize(x, [-0.5, 0.5]), rng.normal(size=n)])
    return cells, [Feature("x"), Feature("y"), COLOUR, Feature("noise")]


def test_a_persons_own_cells_come_first():
    cells, features = line()
    holed = cells.copy()
    holed[:20, 1] = np.nan
    holed[20:40, 2] = np.nan
    done = quick().fit_complete(MultiView([View("t", np.arange(80), holed, features)])).cells["t"]
    assert r2(cells[:20, [1]], done[:20, [1]]) > 0.98
    assert (done[20:40, 2] == cells[20:40, 2]).mean() >= 0.85


def test_one_table_is_not_filled_with_its_means():
    cells, features = line()
    holed = np.where(np.random.default_rng(1).random(cells.shape) < 0.2, np.nan, cells)
    hidden = np.isnan(holed[:, 1]) & ~np.isnan(holed[:, 0])
    views = MultiView([View("t", np.arange(80), holed, features)])
    errors = {
        name: ((make(name, **s).fit_complete(views).cells["t"] - cells)[hidden, 1] ** 2).mean()
        for name, s in {"pooled": {"effort": "quick"}, "central": {"model": "ridge"}}.items()
    }
    assert errors["pooled"] < 0.05 * errors["central"]


def test_rows_of_a_view_are_told_from_another():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = np.column_stack([x.sum(axis=1), x[:, 0] - x[:, 1]]) + rng.normal(size=(120, 2)) * 0.05
    views = MultiView.from_arrays({"x": x, "y": y}, presence={"y": np.arange(120) > 29})
    assert r2(y[:30], quick().fit_complete(views).cells["y"][:30]) > 0.97


def test_views_that_share_nobody_are_filled_with_averages():
    x = np.random.default_rng(0).normal(size=(40, 2))
    views = MultiView([View("a", np.arange(20), x[:20]), View("b", np.arange(20, 40), x[20:])])
    done = quick().fit_complete(views)
    np.testing.assert_allclose(done.cells["b"][:20], np.tile(x[20:].mean(0), (20, 1)), atol=0.35)


def test_a_constant_column_is_filled_with_its_constant():
    cells, features = line()
    cells[:, 3] = 7.0
    cells[:10, 3] = np.nan
    done = quick().fit_complete(MultiView([View("t", np.arange(80), cells, features)]))
    np.testing.assert_array_equal(done.cells["t"][:, 3], 7.0)


def test_people_who_come_later_and_views_that_are_absent():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    views = MultiView.from_arrays({"x": x, "y": 3 * x})
    fitted = quick().fit(views.take(np.arange(100) < 90))
    single = MultiView([View("x", [1000], x[99:])])
    done = fitted.complete(single)
    assert done.source.names == ("x", "y")
    np.testing.assert_allclose(done.cells["y"], 3 * x[99:], atol=0.5)


def test_values_stay_in_the_range_and_in_the_decimals_of_their_column():
    rng = np.random.default_rng(0)
    income = np.rint(np.exp(rng.normal(8, 1.5, size=100)))
    cells = np.column_stack([income, rng.normal(size=100), np.log(income)])
    cells[:30, 0] = np.nan
    features = [Feature("income", decimals=0), Feature("noise"), Feature("log")]
    done = quick().fit_complete(MultiView([View("t", np.arange(100), cells, features)]))
    filled = done.cells["t"][:30, 0]
    assert (filled == np.rint(filled)).all()
    assert filled.min() >= income[30:].min()


def test_an_unknown_effort_is_refused():
    with pytest.raises(SettingError, match="effort must be one of quick, normal, thorough"):
        PooledCompleter(effort="hard").fit(MultiView([View("t", [1, 2], [[1.0], [2.0]])]))


def heteroscedastic(n, seed):
    """y follows x with an error that grows with x; z tells little; holes at random."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, size=n)
    y = 2 * x + rng.normal(size=n) * (0.1 + x**2 / 2)
    cells = np.column_stack([x, y, y + 3 * rng.normal(size=n)])
    hidden = rng.random(cells.shape) < 0.2
    return cells, np.where(hidden, np.nan, cells), hidden


def test_intervals_fit_the_case():
    _, holed, _ = heteroscedastic(2500, 0)
    fitted = quick(interval=0.9).fit(MultiView.from_arrays({"t": holed}))
    cells, holed, hidden = heteroscedastic(12_000, 1)
    views = MultiView.from_arrays({"t": holed})
    done = fitted.complete(views)
    low, high, guess = done.lower["t"], done.upper["t"], done.cells["t"]
    hidden, cells = hidden[views.ids], cells[views.ids]
    assert np.isnan(low[~hidden]).all()
    for k in range(3):
        gone = hidden[:, k]
        inside = ((low <= cells) & (cells <= high))[gone, k]
        edges = np.quantile(guess[gone, k], [0.2, 0.4, 0.6, 0.8])
        fifths = np.searchsorted(edges, guess[gone, k])
        coverage = [inside[fifths == p].mean() for p in range(5)]
        assert min(coverage) > 0.84
        assert max(coverage) < 0.96
    width = (high - low)[:, 1]
    low_x, high_x = cells[:, 0] < 0.6, cells[:, 0] > 2.4
    known = ~hidden[:, 0] & hidden[:, 1]
    assert width[known & high_x].mean() > 3 * width[known & low_x].mean()


def test_draws_have_the_spread_that_predictions_lack():
    shares = []
    for seed in (1, 2, 3):  # one table's spread in 160 holes is off by a tenth by chance
        cells, holed, hidden = heteroscedastic(800, seed)
        views = MultiView.from_arrays({"t": holed})
        fitted = quick().fit(views)
        kept = ~np.isnan(holed).all(axis=1)
        gone = hidden[kept][:, 1]
        draws = [d.cells["t"] for d in fitted.draw(views, 4, matched=False)]
        single = fitted.complete(views).cells["t"]
        truth = cells[kept][gone, 1].std()
        assert single[gone, 1].std() < 0.93 * truth
        shares.append(np.mean([d[gone, 1].std() for d in draws]) / truth)
        assert (draws[0][gone, 1] != draws[1][gone, 1]).mean() > 0.95
        for drawn in draws:
            known = ~hidden[kept]
            np.testing.assert_array_equal(drawn[known], cells[kept][known])
    assert np.mean(shares) == pytest.approx(1.0, rel=0.12)


def test_matched_draws_are_values_that_were_observed():
    _, holed, _ = heteroscedastic(200, 2)
    views = MultiView.from_arrays({"t": np.round(holed, 1)})
    (drawn,) = quick().fit(views).draw(views, 1, matched=True)
    for k in range(3):
        observed = views["t"].cells[:, k]
        assert set(drawn.cells["t"][:, k]) <= set(observed[~np.isnan(observed)])


def test_draws_keep_the_pile_of_a_column_that_is_zero_for_many():
    rng = np.random.default_rng(5)
    x = rng.normal(size=600)
    spent = np.where(
        rng.random(600) < 1 / (1 + np.exp(-2 * x)), np.exp(x + rng.normal(size=600)), 0
    )
    table = np.column_stack([x, spent])
    table[rng.random(600) < 0.4, 1] = np.nan
    gone = np.isnan(table[:, 1])
    views = MultiView.from_arrays({"t": table})
    fitted = quick().fit(views)
    (matched,), (loose,) = (fitted.draw(views, 1, matched=m) for m in (None, False))
    shares = [(d.cells["t"][gone, 1] == 0).mean() for d in (matched, loose)]
    assert shares[0] == pytest.approx((spent[gone] == 0).mean(), abs=0.15)
    assert matched.cells["t"][gone, 1].min() == 0
    assert shares[1] < shares[0] - 0.2, "matching is what keeps the pile"


def test_draws_of_a_person_whom_one_view_does_not_know_and_of_a_view_that_is_not_there():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(80, 1))
    people = MultiView.from_arrays({"a": x, "b": 2 * x + 0.1 * rng.normal(size=(80, 1))})
    fitted = quick().fit(people)
    drawn = fitted.draw(people.select(["a"]), 3, key=1)
    assert [d.cells["b"].shape for d in drawn] == [(80, 1)] * 3
    spread = np.std([d.cells["b"] for d in drawn], axis=0)
    assert spread.mean() > 0.01
    with pytest.raises(SettingError, match="n_draws must be at least 1, got 0"):
        fitted.draw(people, 0)
