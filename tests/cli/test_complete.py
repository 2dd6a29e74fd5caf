"""`cofill complete` as its user meets it: files in, files out, one sentence when it cannot be."""

import errno
import json

import numpy as np
import pandas as pd
import pytest

from cofill.cli._app import run
from cofill.completion import METHODS, AbstractCompleter
from cofill.metrics import ResultRecord
from cofill.privacy import Ledger


@pytest.fixture
def tables(tmp_path):
    """Write two related tables with gaps; return their folder."""
    rng = np.random.default_rng(0)
    n = 60
    trait = rng.normal(size=n)
    clinic = pd.DataFrame(
        {
            "age": np.rint(50 + 10 * trait).astype(int),
            "person": np.arange(n),
            "weight": 70 + 5 * trait,
        }
    )
    lab = pd.DataFrame(
        {"person": np.arange(n), "marker": trait * 2, "group": np.where(trait > 0, "x", "y")}
    )
    clinic[:45].to_csv(tmp_path / "clinic.csv", index=False)
    lab[15:].to_parquet(tmp_path / "lab.parquet", index=False)
    return tmp_path


def call(folder, *more, out="done", views=("clinic=clinic.csv", "lab=lab.parquet"), method="mean"):
    arguments = ["complete", "--id", "person", "--out", str(folder / out), "--method", method]
    for view in views:
        name, _, place = view.partition("=")
        arguments += ["--view", f"{name}={place if '://' in place else folder / place}"]
    return run([*arguments, *more])


def test_files_come_back_complete_in_their_own_form(tables):
    assert call(tables) == 0
    before, after = (pd.read_csv(tables / p / "clinic.csv") for p in ("", "done"))
    assert list(after.columns) == ["age", "person", "weight"]
    assert after.dtypes.equals(before.dtypes)
    assert len(after) == 60
    assert not after.isna().any().any()
    pd.testing.assert_frame_equal(after[:45], before)
    lab = pd.read_parquet(tables / "done" / "lab.parquet")
    assert set(lab["group"]) == {"x", "y"}
    origin = pd.read_parquet(tables / "done" / "lab_origin.parquet")
    assert lab["person"].tolist() == origin["person"].tolist() == [*range(15, 60), *range(15)]
    assert (origin["marker"][:45] == "observed").all()
    assert (origin["marker"][45:] == "reconstructed").all()
    facts = json.loads((tables / "done" / "completion.json").read_text())
    assert facts["views"]["lab"]["reconstructed_rows"] == 15
    assert facts["settings"]["seed"] == 0


def test_evaluation_is_printed_and_kept(tables, capsys):
    assert call(tables, "--evaluate", "--compare", "knn", "--repeats", "2") == 0
    printed = capsys.readouterr().out
    assert "knn †" in printed
    assert "Accuracy" in printed
    record = ResultRecord.read(tables / "done" / "evaluation.json")
    assert record.summary["knn/mse/clinic"]["n"] == 2
    features = pd.read_csv(tables / "done" / "evaluation_features.csv")
    assert set(features["feature"]) == {"age", "weight", "marker", "group"}


def test_json_is_the_only_thing_on_standard_output(tables, capsys):
    assert call(tables, "--json", "--evaluate", "--compare", "") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["individuals"] == 60
    assert "mean/mse/all" in printed["evaluation"]


def test_quiet_prints_nothing(tables, capsys):
    assert call(tables, "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_intervals_are_columns(tables):
    assert call(tables, "--intervals", "0.5") == 0
    frame = pd.read_csv(tables / "done" / "clinic.csv")
    assert frame["age_low"][:45].isna().all()
    assert (frame["age_low"][45:] <= frame["age"][45:]).all()


def test_databases_in_and_out(tables):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    source, target = f"sqlite:///{tables}/in.db", f"sqlite:///{tables}/out.db"
    engine = sqlalchemy.create_engine(source)
    pd.read_parquet(tables / "lab.parquet").to_sql("results", engine, index=False)
    engine.dispose()
    views = ("clinic=clinic.csv", f"lab={source}#results")
    assert call(tables, views=views) == 0
    assert len(pd.read_parquet(tables / "done" / "lab.parquet")) == 60
    arguments = ["--id", "person", "--method", "mean", "--out", target]
    view_options = [f"--view=clinic={tables}/clinic.csv", f"--view=lab={source}#results"]
    assert run(["complete", *arguments, *view_options]) == 0
    engine = sqlalchemy.create_engine(target)
    assert len(pd.read_sql_table("lab_completed", engine)) == 60
    assert set(pd.read_sql_table("lab_origin", engine)["marker"]) == {"observed", "reconstructed"}
    engine.dispose()
    assert run(["complete", *arguments, *view_options]) == 2  # the tables are there now


BAD = {
    "view without a source": (["--view", "x"], {}, "--view must be NAME=VALUE"),
    "the same table twice": ([], {"views": ["x=lab.parquet"] * 2}, "give each table once"),
    "unknown method": ([], {"method": "magic"}, "there is no method 'magic'"),
    "unknown ending": ([], {"views": ["x=form.odt"]}, "give a .csv or .parquet"),
    "missing file": (["--view", "x=nowhere.csv"], {}, "nowhere.csv: there is no such file"),
    "unknown column": (["--ignore", "agee"], {}, "no view has a column 'agee'; did you mean 'age'"),
    "unknown kind": (["--kind", "age=colour"], {}, "numeric, binary or categorical"),
    "share": (["--evaluate", "--share", "2"], {}, "share must be between 0 and 1"),
    "repeats": (["--evaluate", "--repeats", "0"], {}, "repeats must be at least 1"),
    "intervals": (["--intervals", "1.5"], {}, "intervals must be between 0 and 1"),
    "name with a slash": ([], {"views": ["a/b=clinic.csv"]}, "becomes a file name"),
    "id type": (["--id-type", "colour"], {}, "id_type must be"),
    "no such option": (["--colour"], {}, "No such option"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_one_sentence_and_exit_code_2(tables, capsys, case):
    more, changes, words = BAD[case]
    (tables / "form.odt").write_text("")
    assert call(tables, *more, **changes) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert not (tables / "done").exists()


HEADER = "person,age,weight\n"
BAD_FILES = {
    "no shared ids": (
        HEADER + "901,5,6\n902,6,7\n",
        "no individual is in more than one view",
        "901",
    ),
    "duplicate ids": (HEADER + "77123,5,6\n77123,6,7\n", "lines 2 and 3", "77123"),
    "ids of another type": (HEADER + "00777,5,6\n00778,6,7\n", "whole numbers in view", "00777"),
    "no rows": (HEADER, "has no rows", "\0"),
    "no columns": ("person\n1\n", "no columns beside the id", "\0"),
    "no id column": ("human,age\n1,2\n", "has no id column 'person'", "\0"),
    "a row without id": (
        HEADER + ",54321,6\n2,6,7\n",
        "1 rows have no id (the first is line 2)",
        "54321",
    ),
    "nothing to fill": (HEADER + "1,,\n2,,\n", "has no column that can be filled: each is", "\0"),
    "text among numbers": (
        HEADER + "1,5,6\n2,secret,7\n3,4,5\n",
        "'age' is numeric but holds text in 1 of 3 rows (the first is line 3)",
        "secret",
    ),
    "a ragged line": (HEADER + "1,5,6\n2,5,6,98765\n", "line 3 has 4 fields", "98765"),
    "empty": ("", "is empty", "\0"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_one_sentence_without_a_persons_data(tables, capsys, case):
    text, words, private = BAD_FILES[case]
    (tables / "bad.csv").write_text(text)
    assert call(tables, views=("clinic=bad.csv", "lab=lab.parquet")) == 2
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message
    assert private not in message.replace(str(tables), "")
    assert not (tables / "done").exists()


def test_damaged_files(tables, capsys):
    whole = (tables / "lab.parquet").read_bytes()
    (tables / "lab.parquet").write_bytes(whole[: len(whole) // 2])
    assert call(tables) == 2
    assert "lab.parquet is not a readable Parquet file" in capsys.readouterr().err
    (tables / "lab.csv").write_bytes(b"person,name\n1,J\xfcrgen\n")
    assert call(tables, views=("clinic=clinic.csv", "lab=lab.csv")) == 2
    message = capsys.readouterr().err
    assert "line 2 is not UTF-8" in message
    assert "rgen" not in message


def test_an_output_that_exists_is_left_alone(tables, capsys):
    (tables / "done").mkdir()
    (tables / "done" / "thesis.txt").write_text("years of work")
    assert call(tables) == 2
    assert "exists already" in capsys.readouterr().err
    assert [p.name for p in (tables / "done").iterdir()] == ["thesis.txt"]


class Stopping(AbstractCompleter):
    """A method during which the user presses Ctrl-C."""

    name = "stopping"

    def _fit(self, views, progress):
        raise KeyboardInterrupt

    def _predict(self, views, progress):
        raise AssertionError


def left_behind(folder):
    return sorted(p.name for p in folder.iterdir() if p.name not in ("clinic.csv", "lab.parquet"))


def test_ctrl_c_leaves_nothing(tables, capsys, monkeypatch):
    monkeypatch.setattr(METHODS, "_entries", dict(METHODS._entries))
    METHODS.add("stopping", Stopping, "stops", pools_rows=False)
    assert call(tables, method="stopping") == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err
    assert left_behind(tables) == []


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_fault_while_writing_leaves_nothing(tables, capsys, monkeypatch, fault):
    from cofill.completion import _result

    written = []

    def write(table, path, formulas):
        written.append(path)
        path.write_text("half")
        if len(written) == 3:
            raise fault

    monkeypatch.setattr(_result, "write_table", write)
    assert call(tables) == (2 if isinstance(fault, OSError) else 130)
    message = capsys.readouterr().err
    assert ("disk is full" if isinstance(fault, OSError) else "interrupted") in message
    assert left_behind(tables) == []


def test_methods_are_listed(capsys):
    assert run(["methods"]) == 0
    assert "central" in capsys.readouterr().out
    assert run(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {m["name"]: m["pools_rows"] for m in listed}["mean"] is False


def test_datasets_are_listed_and_a_missing_one_says_what_to_do(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    assert run(["datasets", "list"]) == 0
    assert "wdbc" in capsys.readouterr().out
    assert run(["datasets", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
    assert run(["datasets", "fetch", "nonesuch"]) == 2
    assert "nonesuch" in capsys.readouterr().err


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cofill 0.")
    assert run(["complete", "--help"]) == 0
    assert "Examples" in capsys.readouterr().out


def test_settings_of_a_method_can_be_given(tables, capsys):
    assert call(tables, "--set", "n_neighbors=2", method="knn") == 0
    facts = json.loads((tables / "done" / "completion.json").read_text())
    assert facts["settings"]["settings"] == {"n_neighbors": 2}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("neighbors=2", "method 'knn' has no setting 'neighbors'; did you mean 'n_neighbors'?"),
        ("n_neighbors", "--set must be NAME=VALUE, got 'n_neighbors'"),
    ],
)
def test_a_wrong_setting_is_named(tables, capsys, setting, words):
    assert call(tables, "--set", setting, method="knn") == 2
    assert words in capsys.readouterr().err
    assert not (tables / "done").exists()


def test_one_owner_uses_all_tables_and_separate_sites_keep_their_rows(tables):
    quick = ("--set", "effort=quick")
    assert call(tables, *quick, method="auto", out="together") == 0
    facts = json.loads((tables / "together" / "completion.json").read_text())
    assert facts["settings"]["method"] == "pooled"
    assert not (tables / "together" / "ledger.jsonl").exists()
    assert call(tables, "--separate", "--set", "features=8", method="auto", out="apart") == 0
    facts = json.loads((tables / "apart" / "completion.json").read_text())
    assert facts["settings"]["method"] == "private"
    kinds = {entry.kind for entry in Ledger.load(tables / "apart" / "ledger.jsonl")}
    assert "masked-rows" in kinds
    assert not kinds & {"codes", "blinded-ids"}


def test_a_table_with_scattered_holes_is_completed_from_its_own_cells(tmp_path):
    x = np.round(np.random.default_rng(0).normal(size=200), 3)
    table = pd.DataFrame({"x": x, "y": 2 * x})
    table.loc[:30, "y"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["complete", "--view", f"t={tmp_path / 't.csv'}", "--out", str(tmp_path / "done")]
    assert run([*arguments, "--set", "effort=quick"]) == 0
    done = pd.read_csv(tmp_path / "done" / "t.csv")
    assert abs(done["y"] - 2 * done["x"]).max() < 0.3


@pytest.mark.parametrize(
    ("more", "method", "words"),
    [
        (["--separate"], "pooled", "keep their rows at home, and the method 'pooled' pools them"),
        (["--separate"], "knn", "leave the method out or choose 'private'"),
    ],
)
def test_separate_sites_refuse_to_pool(tables, capsys, more, method, words):
    assert call(tables, *more, method=method) == 2
    assert words in capsys.readouterr().err
    assert not (tables / "done").exists()


def test_draws_are_whole_tables_beside_the_completed_one(tables):
    assert call(tables, "--draws", "2", "--set", "effort=quick", method="pooled") == 0
    done = tables / "done"
    assert sorted(str(p.relative_to(done)) for p in (done / "draws").rglob("*.*")) == [
        "draws/1/clinic.csv", "draws/1/lab.parquet", "draws/2/clinic.csv", "draws/2/lab.parquet",
    ]  # fmt: skip
    guessed, first, second = (
        pd.read_csv(done / part / "clinic.csv") for part in ("", "draws/1", "draws/2")
    )
    pd.testing.assert_frame_equal(first[:45], guessed[:45])
    assert first["person"].tolist() == guessed["person"].tolist()
    assert (first["weight"][45:] != second["weight"][45:]).mean() > 0.5
    assert not first.isna().any().any()
    before = (tables / "clinic.csv").read_bytes()
    assert (done / "draws" / "1" / "clinic.csv").read_bytes().startswith(before)
    assert json.loads((done / "completion.json").read_text())["settings"]["draws"] == 2
    assert run(["cluster", str(done), "--k", "2", "--out", str(tables / "groups")]) == 0


def test_draws_go_to_a_database_as_tables(tables):
    import sqlite3

    url = f"sqlite:///{tables}/out.db"
    arguments = ["complete", "--view", f"clinic={tables}/clinic.csv", "--out", url]
    assert run([*arguments, "--draws", "1", "--set", "effort=quick"]) == 0
    with sqlite3.connect(tables / "out.db") as database:
        names = {row[0] for row in database.execute("select name from sqlite_master")}
    assert {"clinic_completed", "clinic_origin", "clinic_draw_1"} <= names


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--draws", "2"), "the method 'mean' tells one value a cell and draws none"),
        (("--draws", "-1"), "--draws"),
        (("--draws", "many"), "--draws"),
    ],
)
def test_draws_that_cannot_be_are_refused_before_anything_is_read(tables, capsys, more, sentence):
    assert call(tables, *more) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (tables / "done").exists()
