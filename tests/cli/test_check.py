"""`cofill check`, `cofill methods NAME`, progress in a log, and completed folders as input."""

import json
import time

import numpy as np
import pandas as pd
import pytest

from cofill.cli import _show
from cofill.cli._app import run


@pytest.fixture
def tables(tmp_path):
    """Write two related tables with odd columns; return the options that name them."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=80)
    people = pd.DataFrame(
        {
            "id": np.arange(80),
            "zip": [f"{k:05d}" for k in rng.integers(100, 999, 80)],
            "income": np.where(np.arange(80) % 10 == 0, -999, 1000 + 100 * trait).round(),
            "constant": "x",
            "day": pd.date_range("2020-01-01", periods=80).strftime("%Y-%m-%d"),
        }
    )
    lab = pd.DataFrame({"id": np.arange(80), "marker": trait, "sick": (trait > 0).astype(int)})
    people[:60].to_csv(tmp_path / "people.csv", index=False)
    lab[20:].to_parquet(tmp_path / "lab.parquet", index=False)
    views = [f"people={tmp_path / 'people.csv'}", f"lab={tmp_path / 'lab.parquet'}"]
    return tmp_path, [word for view in views for word in ("--view", view)] + ["--id", "id"]


def test_check_tells_kinds_overlap_holes_and_method(tables, capsys):
    folder, options = tables
    before = sorted(folder.iterdir())
    assert run(["check", *options, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    columns = facts["views"]["people"]["columns"]
    assert columns["income"] == {"kind": "numeric", "missing": 0}
    assert columns["day"]["kind"].startswith("date")
    assert facts["views"]["people"]["passed_through"] == ["zip"]
    assert facts["views"]["people"]["rows_to_fill"] == 20
    assert facts["views"]["lab"]["cells_to_fill"] == 40
    assert facts["patterns"][0] == {"views": ["people", "lab"], "individuals": 40}
    assert facts["method"]["name"] == "pooled"
    assert any("-999" in note for note in facts["notes"])
    assert any("'constant' has one value only" in note for note in facts["notes"])
    assert facts["expected"]["memory_bytes"] > 0
    assert sorted(folder.iterdir()) == before


def test_check_measures_when_asked_and_is_readable(tables, capsys):
    _, options = tables
    assert run(["check", *options, "--method", "mean", "--measure"]) == 0
    words = capsys.readouterr().out
    assert "■       ■    40 (50.0%)" in words
    assert "expected time: roughly" in words
    assert run(["check", *options, "--separate"]) == 0
    assert "method: cooperative, because every view is a site" in capsys.readouterr().out


def test_settings_of_a_method_are_documented(capsys):
    assert run(["methods", "cooperative", "--json"]) == 0
    settings = {s["name"]: s for s in json.loads(capsys.readouterr().out)["settings"]}
    assert settings["min_overlap"]["type"] == "a whole number"
    assert settings["min_overlap"]["default"] == 20
    assert "shared individuals" in settings["min_overlap"]["meaning"]
    assert run(["methods", "knn"]) == 0
    words = capsys.readouterr().out
    assert "--set weights=…  'uniform' or 'distance'; \"uniform\" if left out" in words
    assert run(["methods", "kn"]) == 2
    assert "did you mean 'knn'?" in capsys.readouterr().err


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(_show, "SECONDS_A_LINE", 0.05)
    with _show.progress_line(quiet=False) as report_progress:
        report_progress("train", 0.5)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert lines[0].startswith("cofill: train 50% after 0 s, about 0 s left")
    with _show.progress_line(quiet=True) as report_progress:
        report_progress("train", 0.5)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.fixture
def completed(tables):
    folder, options = tables
    more = ["--method", "mean", "--intervals", "0.9", "--ignore", "day", "-q"]
    assert run(["complete", *options, "--out", str(folder / "done"), *more]) == 0
    return folder


def test_a_completed_folder_is_clustered_without_its_intervals(completed, capsys):
    groups = ["cluster", str(completed / "done"), "--k", "2", "--out", str(completed / "groups")]
    assert run([*groups, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["settings"]["id"] == "id"
    assert "people.income_low" in facts["settings"]["ignore"]
    assert len(pd.read_csv(completed / "groups" / "assignments.csv")) == 80
    assert run(["cluster", str(completed), "--out", str(completed / "no")]) == 2
    assert "has no completion.json" in capsys.readouterr().err


def test_a_completed_folder_is_reported_attacked_and_audited(completed, capsys):
    done = str(completed / "done")
    assert run(["report", done, "-q"]) == 0
    (completed / "mean.json").write_text(json.dumps({"marker": 0.8}))
    attack = ["attack", "mean", "--records", done, "--mean", str(completed / "mean.json")]
    attack += ["--truth", "sick", "--prior", "0.5", "--out", str(completed / "guesses.csv"), "-q"]
    assert run(attack) == 0
    assert pd.read_csv(completed / "guesses.csv")["id"].tolist() == list(range(80))
    (completed / "bounds.json").write_text(json.dumps({"marker": [-3, 3], "income": [0, 2000]}))
    audit = ["audit", "mean", "--records", done, "--truth", "sick", "--draws", "100", "-q"]
    bounds = ["--bounds", str(completed / "bounds.json"), "--out", str(completed / "audit")]
    assert run([*audit, *bounds]) == 0
