"""Missingness: exact counts, mechanisms that show in the statistics, observed cells untouched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cofill.errors import SettingError
from cofill.views._feature import Feature, Kind
from cofill.views._missing import drop_cells, drop_rows
from cofill.views._multiview import MultiView
from cofill.views._view import View

MECHANISMS = ["mcar", "mar", "mnar"]


def three_views(n=2000, seed=0):
    """Independent views, so that one view's missingness can depend on only one of them."""
    rng = np.random.default_rng(seed)
    return MultiView.from_arrays({v: rng.normal(size=(n, 3)) for v in ("a", "b", "c")})


def linear_r2(cells, target):
    """How much of a 0/1 target a linear function of the cells explains."""
    X = np.column_stack([np.ones(len(cells)), cells])
    rest = target - X @ np.linalg.lstsq(X, target, rcond=None)[0]
    return 1 - rest.var() / target.var()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.333, {"a": 0.5, "b": 0.7, "c": 0.8}])
def test_row_rates_are_exact_and_nobody_vanishes(mechanism, rate):
    views = three_views(503)
    holes, hidden = drop_rows(views, rate, mechanism=mechanism, key=3)
    assert np.array_equal(holes.ids, views.ids)
    for name, view in views.items():
        share = rate[name] if isinstance(rate, dict) else rate
        assert hidden[name].sum() == round(share * len(view))
        assert np.array_equal(holes[name].ids, view.ids[~hidden[name]])
        assert np.array_equal(holes[name].cells, view.cells[~hidden[name]])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_disappears_depends_on_what_the_mechanism_says(mechanism):
    views = three_views()
    _, hidden = drop_rows(views, 0.3, mechanism=mechanism, key=1, names=["a"])
    own, other = (
        max(linear_r2(views[v].cells, hidden["a"].astype(float)) for v in group)
        for group in (["a"], ["b", "c"])
    )
    assert (own > 0.1) == (mechanism == "mnar")
    assert (other > 0.05) == (mechanism == "mar")
    assert min(own, other) < 0.01


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_which_cells_disappear_depends_on_what_the_mechanism_says(mechanism):
    views = three_views()
    _, hidden = drop_cells(views, 0.3, mechanism=mechanism, key=1, names=["a"])
    for k in range(3):
        lost = hidden["a"][:, k].astype(float)
        own = linear_r2(views["a"].cells[:, [k]], lost)
        other = max(linear_r2(views[v].cells, lost) for v in ("b", "c"))
        assert (own > 0.1) == (mechanism == "mnar")
        assert (other > 0.03) == (mechanism == "mar")


def test_cells_of_a_single_view_can_depend_on_its_other_columns():
    views = three_views().select(["b"])
    own, other = [], []
    for key in range(5):
        _, hidden = drop_cells(views, 0.3, mechanism="mar", key=key)
        for k in range(3):
            lost, others = hidden["b"][:, k].astype(float), [j for j in range(3) if j != k]
            own.append(linear_r2(views["b"].cells[:, [k]], lost))
            other.append(linear_r2(views["b"].cells[:, others], lost))
    assert min(other) > 0.1
    assert max(own) < 0.01


def test_mar_looks_only_at_views_that_lose_nothing_where_there_are_any():
    views = three_views()
    _, hidden = drop_rows(views, {"a": 0.4, "b": 0.4}, mechanism="mar", key=5)
    for name in ("a", "b"):
        lost = hidden[name].astype(float)
        assert linear_r2(views["c"].cells, lost) > 0.1
        assert max(linear_r2(views[v].cells, lost) for v in ("a", "b")) < 0.02


@settings(max_examples=60)
@given(st.data())
def test_rows_meet_the_rate_exactly_when_a_linear_programme_can(data):
    n, v = data.draw(st.integers(2, 9)), data.draw(st.integers(2, 4))
    presence = np.array(data.draw(st.lists(st.integers(1, 2**v - 1), min_size=n, max_size=n)))
    seen = (presence[:, None] >> np.arange(v) & 1).astype(bool)
    seen[: min(n, v)] |= np.eye(min(n, v), v, dtype=bool)
    if not seen.any(axis=0).all():
        return
    names = [f"v{k}" for k in range(v)]
    views = MultiView.from_arrays(
        {name: np.ones((n, 2)) for name in names},
        presence={name: seen[:, k] for k, name in enumerate(names)},
    )
    rates = {name: data.draw(st.floats(0, 0.95)) for name in names}
    counts = [round(rates[name] * len(views[name])) for name in names]
    if any(c == len(views[m]) for c, m in zip(counts, names, strict=True)):
        return
    # One variable per observed row: 1 if hidden. Its constraint matrix is totally unimodular.
    at = np.argwhere(seen)
    per_view = (at[:, 1][None] == np.arange(v)[:, None]).astype(float)
    per_person = (at[:, 0][None] == np.arange(n)[:, None]).astype(float)
    feasible = linprog(
        np.zeros(len(at)), A_ub=per_person, b_ub=seen.sum(axis=1) - 1, A_eq=per_view, b_eq=counts,
        bounds=(0, 1),
    ).status == 0  # fmt: skip
    if not feasible:
        with pytest.raises(SettingError, match="keep_one=False"):
            drop_rows(views, rates, key=data.draw(st.integers(0, 99)))
        return
    holes, hidden = drop_rows(views, rates, key=data.draw(st.integers(0, 99)))
    assert [int(hidden[m].sum()) for m in names] == counts
    assert np.array_equal(holes.ids, views.ids)
    assert all((hidden[m] <= views.present(m)).all() for m in names)


def test_the_unreachable_rate_is_refused_unless_individuals_may_vanish():
    views = three_views(100)
    with pytest.raises(SettingError, match=r"hide 210 rows, of which 200 can go .* keep_one=False"):
        drop_rows(views, 0.7, key=0)
    assert drop_rows(views, 0.66, key=0)[0].n_individuals == 100
    holes, hidden = drop_rows(views, 0.7, key=0, keep_one=False)
    assert holes.n_individuals < 100
    assert all(len(mask) == 100 and mask.sum() == 70 for mask in hidden.values())


def test_reproducible_from_the_key_whatever_the_order_of_views():
    views = three_views(300)
    swapped = views.select(["c", "a", "b"])
    for drop in (drop_rows, drop_cells):
        for mechanism in MECHANISMS:
            first, hidden = drop(views, 0.25, mechanism=mechanism, key=[4, 2])
            again, _ = drop(views, 0.25, mechanism=mechanism, key=[4, 2])
            other, _ = drop(views, 0.25, mechanism=mechanism, key=[4, 3])
            _, moved = drop(swapped, 0.25, mechanism=mechanism, key=[4, 2])
            assert first.same_as(again)
            assert not any(first[n].same_as(other[n]) for n in views)
            assert all(np.array_equal(hidden[n], moved[n]) for n in views)


def test_the_key_alone_decides_for_a_view():
    views = three_views(300)
    for drop in (drop_rows, drop_cells):
        one, two = (drop(views, 0.25, key=k, names=["a"])[1]["a"] for k in (0, 1))
        more = drop(views, 0.25, key=0, names=["a", "b"])[1]["a"]
        assert not np.array_equal(one, two)
        if drop is drop_cells:  # rows of one view give way to the others' where nobody may vanish
            assert np.array_equal(one, more)


@settings(max_examples=40)
@given(st.floats(0, 0.6), st.sampled_from(MECHANISMS), st.integers(0, 2**40))
def test_cell_rates_are_exact_and_the_rest_untouched(rate, mechanism, key):
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(60, 4))
    cells[rng.random(cells.shape) < 0.2] = np.nan
    cells[:, 3] = rng.integers(0, 3, 60)
    features = ["x", "y", "z", Feature("g", Kind.CATEGORICAL, ("p", "q", "r"))]
    views = MultiView([View("m", range(60), cells, features), View("o", range(60), cells[:, 3:])])
    holes, hidden = drop_cells(views, rate, mechanism=mechanism, key=key, names=["m"])
    before, after = views["m"].cells, holes["m"].cells
    assert hidden["m"].sum() == round(rate * (~np.isnan(before)).sum())
    assert not hidden["o"].any()
    assert not np.isnan(before[hidden["m"]]).any()
    assert np.isnan(after[hidden["m"]]).all()
    np.testing.assert_array_equal(after[~hidden["m"]], before[~hidden["m"]])
    assert len(holes["m"]) == 60  # nobody lost all cells


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_view_nobody_is_in_loses_nothing(mechanism):
    views = three_views(50).hide({"b": np.ones(50, dtype=bool)})
    for drop in (drop_rows, drop_cells):
        holes, hidden = drop(views, 0.2, mechanism=mechanism, key=0)
        assert len(holes["b"]) == 0
        assert not hidden["b"].any()
        assert hidden["a"].sum() == round(0.2 * hidden["a"].size)


def test_errors_name_the_parameter_and_the_way_out():
    views = three_views(20)
    for rate in (1.0, -0.1, float("nan")):
        with pytest.raises(SettingError, match="rate of view 'a' must be at least 0 and less"):
            drop_rows(views, rate, key=0)
    with pytest.raises(SettingError, match="there is no view 'd'"):
        drop_rows(views, 0.1, key=0, names=["d"])
    with pytest.raises(SettingError, match="mechanism must be one of 'mcar', 'mar', 'mnar'"):
        drop_rows(views, 0.1, mechanism="random", key=0)
    with pytest.raises(SettingError, match="strength must be a positive number, got 0"):
        drop_rows(views, 0.1, mechanism="mar", key=0, strength=0.0)
    with pytest.raises(SettingError, match="'mar' needs another view"):
        drop_rows(views.select(["a"]), 0.1, mechanism="mar", key=0, keep_one=False)
    with pytest.raises(SettingError, match=r"hide 48 cells of view 'a', of which 40 can go"):
        drop_cells(views, 0.8, key=0)
    with pytest.raises(SettingError, match="key must be a whole number of at least 0"):
        drop_rows(views, 0.1, key=-1)


def test_copied_holes_look_like_the_views_own():
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(400, 4))
    cells[:100, 1:3] = np.nan  # a pair that is missing together
    views = MultiView([View("lab", np.arange(400), cells)])
    holed, hidden = drop_cells(views, 0.1, mechanism="copied", key=0)
    lost = hidden["lab"]
    assert lost.sum() == pytest.approx(0.1 * (~np.isnan(cells)).sum(), abs=2)
    assert not lost[:, [0, 3]].any()
    np.testing.assert_array_equal(lost[:, 1], lost[:, 2])
    assert not lost[:100].any()
    assert (~np.isnan(holed["lab"].cells)).any(axis=1).all()
