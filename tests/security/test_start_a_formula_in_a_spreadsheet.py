"""A person or a peer wants a command run where a result is opened: a cell that is a formula."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.network.conftest import row_sites
from tests.network.test_by_row import drive

from cofill.completion import (
    Completed,
    CompletionJob,
    completed_folder,
    read_records,
    run_completion,
)
from cofill.errors import SettingError
from cofill.network._config import ViewSource
from cofill.views import Source, read_views, to_table, write_table

PEOPLE = [f"person {k}" for k in range(12)]
COMMAND = "=cmd|' /C calc'!A0"
FORMULAS = [COMMAND, "@SUM(A1)", "+A1+1", "-A1", "\t=1+1", "\r=1+1", "\n=1+1", "＝1+1", "＋A1"]
HARMLESS = [
    "=",
    "-1",
    "+1.5",
    "-1.234,5",
    "+1e5",
    "-",
    "+49 170 123-45",
    "-12:30",
    "",
    "a=b",
    "'=1",
]


def fields_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def filled(folder: Path, cells: list[str], column: str = "word"):
    """Return a table of text, read from a file, with its last cells filled by the first's."""
    path = folder / "words.csv"
    lines = ([f"p{k}", cell, str(-k), "-7"] for k, cell in enumerate([*cells, *cells, "", ""]))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", column, "number", "text"], *lines])
    views = read_views(
        {"t": str(path)}, id="id", kinds={column: "categorical"}, ignore=["text"], na_values=[""]
    )
    (first,) = views["t"].cells[views["t"].ids == "p0", 0]
    done = np.where(np.isnan(views["t"].cells), first, views["t"].cells)
    return path, Completed(views, {"t": done}).filled("t")


def write(tmp_path: Path, table, **options) -> list[list[str]]:
    out = tmp_path / "out.csv"
    write_table(table, out, **options)
    return fields_of(out)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_text_that_was_observed_or_filled_starts_no_formula(tmp_path, formula):
    _, table = filled(tmp_path, [formula, "plain"])
    _, *rows = write(tmp_path, table)
    words = [row[1] for row in rows]
    assert words == ["'" + formula, "plain"] * 2 + ["'" + formula] * 2
    assert [row[2] for row in rows] == ["0", "-1", "-2", "-3", "-4", "-5"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_text_of_a_new_table_starts_no_formula(tmp_path, formula):
    table = pa.table({"id": [formula, "a"], "v": pa.array([formula, None]).dictionary_encode()})
    assert write(tmp_path, table)[1:] == [["'" + formula, "'" + formula], ["a", ""]]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_formula_is_left_alone(tmp_path, text):
    table = pa.table({"v": [text, "b"], "n": [-1.5, 2.0]})
    assert write(tmp_path, table)[1] == [text, "-1.5"]


def test_a_name_of_a_column_starts_no_formula(tmp_path):
    _, table = filled(tmp_path, ["a", "b"], column="=A1")
    assert write(tmp_path, table)[0] == ["id", "'=A1", "number", "text"]
    assert write(tmp_path, pa.table({"@x": [1]}))[0] == ["'@x"]


def test_people_who_are_new_to_a_table_start_no_formula(tmp_path):
    people, words = tmp_path / "people.csv", tmp_path / "words.csv"
    people.write_text("id,u\n@x,1\na,2\n")
    words.write_text("id,w,more\na,=b,-c\n")
    views = read_views({"p": str(people), "w": str(words)}, id="id", kinds={"w": "categorical"})
    completed = Completed(views, {"p": np.array([[1.0], [2.0]]), "w": np.zeros((2, 2))})
    assert write(tmp_path, completed.filled("w"))[1:] == [
        ["a", "'=b", "'-c"],
        ["'@x", "'=b", "'-c"],
    ]
    assert write(tmp_path, completed.origin_table("w"))[1][0] == "a"
    assert write(tmp_path, completed.origin_table("w"))[2][0] == "'@x"


def test_a_workbook_holds_text_and_no_formula(tmp_path):
    pytest.importorskip("openpyxl")
    write_table(pa.table({"=A1": [COMMAND, "b"], "n": [-1, 2]}), tmp_path / "out.xlsx")
    read = Source(str(tmp_path / "out.xlsx")).read_table()
    # A formula has no stored value before a spreadsheet has computed it.
    assert read.to_pydict() == {"=A1": [COMMAND, "b"], "n": [-1, 2]}


def test_a_table_without_formulas_comes_back_byte_for_byte(tmp_path):
    path, _ = filled(tmp_path, ["-", "plain"])
    read = read_views({"t": str(path)}, id="id", ignore=["text", "word"])
    write_table(Completed(read, {"t": read["t"].cells}).filled("t"), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == path.read_bytes()


def test_formulas_are_kept_on_demand(tmp_path):
    _, table = filled(tmp_path, [COMMAND, "plain"])
    rows = write(tmp_path, table, formulas="keep")
    assert [row[1] for row in rows[1:]] == [COMMAND, "plain"] * 2 + [COMMAND] * 2
    with pytest.raises(SettingError, match="formulas must be 'escape' or 'keep', got 'x'"):
        write_table(table, tmp_path / "x.csv", formulas="x")


@pytest.mark.parametrize(("formulas", "start"), [("escape", "'=CANARY"), ("keep", "=CANARY")])
def test_a_site_writes_no_formula_unless_its_operator_says_so(rows_at, formulas, start):
    settings = {"k": 2, "scale": "none", "noise": {"epsilon": 0.4, "clip": 1.0, "rounds": 3}}
    federation = rows_at("cluster", settings, held=row_sites(whole=True))
    config = federation.configs["a"]
    sources = {}
    for name, view in row_sites(whole=True)["a"].items():
        path = federation.base / f"{name}.csv"
        marked = replace(view, ids=np.array([f"={one}" for one in view.ids]))
        write_table(to_table(marked), path, formulas="keep")
        sources[name] = ViewSource(str(path), "id")
    federation.configs["a"] = replace(config, views=sources, formulas=formulas)
    drive(federation)
    (path,) = federation.results("a").glob("*.csv")
    assert all(row[0].startswith(start) for row in fields_of(path)[1:])


@pytest.mark.parametrize("formulas", ["escape", "keep"])
def test_a_completed_folder_is_read_again_whatever_its_columns_are_called(tmp_path, formulas):
    tables = {
        "p": {"=id": [*PEOPLE, "@x"], "-u": [float(k) for k in range(13)], "=note": ["+c"] * 13},
        "w": {"=id": [*PEOPLE[2:], "@x"], "@w": ["=b", "-c"] * 5 + ["=b"]},
    }
    for name, table in tables.items():
        write_table(pa.table(table), tmp_path / f"{name}.csv", formulas="keep")
    job = CompletionJob(
        {name: str(tmp_path / f"{name}.csv") for name in tables},
        out=str(tmp_path / "out"),
        id="=id",
        method="mean",
        kinds={"@w": "categorical", "-u": "numeric"},
        ignore=("=note",),
        formulas=formulas,
    )
    run_completion(job)
    reading = completed_folder(tmp_path / "out").reading()
    again = read_views(**reading)
    assert set(again["p"].ids) == {*PEOPLE, "@x"}
    assert [f.name for f in again["p"].features] == ["-u"]
    assert set(again["w"].features[0].categories) == {"=b", "-c"}
    assert read_records(str(tmp_path / "out"))[1] == "=id"
