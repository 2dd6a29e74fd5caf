"""ColumnTransform: monotone, in range, in the column's decimals, on a scale that fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cofill.codec import decode, encode
from cofill.errors import SettingError
from cofill.views import ColumnTransform, Feature, Kind

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": (RNG.normal(50, 10, 2000), "standard"),
    "uniform": (RNG.random(2000), "standard"),
    "poisson": (RNG.poisson(3, 2000).astype(float), "standard"),
    "lognormal": (RNG.lognormal(sigma=1, size=2000), "log"),
    "pareto": (RNG.pareto(1.5, 2000), "log"),
    "half zeros": (np.where(RNG.random(2000) < 0.5, 0, RNG.lognormal(8, 1, 2000)), "log"),
    "mostly zeros": (np.where(RNG.random(2000) < 0.9, 0, RNG.lognormal(8, 1, 2000)), "quantile"),
    "cauchy": (RNG.standard_cauchy(2000), "quantile"),
    "constant": (np.full(9, 7.25), "standard"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_scale_fits_the_column_and_known_cells_come_back(name):
    cells, scale = COLUMNS[name]
    transform = ColumnTransform.fit(Feature("x"), cells)
    assert transform.scale == scale
    np.testing.assert_allclose(transform.inverse(transform.forward(cells)), cells, rtol=1e-9)


WILD = st.floats(-1e300, 1e300)


@given(
    arrays(np.float64, st.integers(1, 40), elements=WILD),
    arrays(np.float64, 20, elements=WILD),
    st.sampled_from([None, "standard", "quantile"]),
    st.sampled_from([None, 0, 2]),
)
def test_inverse_is_monotone_finite_and_in_range(cells, values, scale, decimals):
    transform = ColumnTransform.fit(Feature("x", decimals=decimals), cells, scale=scale)
    filled = transform.inverse(np.sort(values))
    assert np.isfinite(filled).all()
    assert (np.diff(filled) >= -1e-15 * np.abs(filled).max()).all()  # interpolation rounds
    assert filled.min() >= cells.min()
    assert filled.max() <= cells.max()
    assert not np.signbit(filled[filled == 0]).any()
    forward = transform.forward(np.sort(cells))
    assert np.isfinite(forward).all()
    assert (np.diff(forward) >= -1e-15).all()


def test_no_income_is_filled_below_zero():
    income = np.where(RNG.random(500) < 0.2, 0, RNG.lognormal(10, 1.2, 500))
    for scale in ("standard", "log", "quantile"):
        transform = ColumnTransform.fit(Feature("income"), income, scale=scale)
        assert transform.inverse(np.array([-50.0])) == 0


def test_filled_cells_have_the_columns_decimals_and_no_minus_zero():
    cells = np.array([-3.0, -1.0, 0.0, 2.0, 4.0])
    counts = ColumnTransform.fit(Feature("n", dtype="int64"), cells)
    filled = counts.inverse(counts.forward(np.array([-0.2, 1.7])))
    assert filled.tolist() == [0.0, 2.0]
    assert not np.signbit(filled[0])
    assert counts.inverse(counts.forward(np.array([1.75])), rounding=False) == 1.75
    prices = ColumnTransform.fit(Feature("price", decimals=2), cells)
    assert prices.inverse(prices.forward(np.array([1.23456])))[0] == 1.23


def test_missing_cells_are_left_out_and_stay_missing():
    cells = np.array([np.nan, 1.0, 3.0])
    for scale in ("standard", "log", "quantile"):
        transform = ColumnTransform.fit(Feature("x"), cells, scale=scale)
        assert np.isnan(transform.forward(cells)).tolist() == [True, False, False]
    empty = ColumnTransform.fit(Feature("x"), np.array([np.nan]))
    assert empty.inverse(empty.forward(np.array([4.0]))) == 4.0


def test_dates_are_never_on_a_logarithm():
    days = np.floor(RNG.lognormal(3, 2, 300))
    assert ColumnTransform.fit(Feature("d", dtype="date32[day]"), days).scale == "standard"


def test_transform_is_stored():
    transform = ColumnTransform.fit(Feature("x", decimals=1), COLUMNS["cauchy"][0])
    assert decode(encode(transform, format="t"), format="t") == transform


def test_faults_name_the_column_and_the_way_out():
    with pytest.raises(SettingError, match="'sex' is binary and has no scale"):
        ColumnTransform.fit(Feature("sex", Kind.BINARY, (0, 1)), np.array([0.0]))
    with pytest.raises(SettingError, match="cells below 0 and no logarithm; use 'quantile'"):
        ColumnTransform.fit(Feature("x"), np.array([-1.0, 2.0]), scale="log")
    with pytest.raises(SettingError, match="scale must be one of standard, log, quantile"):
        ColumnTransform.fit(Feature("x"), np.array([1.0]), scale="sqrt")
