"""Real processes on loopback over mutual TLS: equal results, silent wires, refusals, no orphans.

One federation serves the whole module. Each of its processes writes every frame that it hands to
the network, before TLS, to a file: FLARE's own messages and ours.
"""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from cofill.errors import CofillError, SettingError
from cofill.network._identity import Identity
from cofill.network._kits import Kit, make_kits
from cofill.network._local import VIEWER, LocalFederation, local_federation
from cofill.network._order import RunOrder, new_run
from cofill.network._parcels import MAGIC, Address, open_parcel, read_address
from cofill.network._processes import free_port
from cofill.network._releases import releases_from
from cofill.network._session import desk, write_job
from cofill.privacy import Ledger
from cofill.views import read_views

FAST = {
    "fusion": {"hidden": [], "folds": 3},
    "encoder_training": {"epochs": 30, "learning_rate": 0.01},
}
RECORDER = """
import importlib.abc, importlib.machinery, os, sys

NAME = "nvflare.fuel.f3.sfm.sfm_conn"


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            send = module.SfmConnection.send_frame

            def record(self, prefix, headers, payload):
                place = os.path.join(os.environ["COFILL_RECORD"], f"{os.getpid()}.bin")
                with open(place, "ab") as file:
                    file.write(bytes(self.headers_to_bytes(headers) or b"") + bytes(payload or b""))
                return send(self, prefix, headers, payload)

            module.SfmConnection.send_frame = record

        spec.loader.exec_module = exec_module
        return spec


if "COFILL_RECORD" in os.environ:
    sys.meta_path.insert(0, Finder())
"""

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


def below(federation: LocalFederation) -> list[psutil.Process]:
    tops = [psutil.Process(p.pid) for p in federation.processes.values()]
    return [*tops, *(child for top in tops for child in top.children(recursive=True))]


@pytest.fixture(scope="module")
def running(tmp_path_factory, marked):
    """A federation of three sites, and what its processes have sent each other."""
    base = tmp_path_factory.mktemp("federation")
    (base / "hook").mkdir()
    (base / "hook" / "sitecustomize.py").write_text(RECORDER)
    record = base / "record"
    record.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(base / "hook"))
        patch.setenv("COFILL_RECORD", str(record))
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        with local_federation(base / "out", marked) as federation:
            yield federation, record
            processes = below(federation)
            assert len(processes) >= 8
        assert [p for p in processes if p.is_running() and p.status() != "zombie"] == []


@pytest.fixture(scope="module")
def first(running):
    """A run that went through."""
    federation, _ = running
    order = RunOrder(new_run(), "cooperate", FAST)
    return order, federation.run(order, timeout=120.0)


def results(federation: LocalFederation, order: RunOrder, name: str) -> np.ndarray:
    (path,) = (federation.site(name) / "results" / order.run).glob(f"{name}.*")
    return read_views({name: str(path)}, id="id")[name].cells


def test_sites_complete_what_one_process_completes(running, first, whole):
    federation, _ = running
    order, outcome = first
    assert (outcome["state"], outcome["why"]) == ("finished", "")
    for name in federation.federation.names:
        # Cells vary by thousands; programs that train one site or three round differently.
        np.testing.assert_allclose(
            results(federation, order, name), whole.cells[name], rtol=0, atol=0.5
        )
        counts = whole.counts(name)
        assert outcome["metrics"][name]["reconstructed_rows"] == counts["reconstructed_rows"] > 0


def wire(record: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(record.iterdir()))


def encodings(text: bytes) -> list[bytes]:
    """Bytes as they could be written: plain, hexadecimal, base64 at any offset."""
    found = [text, text.hex().encode(), text.hex().upper().encode()]
    for lead in range(3):
        whole_groups = base64.b64encode(bytes(lead) + text)
        found.append(whole_groups[4 if lead else 0 : (len(text) + lead) // 3 * 4])
    return found


def test_no_id_and_no_cell_is_on_the_wire(running, first, marked):
    _, record = running
    sent = wire(record)
    assert len(sent) > 50_000
    for one in (b"CANARY", "CANARY".encode("utf-16-le"), "CANARY".encode("utf-32-le")):
        for needle in encodings(one):
            assert needle not in sent
    for view in marked.values():
        for row in view.cells:
            for kind in ("<f8", ">f8", "<f4", ">f4"):
                for needle in encodings(row.astype(kind).tobytes()):
                    assert needle not in sent
            for cell in row:
                for kind in ("<f8", ">f8"):
                    assert np.array(cell, kind).tobytes() not in sent
                assert repr(float(cell)).encode() not in sent


def parcels(sent: bytes) -> dict[Address, bytes]:
    found: dict[Address, bytes] = {}
    for piece in sent.split(MAGIC)[1:]:
        size = int.from_bytes(piece[:4], "little")
        head = json.loads(piece[4 : 4 + size])
        parcel = MAGIC + piece[: 4 + size + head["bytes"]]
        address = read_address(parcel, most=2**30)
        assert found.setdefault(address, parcel) == parcel
    return found


def test_ledgers_and_wire_agree(running, first):
    federation, record = running
    order, _ = first
    names = [*federation.federation.names, "coordinator"]
    keys = {name: Identity.load(federation.kit(name) / "cofill") for name in names}
    crossed: dict[str, list] = {name: [] for name in names}
    for address, parcel in parcels(wire(record)).items():
        if address.run == order.run:
            content = open_parcel(parcel, address, keys[address.receiver], most=2**30)
            crossed[address.sender] += releases_from(content, address.sender)
    for name in federation.federation.names:
        ledger = [
            e
            for e in Ledger.load(federation.kit(name) / "cofill" / "ledger.jsonl")
            if order.run in e.step
        ]
        assert len(ledger) == len(crossed[name]) == 13
        assert sum(e.bytes for e in ledger) == sum(r.n_bytes for r in crossed[name])
        assert {e.kind for e in ledger} == {"sealed-shares", "blinded-ids", "codes", "figures"}
    assert crossed["coordinator"] == []


def test_rows_stay_at_their_sites(running, first):
    federation, _ = running
    order, outcome = first
    assert "CANARY" not in json.dumps(outcome)
    for path in federation.kit("coordinator").rglob("*"):
        if path.is_file():
            assert b"CANARY" not in path.read_bytes()
    for name in federation.federation.names:
        for path in federation.kit(name).rglob("*.txt"):
            assert b"CANARY" not in path.read_bytes()
        assert len(list((federation.site(name) / "results" / order.run).iterdir())) == 3


def test_who_may_only_look_cannot_submit(running, first):
    federation, _ = running
    with desk(federation.person(VIEWER)) as opened:
        assert opened.sites() == sorted(federation.federation.names)
        assert [r.run for r in opened.runs()] == [first[0].run]
    with (
        pytest.raises(SettingError, match="may not do this; its role is 'look'"),
        desk(federation.person(VIEWER)) as opened,
    ):
        opened.submit(RunOrder(new_run(), "cooperate", FAST))


def test_a_kit_of_another_federation_is_refused(running, tmp_path):
    federation, _ = running
    make_kits(federation.federation, tmp_path / "kits")  # the same names, another authority
    stranger = Kit.read(tmp_path / "kits" / "people" / federation.person().name, "person")
    with (
        pytest.raises(CofillError, match=r"cannot be reached|does not accept"),
        desk(stranger, timeout=3.0),
    ):
        raise AssertionError("a stranger came in")


def test_commands_show_runs_and_ledgers(running, first):
    federation, _ = running
    kit, site = str(federation.person().folder), str(federation.kit("a"))
    code = "from cofill.cli import main; main()"

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, "federation", *words], capture_output=True, text=True
        )

    shown = json.loads(said("results", first[0].run, "--kit", kit, "--json").stdout)
    assert shown["metrics"] == first[1]["metrics"]
    ledger = said("ledger", "--kit", site)
    assert "codes to b" in ledger.stdout
    assert "unchanged" in ledger.stdout
    twice = said("ledger", "--kit", kit)
    assert (twice.returncode, twice.stderr.count("\n")) == (2, 1)
    assert "must be the kit of a site" in twice.stderr


# --- the long ones ----------------------------------------------------------------------------


def killed(federation: LocalFederation, order: RunOrder, name: str, what: str, share: float) -> str:
    """Submit a run, kill something in the middle of it, and return why it ended."""
    import time

    with federation.session() as opened:
        job = opened.submit(order)
        while federation.progress(order.run)[1] < share:
            federation.check()
            time.sleep(0.02)
        top = psutil.Process(federation.processes[name].pid)
        words = ("worker_process", "runner_process")
        jobs = [
            child
            for child in top.children(recursive=True)
            if any(word in part for part in child.cmdline() for word in words)
        ]
        victims = {"job": jobs, "party": [top]}[what]
        others = top.children(recursive=True)
        for victim in victims:
            victim.kill()
        if what == "party":
            federation.processes.pop(name).wait()
            _, alive = psutil.wait_procs(others, timeout=10)
            assert alive == []
            if name == "coordinator":
                return "coordinator"
        opened.wait(job, timeout=120.0)
        return opened.outcome(job)["why"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "what", "share"),
    [("b", "job", 0.2), ("c", "job", 0.6), ("a", "party", 0.3), ("coordinator", "party", 0.4)],
)
def test_a_killed_process_ends_the_run_and_resuming_completes_it(
    running, first, whole, name, what, share
):
    federation, _ = running
    before = {n: results(federation, first[0], n) for n in federation.federation.names}
    order = RunOrder(new_run(), "cooperate", FAST)
    why = killed(federation, order, name, what, share)
    assert name in why
    for n, cells in before.items():
        np.testing.assert_array_equal(results(federation, first[0], n), cells)
    if what == "party":
        federation.start(name)
    with federation.session():
        pass
    words = ["resume", order.run, "--kit", str(federation.person().folder), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from cofill.cli import main; main()", "federation", *words],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "finished"
    for n in federation.federation.names:
        np.testing.assert_allclose(results(federation, order, n), whole.cells[n], rtol=0, atol=0.5)
        ledger = Ledger.load(federation.kit(n) / "cofill" / "ledger.jsonl")
        assert sum(order.run in e.step for e in ledger) >= 13


@pytest.mark.full
@pytest.mark.parametrize(
    "path",
    ["nvflare.app_common.np.np_trainer.NPTrainer", "subprocess.Popen", "tests.network.Evil"],
)
def test_a_job_that_names_another_class_is_refused(running, first, tmp_path, path):
    federation, _ = running
    order = RunOrder(new_run(), "cooperate", FAST)
    write_job(order, federation.person(), tmp_path / order.run)
    config = tmp_path / order.run / "app" / "config" / "config_fed_client.json"
    given = json.loads(config.read_text())
    given["executors"][0]["executor"] = {"path": path, "args": {}}
    config.write_text(json.dumps(given))
    with federation.session() as opened:
        job = opened.session.submit_job(str(tmp_path / order.run))
        assert opened.wait(job, timeout=60.0) != "FINISHED:COMPLETED"


@pytest.mark.full
def test_a_job_that_brings_code_is_refused(running, first, tmp_path):
    federation, _ = running
    order = RunOrder(new_run(), "cooperate", FAST)
    write_job(order, federation.person(), tmp_path / order.run)
    custom = tmp_path / order.run / "app" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text("raise SystemExit\n")
    with federation.session() as opened:
        job = opened.session.submit_job(str(tmp_path / order.run))
        assert opened.wait(job, timeout=60.0) != "FINISHED:COMPLETED"


@pytest.mark.full
def test_the_local_command_runs_a_federation_and_leaves_no_process(tmp_path):
    words = ["federation", "local", "--sites", "3", "--out", str(tmp_path / "out"), "--json"]
    words += ["--set", "fusion={hidden=[],folds=3}", "--set", "encoder_training={epochs=30}"]
    done = subprocess.run(
        [sys.executable, "-c", "from cofill.cli import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert set(shown["metrics"]) == {"mean", "error", "worst"}
    for name, folder in shown["results"].items():
        assert (Path(folder) / f"{name}_notes.txt").exists()
        assert len(Ledger.load(shown["ledgers"][name])) == 13
    here = str(tmp_path)
    left = [
        p for p in psutil.process_iter(["cmdline"]) if here in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


@pytest.mark.full
def test_an_interrupt_leaves_no_process(tmp_path):
    import signal
    import time

    words = ["federation", "local", "--out", str(tmp_path / "out"), "--quiet"]
    started = subprocess.Popen(
        [sys.executable, "-c", "from cofill.cli import main; main()", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    top = psutil.Process(started.pid)
    until = time.monotonic() + 60
    while len(top.children(recursive=True)) < 8 and time.monotonic() < until:
        time.sleep(0.1)
    processes = top.children(recursive=True)
    os.kill(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "interrupted" in said
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_a_site_that_cannot_start_says_why_at_once(tmp_path, running):
    federation, _ = running
    site = federation.site("a") / "site.toml"
    broken = tmp_path / "site.toml"
    broken.write_text(site.read_text().replace("a.csv", "none.csv"))
    for words, said in (
        (["--config", str(broken)], "there is no such file"),
        (["--config", str(site)], "is running already"),
        ([], "needs --kit KIT and --config"),
    ):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from cofill.cli import main; main()",
                "site",
                "--kit",
                str(federation.kit("a")),
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_free_port_is_free():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", free_port()))
