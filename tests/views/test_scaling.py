"""Scaler: what goes in comes back, and only training rows are looked at."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cofill.codec import decode, encode
from cofill.errors import DataError, SettingError
from cofill.views import _scaling
from cofill.views._feature import Feature, Kind
from cofill.views._scaling import EncodedBlock, Scaler
from cofill.views._view import View

GROUP = Feature("group", Kind.CATEGORICAL, ("a", "b", "c"), dtype="string")
SMOKER = Feature("smoker", Kind.BINARY, (False, True), dtype="bool")
METHODS = ["standard", "robust", "none"]


def mixed_view(n=40, seed=0):
    rng = np.random.default_rng(seed)
    cells = np.column_stack(
        [
            rng.normal(50, 10, n),
            rng.integers(0, 2, n),
            rng.integers(0, 3, n),
            rng.integers(-5, 90, n),
            np.full(n, 7.25),
            rng.standard_cauchy(n) * 1e6,
        ]
    )
    cells[rng.random(cells.shape) < 0.15] = np.nan
    cells[:, 4] = 7.25
    features = [
        Feature("age"),
        SMOKER,
        GROUP,
        Feature("visits", dtype="int64"),
        Feature("constant"),
        Feature("income"),
    ]
    return View("mixed", np.arange(n), cells, features)


@st.composite
def columns(draw):
    """A feature and its cells."""
    n = 12
    kind = draw(st.sampled_from(["float", "heavy", "tiny", "int", "constant", "bool", "cat"]))
    if kind == "bool":
        feature, cell = SMOKER, st.integers(0, 1)
    elif kind == "cat":
        feature, cell = GROUP, st.integers(0, 2)
    elif kind == "int":
        feature, cell = Feature("i", dtype="int32"), st.integers(-(2**31), 2**31 - 1)
    else:
        feature = Feature("x")
        cell = {
            "float": st.floats(-1e6, 1e6),
            "heavy": st.floats(-1e300, 1e300),
            "tiny": st.floats(-1e-300, 1e-300),
            "constant": st.just(draw(st.floats(-1e9, 1e9))),
        }[kind]
    known = draw(st.lists(cell, min_size=n, max_size=n))
    holes = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return feature, np.where(holes, np.nan, np.array(known, dtype=float))


@settings(max_examples=150)
@given(st.lists(columns(), min_size=1, max_size=4), st.sampled_from(METHODS))
def test_decode_undoes_encode(parts, method):
    cells = np.column_stack([c for _, c in parts])
    assume(not np.isnan(cells).all())
    features = [replace(f, name=f"{f.name}{k}") for k, (f, _) in enumerate(parts)]
    view = View("v", np.arange(len(cells)), cells, features)
    scaler = Scaler.fit(view, method=method)
    encoded = scaler.encode(view.cells)
    assert np.isfinite(encoded[~np.isnan(encoded)]).all()
    back = scaler.decode(encoded)
    for k, feature in enumerate(view.features):
        column, known = view.cells[:, k], ~np.isnan(view.cells[:, k])
        assert np.array_equal(np.isnan(back[:, k]), ~known)
        if feature.kind is not Kind.NUMERIC or feature.is_integer:
            assert np.array_equal(back[known, k], column[known])
        elif known.any():
            largest = np.abs(column[known]).max()
            # Robust rounding grows with the size in units of the scale, at most about 700 of them.
            assert np.abs(back[known, k] - column[known]).max() <= 1e-12 * largest + 1e-320


@pytest.mark.parametrize("method", METHODS)
def test_blocks_cover_the_encoded_columns(method):
    scaler = Scaler.fit(mixed_view(), method=method)
    assert scaler.width == 8
    assert scaler.blocks[2] == EncodedBlock(2, Kind.CATEGORICAL, 2, 5)
    assert [b.start for b in scaler.blocks[1:]] == [b.stop for b in scaler.blocks[:-1]]
    assert repr(scaler) == f"Scaler({method}, 6 features in 8 columns)"


def test_standard_agrees_with_numpy_and_robust_with_its_formula():
    view = mixed_view(200)
    age = view.cells[:, 0]
    standard, robust = Scaler.fit(view), Scaler.fit(view, method="robust")
    expected = (age - np.nanmean(age)) / np.nanstd(age)
    np.testing.assert_allclose(standard.encode(view.cells)[:, 0], expected)
    first, median, third = np.nanpercentile(age, [25, 50, 75])
    expected = np.arcsinh((age - median) / (third - first))
    np.testing.assert_allclose(robust.encode(view.cells)[:, 0], expected)
    assert np.nanmax(np.abs(robust.encode(view.cells)[:, 7])) < 20
    assert standard.scale[4] == 1.0
    assert standard.center[4] == 7.25


def test_a_missing_category_is_missing_in_all_its_columns():
    view = View("v", [1, 2], [[np.nan, 1.0], [2.0, 1.0]], [GROUP, "x"])
    encoded = Scaler.fit(view).encode(view.cells)
    np.testing.assert_array_equal(encoded[:, :3], [[np.nan] * 3, [0, 0, 1]])


@pytest.mark.parametrize("method", METHODS)
def test_only_the_training_rows_are_looked_at(method):
    view = mixed_view()
    train = np.arange(40) < 25
    changed = view.cells.copy()
    changed[~train, 0] *= 1000
    changed[~train, 5] = np.nan
    other = view.with_rows(view.ids, changed)
    fitted = Scaler.fit(view, rows=train, method=method)
    assert fitted == Scaler.fit(other, rows=train, method=method)
    assert fitted == Scaler.fit(view, rows=np.flatnonzero(train), method=method)
    assert method == "none" or fitted != Scaler.fit(view, method=method)


def test_columns_without_spread_or_without_known_cells():
    cells = [[1.0, np.nan, 0.0], [1.0, np.nan, 0.0], [2.0, np.nan, 0.0], [1.0, np.nan, 9.0]]
    view = View("v", range(4), cells, ["x", "empty", "mostly"])
    robust = Scaler.fit(view, rows=[0, 1, 3], method="robust")
    assert robust.center == (1.0, 0.0, 0.0)
    assert robust.scale == (1.0, 1.0, 4.5)  # the IQR of "mostly" is 4.5
    mostly = View("v", range(8), [[0.0]] * 7 + [[8.0]], ["x"])
    assert Scaler.fit(mostly, method="robust").scale == (pytest.approx(np.sqrt(7)),)  # std
    assert np.isneginf(robust.low[1])
    np.testing.assert_array_equal(
        robust.decode(np.full((1, 3), 0.5), clip=True)[0, 1], np.sinh(0.5)
    )


def test_no_rows_at_all():
    view = mixed_view()
    nobody = view.take(np.zeros(40, dtype=bool))
    scaler = Scaler.fit(nobody, method="robust")
    assert scaler == Scaler.fit(view, rows=np.zeros(40, dtype=bool), method="robust")
    assert scaler.encode(nobody.cells).shape == (0, 8)
    assert scaler.decode(np.empty((0, 8))).shape == (0, 6)


def test_huge_values_do_not_overflow():
    top = np.finfo(np.float32).max
    cells = np.array([[top], [-top], [0.0], [1.0]], dtype=np.float32)
    view = View("v", range(4), cells, ["x"])
    for method in METHODS:
        scaler = Scaler.fit(view, method=method)
        encoded = scaler.encode(view.cells, dtype=np.float32)
        assert encoded.dtype == np.float32
        assert np.isfinite(encoded).all()
        assert np.isfinite(scaler.decode(encoded, dtype=np.float32)).all()
        assert np.isfinite(scaler.decode(np.array([[1e5], [-np.inf]]))).all()
    narrow = Scaler.fit(View("v", [1, 2], [[0.0], [1e-30]], ["x"]))
    assert np.isfinite(narrow.encode(np.array([[1e300]]), dtype=np.float32)).all()


def test_decode_rounds_thresholds_and_clips():
    view = View("v", [1, 2], [[0.0, 3.0, 1.0, 0.0], [4.0, 9.0, 0.0, 1.0]],
                ["x", Feature("n", dtype="int64"), SMOKER, GROUP])  # fmt: skip
    scaler = Scaler.fit(view, method="none")
    soft = np.array([[5.5, 3.4, 0.49, 0.2, 0.5, 0.1], [np.nan, 99.6, 0.5, 0.0, np.nan, 9.0]])
    np.testing.assert_array_equal(scaler.decode(soft), [[5.5, 3, 0, 1], [np.nan, 100, 1, np.nan]])
    np.testing.assert_array_equal(
        scaler.decode(soft, clip=True), [[4, 3, 0, 1], [np.nan, 9, 1, np.nan]]
    )


def test_other_categories_are_found_by_value_and_unseen_ones_counted():
    fitted = Scaler.fit(View("v", [1, 2, 3], [[0, 1.0], [1, 2.0], [2, 4.0]], [GROUP, "x"]))
    theirs = Feature("group", Kind.CATEGORICAL, ("z", "c", "y", "a"))
    view = View("v", range(5), [[9, 0, 1.0], [9, 1, 1.0], [9, 3, 2.0], [9, 2, 4.0], [9, np.nan, 1]],
                ["more", theirs, "x"])  # fmt: skip
    encoded, unseen = fitted.encode_view(view)
    assert unseen == {"group": 2}
    nan = [np.nan] * 3
    np.testing.assert_array_equal(encoded[:, :3], [nan, [0, 0, 1], [1, 0, 0], nan, nan])
    assert fitted.encode_view(view.select(["x", "group"]))[1] == unseen
    same = View("v", [1], [[1.0, 2.0]], [GROUP, "x"])
    np.testing.assert_array_equal(fitted.encode_view(same)[0], fitted.encode(same.cells))


def test_small_chunks_change_nothing(monkeypatch):
    view = mixed_view(100)
    whole = Scaler.fit(view, method="robust")
    encoded = whole.encode(view.cells)
    monkeypatch.setattr(_scaling, "_CELLS_AT_ONCE", 50)
    assert Scaler.fit(view, method="robust") == whole
    np.testing.assert_array_equal(whole.encode(view.cells), encoded)
    np.testing.assert_allclose(whole.decode(encoded), view.cells, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_codec_round_trip(method):
    scaler = Scaler.fit(mixed_view(), method=method)
    assert decode(encode(scaler, format="scaler"), format="scaler") == scaler


def test_errors_name_the_thing_and_the_way_out():
    view = mixed_view()
    scaler = Scaler.fit(view)
    with pytest.raises(SettingError, match=r"method must be one of 'standard'.*got 'minmax'"):
        Scaler.fit(view, method="minmax")
    with pytest.raises(DataError, match=r"cells must have 6 columns .* got 2"):
        scaler.encode(np.zeros((1, 2)))
    with pytest.raises(DataError, match=r"encoded must have 8 columns .* got 2"):
        scaler.decode(np.zeros((1, 2)))
    with pytest.raises(DataError, match=r"lacks the column 'smoker'"):
        scaler.encode_view(view.select(["age", "group"]))
    with pytest.raises(DataError, match=r"column 'group' must be categorical .* got numeric"):
        scaler.encode_view(_all_numeric_but_smoker(view))
    bad = view.cells.copy()
    bad[0, 2] = 3
    with pytest.raises(DataError, match=r"column 'group' .* positions 0 to 2 .* encode_view"):
        scaler.encode(bad)


def _all_numeric_but_smoker(view):
    features = [f if f.name == "smoker" else Feature(f.name) for f in view.features]
    return View("v", [1], view.cells[:1], features)


def test_a_spread_that_is_next_to_nothing_does_not_overflow():
    cells = np.zeros((12, 1))
    cells[9:, 0] = -1.0, -4.4942329e7, -1e-300
    view = View("v", np.arange(12), cells)
    scaler = Scaler.fit(view, method="robust")
    np.testing.assert_allclose(scaler.decode(scaler.encode(cells)), cells, rtol=1e-12)
