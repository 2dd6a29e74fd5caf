"""`cofill complete --save` and `cofill apply` as their user meets them, with later people."""

import errno
import json
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from cofill import codec
from cofill.cli._app import run
from cofill.impute import TableModel

POOLED = pytest.param(
    "pooled",
    marks=pytest.mark.skipif(
        codec._STORABLE.get("TableModel") is not TableModel, reason="its model is not storable"
    ),
)
SMALL = (
    '--set=fusion={"hidden": [4], "weight_decays": [0.1], "members": 1, "fold_members": 1, '
    '"folds": 2, "steps": 20}',
    '--set=encoder_training={"epochs": 2}',
)
SETTINGS = {
    "cooperative": ("--separate", "--method=cooperative", *SMALL),
    "pooled": ("--set=effort=quick",),
}


def training(folder, n=60):
    """Write a ward's file in German style and a lab's typed table; return their sources."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=n)
    lines = ["person;Größe;seit;raucht;plz;name;dosis"]
    for k, t in enumerate(trait):
        size = f"{170 + 8 * t:.1f}".replace(".", ",")
        since = f"{1 + k % 28:02d}.{1 + k % 12:02d}.20{10 + k % 10}"
        dose = "" if k % 7 == 3 else f"{1 + (t > 0)}"
        smokes = "" if k % 9 == 4 else "Ja" if t > 0 else "Nein"
        zip_code = ("01067", "10115")[k % 2]
        lines.append(f'{k};{size};{since};{smokes};{zip_code};"N, {k}";{dose}')
    (folder / "ward.csv").write_bytes("\r\n".join(lines).encode("cp1252") + b"\r\n")
    lab = pd.DataFrame(
        {
            "person": np.arange(n),
            "marker": trait * 2,
            "when": pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "group": pd.Categorical(np.where(trait > 0, "x", "y")),
        }
    )
    lab[8:].to_parquet(folder / "lab.parquet", index=False)
    return [f"--view=ward={folder / 'ward.csv'}", f"--view=lab={folder / 'lab.parquet'}"]


def complete(folder, *more, method="mean"):
    arguments = ["--id=person", "--encoding=cp1252", "--quiet", f"--out={folder / 'done'}"]
    save = f"--save={folder / 'model'}"
    chosen = SETTINGS.get(method, ("--method", method))
    return run(["complete", *training(folder), *arguments, save, *chosen, *more])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the tables of the fit and a model of means."""
    folder = tmp_path_factory.mktemp("fit")
    assert complete(folder) == 0
    return folder


def apply(folder, out, *more, **tables):
    """Write later tables beside `out` and apply the folder's model to them."""
    out.mkdir(exist_ok=True)
    views = []
    for name, table in tables.items():
        ending = "parquet" if isinstance(table, pd.DataFrame) else "csv"
        path = out / f"{name}.{ending}"
        if isinstance(table, pd.DataFrame):
            table.to_parquet(path, index=False)
        else:
            path.write_bytes(table if isinstance(table, bytes) else table.encode("cp1252"))
        views.append(f"--view={name}={path}")
    return run(["apply", str(folder / "model"), *views, f"--out={out / 'done'}", *more])


WARD = "person;Größe;seit;raucht;plz;name;dosis\r\n"


def test_a_saved_model_is_for_its_owner_and_written_with_the_result(folder):
    assert stat.S_IMODE((folder / "model").stat().st_mode) == 0o700
    assert sorted(p.name for p in (folder / "model").iterdir()) == [
        "model.json",
        "model.safetensors",
    ]
    facts = json.loads((folder / "done" / "completion.json").read_text())
    assert facts["settings"]["save"] == str(folder / "model")


def test_one_person_keeps_bytes_and_gets_cells_in_the_columns_style(folder, tmp_path):
    """Nothing in the new table tells how dates, marks or truth values are written."""
    text = WARD + '00900;;;;;"Q, 1";\r\n'
    assert apply(folder, tmp_path, "--quiet", "--id-type=text", ward=text) == 0
    line = (tmp_path / "done" / "ward.csv").read_bytes().decode("cp1252").split("\r\n")[1]
    person, size, since, smokes, zip_code, name, dose = line.split(";")
    assert (person, name) == ("00900", '"Q, 1"')
    assert len(size.split(",")[1]) == 1
    assert pd.to_datetime(since, format="%d.%m.%Y").year >= 2010
    assert smokes in ("Ja", "Nein")
    assert zip_code in ("01067", "10115")
    assert dose in ("1", "2")
    lab = pd.read_parquet(tmp_path / "done" / "lab.parquet")
    assert lab["person"].tolist() == ["00900"]
    assert lab["when"].dtype.kind == "M"
    assert lab["group"][0] in ("x", "y")
    origin = pd.read_csv(tmp_path / "done" / "ward_origin.csv")
    assert (origin.drop(columns="person") == "reconstructed").all().all()


@pytest.mark.parametrize("method", ["mean", "cooperative", POOLED])
def test_observed_cells_are_byte_identical_by_every_method(tmp_path, method):
    assert complete(tmp_path, method=method) == 0
    text = WARD + "905;171,50;03.02.2014;JA;01067;;2\r\n901; 169,0;;Nein;;x;\r\n"
    assert apply(tmp_path, tmp_path / "new", "--quiet", ward=text) == 0
    before, after = (
        [line.split(";") for line in content.decode("cp1252").removesuffix("\r\n").split("\r\n")]
        for content in (text.encode("cp1252"), (tmp_path / "new/done/ward.csv").read_bytes())
    )
    assert [len(line) for line in after] == [len(line) for line in before]
    columns = before[0]
    for old, new in zip(before, after, strict=True):
        for column, was, now in zip(columns, old, new, strict=False):
            if was or column == "name":
                assert now == was
            else:
                assert now
    lab = pd.read_parquet(tmp_path / "new/done/lab.parquet")
    assert lab["person"].tolist() == [901, 905]
    assert lab.notna().all().all()


def test_another_process_reads_the_model(tmp_path):
    """Types that only the method's own package knows must be known when its model is read."""
    assert complete(tmp_path, method="cooperative") == 0
    LAB.to_parquet(tmp_path / "new.parquet", index=False)
    process = subprocess.run(
        [sys.executable, "-m", "cofill", "apply", str(tmp_path / "model"),
         f"--view=lab={tmp_path}/new.parquet", f"--out={tmp_path}/new"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "new" / "ward.csv").is_file()


def test_columns_elsewhere_missing_and_more_and_an_unseen_category(folder, tmp_path, capsys):
    text = "extra;plz;person;Größe\r\nhello;99999;7;180,5\r\n;01067;8;\r\n"
    assert apply(folder, tmp_path, ward=text) == 0
    written = (tmp_path / "done" / "ward.csv").read_bytes().decode("cp1252").split("\r\n")
    assert written[0] == "extra;plz;person;Größe;seit;raucht;dosis"
    assert written[1].startswith("hello;99999;7;180,5;")
    assert written[2].startswith(";01067;8;")
    assert all(all(line.split(";")[3:]) for line in written[1:3])
    origin = pd.read_csv(tmp_path / "done" / "ward_origin.csv")
    assert origin["plz"].tolist() == ["observed", "observed"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "has no columns 'seit', 'raucht', 'dosis'; filled for everybody" in printed
    assert "does not know 'extra'; passed through" in printed
    assert "'plz' has values in 1 rows that the model never saw" in printed
    assert "view 'lab' is not there" in printed
    assert "99999" not in printed


def test_an_empty_view_and_rows_without_a_cell(folder, tmp_path):
    lab = pd.DataFrame({"person": [4, 5], "marker": [None, None], "group": [None, None]})
    assert apply(folder, tmp_path, "--quiet", ward=WARD + "4;;;;;;\r\n", lab=lab) == 0
    done = pd.read_parquet(tmp_path / "done" / "lab.parquet")
    assert list(done.columns) == ["person", "marker", "group", "when"]
    assert done["person"].tolist() == [4, 5]
    assert done.notna().all().all()
    ward = pd.read_csv(tmp_path / "done" / "ward.csv", sep=";", encoding="cp1252")
    assert ward["person"].tolist() == [4, 5]
    assert ward.drop(columns="name").notna().all().all()
    header_only = tmp_path / "header"
    assert apply(folder, header_only, "--quiet", ward=WARD, lab=lab) == 0
    ward = pd.read_csv(header_only / "done" / "ward.csv", sep=";", encoding="cp1252")
    assert ward["person"].tolist() == [4, 5]


def test_a_missing_text_view_is_written_as_the_text_of_the_fit(folder, tmp_path):
    lab = pd.DataFrame({"person": [70], "marker": [1.5]})
    assert apply(folder, tmp_path, "--quiet", lab=lab) == 0
    written = (tmp_path / "done" / "ward.csv").read_bytes().decode("cp1252")
    header, line, end = written.split("\r\n")
    assert header == "person;Größe;seit;raucht;plz;dosis"
    assert line.startswith("70;1")
    assert line.split(";")[1].count(",") == 1
    assert end == ""


def test_a_table_in_another_form_than_at_the_fit(folder, tmp_path):
    """A typed table where the fit had text, and text where it had types; points for commas."""
    ward = pd.DataFrame({"person": [7], "Größe": [181.25], "plz": ["01067"], "raucht": ["Ja"]})
    lab = "person,marker,group\r\n7,-1.25,x\r\n8,,z\r\n"
    assert apply(folder, tmp_path, "--quiet", ward=ward, lab=lab) == 0
    done = pd.read_parquet(tmp_path / "done" / "ward.parquet")
    assert done.loc[0, ["Größe", "plz", "raucht"]].tolist() == [181.25, "01067", "Ja"]
    assert [d.year for d in done["seit"]] == [2014, 2014]
    lines = (tmp_path / "done" / "lab.csv").read_text().split()
    assert [line.split(",")[2] for line in lines[1::2]] == ["x", "z"]
    assert lines[1].split(",")[3].startswith("2020-0")
    points = tmp_path / "points"
    text = "person,Größe,dosis\r\n1,170.5,2\r\n2,,1\r\n"
    assert apply(folder, points, "--quiet", "--encoding=utf-8", "--delimiter=,",
                 ward=text.encode()) == 0  # fmt: skip
    written = (points / "done" / "ward.csv").read_text().splitlines()
    assert written[1].startswith("1,170.5,2,")
    assert written[2].split(",")[1].count(".") == 1


def test_intervals_and_draws_of_later_people(tmp_path):
    assert complete(tmp_path, method="cooperative") == 0
    lab = pd.DataFrame({"person": [70, 71], "marker": [1.5, -1.5]})
    out = tmp_path / "new"
    assert apply(tmp_path, out, "--quiet", "--intervals=0.5", "--draws=2", lab=lab) == 0
    ward = pd.read_csv(out / "done" / "ward.csv", sep=";", decimal=",", encoding="cp1252")
    assert {"Größe_low", "Größe_high"} <= set(ward.columns)
    assert sorted(p.name for p in (out / "done" / "draws").iterdir()) == ["1", "2"]
    assert (out / "done" / "ledger.jsonl").is_file()


def test_a_database_in_and_out(folder, tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path}/new.db"
    engine = sqlalchemy.create_engine(url)
    pd.DataFrame({"person": [70], "marker": [1.5]}).to_sql("lab", engine, index=False)
    arguments = ["apply", str(folder / "model"), f"--view=lab={url}#lab", f"--out={url}"]
    assert run([*arguments, "--quiet"]) == 0
    assert pd.read_sql_table("ward_completed", engine)["person"].tolist() == [70]
    assert pd.read_sql_table("lab_completed", engine)["marker"].tolist() == [1.5]
    engine.dispose()
    assert run([*arguments, "--quiet"]) == 2  # the tables are there now


def test_one_table_without_ids(tmp_path):
    table = pd.DataFrame({"x": np.arange(30) / 10, "y": np.arange(30) * 2})
    table.loc[3, "y"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    view, out, save = (f"--{w}" for w in (f"view=t={tmp_path}/t.csv", "out", "save"))
    code = run(["complete", view, out, str(tmp_path / "done"), save, str(tmp_path / "model"),
                "--method=mean", "--quiet"])  # fmt: skip
    assert code == 0
    assert apply(tmp_path, tmp_path / "new", "--quiet", t="y,x\n,1.25\n9,\n") == 0
    assert (tmp_path / "new" / "done" / "t.csv").read_text().splitlines()[1].endswith(",1.25")


def test_missing_values_of_the_fit_are_missing_values_later(tmp_path):
    rows = "\n".join(f"{k},{k / 10},{k % 3}" for k in range(30))
    (tmp_path / "t.csv").write_text(f"id,x,n\n{rows}\n30,-999,1\n")
    options = ["--id=id", "--na-values=-999", "--method=mean", "--quiet"]
    view, out = f"--view=t={tmp_path}/t.csv", f"--out={tmp_path}/done"
    assert run(["complete", view, out, *options, f"--save={tmp_path}/model"]) == 0
    assert apply(tmp_path, tmp_path / "new", "--quiet", t="id,x,n\n1,-999,2\n") == 0
    assert (tmp_path / "new/done/t.csv").read_text() == "id,x,n\n1,1.4,2\n"


def test_a_result_is_read_again_by_other_commands(folder, tmp_path, capsys):
    lab = pd.DataFrame({"person": range(70, 90), "marker": np.linspace(-2, 2, 20)})
    ward = WARD + "".join(f"{k};17{k % 10},5;;;;;\r\n" for k in range(70, 90))
    assert apply(folder, tmp_path, "--quiet", lab=lab, ward=ward) == 0
    facts = json.loads((tmp_path / "done" / "completion.json").read_text())
    assert facts["settings"]["method"] == "mean"
    assert facts["settings"]["ignore"] == ["ward.name"]
    assert run(["report", str(tmp_path / "done"), "--quiet"]) == 0
    assert run(["cluster", str(tmp_path / "done"), "--k=2", "--out",
                str(tmp_path / "groups"), "--quiet"]) == 0  # fmt: skip


# --- faults ---------------------------------------------------------------------------------------

LAB = pd.DataFrame({"person": [1], "marker": [1.0]})
FAULTS = {
    "text for a number": ({"ward": "person;Größe\n1;tall\n"}, (), "holds text in 1 of 1 rows (the"),
    "text for a date": ({"ward": "person;seit\n1;soon\n"}, (), "the model learned times as %d.%m"),
    "a type for a time": ({"lab": LAB.assign(when=[3.5])}, (), "holds cells of type double"),
    "numbers for texts": ({"lab": LAB.assign(group=[3.5])}, (), "the model learned texts"),
    "no id column": ({"ward": "who;Größe\n1;170,0\n"}, (), "has no id column 'person'"),
    "the same person twice": ({"ward": "person;dosis\n1;1\n1;2\n"}, (), "occur more than once"),
    "another view": ({"labs": LAB}, (), "the model has no view 'labs'; did you mean 'lab'?"),
    "no column of the model": ({"lab": LAB[["person"]].assign(z=[1])}, (), "has none of the 3"),
    "nobody": ({"ward": WARD}, (), "no table has a row"),
    "intervals": ({"lab": LAB}, ("--intervals=0.9",), "'mean' gives intervals only where"),
    "intervals out of range": ({"lab": LAB}, ("--intervals=9",), "between 0 and 1"),
    "draws": ({"lab": LAB}, ("--draws=2",), "'mean' tells one value a cell"),
    "order": ({"lab": LAB}, ("--order=age",), "order must be source or id"),
    "a dropped feature": ({"lab": LAB}, ("--drop=marker",), "filled by the model"),
    "encoding": ({"ward": "person;dosis\n1;1\n"}, ("--encoding=klingon",), "encoding must be"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_wrong_input_is_one_sentence_and_exit_code_2(folder, tmp_path, capsys, case):
    tables, options, words = FAULTS[case]
    assert apply(folder, tmp_path, *options, **tables) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert "tall" not in captured.err
    assert "soon" not in captured.err
    assert captured.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f"{n}.{'parquet' if isinstance(t, pd.DataFrame) else 'csv'}" for n, t in tables.items()
    )


def test_a_folder_that_is_no_model_or_was_changed_is_refused(folder, tmp_path, capsys):
    assert apply(tmp_path, tmp_path / "new", lab=LAB) == 2
    assert "is no folder of a model" in capsys.readouterr().err
    (tmp_path / "model").mkdir()
    for name in ("model.json", "model.safetensors"):
        content = bytearray((folder / "model" / name).read_bytes())
        content[-20] ^= 1
        for other in (folder / "model").iterdir():
            (tmp_path / "model" / other.name).write_bytes(other.read_bytes())
        (tmp_path / "model" / name).write_bytes(content)
        assert apply(tmp_path, tmp_path / "new", lab=LAB) == 2
        message = capsys.readouterr().err
        assert name in message
        assert message.count("\n") == 1
    assert not (tmp_path / "new" / "done").exists()


def test_a_fault_while_writing_leaves_neither_result_nor_model(tmp_path, capsys, monkeypatch):
    from cofill.completion import _result

    def fail(table, path, formulas):
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(_result, "write_table", fail)
    assert complete(tmp_path) == 2
    assert "disk is full" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lab.parquet", "ward.csv"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method=knn"], "the method 'knn' cannot be saved"),
        (["--save=sqlite:///x.db"], "saved in a folder"),
        (["--save={out}"], "must be two folders"),
        (["--save={out}/model"], "must be two folders"),
    ],
)
def test_where_a_model_cannot_be_saved(tmp_path, capsys, options, words):
    views, out = training(tmp_path), tmp_path / "done"
    options = [option.format(out=out) for option in options]
    save = [] if any(o.startswith("--save") for o in options) else [f"--save={tmp_path}/model"]
    arguments = ["complete", *views, "--id=person", "--encoding=cp1252", f"--out={out}"]
    assert run([*arguments, *save, *options]) == 2
    assert words in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lab.parquet", "ward.csv"]


@pytest.mark.parametrize("first", ["€1,500.00", "1500.00"])
def test_numbers_with_a_unit_are_filled_with_it_also_where_others_stand_without(tmp_path, first):
    known = "".join(f'p{k},{20 + k},"€{1000 + 10 * k:,.2f}"\n' for k in range(40))
    (tmp_path / "fit.csv").write_text("id,age,pay\n" + known)
    (tmp_path / "later.csv").write_text(f'id,age,pay\nq1,44,"{first}"\nq2,30,\n')
    options = ["--id=id", "--quiet", "--method=mean", f"--save={tmp_path / 'model'}"]
    view, out = f"--view=t={tmp_path / 'fit.csv'}", f"--out={tmp_path / 'done'}"
    assert run(["complete", view, out, *options]) == 0
    view, out = f"--view=t={tmp_path / 'later.csv'}", f"--out={tmp_path / 'new'}"
    assert run(["apply", str(tmp_path / "model"), view, out, "--quiet"]) == 0
    rows = (tmp_path / "new" / "t.csv").read_text().splitlines()[1:]
    assert rows == [f'q1,44,"{first}"', 'q2,30,"€1,195.00"']
