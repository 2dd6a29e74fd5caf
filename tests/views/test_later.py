"""Later tables are read as the table of the fit was: row by row, whatever else changes."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cofill import codec
from cofill.errors import DataError, SettingError
from cofill.views import (
    FilledTable,
    Kind,
    MultiView,
    TableSchema,
    View,
    conform,
    read_later_views,
    read_views,
    write_table,
)

COLUMNS = {
    "whole": ["12", "", "7", "30", "NA", "8"],
    "fixed": ["1.50", "2.25", "", "3.00", "0.75", "9.99"],
    "German": ["1,5", "", "2,25", "3", "1.234,5", "0,75"],
    "grouped": ["1,234.5", "2,000.0", "", "12,345.6", "1,000,000.0", "7.0"],
    "day": ["31.01.2020", "02.02.2020", "", "03.04.2021", "01.02.2020", "05.06.2022"],
    "second": ["2020-01-31T10:00:00Z", "", "2020-01-31T10:00:04Z"] * 2,
    "clock": ["10:00", "11:30", "", "09:05", "23:59", "00:00"],
    "truth": ["TRUE", "false", "", "True", "FALSE", "true"],
    "answer": ["Yes", "No", "", "Yes", "No", "Yes"],
    "bit": ["0", "1", "", "1", "0", "1"],
    "zip": ["01067", "10115", "", "01067", "00306", "10115"],
    "quoted": ["a;b", "c", "", 'say "hi"', "c", "a;b"],
    "level": ["1", "2", "", "3", "2", "1"],
    "blank": ["1.5", "?", "2.5", "3.5", "?", "4.5"],
    "unlike": ["1e-3", "2.5", "", "1e5", "3", "4"],
}
KINDS = {"level": "categorical"}


def field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ';"') else text


def lines(rows: range | list[int], columns: list[str]) -> str:
    cells = [[str(100 - k), *(field(COLUMNS[c][k]) for c in columns)] for k in rows]
    return "\n".join(";".join(line) for line in [["id", *columns], *cells]) + "\n"


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    """Return the view of a text file with columns of every style, and a saved schema of it."""
    path = tmp_path_factory.mktemp("fit") / "t.csv"
    path.write_text(lines(range(6), list(COLUMNS)))
    view = read_views({"t": path}, id="id", kinds=KINDS)["t"]
    assert view.feature_names == tuple(COLUMNS)
    stored = codec.encode(TableSchema.of(view), format="schema")
    return view, codec.decode(stored, format="schema")


def read(folder, schema, text, name="t.csv", **rules):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_later_views({"t": path}, {"t": schema}, **rules)["t"]


def test_the_table_of_the_fit_is_read_as_it_was(fit, tmp_path):
    view, schema = fit
    again = read(tmp_path, schema, lines(range(6), list(COLUMNS)))
    assert again.same_as(view)
    assert [f.decimals for f in again.features] == [f.decimals for f in view.features]
    assert again.source.styles == view.source.styles
    assert again.source.spellings == view.source.spellings


@pytest.mark.parametrize("k", range(6))
def test_a_row_alone_means_what_it_meant_among_others(fit, tmp_path, k):
    view, schema = fit
    expected = view.cells[view.ids == 100 - k]
    for columns in (list(COLUMNS), list(COLUMNS)[::-1]):
        text = lines([k], columns)
        alone = read(tmp_path, schema, text)
        np.testing.assert_array_equal(alone.cells, expected)
        assert alone.features == view.features
        write_table(FilledTable(alone), tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == text
    for column in COLUMNS:  # and without its neighbours
        at = list(COLUMNS).index(column)
        if not np.isnan(expected[0, at]):
            single = read(tmp_path, schema, lines([k], [column]))
            np.testing.assert_array_equal(single.cells[:, at], expected[:, at])


@pytest.mark.parametrize("k", range(6))
def test_cells_are_written_in_the_style_of_the_fit(fit, tmp_path, k):
    """A row of which only the id is known, filled with the cells of a row, is that row."""
    view, schema = fit
    row = view.cells[view.ids == 100 - k][0]
    blank = read(tmp_path, schema, "id;whole\n1;\n")
    write_table(FilledTable(blank.with_rows(np.array([1]), row[None])), tmp_path / "out.csv")
    header, line = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "id;" + ";".join(COLUMNS)
    again = read(tmp_path, schema, (tmp_path / "out.csv").read_text())
    np.testing.assert_allclose(again.cells[0], row, rtol=1e-12)
    for column, text in zip(COLUMNS, line.split(";")[1:], strict=False):
        if column in ("fixed", "day", "second", "clock", "zip", "whole", "answer"):
            assert text == COLUMNS[column][k].replace("NA", "")


FORMS = {
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "blank lines": lambda text: text.replace("\n", "\n\n").encode(),
    "UTF-16": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_added_and_the_rest_keeps_its_bytes(fit, tmp_path, form):
    view, schema = fit
    raw = FORMS[form](lines([0, 1, 3], ["fixed", "zip"]))
    later = read(tmp_path, schema, raw)
    missing = len(COLUMNS) - 2
    assert int(np.isnan(later.cells).all(axis=0).sum()) == missing
    assert f"has no columns {', '.join(map(repr, list(COLUMNS)[:1]))}" in later.source.notes[0]
    filled = later.with_rows(later.ids, np.where(np.isnan(later.cells), view.cells[0], later.cells))
    write_table(FilledTable(filled), tmp_path / "out.csv")
    written = (tmp_path / "out.csv").read_bytes()
    old, new = (
        [line for line in r.decode(later.source.data.encoding).splitlines() if line]
        for r in (raw, written)
    )
    assert [n.startswith(o + ";") for o, n in zip(old, new, strict=True)] == [True] * 4


def test_compressed_and_typed_tables(fit, tmp_path):
    view, schema = fit
    text = lines([0, 3], ["fixed", "answer"])
    later = read(tmp_path, schema, gzip.compress(text.encode()), "t.csv.gz")
    expected = view.cells[np.isin(view.ids, [100, 97])]
    at = [list(COLUMNS).index(c) for c in ("fixed", "answer")]
    np.testing.assert_array_equal(later.cells[:, at], expected[:, at])
    table = pa.table(
        {
            "id": [97, 100],
            "fixed": pa.array([3.0, 1.5], pa.float32()),
            "answer": pa.array(["Yes", "Yes"]).dictionary_encode(),
            "bit": pa.array([True, False]),
            "day": pa.array([None, None]),
            "whole": pa.array(["30", "12"]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    later = read_later_views({"t": tmp_path / "t.parquet"}, {"t": schema})["t"]
    at = [list(COLUMNS).index(c) for c in ("fixed", "answer", "bit", "whole")]
    np.testing.assert_array_equal(later.cells[:, at], expected[:, at])
    filled = later.with_rows(later.ids, np.where(np.isnan(later.cells), view.cells[0], later.cells))
    written = FilledTable(filled).to_arrow()
    assert written.schema.field("day").type == pa.date32()
    assert written.schema.field("fixed").type == pa.float32()
    assert written.column("bit").to_pylist() == [True, False]


def test_other_marks_are_noticed_and_kept(fit, tmp_path):
    _, schema = fit
    later = read(tmp_path, schema, "id;fixed;German\n1;1,50;1.5\n2;;\n")
    np.testing.assert_array_equal(later.take([0]).cells[0, 1:3], [1.5, 1.5])
    assert sum("numbers were read with the decimal mark" in n for n in later.source.notes) == 2
    row = np.tile(later.cells[:1], (2, 1))
    write_table(FilledTable(later.with_rows(np.array([1, 2]), row)), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[2].startswith("2;1,50;1.5;")


def test_an_unseen_category_keeps_its_bytes_and_is_a_hole_for_the_model(fit, tmp_path):
    _, schema = fit
    later = read(tmp_path, schema, 'id;quoted;level;answer\n1;"x;y";9;Yes\n2;c;1;\n')
    at = [list(COLUMNS).index(c) for c in ("quoted", "level", "answer")]
    kinds = [later.features[k].kind for k in at]
    assert kinds == [Kind.CATEGORICAL, Kind.CATEGORICAL, Kind.BINARY]
    seen = conform(MultiView([later]), {"t": schema})
    assert np.isnan(seen.seen["t"].cells[0, at[:2]]).all()
    assert len(seen.notes) == 2
    table = FilledTable(later).to_arrow()
    assert table.column("quoted").to_pylist() == ["x;y", "c"]
    assert table.column("level").to_pylist() == [9, 1]


WRONG = {
    "text among numbers": ("id;whole\n1;3\n2;many\n", "text in 1 of 2 rows (the first is line 3)"),
    "a number of another kind": ("id;grouped\n1;1.2.3\n", "holds text in 1 of 1"),
    "no such day": ("id;day\n1;32.01.2020\n", "no times of one form, and the model learned times"),
    "another order of the date": ("id;day\n1;2020-01-31\n2;31.01.2020\n", "no times of one form"),
    "text among truth values": ("id;truth\n1;true\n2;maybe\n", "1 of 2 rows (the first is line 3)"),
    "text among codes": ("id;bit\n1;yes\n", "the model learned numbers"),
    "a column twice": ("id;whole;whole\n1;1;2\n", "occurs more than once"),
    "no header": ("1;2\n3;4\n", "give it a header line"),
    "no column": ("id;x\n1;2\n", "none of the 15 columns that the model learned of view 't'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_without_its_cells(fit, tmp_path, case):
    text, words = WRONG[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, fit[1], text)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert "many" not in message
    assert "maybe" not in message


def test_rules_and_views_that_the_model_does_not_know(fit, tmp_path):
    (tmp_path / "t.csv").write_text("id;whole\n1;2\n")
    schemas = {"t": fit[1]}
    with pytest.raises(SettingError, match="no view 'x'"):
        read_later_views({"x": tmp_path / "t.csv"}, schemas)
    with pytest.raises(SettingError, match="no rule 'kinds'"):
        read_later_views({"t": tmp_path / "t.csv"}, schemas, kinds={"whole": "categorical"})
    later = read_later_views({"t": tmp_path / "t.csv"}, schemas, na_values=["2"])["t"]
    assert len(later) == 0
    assert later.source.blank_ids.tolist() == [1]


# --- views that were read without a schema --------------------------------------------------------


def test_what_a_person_hid_since_reading_stays_hidden():
    frame = pd.DataFrame({"id": [1, 2], "x": [1.0, 2.0], "g": ["b", "a"]})
    fitted = MultiView.from_frames(
        {"t": pd.DataFrame({"id": range(3), "x": [0.5, 1.5, 2.5], "g": ["a", "b", "c"]})}, id="id"
    )
    view = MultiView.from_frames({"t": frame}, id="id")["t"]
    cells = np.array(view.cells)
    cells[0, 0] = np.nan
    hidden = view.with_rows(view.ids, cells)
    later = conform(MultiView([hidden]), {"t": TableSchema.of(fitted["t"])}).views["t"]
    np.testing.assert_array_equal(later.cells, [[np.nan, 1], [2, 0]])
    filled = later.with_rows(later.ids, np.array([[9.0, 1], [2, 0]]))
    assert FilledTable(filled).to_arrow().column("x").to_pylist() == [9.0, 2.0]
    assert FilledTable(filled).to_arrow().column("g").to_pylist() == ["b", "a"]


def test_a_person_of_whom_nothing_is_known_to_the_model_stays():
    view = View("t", [1, 2], [[1.0, np.nan], [np.nan, 5.0]], ["x", "other"])
    later = conform(MultiView([view]), {"t": TableSchema(View("t", [1], [[1.0]], ["x"]).features)})
    assert later.views.ids.tolist() == later.seen.ids.tolist() == [1, 2]
    assert later.seen.presence.tolist() == [[True], [False]]
