"""Records: what they compute, that they survive a file, and what a damaged file is answered."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import SettingError, StoreError
from cofill.metrics import Recorder, ResultRecord, machine, versions
from cofill.metrics._record import checked_seeds

names = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs", "Z", "C"]), min_size=1
)
numbers = st.none() | st.floats() | st.integers(-(10**9), 10**9)
content = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def contents(draw):
    seeds = draw(st.lists(st.integers(0, 2**32), min_size=1, max_size=4, unique=True))
    series = st.lists(numbers, min_size=len(seeds), max_size=len(seeds))
    keys = st.tuples(names, names, names | st.just("all")).map("/".join)
    # The record itself is made in the test: beartype draws random items, which strategies must not.
    return {
        "name": draw(names),
        "seeds": seeds,
        "values": draw(st.dictionaries(keys, series, max_size=5)),
        "settings": draw(st.dictionaries(st.text(), content, max_size=3)),
        "extra": draw(st.dictionaries(st.text(), content, max_size=3)),
        "duration_s": draw(st.floats(0, 1e9)),
    }


def example():
    recorder = Recorder("wdbc", seeds=[0, 1, 2], settings={"width": 15})
    recorder.add("mwm", "mse", "mean", [0.2, 0.3, 0.4])
    recorder.add("mwm", "mse", "worst", [0.4, 0.5, None])
    recorder.add("equal", "mse", "mean", np.array([0.3, 0.3, 0.3]))
    return recorder.finish()


@given(contents())
def test_round_trip(fields):
    record = ResultRecord(**fields)
    text = record.to_json()
    again = ResultRecord.from_json(text)
    assert again == record
    assert again.summary == record.summary
    assert again.to_json() == text
    json.loads(text, parse_constant=pytest.fail)


@given(contents())
def test_every_figure_has_an_all(fields):
    record = ResultRecord(**fields)
    for key in record.values:
        assert key.rpartition("/")[0] + "/all" in record.summary
    assert all(0 <= s["n"] <= len(record.seeds) for s in record.summary.values())


def test_summary_by_hand():
    summary = example().summary
    assert summary["mwm/mse/mean"] == pytest.approx({"mean": 0.3, "std": 0.1, "n": 3})
    assert summary["mwm/mse/worst"] == pytest.approx(
        {"mean": 0.45, "std": math.sqrt(0.005), "n": 2}
    )
    # Per seed (0.2 + 0.4) / 2 and (0.3 + 0.5) / 2; the third seed lacks a part.
    assert summary["mwm/mse/all"] == pytest.approx({"mean": 0.35, "std": math.sqrt(0.005), "n": 2})
    assert summary["equal/mse/all"] == pytest.approx({"mean": 0.3, "std": 0.0, "n": 3})


def test_summary_at_the_edges():
    values = {
        "a/psnr/x": [math.inf, 30.0],
        "b/psnr/x": [math.inf, -math.inf],
        "c/mse/x": [None, math.nan],
        "d/mse/x": [None, 2.0],
        "e/acc/x": [0.5, 0.5],
        "e/acc/all": [0.7, 0.9],
    }
    record = ResultRecord("edges", seeds=[0, 1], values=values)
    summary = record.summary
    assert summary["a/psnr/all"] == {"mean": math.inf, "std": None, "n": 2}
    assert summary["b/psnr/x"] == {"mean": None, "std": None, "n": 2}
    assert summary["c/mse/x"] == {"mean": None, "std": None, "n": 0}
    assert summary["d/mse/x"] == {"mean": 2.0, "std": 0.0, "n": 1}
    assert summary["e/acc/all"]["mean"] == pytest.approx(0.8)
    assert ResultRecord.from_json(record.to_json()) == record


def test_per_seed_values():
    record = example()
    np.testing.assert_allclose(record.per_seed("mwm", "mse"), [0.3, 0.4, np.nan])
    np.testing.assert_allclose(record.per_seed("mwm", "mse", "worst"), [0.4, 0.5, np.nan])
    with pytest.raises(SettingError, match="no value for 'mwm/mrd/all'"):
        record.per_seed("mwm", "mrd")


@pytest.mark.parametrize(
    "key", ["mse", "mwm/mse", "mwm/mse/", "/mse/x", "a//x", "a/b/c/d", "a/ /c", ""]
)
def test_wrong_keys(key):
    with pytest.raises(SettingError, match="<method>/<metric>/<where>"):
        ResultRecord("x", seeds=[0], values={key: [1.0]})


@pytest.mark.parametrize(
    ("method", "value", "seed", "fault"),
    [
        ("a/b", [1.0, 2.0], None, "three parts"),
        ("new", [1.0], None, "each of the 2 seeds, got 1"),
        ("new", 1.0, None, "one value without a seed"),
        ("new", [1.0, 2.0], 0, "a list and a seed"),
        ("new", 1.0, 5, "no seed 5"),
        ("new", ["1", "2"], None, "numbers for values, got str"),
        ("new", [True, False], None, "numbers for values, got bool"),
        ("old", 2.0, 0, "already has a value for the seed 0"),
        ("old", [1.0, 2.0], None, "already has a value"),
    ],
)
def test_wrong_additions(method, value, seed, fault):
    recorder = Recorder("x", seeds=[0, 1])
    recorder.add("old", "mse", "all", 1.0, seed=0)
    with pytest.raises(SettingError, match=fault):
        recorder.add(method, "mse", "all", value, seed=seed)
    # A refused addition leaves nothing behind.
    assert recorder.finish().values == {"old/mse/all": [1.0, None]}


def test_numpy_values_and_notes():
    @dataclass(frozen=True)
    class Width:
        code: int
        path: Path

    recorder = Recorder(
        "x",
        seeds=np.arange(2),
        settings={"width": Width(5, Path("a")), "epsilon": math.inf, "views": ("a", {3: None})},
    )
    recorder.add("a", "mse", "x", np.float32(0.5), seed=0)
    recorder.add("a", "mse", "x", 1, seed=np.int64(1))
    recorder.note("curve", np.array([[1.0, np.nan]]))
    record = recorder.finish()
    assert record.values == {"a/mse/x": [0.5, 1.0]}
    assert record.extra == {"curve": [[1.0, None]]}
    assert record.settings == {
        "width": {"code": 5, "path": "a"}, "epsilon": "inf", "views": ["a", {"3": None}],
    }  # fmt: skip
    assert ResultRecord.from_json(record.to_json()) == record
    with pytest.raises(SettingError, match="already there"):
        recorder.note("curve", 1)
    with pytest.raises(SettingError, match=r"net\.layers\[1\] must be made of .* got object"):
        recorder.note("net", {"layers": [1, object()]})
    with pytest.raises(SettingError, match="complex128"):
        recorder.note("roots", np.zeros(2, complex))


@pytest.mark.parametrize("seeds", [[], [1, 1], [0.5], ["0"], [True]])
def test_wrong_seeds(seeds):
    with pytest.raises(SettingError, match="seeds must be"):
        checked_seeds(seeds)


def test_provenance():
    record = example()
    assert {"python", "numpy", "jax", "scikit-learn", "cofill"} <= record.versions.keys()
    assert record.versions == versions()
    assert record.machine == machine()
    assert record.machine["cores"] >= 1
    assert machine("NVIDIA H200")["accelerator"] == "NVIDIA H200"
    assert record.started.endswith("+00:00")
    assert record.duration_s >= 0


def test_write_and_read(tmp_path):
    path = tmp_path / "wdbc.json"
    path.write_text("older")
    record = example()
    record.write(path)
    assert ResultRecord.read(path) == record
    assert ResultRecord.read(str(path)) == record
    assert [f.name for f in tmp_path.iterdir()] == ["wdbc.json"]


def test_write_where_it_cannot(tmp_path):
    with pytest.raises(StoreError, match="does not exist; make it first"):
        example().write(tmp_path / "no" / "x.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        example().write(tmp_path / "folder")
    assert [f.name for f in tmp_path.iterdir()] == ["folder"]


def test_an_interrupted_write_keeps_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    example().write(path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full"):
        example().write(path)
    assert path.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["x.json"]


def changed(**fields):
    return json.dumps(json.loads(example().to_json()) | fields)


def without(name):
    body = json.loads(example().to_json())
    del body[name]
    return json.dumps(body)


def edited(old, new):
    text = example().to_json()
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not whole JSON"),
        (example().to_json()[:-20], "not whole JSON"),
        ("method,mse\nmwm,0.2\n", "not whole JSON"),
        ("[" * 200_000, "not whole JSON"),
        (edited("0.2", "NaN"), "not whole JSON"),
        ("[]", "another kind"),
        ("3", "another kind"),
        ('{"accuracy": 1}', "another kind"),
        (changed(format="other"), "another kind"),
        (changed(version=2), "version 2, newer than the 1 .* upgrade"),
        (changed(version=True), "damaged: its version"),
        (changed(version="1"), "damaged: its version"),
        (without("values"), "'values' is missing"),
        (without("summary"), "'summary' is missing"),
        (changed(values=[]), "'values' has the wrong type"),
        (changed(values={"a/b/c": 1}), "'values' has the wrong type"),
        (changed(versions={"numpy": 2}), "'versions' has the wrong type"),
        (changed(duration_s="1"), "'duration_s' has the wrong type"),
        (changed(duration_s=-1), "duration_s must be"),
        (changed(name=""), "name must say"),
        (changed(values={"a/b": [1, 2, 3]}), "three parts"),
        (changed(values={"a/b/c": [1, 2]}), "each of the 3 seeds"),
        (changed(values={"a/b/c": [1, 2, "3"]}), "numbers for values"),
        (changed(values={"a/b/c": [1, 2, 10**400]}), "fit a float"),
        (changed(values={"a/b/c": [1, 2, []]}), "numbers for values"),
        (changed(seeds=["a", "b", "c"]), "whole numbers"),
        (changed(seeds=[1, 1, 1]), "differ"),
        (changed(summary={}), "does not follow"),
        (edited('"mean": 0.3', '"mean": 0.1'), "does not follow"),
        (edited('"n": 3', '"n": 4'), "does not follow"),
    ],
)
def test_damaged_files(tmp_path, text, fault):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=fault) as caught:
        ResultRecord.read(path)
    message = str(caught.value)
    assert "record.json" in message
    assert message.endswith(".")
    assert "\n" not in message
    with pytest.raises(StoreError, match=fault):
        ResultRecord.from_json(text)


def test_files_that_are_no_text(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        ResultRecord.read(tmp_path / "none.json")
    with pytest.raises(StoreError, match="Is a directory"):
        ResultRecord.read(tmp_path)
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(StoreError, match="not text"):
        ResultRecord.read(tmp_path / "image.png")
