"""Records of one experiment made in parts: what is joined, what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cofill.errors import SettingError
from cofill.metrics import ResultRecord
from cofill_papers import joined, without_methods

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "src", ROOT / "papers" / "src")


def record(method: str, **changes) -> ResultRecord:
    given = {
        "name": "demo",
        "seeds": [0, 1],
        "values": {f"{method}/mse/left": [1.0, 2.0]},
        "settings": {"quick": False, "methods": {method: f"words of {method}"}},
        "machine": {"cpu": method},
        "started": f"2026-01-0{1 + 'abc'.index(method)}",
        "duration_s": 2.0,
        "extra": {"curves": {method: [1]}, "note": method},
    }
    return ResultRecord(**(given | changes))


def test_methods_notes_and_times_of_both_are_kept():
    both = joined(joined(record("b"), record("a")), record("c"))
    assert list(both.values) == ["b/mse/left", "a/mse/left", "c/mse/left"]
    assert both.settings["methods"] == {m: f"words of {m}" for m in "bac"}
    assert both.extra["curves"] == {"a": [1], "b": [1], "c": [1]}
    assert both.extra["note"] == "c"
    assert (both.duration_s, both.started) == (6.0, "2026-01-01")
    assert [(r["methods"], r["machine"]["cpu"]) for r in both.extra["runs"]] == [
        (["b"], "b"),
        (["a"], "a"),
        (["c"], "c"),
    ]


def test_a_figure_that_both_have_alike_is_kept_once():
    common = {"original/rf/left": [0.5, 0.6]}
    one = record("a", values={"a/mse/left": [1.0, 2.0], **common})
    two = record("b", values={"b/mse/left": [3.0, 4.0], **common})
    assert joined(one, two).values["original/rf/left"] == [0.5, 0.6]


def test_other_seeds_of_a_method_are_added_and_their_notes_merged():
    noted = [{"outcomes": {"a/left": {str(seed): "ok"}}} for seed in (0, 2)]
    one = record("a", seeds=[0], values={"a/mse/left": [1.0]}, extra=noted[0])
    two = record("a", seeds=[2], values={"a/mse/left": [3.0], "a/new/left": [4.0]}, extra=noted[1])
    both = joined(one, two)
    assert both.seeds == [0, 2]
    assert both.values == {"a/mse/left": [1.0, 3.0], "a/new/left": [None, 4.0]}
    assert both.extra["outcomes"] == {"a/left": {"0": "ok", "2": "ok"}}
    assert [run["seeds"] for run in both.extra["runs"]] == [[0], [2]]
    with pytest.raises(SettingError, match="'a' already"):
        joined(both, record("a", seeds=[2], values={"a/mse/left": [5.0]}))


def test_a_method_that_comes_anew_replaces_the_old_figures():
    old = joined(record("a", values={"a/mse/left": [9.0, 9.0], "a/old/left": [1, 1]}), record("b"))
    whole = joined(old, record("a"), anew=True)
    assert whole.values == {"b/mse/left": [1.0, 2.0], "a/mse/left": [1.0, 2.0]}
    assert [run["methods"] for run in whole.extra["runs"]] == [["b"], ["a"]]


def test_a_method_that_is_left_out_leaves_neither_figures_nor_notes():
    noted = {"curves": {"a": [1]}, "outcomes": {"a/left": "ok", "b/left": "ok"}}
    both = joined(record("a", extra=noted), record("b"))
    rest = without_methods(both, {"a"})
    assert rest.values == {"b/mse/left": [1.0, 2.0]}
    assert rest.extra["curves"] == {"b": [1]}
    assert rest.extra["outcomes"] == {"b/left": "ok"}
    assert [run["methods"] for run in rest.extra["runs"]] == [["b"]]
    assert "a" not in rest.settings["methods"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "other"}, "of one experiment, got 'demo' and 'other'"),
        ({"settings": {"quick": True}}, "'quick' differs"),
        ({"values": {"a/mrd/left": [1.0, 2.0], "a/mse/left": [0.0, 0.0]}}, "'a' already"),
    ],
)
def test_what_does_not_belong_together_is_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        joined(record("a"), record("b", **changes))


@pytest.mark.parametrize(("mean", "code"), [(0.1, 0), (0.2, 2)])
def test_the_command_refuses_records_of_other_simulated_means(tmp_path, mean, code):
    for method, value in (("a", 0.1), ("b", mean)):
        noted = {"simulated": {"mnist": {"means": [[value], [value]], "off": [0.01, 0.01]}}}
        record(method, extra=noted).write(tmp_path / f"{method}.json")
    done = subprocess.run(
        [sys.executable, "-m", "bench.join", "a.json", "b.json", "--out", "whole.json"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", ROOT / "papers/src"))),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "whole.json").exists() == (code == 0)
    assert ("different simulated means of 'mnist'" in done.stderr) == (code == 2)
