"""`cofill reproduce` as its user meets it: a table, files, and one sentence when it cannot be."""

import ast
import json
import re
import tomllib
import xml.etree.ElementTree as ET
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from cofill.cli._app import run
from cofill.metrics import ResultRecord
from cofill_papers._command import reproduce

PAPERS = Path(__file__).parents[1]


def call(out, *more, name="cube", methods="mean,central-ridge"):
    return run(["reproduce", name, "--out", str(out), "--methods", methods, *more])


def test_experiments_are_listed(capsys):
    assert run(["reproduce", "list"]) == 0
    assert "madelon" in capsys.readouterr().out
    assert run(["reproduce", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name": "cube", "repeats": 50}.items() <= listed[0].items()


def test_a_run_prints_a_table_and_writes_record_page_and_pictures(tmp_path, capsys):
    out = tmp_path / "new" / "results"
    assert call(out, "--quick") == 0
    printed = capsys.readouterr().out
    assert "central-ridge" in printed
    assert "rf (paper)" in printed
    assert "0.7330" in printed
    record = ResultRecord.read(out / "cube.json")
    assert record.seeds == [0, 1]
    page = (out / "cube.md").read_text()
    assert "| central-ridge |" in page
    drawn = sorted(p.name for p in out.glob("*.svg"))
    assert drawn == ["cube_mrd.svg", "cube_mse.svg"]
    for name in drawn:
        ET.fromstring((out / name).read_text())
        assert f"({name})" in page


def test_an_earlier_record_is_replaced_only_when_told(tmp_path, capsys):
    assert call(tmp_path, "--seeds", "1", "--quiet", methods="mean") == 0
    before = (tmp_path / "cube.json").read_text()
    assert call(tmp_path, "--seeds", "1") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "cube.json").read_text() == before
    assert call(tmp_path, "--seeds", "2", "--overwrite", "--quiet", methods="mean") == 0
    assert ResultRecord.read(tmp_path / "cube.json").seeds == [0, 1]


def test_json_is_the_only_thing_on_standard_output(tmp_path, capsys):
    assert call(tmp_path, "--seeds", "1", "--json", methods="mean") == 0
    printed = capsys.readouterr().out
    assert ResultRecord.from_json(printed) == ResultRecord.read(tmp_path / "cube.json")


def test_quiet_prints_nothing(tmp_path, capsys):
    assert call(tmp_path, "--seeds", "1", "--quiet", methods="mean") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "cub"}, "did you mean 'cube'"),
        ({"name": "xyz"}, "there is 'cube', 'wdbc'"),
        ({"methods": "meen"}, "did you mean 'mean'"),
        ({"methods": ""}, "at least one method"),
        ({"more": ["--seeds", "0"]}, "seeds must be at least 1"),
        ({"more": ["--seeds", "two"]}, "must be a number or a range such as 2-4, got 'two'"),
        ({"more": ["--all"]}, "--all goes with --quick, --out and --quiet only"),
    ],
)
def test_faults_are_one_sentence_and_nothing_is_written(tmp_path, capsys, arguments, sentence):
    more = arguments.pop("more", ["--seeds", "1"])
    assert call(tmp_path / "out", *more, **arguments) == 2
    error = capsys.readouterr().err.strip()
    assert sentence in error
    assert "\n" not in error
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path, capsys):
    (tmp_path / "file").write_text("here")
    assert call(tmp_path / "file" / "out", "--seeds", "1") == 2
    assert "cannot be made" in capsys.readouterr().err


def test_data_that_are_not_here_are_a_fault(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    assert call(tmp_path / "out", "--seeds", "1", name="madelon", methods="mean") == 2
    assert "madelon" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_is_an_entry_point_of_the_distribution():
    project = tomllib.loads((PAPERS / "pyproject.toml").read_text())["project"]
    value = project["entry-points"]["cofill.commands"]["reproduce"]
    declared = EntryPoint("reproduce", value, "cofill.commands")
    assert declared.load() is reproduce
    assert declared in entry_points(group="cofill.commands")


def test_only_public_names_of_the_library_are_imported():
    private = re.compile(r"cofill(\.\w+)*\._|import _")
    for path in (PAPERS / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            wrong = [n for n in names if n.split(".")[0] == "cofill" and private.search(n)]
            assert wrong == [], path.name
