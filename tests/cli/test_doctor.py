"""`cofill doctor`: what it says of this machine, and of machines that lack something."""

import json
import socket
from dataclasses import replace

import jax
import pytest

import cofill
from cofill.cli import _doctor
from cofill.cli._app import run
from cofill.views import datasets


def ask_doctor(capsys):
    code = run(["doctor", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] == (code == 0)
    return code, {(f["what"], f["found"]): f for f in answer["findings"]}


def finding_of(by_what, what):
    return next(f for (name, _), f in by_what.items() if name == what)


def test_a_sound_machine_is_told_so(capsys, monkeypatch, tmp_path):
    absent = replace(datasets()[0], name="absent", locate=lambda: None)
    monkeypatch.setattr("cofill.views.datasets", lambda: (*datasets(), absent))
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path / "not" / "yet"))
    code, by_what = ask_doctor(capsys)
    assert code == 0
    assert finding_of(by_what, "cofill")["found"] == cofill.__version__
    assert jax.__version__ in finding_of(by_what, "libraries")["found"]
    assert finding_of(by_what, "devices")["state"] == "ok"
    assert finding_of(by_what, "data folder") == {
        "what": "data folder", "state": "ok", "found": str(tmp_path), "todo": ""
    }  # fmt: skip
    assert finding_of(by_what, "cache folder")["state"] == "ok"
    assert not (tmp_path / "not").exists()  # it looks and leaves nothing behind
    sets = [f for (what, _), f in by_what.items() if what == "data sets"]
    assert "wdbc" in sets[0]["found"]
    assert "absent" in sets[1]["found"]
    assert "datasets fetch" in sets[1]["todo"]
    assert all(f["todo"] for f in by_what.values() if f["state"] == "problem")


def test_it_is_shown_in_words(capsys):
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "cofill"]
    assert lines[-1].endswith("0 in the way")


def test_a_missing_extra_is_a_note_with_its_command(capsys, monkeypatch):
    version_of = _doctor._version
    monkeypatch.setattr(_doctor, "_version", lambda p: None if p == "nvflare" else version_of(p))
    code, by_what = ask_doctor(capsys)
    assert code == 0
    assert finding_of(by_what, "extra network")["state"] == "note"
    assert "pip install 'cofill[network]'" in finding_of(by_what, "extra network")["todo"]
    assert finding_of(by_what, "extra sql")["state"] == "ok"


def test_a_missing_library_is_a_problem(capsys, monkeypatch):
    version_of = _doctor._version
    monkeypatch.setattr(_doctor, "_version", lambda p: None if p == "optax" else version_of(p))
    code, by_what = ask_doctor(capsys)
    assert code == 1
    assert finding_of(by_what, "libraries")["state"] == "problem"
    assert "optax" in finding_of(by_what, "libraries")["found"]
    assert "pip install" in finding_of(by_what, "libraries")["todo"]


def test_no_device_is_a_problem(capsys, monkeypatch):
    def broken():
        raise RuntimeError("no driver")

    monkeypatch.setattr(jax, "devices", broken)
    code, by_what = ask_doctor(capsys)
    assert code == 1
    assert finding_of(by_what, "devices")["state"] == "problem"
    assert "JAX_PLATFORMS=cpu" in finding_of(by_what, "devices")["todo"]


def test_a_driver_without_its_plugin_is_noted(monkeypatch):
    monkeypatch.setattr(_doctor.shutil, "which", lambda name: f"/bin/{name}")
    (finding,) = _doctor._devices()
    assert finding.state == "note"
    assert "cofill[cuda]" in finding.todo


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_cache_that_cannot_be_written_is_noted(monkeypatch, tmp_path, below):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path / below))
    finding = _doctor._cache()
    assert finding.state == "note"
    assert "COFILL_CACHE" in finding.todo


def test_a_taken_port_is_noted():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert _doctor._port(port).state == "note"
    assert _doctor._port(port).state == "ok"
