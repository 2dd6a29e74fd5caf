import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.codec import decode, encode
from cofill.errors import DataError, InputError, SettingError
from cofill.views._feature import Feature, Kind
from cofill.views._ids import as_ids, id_type, require_one_type, require_unique
from cofill.views._view import View

NAN = float("nan")
SEX = Feature("sex", Kind.BINARY, ("f", "m"), dtype="string")

# Values that stand for people: no message and no picture may show them.
SECRET_ID, SECRET_TEXT, SECRET_CELL = 74917491, "zz-Kowalski", 83.625

BAD_VIEWS = {
    "no name": ({"name": "", "ids": [1], "cells": [[1.0]]}, SettingError, "must have a name"),
    "flat cells": (
        {"ids": [1], "cells": [SECRET_CELL]},
        DataError,
        "rows × features, got shape (1,)",
    ),
    "ragged cells": (
        {"ids": [1, 2], "cells": [[SECRET_CELL], [1.0, 2.0]]},
        DataError,
        "one length",
    ),
    "text cells": ({"ids": [1], "cells": [[SECRET_TEXT]]}, DataError, "cells must be numbers"),
    "objects": ({"ids": [1], "cells": np.array([[None]])}, DataError, "build it from a data frame"),
    "few ids": ({"ids": [SECRET_ID], "cells": [[1.0], [2.0]]}, DataError, "1 ids for 2 rows"),
    "no column": (
        {"ids": [SECRET_ID], "cells": np.ones((1, 0))},
        DataError,
        "at least one feature",
    ),
    "few features": (
        {"ids": [SECRET_ID], "cells": [[1.0, 2.0]], "features": ["a"]},
        DataError,
        "1 features for 2 columns",
    ),
    "column twice": (
        {"ids": [SECRET_ID], "cells": [[SECRET_CELL, 2.0]], "features": ["a", "a"]},
        DataError,
        "column 'a' occurs more than once",
    ),
    "wrong image": (
        {"ids": [1], "cells": [[1.0, 2.0, 3.0]], "image_shape": (2, 2)},
        DataError,
        "4 pixels, got 3 features",
    ),
    "infinite": (
        {
            "ids": [SECRET_ID, 2],
            "cells": [[1.0, np.inf], [SECRET_CELL, 1.0]],
            "features": ["a", "b"],
        },
        DataError,
        "column 'b' holds infinite values",
    ),
    "id twice": (
        {"ids": [SECRET_ID, 5, SECRET_ID, 5], "cells": np.full((4, 1), SECRET_CELL)},
        DataError,
        "2 ids occur more than once (the first in rows 1 and 3)",
    ),
    "text id twice": (
        {"ids": [SECRET_TEXT, SECRET_TEXT], "cells": [[1.0], [2.0]]},
        DataError,
        "1 ids occur more than once (the first in rows 1 and 2)",
    ),
    "mixed ids": (
        {"ids": [7, SECRET_TEXT], "cells": [[1.0], [2.0]]},
        DataError,
        "mixed or missing",
    ),
    "missing id": ({"ids": [SECRET_TEXT, None], "cells": [[1.0], [2.0]]}, DataError, "or missing"),
    "float ids": ({"ids": [SECRET_CELL], "cells": [[1.0]]}, DataError, "whole numbers or text"),
    "truth ids": ({"ids": [True, False], "cells": [[1.0], [2.0]]}, DataError, "got bool"),
    "square ids": ({"ids": [[SECRET_ID]], "cells": [[1.0]]}, DataError, "one-dimensional"),
    "huge ids": (
        {"ids": np.array([2**64 - 1], dtype=np.uint64), "cells": [[1.0]]},
        DataError,
        "store them as text",
    ),
    "code too large": (
        {"ids": [SECRET_ID], "cells": [[2.0]], "features": [SEX]},
        DataError,
        "positions 0 to 1 in its categories",
    ),
    "code below zero": (
        {"ids": [1], "cells": [[-1.0]], "features": [SEX]},
        DataError,
        "positions 0 to 1",
    ),
    "code a fraction": (
        {"ids": [1], "cells": [[SECRET_CELL]], "features": [SEX]},
        DataError,
        "column 'sex' is binary",
    ),
}


@pytest.mark.parametrize(("arguments", "error", "words"), BAD_VIEWS.values(), ids=BAD_VIEWS)
def test_a_bad_view_is_refused_without_showing_a_person(arguments, error, words):
    with pytest.raises(error) as caught:
        View(**{"name": "lab", **arguments})
    message = str(caught.value)
    assert words in message
    assert isinstance(caught.value, InputError)
    assert not any(str(s) in message for s in (SECRET_ID, SECRET_TEXT, SECRET_CELL))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": ""}, "must have a name"),
        ({"name": "a", "categories": ("x",)}, "no categories, got 1"),
        ({"name": "a", "kind": Kind.BINARY, "categories": ("x",)}, "two categories, got 1"),
        ({"name": "a", "kind": Kind.BINARY, "categories": (0, 1, 2)}, "two categories, got 3"),
        ({"name": "a", "kind": Kind.CATEGORICAL}, "at least one categories, got 0"),
    ],
)
def test_a_bad_feature_is_refused(arguments, words):
    with pytest.raises(SettingError, match=words):
        Feature(**arguments)


@pytest.mark.parametrize(
    ("feature", "width", "is_integer"),
    [
        (Feature("a"), 1, False),
        (Feature("a", dtype="int16"), 1, True),
        (Feature("a", dtype="uint8"), 1, True),
        (SEX, 1, False),
        (Feature("a", Kind.BINARY, (0, 1), dtype="int64"), 1, False),
        (Feature("a", Kind.CATEGORICAL, ("x", "y", "z"), dictionary=True), 3, False),
    ],
)
def test_features_know_their_width_and_survive_the_codec(feature, width, is_integer):
    assert feature.width == width
    assert feature.is_integer is is_integer
    assert decode(encode(feature, format="feature"), format="feature") == feature


def test_rows_are_sorted_by_id_and_unknown_rows_dropped():
    view = View("lab", [9, 2, 5], [[1.0, NAN], [NAN, NAN], [3.0, 4.0]])
    np.testing.assert_array_equal(view.ids, [5, 9])
    np.testing.assert_array_equal(view.cells, [[3.0, 4.0], [1.0, NAN]])
    assert view.feature_names == ("lab_0", "lab_1")
    assert view.n_missing_cells == 1
    assert len(view) == 2


@pytest.mark.parametrize("ids", [[3, 1, 2], [1, 2, 3]], ids=["sorted here", "sorted already"])
def test_a_view_cannot_be_changed_and_does_not_share_the_callers_array(ids):
    cells = np.arange(6.0).reshape(3, 2)
    given_ids = np.array(ids)
    view = View("lab", given_ids, cells)
    before = view.cells.copy()
    for array in (view.ids, view.cells):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.name = "other"
    cells[:] = -1.0
    given_ids[:] = -1
    np.testing.assert_array_equal(view.cells, before)
    np.testing.assert_array_equal(view.ids, [1, 2, 3])


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.float64, np.float64),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (bool, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
    ],
)
def test_cells_are_floats_as_narrow_as_is_exact(dtype, kept):
    cells = np.array([[1, 0], [0, 1]], dtype=dtype)
    view = View("lab", [1, 2], cells)
    assert view.cells.dtype == kept
    np.testing.assert_array_equal(view.cells, cells.astype(float))


def test_images_keep_their_shape():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    view = View("scan", [2, 1], pixels)
    assert view.image_shape == (3, 4)
    np.testing.assert_array_equal(view.cells.reshape(2, 3, 4), pixels[::-1])
    assert view.take(np.array([True, False])).image_shape == (3, 4)
    assert "3×4 images" in repr(view)


@pytest.mark.parametrize("rows", [[False, True], np.array([False, True]), [1], np.array([1])])
def test_take_reads_masks_and_positions(rows):
    view = View("lab", [4, 7], [[1.0], [2.0]], ["a"], id_name="p")
    taken = view.take(rows)
    np.testing.assert_array_equal(taken.ids, [7])
    assert (taken.features, taken.id_name) == (view.features, "p")


@pytest.mark.parametrize("rows", [[], np.array([False, False]), np.array([], dtype=int)])
@pytest.mark.parametrize("ids", [[4, 7], ["a", "b"]], ids=["integer", "text"])
def test_an_empty_view_keeps_its_features(ids, rows):
    empty = View("lab", ids, [[1.0, 2.0], [2.0, NAN]]).take(rows)
    assert (len(empty), empty.n_features, empty.n_missing_cells) == (0, 2, 0)
    assert empty.cells.shape == (0, 2)
    assert repr(empty) == "View('lab', 0 individuals × 2 features)"
    np.testing.assert_array_equal(empty.positions(np.array(ids)), [-1, -1])


def test_select_keeps_order_and_names_the_unknown():
    view = View("lab", [1], [[1.0, 2.0, 0.0]], ["a", "b", SEX])
    chosen = view.select(["sex", "a"])
    assert chosen.feature_names == ("sex", "a")
    assert chosen.features[0] == SEX
    np.testing.assert_array_equal(chosen.cells, [[0.0, 1.0]])
    with pytest.raises(SettingError, match="view 'lab' has no feature 'c'"):
        view.select(["a", "c"])


@pytest.mark.parametrize(
    ("ids", "asked", "expected"),
    [
        ([3, 5, 9], [9, 4, 3, 10], [2, -1, 0, -1]),
        (["a", "c"], ["c", "b", "zzz"], [1, -1, -1]),
        ([7], ["7"], [-1]),
        (["7"], [7], [-1]),
        ([3], np.array([], dtype=int), []),
    ],
)
def test_positions(ids, asked, expected):
    view = View("lab", ids, np.ones((len(ids), 1)))
    np.testing.assert_array_equal(view.positions(np.asarray(asked)), expected)


def test_same_as_tells_views_apart():
    view = View("lab", [1, 2], [[1.0, NAN], [2.0, 3.0]])
    assert view.same_as(View("lab", [2, 1], [[2.0, 3.0], [1.0, NAN]]))
    assert not view.same_as(View("lab", [1, 3], [[1.0, NAN], [2.0, 3.0]]))
    assert not view.same_as(View("lab", [1, 2], [[1.0, 0.0], [2.0, 3.0]]))
    assert not view.same_as(View("lab", [1, 2], [[1.0, NAN], [2.0, 3.0]], ["a", "b"]))
    assert not view.same_as(View("lab", [1, 2], [[1.0, NAN], [2.0, 3.0]], image_shape=(1, 2)))


def test_the_repr_counts_and_shows_nobody():
    view = View("lab", [SECRET_ID, 5], [[SECRET_CELL, NAN], [1.5, 2.5]])
    assert repr(view) == "View('lab', 2 individuals × 2 features, 1 missing cell)"
    named = View("lab", [SECRET_TEXT], [[NAN, 1.0, NAN]])
    assert repr(named) == "View('lab', 1 individuals × 3 features, 2 missing cells)"


@given(
    rows=st.dictionaries(
        st.integers(-(2**62), 2**62) | st.integers(0, 9),
        st.tuples(*[st.floats(-1e6, 1e6) | st.just(NAN)] * 3),
        min_size=1,
        max_size=12,
    ),
    seed=st.integers(0, 2**32 - 1),
    text=st.booleans(),
)
def test_row_order_does_not_matter(rows, seed, text):
    ids = [str(i) for i in rows] if text else list(rows)
    cells = np.array(list(rows.values()))
    shuffled = np.random.default_rng(seed).permutation(len(ids))
    view = View("lab", ids, cells)
    again = View("lab", [ids[k] for k in shuffled], cells[shuffled])
    assert view.same_as(again)
    known = {i: c for i, c in zip(ids, cells, strict=True) if not np.isnan(c).all()}
    assert list(view.ids) == sorted(known)
    for i, c in known.items():
        np.testing.assert_array_equal(view.cells[view.positions(np.array([i]))[0]], c)


@pytest.mark.parametrize(
    ("values", "kind"),
    [([3, 1], "integer"), (np.array([1], dtype=np.uint8), "integer"), (["007", "7"], "text")],
)
def test_ids_keep_their_type(values, kind):
    ids = as_ids(values, "here")
    assert id_type(ids) == kind
    assert ids.tolist() == list(values)


def test_ids_of_two_types_are_refused():
    with pytest.raises(DataError, match="whole numbers in view 'a' but text in view 'b'") as caught:
        require_one_type({"a": np.array([SECRET_ID]), "b": np.array([SECRET_TEXT])})
    assert str(SECRET_ID) not in str(caught.value)
    assert SECRET_TEXT not in str(caught.value)
    require_one_type({"a": np.array([1]), "b": np.array([], dtype=np.int64)})


def test_repetitions_are_counted_as_the_user_counts():
    ids = np.array([4, SECRET_ID, 6, SECRET_ID])
    with pytest.raises(DataError, match=r"1 ids .* in lines 3 and 5\)"):
        require_unique(ids, "here", first_row=2, row="line")


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8),
    st.floats(0, 10),
    st.sampled_from([0, 1, 4, 15]),
)
def test_intervals_with_a_columns_decimals_hold_what_they_held(middles, half, decimals):
    feature, middle = Feature("dose", decimals=decimals), np.array(middles)
    low, high = feature.around(middle - half, middle + half)
    slack = 1e-9 * np.maximum(np.abs(middle), 1)
    assert (low <= middle - half + slack).all()
    assert (high >= middle + half - slack).all()
    assert np.array_equal(feature.rounded(low), low)
    assert np.array_equal(feature.rounded(high), high)
    assert (low <= feature.rounded(middle)).all()
    assert (feature.rounded(middle) <= high).all()


def test_ends_of_intervals_that_have_few_decimals_stay_where_they_are():
    ends = np.array([0.1 + 0.2, 3.0, np.nan])  # 0.30000000000000004
    for moved in Feature("dose", decimals=1).around(ends, ends):
        np.testing.assert_array_equal(moved, [0.3, 3.0, np.nan])
    low, high = Feature("age", dtype="int64").around(np.array([11.4]), np.array([13.6]))
    assert (low.item(), high.item()) == (11.0, 14.0)
