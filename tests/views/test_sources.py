import errno
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cofill.errors import DataError, InputError, SettingError, StoreError
from cofill.files import new_folder
from cofill.views._feature import Kind
from cofill.views._frames import to_table
from cofill.views._sources import Source, read_views, write_table

SECRET = "zz-Kowalski"
SECRET_NUMBER = "74917491"


def read(path, **rules):
    return read_views({"lab": path}, id="id", **rules)["lab"]


def written(folder, text, name="lab.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".CSV"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_dialects_of_csv_give_one_view(tmp_path, ending, delimiter, newline, mark):
    rows = ["id,age,sex,weight", "2,50,f,60.5", "1,40,m,", "3,,f,70.25"]
    text = newline.join(rows).replace(",", delimiter) + newline
    view = read(written(tmp_path, mark + text.encode(), f"lab{ending}"))
    assert to_table(view).to_pydict() == {
        "id": [2, 1, 3],
        "age": [50, 40, None],
        "sex": ["f", "m", "f"],
        "weight": [60.5, None, 70.25],
    }
    assert [f.dtype for f in view.features] == ["int64", "string", "double"]


def test_quotes_protect_newlines_delimiters_and_quotes(tmp_path):
    path = written(tmp_path, 'id,x,y\n1,"a\nb",1\n2,"c,d",2\n3,"say ""e""",3\n')
    assert to_table(read(path)).column("x").to_pylist() == ["a\nb", "c,d", 'say "e"']


@pytest.mark.parametrize(
    ("ids", "id_type", "expected"),
    [
        (["2", "1"], None, [1, 2]),
        (["007", "7"], None, ["007", "7"]),
        (["2", "1"], "text", ["1", "2"]),
        (["b", "1"], None, ["1", "b"]),
        (["2020-01-01", "2020-01-02"], None, ["2020-01-01", "2020-01-02"]),
    ],
)
def test_csv_ids(tmp_path, ids, id_type, expected):
    path = written(tmp_path, f"id,x\n{ids[0]},1.5\n{ids[1]},2.5\n")
    assert read(path, id_type=id_type).ids.tolist() == expected


@pytest.mark.parametrize(
    ("first", "last", "dtype", "kind"),
    [
        ("7", "2.5", "double", Kind.NUMERIC),
        ("0", "1", "int64", Kind.BINARY),
        ("", "3", "int64", Kind.NUMERIC),
        ("0", "4", "int64", Kind.NUMERIC),
    ],
)
def test_the_last_rows_have_a_say_in_a_columns_type(tmp_path, first, last, dtype, kind):
    n = 120_000  # beyond Arrow's default block of a megabyte
    lines = [f"{k},{first},1.5" for k in range(n)]
    path = written(tmp_path, "\n".join(["id,x,y", *lines, f"{n},{last},2.5", ""]))
    assert path.stat().st_size > 2**20
    feature = read(path).features[0]
    assert (feature.dtype, feature.kind) == (dtype, kind)


def test_parquet_keeps_types_whatever_its_folder_is_called(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    table = pa.table(
        {
            "x": pa.array([1.5, 2.5], pa.float32()),
            "id": pa.array(["b", "a"]),
            "c": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    for name in ("lab.parquet", "lab.pq"):
        pq.write_table(table, folder / name)
        view = read(folder / name)
        assert view.feature_names == ("x", "c")
        assert [f.dtype for f in view.features] == ["float", "string"]
        assert to_table(view).column_names == ["x", "id", "c"]


def latin(text):
    return text.encode("latin-1")


def parquet(**columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


FREE = "".join(f"{k},{SECRET} {k}\n" for k in range(150))
# name: (file name, content, expected words)
BAD_FILES = {
    "empty": ("a.csv", "", "a.csv is empty; give it a header line and rows"),
    "header only": ("a.csv", "id,x\n", "a.csv has no rows"),
    "header without newline": ("a.csv", "id,x", "a.csv has no rows"),
    "blank lines": ("a.csv", "\n\n", "a.csv has no rows"),
    "no id column": ("a.csv", f"Id,x\n1,{SECRET}\n", "no id column 'id'; did you mean 'Id'?"),
    "no header": (
        "a.csv",
        f"{SECRET},1.5\nb,2\n",
        "looks like a person's row; give it a header line",
    ),
    "only ids": ("a.csv", f"id\n{SECRET}\n", "no columns beside the id"),
    "unnamed column": ("a.csv", ",id,x\n0,1,2.5\n1,2,3.5\n", "column 1 has no name"),
    "column twice": ("a.csv", "id,x,x\n1,2,3\n", "column 'x' occurs more than once"),
    "duplicate ids": (
        "a.csv",
        f"id,x\n{SECRET},1\nb,2\n{SECRET},3\n",
        "1 ids occur more than once (the first in lines 2 and 4); keep one row per individual",
    ),
    "missing ids": (
        "a.csv",
        f"id,x\n{SECRET},1\n,2\n ,3\n",
        "2 rows have no id (the first is line 3)",
    ),
    "long line": ("a.csv", f"id,x\n1,2\n2,3,{SECRET}\n", "line 3 has 3 fields, the header has 2"),
    "short line": (
        "a.csv",
        f"id,x,y\n1,2,3\n{SECRET},2\n",
        "line 3 has 2 fields, the header has 3",
    ),
    "open quote": ("a.csv", f'id,x\n1,"{SECRET}\n2,3\n4,5\n', "a quote is opened but not closed"),
    "Latin-1 cell": ("a.csv", latin(f"id,x\n1,b\n2,é{SECRET}\n"), "line 3 is not UTF-8 text"),
    "Latin-1 id": ("a.csv", latin(f"id,x\né{SECRET},1\n"), "line 2 is not UTF-8 text"),
    "Latin-1 header": ("a.csv", latin("id,é\n1,1\n"), "line 1 is not UTF-8 text"),
    "text in numbers": (
        "a.csv",
        f"id,x\n1,2.5\n2,{SECRET}\n3,4\n",
        "column 'x' is numeric but holds text in 1 of 3 rows (the first is line 3)",
    ),
    "all NaN": ("a.csv", "id,x\n1,nan\n2,\n", "no column that can be filled: each is empty"),
    "free text": ("a.csv", "id,x\n" + FREE, "no column that can be filled: each is empty, free"),
    "ambiguous comma": ("a.csv", "id;x\n1;1,974\n2;1,975\n", "a decimal or a thousands mark; say"),
    "infinite": ("a.csv", f"id,x\n{SECRET_NUMBER},inf\n2,3.5\n", "holds text in 1 of 2 rows"),
    "empty Parquet": ("a.parquet", b"", "a.parquet is not a readable Parquet file"),
    "no Parquet": ("a.parquet", f"id,x\n{SECRET},1\n", "a.parquet is not a readable Parquet file"),
    "truncated Parquet": (
        "a.parquet",
        parquet(id=[1, 2], x=[1.5, 2.5])[:-40],
        "cut short, damaged",
    ),
    "Parquet without rows": (
        "a.parquet",
        parquet(id=pa.array([], pa.int64()), x=pa.nulls(0)),
        "no rows",
    ),
    "Parquet ids twice": ("a.parquet", parquet(id=[SECRET] * 2, x=[1, 2]), "in rows 1 and 2"),
    "unknown ending": ("a.odt", SECRET, "the form of this source is not known"),
    "no ending": ("lab", SECRET, "give a .csv or .parquet file, or a database as URL#table"),
}


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence_without_its_content(tmp_path, name, content, words):
    path = written(tmp_path, content, name)
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert type(caught.value) in (DataError, SettingError)
    assert words in message
    assert "\n" not in message
    assert ". " not in message.replace("a.csv", "").replace(str(tmp_path), "")
    for secret in (SECRET, SECRET_NUMBER, "1974"):
        assert secret not in message.replace(str(tmp_path), "")


@pytest.mark.parametrize("name", ["lab.csv", "lab.parquet"])
def test_missing_files_and_folders_are_refused(tmp_path, name):
    with pytest.raises(DataError, match="there is no such file; check the path"):
        read(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="is a folder; give a file"):
        read(tmp_path / name)


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path, "id,x\n1,2\n")

    def refuse(*args, **options):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr("pyarrow.input_stream", refuse)
    with pytest.raises(DataError, match="may not be read; check its permissions"):
        read(path)


def test_ids_must_have_one_type_over_all_files(tmp_path):
    clinic = written(tmp_path, "id,x\n007,1.5\n8,2.5\n", "clinic.csv")
    lab = written(tmp_path, "id,y\n7,1.5\n8,2.5\n", "lab.csv")
    with pytest.raises(DataError) as caught:
        read_views({"clinic": clinic, "lab": lab}, id="id")
    message = str(caught.value)
    assert "whole numbers in view 'lab' but text in view 'clinic'" in message
    assert "--id-type text" in message
    assert "007" not in message
    both = read_views({"clinic": clinic, "lab": lab}, id="id", id_type="text")
    assert both.ids.tolist() == ["007", "7", "8"]
    assert read_views({"clinic": clinic, "lab": lab}, id="id", id_type="text").same_as(both)


def test_rules_reach_one_file(tmp_path):
    clinic = written(tmp_path, "id,x,note\n1,1,a\n2,2,b\n", "clinic.csv")
    lab = written(tmp_path, "id,x,note\n1,1,a\n2,2,b\n", "lab.csv")
    both = read_views(
        {"clinic": clinic, "lab": Source(str(lab))},
        id="id",
        kinds={"lab.x": "categorical"},
        ignore=["clinic.note"],
    )
    assert both["clinic"].feature_names == ("x",)
    assert [f.kind for f in both["lab"].features] == [Kind.CATEGORICAL, Kind.BINARY]
    with pytest.raises(SettingError, match="no view has a column 'notes'; did you mean 'note'"):
        read_views({"lab": lab}, id="id", ignore=["notes"])


TABLE = pa.table(
    {
        "id": ["007", "b", "c"],
        "n": pa.array([1, None, 3]),
        "x": [0.1, 1e-300, None],
        "flag": [True, None, False],
        "ward": pa.array(["a,b", 'say "c"', None]),
        "grade": pa.array(["low", "high", "low"]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "pq", "PARQUET"])
def test_written_tables_are_read_back(tmp_path, ending):
    path = tmp_path / f"lab.{ending}"
    write_table(TABLE, path)
    view = read(path)
    back = to_table(view)
    assert back.to_pydict() == TABLE.to_pydict()
    if "csv" not in ending and "tsv" not in ending:
        assert view.features[-1].dictionary
    assert [f.dtype for f in view.features] == ["int64", "double", "bool", "string", "string"]


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 64 kB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine does not let root mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", ["lab.csv", "lab.parquet"])
def test_a_full_disk_leaves_nothing(small_disk, name):
    noise = np.random.default_rng(0).normal(size=100_000)
    with (
        pytest.raises(StoreError, match="the disk is full"),
        new_folder(small_disk / "out") as folder,
    ):
        write_table(pa.table({"x": noise}), folder / name)
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "form", "label"),
    [
        ("lab.csv", "csv", "lab.csv"),
        ("a b/lab.TXT", "csv", "a b/lab.TXT"),
        (Path("x/lab.pq"), "parquet", "x/lab.pq"),
        ("sqlite:///lab.db#t", "sql", "sqlite:///lab.db#t"),
        ("postgresql://u:geheim@h/d#t", "sql", "postgresql://u@h/d#t"),
    ],
)
def test_sources_know_their_form_and_hide_passwords(text, form, label):
    source = Source(str(text))
    assert (source.form, source.label) == (form, label)
