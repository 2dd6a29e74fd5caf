"""`cofill watch`: what it tells, to whom, and how it ends."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from cofill.cli._app import run
from cofill.federate import FederatedCompletion
from cofill.privacy import Ledger, LedgerEntry
from cofill.protocol import RunFolder
from cofill.report import ProgressLog, WatchServer, watching
from cofill.report._live import Follower
from cofill.views import MultiView

ENTRY = LedgerEntry("send (run r)", "codes", "north", "south", 9, 720, None, {})


def ask(url, **headers):
    """Return status and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def kit(folder, *, state="running", why=""):
    """Write a coordinator's kit with a run in its third step; north has answered."""
    home = folder / "coordinator" / "cofill"
    message = RunFolder(home / "runs" / "r").message(2, "north", "south")
    message.parent.mkdir(parents=True)
    message.write_bytes(b"sealed")
    sites = [{"name": n, "organisation": n, "views": [n]} for n in ("north", "south")]
    federation = {"name": "f", "sites": sites}
    (home / "kit.json").write_text(json.dumps({"kind": "coordinator", "federation": federation}))
    (home / "identity.json").write_text(json.dumps({"private": "SECRET"}))
    note = {
        "order": {"run": "r", "experiment": "cooperate", "settings": {}},
        "state": state, "next": 2, "at": 2, "steps": 8, "step": "train links", "why": why,
        "notes": ["site 'south' was late"], "metrics": {},
    }  # fmt: skip
    (home / "runs" / "r" / "run.json").write_text(json.dumps(note))
    Ledger([ENTRY]).save(home / "ledger.jsonl")
    return home


@pytest.mark.parametrize("below", ["", "coordinator", "coordinator/cofill/runs/r"])
def test_a_run_between_machines_is_followed_from_any_of_its_folders(tmp_path, below):
    kit(tmp_path)
    state = Follower(tmp_path / below).state()
    assert (state["state"], state["what"], state["share"]) == ("running", "train links", 0.25)
    assert state["steps"] == (3, 8)
    assert state["sites"] == [
        {"name": "north", "state": "answered"},
        {"name": "south", "state": "at work"},
    ]
    assert state["releases"]["bytes"] == 720
    assert state["faults"] == ["site 'south' was late"]
    assert "SECRET" not in json.dumps(state)


def test_a_failed_run_says_why(tmp_path):
    kit(tmp_path, state="failed", why="site 'south' was lost")
    state = Follower(tmp_path).state()
    assert state["state"] == "failed"
    assert "site 'south' was lost" in state["faults"]
    assert {s["state"] for s in state["sites"]} == {"failed"}


def test_rounds_are_followed_by_their_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(30, 2))
    views = MultiView.from_arrays({"a": a, "b": a + 1.0})
    model = FederatedCompletion(rounds=2, network={"width": 2, "blocks": 0}, checkpoint=tmp_path)

    def stop(number, _):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        model.fit_sites({"north": views}, on_round=stop)
    told = Follower(tmp_path).state()
    assert (told["state"], told["what"]) == ("running", "invite")
    assert told["losses"]["x"] == [1]
    assert set(told["losses"]["series"]) == {"loss", "error"}
    assert told["releases"]["count"] == 6
    model.fit_sites({"north": views})
    told = Follower(tmp_path).state()
    assert (told["state"], told["share"]) == ("finished", 1.0)
    assert told["losses"]["x"] == [1, 2]


def test_damaged_and_half_written_files_do_not_stop_the_page(tmp_path):
    ProgressLog(tmp_path).report_progress("train", 0.5)
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('no json\n[1]\n{"what": "half')
    (tmp_path / "run.json").write_text('{"next": "two", "steps": 3, "state": "x"}')
    Ledger([ENTRY, ENTRY]).save(tmp_path / "ledger.jsonl")
    follower = Follower(tmp_path)
    assert follower.state()["releases"]["count"] == 2
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"half')
    state = follower.state()
    assert (state["what"], state["share"]) == ("train", 0.5)
    assert state["releases"]["count"] == 2
    assert any("run.json is not as expected" in fault for fault in state["faults"])
    changed = (tmp_path / "ledger.jsonl").read_text().replace("720", "1")
    (tmp_path / "ledger.jsonl").write_text(changed)
    assert any("line 1: the entry was changed" in fault for fault in follower.state()["faults"])


def test_progress_is_not_written_more_often_than_it_is_worth(tmp_path):
    log = ProgressLog(tmp_path)
    for k in range(100):
        log.report_progress("train", k / 100)
    log.report_progress("train", 1.0)
    log.report_progress("write", 0.0)
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert 3 <= len(lines) <= 5
    assert [json.loads(line)["share"] for line in lines[-2:]] == [1.0, 0.0]


def test_a_command_notes_its_progress_and_how_it_ended(tmp_path):
    table = "person,{}\n" + "\n".join(f"{k},{k * 0.5}" for k in range(8)) + "\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(table.format(name))
    views = [f"--view={name}={tmp_path / name}.csv" for name in ("a", "b")]
    common = ["complete", "--id", "person", "--method", "mean", "--quiet", *views]
    good, bad = tmp_path / "good", tmp_path / "bad"
    assert run([*common, "--out", str(tmp_path / "out"), "--progress", str(good)]) == 0
    state = Follower(good).state()
    assert (state["state"], state["what"], state["share"]) == ("finished", "write", 1.0)
    assert run([*common, "--out", str(tmp_path / "out"), "--progress", str(bad)]) == 2
    state = Follower(bad).state()
    assert state["state"] == "failed"
    assert "exists" in state["faults"][0]


def test_this_machine_alone_is_served_without_a_token(tmp_path):
    with watching(tmp_path) as server:
        assert server.token == ""
        status, page = ask(server.url)
        assert status == 200
        assert b"connect-src 'self'" in page
        status, state = ask(f"{server.url}state")
        assert status == 200
        assert json.loads(state)["state"] == "waiting"
        assert ask(f"{server.url}../../etc/passwd")[0] == 404
        assert ask(f"{server.url}progress.jsonl")[0] == 404
        # A foreign name that leads to this machine is another page's trick.
        assert ask(f"{server.url}state", Host="evil.example")[0] == 403


def test_others_need_the_token(tmp_path):
    with watching(tmp_path, "0.0.0.0") as server:
        port = server.server_address[1]
        here = f"http://127.0.0.1:{port}"
        assert len(server.token) >= 32
        assert f"token={server.token}" in server.url
        for path in ("/", "/state", "/state?token=", f"/state?token={server.token[:-1]}"):
            assert ask(f"{here}{path}")[0] == 403
        assert ask(f"{here}/state?token={server.token}")[0] == 200
        assert ask(f"{here}/?token={server.token}")[0] == 200
    with WatchServer(tmp_path, "0.0.0.0") as second:
        assert second.token != server.token


def test_bad_input_is_one_sentence(tmp_path, capsys):
    with WatchServer(tmp_path) as taken:
        port = str(taken.server_address[1])
        for arguments, word in (
            ([str(tmp_path / "none")], "is no folder"),
            ([str(tmp_path), "--port", port], "cannot be served"),
            ([str(tmp_path), "--port", "99999"], "cannot be served"),
            ([str(tmp_path), "--host", "no such host"], "cannot be served"),
        ):
            assert run(["watch", *arguments]) == 2
            sentence = capsys.readouterr().err
            assert word in sentence
            assert sentence.count("\n") == 1


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    ProgressLog(tmp_path).report_progress("train", 0.5)
    command = [sys.executable, "-c", "from cofill.cli import main; main()", "watch", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            first = process.stdout.readline()
            url = next(word for word in first.split() if word.startswith("http://127.0.0.1:"))
            assert json.loads(ask(f"{url}state")[1])["what"] == "train"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "ended" in out
    assert err == ""
    assert [p.name for p in tmp_path.iterdir()] == ["progress.jsonl"]


def test_a_reader_that_goes_away_is_not_talked_of(tmp_path, capfd):
    with watching(tmp_path) as server:
        for error in (ConnectionResetError("gone"), ValueError("a fault")):
            try:
                raise error
            except (ConnectionError, ValueError):
                server.handle_error(None, ("127.0.0.1", 1))
    printed = capfd.readouterr().err
    assert "a fault" in printed
    assert "gone" not in printed


def test_a_coordinator_shows_its_page_when_asked(tmp_path, monkeypatch, capsys):
    from cofill.network import Kit

    seen = []

    def serve(kit, config, ready):
        ready()
        url = capsys.readouterr().out.split("live page: ")[1].strip()
        seen.append(ask(url))

    kit_like = type("Kit", (), {"federation": type("F", (), {"address": "here", "port": 1})})
    monkeypatch.setattr("cofill.network.serve", serve)
    monkeypatch.setattr(Kit, "read", lambda folder, kind: kit_like)
    kit(tmp_path)
    assert run(["coordinator", "--kit", str(tmp_path / "coordinator"), "--watch", "0"]) == 0
    ((status, page),) = seen
    assert status == 200
    assert page.startswith(b"<!doctype html>")
