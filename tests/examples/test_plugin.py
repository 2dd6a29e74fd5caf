"""The example package is found when it is installed, and what it adds works like cofill's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cofill.completion import METHODS, make
from cofill.errors import SettingError
from cofill.registry import Registry
from cofill.views import Source

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
PACKAGE = "cofill-example"

# Several commands in one process: each start of Python imports scikit-learn anew.
RUN = """
import contextlib, io, json, sys
from cofill.cli._app import run

ends = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    ends.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder in which the example is installed as users install it, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, *options, str(PLUGIN)], check=True, capture_output=True)
    return folder


def python(installed, script, value, cwd):
    """Return what a script prints as JSON when the example is installed."""
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(value),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_commands_use_what_the_package_adds(installed, tmp_path):
    values = np.random.default_rng(0).normal(size=(60, 2)) + 3 * (np.arange(60) < 20)[:, None]
    clinic = [{"person": f"p{k}", "age": 40 + k, "sex": "fm"[k % 2]} for k in range(40)]
    write_lines(tmp_path / "clinic.jsonl", clinic)
    lab = [f"p{k},{x:.6f}" for k, (x, _) in enumerate(values)]
    (tmp_path / "lab.csv").write_text("\n".join(["person,dose", *lab[10:]]) + "\n")
    write_lines(tmp_path / "records.jsonl", [{"x": x, "y": y} for x, y in values.tolist()])
    mean = dict(zip("xy", values[:20].mean(axis=0).tolist(), strict=True))
    (tmp_path / "mean.json").write_text(json.dumps(mean))
    views = ["--view", "clinic=clinic.jsonl", "--view", "lab=lab.csv"]
    records = ["--records", "records.jsonl", "--mean", "mean.json", "--prior", "0.3333"]
    ends = python(
        installed,
        RUN,
        [
            ["methods", "--json"],
            ["plugins", "--json"],
            ["attack", "list"],
            ["complete", *views, "--id", "person", "--out", "done", "--method", "median", "-q"],
            ["attack", "mean", *records, "--method", "nearest", "--out", "guesses.jsonl", "-q"],
        ],
        tmp_path,
    )
    assert [end["code"] for end in ends] == [0] * 5, [end["err"] for end in ends]
    methods, groups = (json.loads(end["out"]) for end in ends[:2])
    median = next(method for method in methods if method["name"] == "median")
    assert (median["package"], median["pools_rows"]) == (PACKAGE, False)
    added = {
        group: [entry["name"] for entry in entries if entry["package"] == PACKAGE]
        for group, entries in groups.items()
    }
    assert {group: names for group, names in added.items() if names} == {
        "cofill.methods": ["median"],
        "cofill.sources": ["jsonl"],
        "cofill.attacks": ["nearest"],
        "cofill.strategies": ["momentum"],
    }
    assert f"(from {PACKAGE})" in ends[2]["out"]

    completed = read_lines(tmp_path / "done/clinic.jsonl")
    assert len(completed) == 60
    late = next(row for row in completed if row["person"] == "p59")
    assert late == {"person": "p59", "age": 60, "sex": "f"}  # the median, 59.5, is rounded to even
    assert len((tmp_path / "done/lab.csv").read_text().splitlines()) == 61
    guesses = read_lines(tmp_path / "guesses.jsonl")
    assert len(guesses) == 60


ORDER = """
import json, sys
from cofill.network._order import RunOrder, new_run
from cofill.protocol import Membership

members = Membership({"a": ("lab",), "b": ("lab",)}, shared_views=("lab",))
protocol = RunOrder(new_run(), "federate", json.load(sys.stdin)).make_protocol(members)
print(json.dumps(len(protocol.steps)))
"""


def test_a_site_takes_an_order_that_names_an_installed_strategy_and_refuses_others(
    installed, tmp_path
):
    from cofill.network._order import RunOrder, new_run
    from cofill.protocol import Membership

    settings = {"strategy": "momentum", "rounds": 2, "secure": False}
    assert python(installed, ORDER, settings, tmp_path) > 2
    members = Membership({"a": ("lab",), "b": ("lab",)}, shared_views=("lab",))
    with pytest.raises(SettingError, match="there is no strategy 'momentum'"):
        RunOrder(new_run(), "federate", settings).make_protocol(members)


def test_without_the_package_its_names_are_refused():
    with pytest.raises(SettingError, match="there is no method 'median'; did you mean 'mean'"):
        make("median")
    with pytest.raises(SettingError, match=r"lab.jsonl: the form of this source is not known"):
        Source("lab.jsonl")


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A package whose method cannot be imported, and which names one of cofill's own."""
    folder = tmp_path / "broken-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    points = "[cofill.methods]\nworse = no_such_module:Worse\nmean = math:pi\n"
    (folder / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry(METHODS.group, METHODS.noun)
    registry.add("mean", "cofill.impute:MeanCompleter", "mean")
    return registry


def test_a_broken_plugin_is_listed_with_its_fault_and_raises_when_used(broken):
    entries = {entry.name: entry for entry in broken}
    assert entries["worse"].is_broken
    for use in (entries["worse"].load, lambda: broken.find("worse")):
        with pytest.raises(SettingError, match=r"'worse' of broken cannot be loaded .* repair"):
            use()


def test_a_plugin_cannot_replace_what_cofill_brings(broken):
    assert broken.load("mean").name == "mean"
    assert [entry.package for entry in broken if entry.name == "mean"] == ["cofill"]
