import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import DataError, SettingError
from cofill.views._feature import Feature, Kind
from cofill.views._frames import frame_to_table, to_frame, to_table, view_from_table
from cofill.views._multiview import MultiView
from cofill.views._rules import ColumnRules

NAN = float("nan")
SECRET_TEXT, SECRET_NUMBER = "zz-Kowalski", 74917491


def view_of(table, **rules):
    return view_from_table("lab", table, id="id", rules=ColumnRules(**rules))


def enum(values, of):
    return pl.Series(values, dtype=pl.Enum(of)).to_arrow()


# name: (column as Arrow sees it, kind, categories)
COLUMNS = {
    "double": (pa.array([1.5, None, -2.0, 4.0]), Kind.NUMERIC, ()),
    "float": (pa.array([1.5, None, 0.1, 4.0], pa.float32()), Kind.NUMERIC, ()),
    "halffloat": (pa.array(np.array([1.5, 2, 3, 4], np.float16)), Kind.NUMERIC, ()),
    "int64": (pa.array([5, None, -7, 2**53]), Kind.NUMERIC, ()),
    "int8": (pa.array([5, 100, -7, 3], pa.int8()), Kind.NUMERIC, ()),
    "int32": (pa.array([5, None, -7, 3], pa.int32()), Kind.NUMERIC, ()),
    "uint16": (pa.array([5, None, 65535, 3], pa.uint16()), Kind.NUMERIC, ()),
    "uint64": (pa.array([5, 6, 7, 8], pa.uint64()), Kind.NUMERIC, ()),
    "zero one": (pa.array([0, 1, None, 1]), Kind.BINARY, (0, 1)),
    "zero one int8": (pa.array([0, 1, 1, 1], pa.int8()), Kind.BINARY, (0, 1)),
    "zero one double": (pa.array([0.0, 1.0, None, 1.0]), Kind.BINARY, (0, 1)),
    "constant zero": (pa.array([0, 0, 0, 0]), Kind.NUMERIC, ()),
    "constant one": (pa.array([1, None, 1, 1]), Kind.NUMERIC, ()),
    "constant": (pa.array([3.5, 3.5, 3.5, 3.5]), Kind.NUMERIC, ()),
    "bool": (pa.array([True, None, False, True]), Kind.BINARY, (False, True)),
    "constant bool": (pa.array([True, None, True, True]), Kind.BINARY, (False, True)),
    "two texts": (pa.array(["m", "f", None, "m"]), Kind.BINARY, ("f", "m")),
    "texts": (pa.array(["c", "a", None, "b"]), Kind.CATEGORICAL, ("a", "b", "c")),
    "one text": (pa.array(["c", None, "c", "c"]), Kind.CATEGORICAL, ("c",)),
    "large texts": (
        pa.array(["c", "a", "b", "b"], pa.large_string()),
        Kind.CATEGORICAL,
        tuple("abc"),
    ),
    "category": (
        pa.array(pd.Categorical(["b", None, "a", "b"], categories=["b", "z", "a"])),
        Kind.CATEGORICAL,
        ("b", "z", "a"),
    ),
    "category of two": (
        pa.array(pd.Categorical(["b", None, "a", "b"], categories=["b", "a"])),
        Kind.BINARY,
        ("b", "a"),
    ),
    "category of numbers": (
        pa.array(pd.Categorical([30, None, 10, 30], categories=[30, 10, 20])),
        Kind.CATEGORICAL,
        (30, 10, 20),
    ),
    "enum": (enum(["x", None, "y", "y"], ["y", "w", "x"]), Kind.CATEGORICAL, ("y", "w", "x")),
}


@pytest.mark.parametrize(("column", "kind", "categories"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_finds_its_kind_and_comes_back_as_it_was(column, kind, categories):
    # Another column keeps rows alive whose cell is missing; the id stands in the middle.
    table = pa.table({"other": [1.5, 2.5, 3.5, 4.5], "id": [4, 1, 3, 2], "x": column})
    view = view_of(table)
    feature = view.features[1]
    assert (feature.kind, feature.categories) == (kind, categories)
    back = to_table(view)
    assert back.column_names == ["other", "id", "x"]
    assert back.equals(table)
    assert to_table(view, "id").equals(table.take([1, 3, 2, 0]))
    if pa.types.is_dictionary(column.type):
        assert pa.types.is_dictionary(back.schema.field("x").type)
        assert back.column("x").chunk(0).dictionary.to_pylist() == list(categories)
        assert feature.dictionary
    else:
        assert back.schema.field("x").type == column.type


def test_decimals_are_numbers():
    decimals = pa.array(["1.25", None, "3"]).cast(pa.decimal128(9, 2))
    flags = pa.array(["0", "1", "0"]).cast(pa.decimal128(3, 0))
    back = to_table(view_of(pa.table({"id": [1, 2, 3], "x": decimals, "flag": flags})))
    assert back.column("x").type == pa.decimal128(9, 2)
    assert back.column("x").equals(pa.chunked_array([decimals]))
    assert back.column("flag").equals(pa.chunked_array([flags]))


DATA = {
    "age": [50, 40, 30],
    "person": [3, 1, 2],
    "weight": [70.5, None, 60.25],
    "smoker": [True, None, False],
    "ward": ["b", "a", None],
    "grade": ["low", "high", None],
}


def pandas_frame():
    frame = pd.DataFrame(DATA)
    frame["smoker"] = frame["smoker"].astype("boolean")
    frame["grade"] = pd.Categorical(DATA["grade"], categories=["low", "mid", "high"])
    return frame


def polars_frame():
    return pl.DataFrame(DATA, schema_overrides={"grade": pl.Enum(["low", "mid", "high"])})


def arrow_table():
    grade = pa.DictionaryArray.from_arrays(pa.array([0, 2, None]), ["low", "mid", "high"])
    return pa.table({**DATA, "grade": grade})


FRAMES = {"pandas": pandas_frame, "polars": polars_frame, "pyarrow": arrow_table}


def test_every_library_gives_the_same_view():
    views = {
        library: MultiView.from_frames({"lab": make()}, id="person")["lab"]
        for library, make in FRAMES.items()
    }
    lazy = MultiView.from_frames({"lab": polars_frame().lazy()}, id="person")["lab"]
    reference = views["pyarrow"]
    assert reference.feature_names == ("age", "weight", "smoker", "ward", "grade")
    assert [str(f.kind) for f in reference.features] == [
        *("numeric", "numeric", "binary", "binary", "categorical")
    ]
    for view in [*views.values(), lazy]:
        np.testing.assert_array_equal(view.ids, reference.ids)
        np.testing.assert_array_equal(view.cells, reference.cells)
        # Only the width of Arrow's string type differs between libraries.
        for mine, theirs in zip(view.features, reference.features, strict=True):
            assert (mine.name, mine.kind, mine.categories, mine.dictionary) == (
                *(theirs.name, theirs.kind, theirs.categories, theirs.dictionary),
            )
            assert mine.dtype.removeprefix("large_") == theirs.dtype.removeprefix("large_")


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_comes_back_in_the_users_library(library):
    frame = FRAMES[library]()
    view = MultiView.from_frames({"lab": frame}, id="person")["lab"]
    back = to_frame(to_table(view), library)
    if library == "pandas":
        pd.testing.assert_frame_equal(back, frame)
    elif library == "polars":
        text = pl.col("grade").cast(pl.String)  # polars reads no Enum from Arrow
        assert back.with_columns(text).equals(frame.with_columns(text))
    else:
        assert back.equals(frame)


def test_the_default_frame_is_pandas_and_others_are_refused():
    assert isinstance(to_frame(pa.table({"a": [1]})), pd.DataFrame)
    with pytest.raises(SettingError, match="'pandas', 'polars' or 'pyarrow', got 'spark'"):
        to_frame(pa.table({"a": [1]}), "spark")


def test_a_filtered_pandas_frame_does_not_grow_a_feature():
    frame = pd.DataFrame({"id": [1, 2, 3], "x": [1.5, 2.5, 3.5]})
    view = MultiView.from_frames({"lab": frame[frame["x"] > 2]}, id="id")["lab"]
    assert view.feature_names == ("x",)


def test_new_arrow_strings_are_text():
    table = pa.table(
        {
            "id": pa.array(["a", "b", "c"], pa.string_view()),
            "x": pa.array(["u", "v", None], pa.string_view()),
            "y": [1.5, 2.5, 3.5],
        }
    )
    view = view_of(table)
    assert view.ids.tolist() == ["a", "b", "c"]
    assert view.features[0].categories == ("u", "v")


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ([1, 2, 1], "categorical", Feature("x", Kind.CATEGORICAL, (1, 2), dtype="int64")),
        ([1, 2, None], "binary", Feature("x", Kind.BINARY, (1, 2), dtype="int64")),
        ([0, 1, 1], "numeric", Feature("x", dtype="int64")),
        (["1.5", " 2 ", None], "numeric", Feature("x", dtype="double")),
        (["1", "2", "x"], "categorical", Feature("x", Kind.CATEGORICAL, ("1", "2", "x"), "string")),
        ([1.5, NAN, 2.5], "categorical", Feature("x", Kind.CATEGORICAL, (1.5, 2.5))),
    ],
)
@pytest.mark.parametrize("key", ["x", "lab.x"])
def test_a_declared_kind_wins(column, kind, expected, key):
    table = pa.table({"id": [1, 2, 3], "x": column, "y": [1.5, 2.5, 3.5]})
    assert view_of(table, kinds={key: kind}).features[0] == expected


def test_the_rule_of_one_view_wins_over_the_rule_of_all():
    table = pa.table({"id": [1, 2, 3], "x": [1, 2, 3], "y": [4.5, 5.5, 6.5]})
    rules = ColumnRules(kinds={"x": "categorical", "lab.x": "numeric"}, ignore=["clinic.y"])
    lab = view_from_table("lab", table, id="id", rules=rules)
    clinic = view_from_table("clinic", table, id="id", rules=rules)
    assert [f.kind for f in lab.features] == [Kind.NUMERIC, Kind.NUMERIC]
    assert [f.kind for f in clinic.features] == [Kind.CATEGORICAL]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ["a", "b", "id", "c"]),
        (["a"], ["b", "id", "c"]),
        (["lab.a", "b"], ["id", "c"]),
        (["c"], ["a", "b", "id"]),
    ],
)
def test_dropped_columns_go_and_ignored_ones_pass_through(names, expected):
    table = pa.table({"a": [1.5], "b": [2.5], "id": [1], "c": [3.5]})
    dropped, ignored = view_of(table, drop=names), view_of(table, ignore=names)
    assert to_table(dropped).column_names == expected
    assert ignored.feature_names == dropped.feature_names
    assert to_table(ignored).equals(table)


IDS = {
    "integers": (pa.array([3, 1, 2]), None, [1, 2, 3]),
    "small integers": (pa.array([3, 1, 2], pa.uint8()), None, [1, 2, 3]),
    "whole floats": (pa.array([3.0, 1.0, 2.0]), None, [1, 2, 3]),
    "text": (pa.array(["b", "007", "7"]), None, ["007", "7", "b"]),
    "digits in text": (pa.array(["3", "1", "2"]), None, ["1", "2", "3"]),
    "categories": (pa.array(["b", "a", "c"]).dictionary_encode(), None, ["a", "b", "c"]),
    "integers as text": (pa.array([30, 4, 2]), "text", ["2", "30", "4"]),
    "whole floats as text": (pa.array([30.0, 4.0, 2.0]), "text", ["2", "30", "4"]),
}


@pytest.mark.parametrize(("column", "id_type", "expected"), IDS.values(), ids=IDS)
def test_ids(column, id_type, expected):
    view = view_of(pa.table({"id": column, "x": [1.5, 2.5, 3.5]}), id_type=id_type)
    assert view.ids.tolist() == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["3", "1", "-2"], [-2, 1, 3]),
        (["3", "01", "2"], ["01", "2", "3"]),
        (["3", "x", "2"], ["2", "3", "x"]),
        (["3", "9" * 19, "2"], ["2", "3", "9" * 19]),
    ],
)
def test_ids_without_a_type_are_integers_when_all_look_so(texts, expected):
    table = pa.table({"id": texts, "x": [1.5, 2.5, 3.5]})
    assert view_of(table, untyped_ids=True).ids.tolist() == expected
    assert view_of(table, untyped_ids=True, id_type="text").ids.tolist() == sorted(texts)


FINE = {"id": [1, 2, 3, 4], "x": [1.5, 2.5, 3.5, 4.5]}
MANY = [f"{SECRET_TEXT}{k}" for k in range(101)]
BAD_TABLES = {
    "no id column": ({"ids": [1], "x": [1.0]}, {}, "no id column 'id'; did you mean 'ids'?"),
    "nothing like it": ({"a": [1], "b": [1]}, {}, "no id column 'id'; there is 'a', 'b'"),
    "no rows": ({"id": pa.array([], pa.int64()), "x": pa.array([], pa.float64())}, {}, "no rows"),
    "only ids": ({"id": [1]}, {}, "no columns beside the id"),
    "all ignored": (FINE, {"ignore": ["x"]}, "no columns beside the id"),
    "no name": ({"": [0, 1, 2, 3], **FINE}, {}, "column 1 has no name"),
    "id missing": (
        {**FINE, "id": [SECRET_NUMBER, None, 2, None]},
        {},
        "2 rows have no id (the first is row 2)",
    ),
    "id NaN": ({**FINE, "id": [1.0, 2.0, NAN, 4.0]}, {}, "1 rows have no id (the first is row 3)"),
    "id blank": ({**FINE, "id": [SECRET_TEXT, "a", "b", " "]}, {}, "the first is row 4"),
    "id twice": ({**FINE, "id": [SECRET_NUMBER, 2, SECRET_NUMBER, 4]}, {}, "in rows 1 and 3"),
    "id a fraction": ({**FINE, "id": [1.0, 2.0, 3.0, 7491.7491]}, {}, "got fractions"),
    "id infinite": ({**FINE, "id": [1.0, 2.0, 3.0, np.inf]}, {}, "beyond 2^53"),
    "id too large": ({**FINE, "id": [1.0, 2.0, 3.0, 7.4917491e300]}, {}, "beyond 2^53"),
    "id a date": ({**FINE, "id": pa.array([1, 2, 3, 4], pa.date32())}, {}, "whole numbers or text"),
    "nothing to fill": (
        {"id": [1, 2], "x": [None, None], "y": [NAN, NAN], "z": [[1], [2]]},
        {},
        "no column that can be filled: each is empty, free text or labels",
    ),
    "text among numbers": (
        {**FINE, "y": ["1", "2.5", SECRET_TEXT, "4"]},
        {},
        "holds text in 1 of 4 rows (the first is row 3)",
    ),
    "text declared numeric": (
        {**FINE, "y": [SECRET_TEXT, "b", "3", None]},
        {"kinds": {"y": "numeric"}},
        "declared numeric but holds text in 2 of 4 rows (the first is row 1)",
    ),
    "three for binary": (
        {**FINE, "y": [1, 2, 3, 3]},
        {"kinds": {"y": "binary"}},
        "two different values, got 3",
    ),
    "infinite": ({**FINE, "y": [1.0, np.inf, 2.0, 3.0]}, {}, "column 'y' holds infinite values"),
}


@pytest.mark.parametrize(("columns", "rules", "words"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_bad_table_is_refused_without_showing_a_person(columns, rules, words):
    table = pa.table(
        {n: c if isinstance(c, pa.Array) else pa.array(list(c)) for n, c in columns.items()}
    )
    with pytest.raises(DataError) as caught:
        view_of(table, **rules)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    for secret in (SECRET_TEXT, str(SECRET_NUMBER), "7491.7491", "7.4917", "1152921504606846977"):
        assert secret not in message


def test_a_column_that_occurs_twice_is_refused():
    table = pa.table([pa.array([1]), pa.array([1.0]), pa.array([2.0])], names=["id", "x", "x"])
    with pytest.raises(DataError, match="column 'x' occurs more than once"):
        view_of(table)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"kinds": {"x": "ordinal"}}, "'x' must be numeric, binary or categorical, got 'ordinal'"),
        ({"id_type": "integer"}, "id_type must be 'text' or None, got 'integer'"),
        ({"ignore": ["wieght"]}, "no view has a column 'wieght'; did you mean 'weight'?"),
        ({"kinds": {"lab.ages": "numeric"}}, "did you mean 'lab.age'?"),
        ({"ignore": ["clinic.age"]}, "no view has a column 'clinic.age'"),
    ],
)
def test_a_rule_that_fits_nothing_is_refused(rules, words):
    with pytest.raises(SettingError) as caught:
        MultiView.from_frames({"lab": arrow_table()}, id="person", **rules)
    assert words in str(caught.value)


@pytest.mark.parametrize("thing", [np.ones((2, 2)), [[1, 2]], None, "lab.csv"])
def test_what_is_no_frame_is_refused(thing):
    with pytest.raises(DataError, match="must be a data frame"):
        frame_to_table(thing, "lab")


def test_a_null_among_the_categories_is_a_missing_cell():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["b", None, "a"]))
    view = view_of(pa.table({"id": [1, 2, 3], "x": column, "y": [1.5, 2.5, 3.5]}))
    assert view.features[0].categories == ("b", "a")
    assert to_table(view).column("x").to_pylist() == ["b", None, "a"]


def test_dictionaries_of_several_chunks_are_joined():
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    view = view_of(pa.table({"id": [1, 2, 3, 4], "x": pa.chunked_array(chunks)}))
    assert to_table(view).column("x").to_pylist() == ["b", "a", "c", "b"]


cells = {
    "int64": st.integers(-(2**53), 2**53),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "a", "b", "Ä ö", "x\ny"]),
    "uint8": st.integers(0, 255),
}


@given(data=st.data(), library=st.sampled_from(["pandas", "polars", "pyarrow"]))
def test_any_table_survives_the_way_there_and_back(data, library):
    n = data.draw(st.integers(1, 8))
    types = data.draw(st.lists(st.sampled_from(list(cells)), min_size=1, max_size=4))
    ids = data.draw(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n, unique=True)
        | st.lists(st.text("ab7ö", min_size=1, max_size=4), min_size=n, max_size=n, unique=True)
    )
    columns = {"anchor": pa.array(np.arange(n) + 0.5)}
    for k, type_ in enumerate(types):
        values = data.draw(st.lists(st.none() | cells[type_], min_size=n, max_size=n))
        if all(v is None for v in values):
            values[0] = data.draw(cells[type_])
        columns[f"c{k}"] = pa.array(values, pa.type_for_alias(type_))
    place = data.draw(st.integers(0, len(columns)))
    names = list(columns)
    names.insert(place, "id")
    table = pa.table({**columns, "id": ids}).select(names)
    frame = table if library == "pyarrow" else to_frame(table, library)
    if library == "pandas":  # NumPy has no integer or truth value for a gap
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    view = MultiView.from_frames({"v": frame}, id="id")["v"]
    back = to_table(view)
    assert back.column_names == names
    assert back.to_pydict() == table.to_pydict()
    assert back.schema.types == frame_to_table(frame, "v").schema.types
