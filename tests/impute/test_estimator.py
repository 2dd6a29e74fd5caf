"""`cofill.Imputer` behaves as scikit-learn's estimators do, on every library's frames."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from cofill import Imputer
from cofill.errors import SettingError


@parametrize_with_checks([Imputer(effort="quick")])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": x,
            "count": pd.array(np.rint(x * 5), dtype="Int64"),
            "big": pd.array(np.arange(n) + 2**60, dtype="Int64"),
            "group": np.where(x > 0, "high", "low"),
            "flag": pd.array(x > 0, dtype="boolean"),
        },
        index=np.arange(n) + 100,
    )


def holed(table):
    table = table.copy()
    for k in range(table.shape[1]):
        table.iloc[k * 7 : k * 7 + 5, k] = None
    return table


def test_a_pandas_frame_comes_back_with_its_types_index_and_known_cells():
    before = frame()
    table = holed(before)
    done = Imputer(effort="quick").fit_transform(table)
    assert done.isna().sum().sum() == 0
    assert (done.dtypes == table.dtypes).all()
    assert done.index.equals(table.index)
    for column in table:
        known = table[column].notna()
        assert (done[column][known] == table[column][known]).all()
    # Past 2⁵³ a float cannot hold these: known cells never went through one.
    assert done["big"].iloc[30] == 2**60 + 30
    assert (done["group"] == before["group"]).mean() > 0.95
    assert (done["flag"] == before["flag"]).mean() > 0.95


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["high", "low"])])
def test_polars_in_polars_out(kind):
    table = pl.from_pandas(holed(frame()).reset_index(drop=True))
    table = table.with_columns(pl.col("group").cast(kind))
    done = Imputer(effort="quick").fit_transform(table)
    assert isinstance(done, pl.DataFrame)
    assert done.schema == table.schema
    assert sum(done.null_count().row(0)) == 0


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_other_types_of_pandas_stay(dtype):
    table = holed(frame()).astype({"group": dtype, "flag": "object"})
    done = Imputer(effort="quick").fit_transform(table)
    assert (done.dtypes == table.dtypes).all()
    assert done.isna().sum().sum() == 0


def test_copies_give_the_same_cells():
    table = holed(frame())
    fitted = Imputer(effort="quick").fit(table)
    expected = fitted.transform(table)
    for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        pd.testing.assert_frame_equal(twin.transform(table), expected)
    pd.testing.assert_frame_equal(clone(fitted).fit_transform(table), expected)


def test_output_and_names_as_asked():
    array = holed(frame())[["x", "count"]].astype("float64").to_numpy()
    done = Imputer(effort="quick").set_output(transform="pandas").fit_transform(array)
    assert list(done.columns) == ["x0", "x1"]
    named = Imputer(effort="quick").fit(holed(frame()))
    assert list(named.get_feature_names_out()) == list(frame().columns)


def test_in_a_pipeline_a_column_transformer_and_a_search():
    table = holed(frame())
    numbers = table[["x", "count"]].astype("float64")
    model = make_pipeline(
        ColumnTransformer([("fill", Imputer(effort="quick"), ["x", "count"])]), LinearRegression()
    )
    search = GridSearchCV(model, {"columntransformer__fill__seed": [0, 1]}, cv=2)
    assert search.fit(numbers, frame()["x"]).best_score_ > 0.9


def test_a_category_never_seen_stays_and_is_not_used():
    table = holed(frame())
    fitted = Imputer(effort="quick").fit(table)
    later = frame(5, seed=3)
    later["group"] = ["other", None, "low", "high", "low"]
    done = fitted.transform(later)
    assert done["group"].iloc[0] == "other"
    assert done["group"].iloc[1] in ("low", "high")


def test_several_frames_of_the_same_people():
    whole = frame().reset_index(names="person")
    first, second = whole[["person", "x"]], whole[["person", "count", "group"]].iloc[:50]
    done = Imputer(effort="quick", id="person").fit_transform({"a": first, "b": second})
    assert len(done["b"]) == 60
    assert (done["b"]["group"].to_numpy() == whole["group"].to_numpy()).mean() > 0.9


def test_kinds_may_be_declared():
    table = holed(frame())
    done = Imputer(effort="quick", kinds={"count": "categorical"}).fit_transform(table)
    assert set(done["count"]) <= set(table["count"].dropna())
    with pytest.raises(SettingError, match="there is no column 'cout'"):
        Imputer(kinds={"cout": "categorical"}).fit(table)


@pytest.mark.parametrize("form", [lambda t: t, pl.from_pandas, lambda t: {"a": t.reset_index()}])
def test_draws_come_in_the_form_of_the_table(form):
    table = form(holed(frame()))
    imputer = Imputer(effort="quick", id="index").fit(table)
    first, second = imputer.draw(table, 2, key=3)
    assert type(first) is type(table)
    if isinstance(table, dict):
        first, second, table = first["a"], second["a"], table["a"]
    columns = list(table.columns)
    assert list(first.columns) == columns
    assert first["x"].to_list() != second["x"].to_list()
    assert first["group"].is_in(["high", "low"]).all() if hasattr(first["x"], "is_in") else True
    again, _ = imputer.draw(form(holed(frame())), 2, key=3)
    again = again["a"] if isinstance(again, dict) else again
    assert again["x"].to_list() == first["x"].to_list()
