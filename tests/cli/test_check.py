"""`cofill check`, `cofill methods NAME`, progress in a log, and completed folders as input."""

import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from cofill.cli import _show
from cofill.cli._app import run
from cofill.completion import METHODS
from cofill.completion._cost import COSTS, LARGE, Cost, Power, find_cost
from cofill.completion._suspects import suspects
from cofill.views import Feature, Kind, View


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


def test_check_tells_time_and_memory_by_the_size_of_the_tables(tables, capsys):
    _, options = tables
    assert run(["check", *options]) == 0
    words = capsys.readouterr().out
    assert re.search(
        r"expected memory: roughly \d+\.\d GiB; expected time: roughly .+ on one", words
    )
    assert "method: pooled, because all tables are yours" in words
    assert re.search(r"│ marker +│ numeric +│ ██████████ │ +0 │", words)


def test_costs_grow_with_the_tables_and_are_unknown_for_a_strangers_method():
    for name, cost in COSTS.items():
        small, large = cost.seconds.at(200, 5), cost.seconds.at(20_000, 30)
        assert 0 < small < large, name
        assert cost.mebibytes.at(200, 5) <= cost.mebibytes.at(20_000, 30)
    assert find_cost("pooled", {"effort": "thorough"}, 10) == COSTS["pooled"]
    assert find_cost("pooled", {"effort": "quick"}, 10) == COSTS["pooled quick"]
    assert find_cost("pooled", {}, LARGE + 1) == COSTS["pooled large"]
    assert find_cost("stranger", {}, 10) is None
    assert set(METHODS.names) <= set(COSTS), "measure the new method: python -m bench.cost"


def test_check_says_when_the_memory_is_not_enough(tables, capsys, monkeypatch):
    _, options = tables
    dear = Cost(COSTS["mean"].seconds, Power(1e9, 0.0, 1.0, 1.0))
    monkeypatch.setitem(COSTS, "mean", dear)
    assert run(["check", *options, "--method", "mean"]) == 0
    assert "give it fewer people or columns; expected time: less than" in capsys.readouterr().out


def test_suspects_are_told_once_each_and_without_a_cell():
    rng = np.random.default_rng(0)
    weight = rng.normal(70, 10, size=200)
    weight[17] = 71_234.5  # grams
    mostly = np.where(np.arange(200) < 190, np.nan, weight)
    cells = np.column_stack([weight, mostly, np.full(200, 3.0), np.arange(200) % 3])
    cells[1] = cells[0]
    features = [Feature("weight"), Feature("mostly"), Feature("same")]
    features.append(Feature("sex", Kind.CATEGORICAL, ("f", "F ", "m"), dtype="string"))
    notes = list(suspects(View("people", np.arange(200), cells, features, id_name="")))
    assert [note.partition(": ")[2] for note in notes] == [
        "column 'weight' has 1 value far beyond all others; check for slips and units",
        "column 'mostly' is empty in 95% of the rows; what fills it is a guess",
        "column 'same' has one value only and is filled with it",
        "column 'sex' has 2 categories that differ only in case or spaces; they are kept apart "
        "unless you write them alike",
        "1 row is a copy of another",
    ]


def test_ordinary_tables_have_no_suspects():
    for load in (load_breast_cancer, load_diabetes, load_iris, load_wine):
        view = View("table", np.arange(len(load().data)), load().data)
        assert list(suspects(view)) == []


def test_check_measures_when_asked_and_is_readable(tables, capsys):
    _, options = tables
    assert run(["check", *options, "--method", "mean", "--measure"]) == 0
    words = capsys.readouterr().out
    assert "■       ■    40 (50.0%)" in words
    assert "expected time: roughly" in words
    assert run(["check", *options, "--separate"]) == 0
    assert "method: private, because every view is a site" in capsys.readouterr().out


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
