"""Real processes on loopback over mutual TLS: equal results, silent wires, refusals, no orphans.

One federation serves the whole module. Each of its processes writes every frame that it hands to
the network, before TLS, to a file: FLARE's own messages and ours.
"""

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest

from cofill.cli._app import run
from cofill.cooperate import CooperativeReconstruction, PrivateCompletion
from cofill.errors import CofillError, SettingError
from cofill.federate import FederatedCompletion
from cofill.nets import FusionSettings, TrainSettings
from cofill.network import _local
from cofill.network._identity import Identity
from cofill.network._kits import Kit, make_kits
from cofill.network._local import SUBMITTER, VIEWER, LocalFederation, local_federation, run_local
from cofill.network._messages import MAGIC, read_address, read_message
from cofill.network._order import RunOrder, new_run
from cofill.network._processes import free_port
from cofill.network._session import open_session, write_job
from cofill.privacy import Ledger, MessageAddress, decode_releases
from cofill.views import drop_rows, load, read_views

from . import hooks
from .conftest import CANARY, ROUNDS, estimator_for, marked_views, row_sites
from .kill_series import OFTEN, held, resumed
from .test_sums import SUMS

FAST = {
    "alignment": "hash",  # as in one process, and quick
    "fusion": {"hidden": [], "folds": 3},
    "encoder_training": {"epochs": 30, "learning_rate": 0.01},
}
RECORDER = """
def record_frames(module):
    send = module.SfmConnection.send_frame

    def record(self, prefix, headers, payload):
        path = os.path.join(os.environ["COFILL_RECORD"], f"{os.getpid()}.bin")
        with open(path, "ab") as file:
            file.write(bytes(self.headers_to_bytes(headers) or b"") + bytes(payload or b""))
        return send(self, prefix, headers, payload)

    module.SfmConnection.send_frame = record


ACTIONS["nvflare.fuel.f3.sfm.sfm_conn"] = record_frames
if any("/sites/c" in word for word in sys.orig_argv):
    import time

    now = time.time
    time.time = lambda: now() + 3600.0  # the clock of site c is an hour ahead
"""

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


def below(federation: LocalFederation) -> list[psutil.Process]:
    tops = [psutil.Process(p.pid) for p in federation.processes.values()]
    return [*tops, *(child for top in tops for child in top.children(recursive=True))]


SECURE = {**ROUNDS, "secure": True}
MEAN = {"epsilon": 0.5, "low": CANARY - 5000, "high": CANARY + 5000, "view": "u"}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A federation of three sites, and what its processes have sent each other."""
    base = tmp_path_factory.mktemp("federation")
    record = base / "record"
    record.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        hooks.install(patch, base / "hook", hooks.SEEDED, RECORDER)
        patch.setenv("COFILL_RECORD", str(record))
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        patch.setattr(_local, "TRIAL_POLICY", _local.TRIAL_POLICY + OFTEN)
        with local_federation(base / "out", held()) as federation:
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


@pytest.fixture(scope="module")
def both(running, first):
    """Two runs at once: secure rounds, and a mean that site b's budget does not allow twice."""
    federation, _ = running
    orders = [RunOrder(new_run(), "federate", SECURE), RunOrder(new_run(), "mean", MEAN)]
    with federation.session() as opened:
        jobs = [opened.submit(order) for order in orders]
        for job in jobs:
            opened.wait(job, timeout=120.0, look=federation.check)
        return [(order, opened.outcome(job)) for order, job in zip(orders, jobs, strict=True)]


@pytest.fixture(scope="module")
def on_shares(running, first):
    """A run on secret shares, with so few features that every message is one frame on the wire."""
    federation, _ = running
    settings = {"features": 2, "min_overlap": 10, "views": ["a", "b", "c"]}
    order = RunOrder(new_run(), "private", settings)
    return order, federation.run(order, timeout=120.0)


def results(
    federation: LocalFederation, order: RunOrder, name: str, view: str | None = None
) -> np.ndarray:
    view = view or name
    (path,) = (federation.site(name) / "results" / order.run).glob(f"{view}.*")
    return read_views({view: str(path)}, id="id")[view].cells


def test_rounds_complete_what_one_process_completes(running, both):
    federation, _ = running
    order, outcome = both[0]
    assert (outcome["state"], outcome["why"], outcome["notes"]) == ("finished", "", [])
    assert [entry["sites"] for entry in outcome["result"]["curve"]] == [3, 3, 3]
    done = estimator_for(SECURE).fit_sites(row_sites()).complete_sites(row_sites())
    for name, made in done.items():
        for view in made.views:
            written = results(federation, order, name, view)
            # Sites write text, with as many decimals as their columns have.
            np.testing.assert_allclose(written, made.cells[view], rtol=1e-15)


@pytest.mark.full
def test_tables_from_sums_complete_what_one_process_completes(running):
    federation, _ = running
    order = RunOrder(new_run(), "federate", SUMS)
    outcome = federation.run(order, timeout=120.0)
    assert (outcome["state"], outcome["why"], outcome["late"]) == ("finished", "", [])
    model = FederatedCompletion(rounds=14, secure=True, seed=5).fit_sites(row_sites())
    for name, done in model.complete_sites(row_sites()).items():
        for view in done.views:
            written = results(federation, order, name, view)
            np.testing.assert_allclose(written, done.cells[view], rtol=1e-15)


def test_a_mean_runs_beside_and_tells_no_row(running, both):
    _, outcome = both[1]
    assert outcome["state"] == "finished"
    assert set(outcome["result"]["sites"]) == {"a", "b", "c"}
    rows = np.concatenate([views["u"].cells for views in row_sites().values()])
    away = np.abs(np.array(outcome["result"]["mean"]) - rows.mean(axis=0))
    noise = [np.array(mean["scale"]) for mean in outcome["result"]["sites"].values()]
    assert (away < 8 * np.max(noise, axis=0)).all()
    assert outcome["metrics"] == {}


def test_sites_complete_what_one_process_completes(running, first, whole):
    federation, _ = running
    order, outcome = first
    assert (outcome["state"], outcome["why"]) == ("finished", "")
    for name in federation.federation.names:
        written, expected = results(federation, order, name), whole.cells[name]
        observed = ~np.isnan(whole.source.aligned(name))
        np.testing.assert_array_equal(written[observed], expected[observed])
        # Cells vary by thousands; programs that train one site or three round differently.
        np.testing.assert_allclose(written, expected, rtol=0, atol=0.5)
        counts = whole.counts(name)
        # Whoever signed the order, by the federation's certificates.
        notes = Ledger.load(federation.party(name).ledger).notes
        assert ("taken", order.run, SUBMITTER) in [(n.what, n.run, n.by) for n in notes]
        assert outcome["metrics"][name]["reconstructed_rows"] == counts["reconstructed_rows"] > 0


def test_on_shares_sites_complete_what_one_process_completes(running, on_shares):
    federation, _ = running
    order, outcome = on_shares
    assert (outcome["state"], outcome["why"]) == ("finished", "")
    settings = {name: value for name, value in order.settings.items() if name != "views"}
    done = PrivateCompletion(**settings).fit_complete(marked_views())
    for name in federation.federation.names:
        # Cells vary by thousands; masks differ, and what they take away is put back exactly.
        np.testing.assert_allclose(
            results(federation, order, name), done.cells[name], rtol=0, atol=0.5
        )
        counts = done.counts(name)
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


def test_no_id_and_no_cell_is_on_the_wire(running, first, both, on_shares):
    _, record = running
    sent = wire(record)
    assert len(sent) > 50_000
    needles: set[bytes] = set()
    # What all ids begin with; fewer than eight characters of base64 occur in shares by chance.
    for charset in ("ascii", "utf-16-le", "utf-32-le"):
        needles.update(encodings("CANARY-00".encode(charset)))
    for view in (view for views in held().values() for view in views.values()):
        for row in view.cells:
            for kind in ("<f8", ">f8", "<f4", ">f4"):
                needles.update(encodings(row.astype(kind).tobytes()))
            for cell in row:
                needles.update(np.array(cell, kind).tobytes() for kind in ("<f8", ">f8"))
                needles.add(repr(float(cell)).encode())
    sure = sent[3001:3013]  # one that was sent, so that the search is seen to find
    assert contained(sent, needles | {sure}) == [sure]


def contained(sent: bytes, needles: set[bytes]) -> list[bytes]:
    """Return the needles that were sent; their first eight bytes are looked up in one go."""
    assert min(map(len, needles)) >= 8
    firsts = np.array([int.from_bytes(needle[:8], "little") for needle in needles], np.uint64)
    # Most places are passed over by their first two bytes: sorting them all would take a minute.
    begins = np.zeros(2**16, bool)
    begins[firsts & 0xFFFF] = True
    starts = [np.frombuffer(sent, "<u8", (len(sent) - k) // 8, k) for k in range(8)]
    likely = np.isin(firsts, np.concatenate([s[begins[s & 0xFFFF]] for s in starts]))
    return [n for n, seen in zip(needles, likely, strict=True) if seen and n in sent]


def messages(sent: bytes) -> dict[MessageAddress, bytes]:
    found: dict[MessageAddress, bytes] = {}
    for piece in sent.split(MAGIC)[1:]:
        size = int.from_bytes(piece[:4], "little")
        head = json.loads(piece[4 : 4 + size])
        message = MAGIC + piece[: 4 + size + head["bytes"]]
        address = read_address(message, limit=2**30)
        assert found.setdefault(address, message) == message
    return found


def test_ledgers_and_wire_agree(running, first, both, on_shares):
    federation, record = running
    names = [*federation.federation.names, "coordinator"]
    keys = {name: Identity.load(federation.kit(name) / "cofill") for name in names}
    carried = messages(wire(record))
    common = {"blinding-part", "blinded-ids", "codes", "figures"}
    masks = {"public-keys", "sealed-shares", "masked-vector", "revealed-shares"}
    secure = {"columns", "figures", *masks}
    sent = {"columns", "model", "roster", "sealed-shares", "survivors"}
    shares = {"row-flags", "blinded-points", "masked-rows", "chosen-penalties", "figures"}
    dealt = {"slot-plan", "dealt-words", "selected-cells"}
    runs = [first[0], *(order for order, _ in both), on_shares[0]]
    kinds = (common, secure, {"noisy-mean"}, shares), (set(), sent, set(), dealt)
    for order, own, hers in zip(runs, *kinds, strict=True):
        crossed: dict[str, list] = {name: [] for name in names}
        for address, message in carried.items():
            if address.run == order.run:
                content = read_message(message, address, keys[address.receiver], limit=2**30)
                crossed[address.sender] += decode_releases(content, address.sender)
        for name in names:
            path = federation.kit(name) / "cofill" / "ledger.jsonl"
            ledger = [e for e in Ledger.load(path) if order.run in e.step] if path.exists() else []
            assert len(ledger) == len(crossed[name])
            assert sum(e.bytes for e in ledger) == sum(r.n_bytes for r in crossed[name])
            assert {e.kind for e in ledger} >= (hers if name == "coordinator" else own)


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
        found = {
            p.name.partition(".")[0]
            for p in (federation.site(name) / "results" / order.run).iterdir()
        }
        assert found == {name, f"{name}_origin", f"{name}_notes"}


def test_who_may_only_look_cannot_submit(running, first, both):
    federation, _ = running
    with open_session(federation.person(VIEWER)) as opened:
        assert opened.sites() == sorted(federation.federation.names)
        runs = {first[0].run, *(order.run for order, _ in both)}
        assert {r.run for r in opened.runs()} >= runs
    with (
        pytest.raises(SettingError, match="may not do this; its role is 'look'"),
        open_session(federation.person(VIEWER)) as opened,
    ):
        opened.submit(RunOrder(new_run(), "cooperate", FAST))


def test_a_kit_of_another_federation_is_refused(running, tmp_path):
    federation, _ = running
    make_kits(federation.federation, tmp_path / "kits")  # the same names, another authority
    stranger = Kit.read(tmp_path / "kits" / "people" / federation.person().name, "person")
    with (
        pytest.raises(CofillError, match=r"cannot be reached|does not accept"),
        open_session(stranger, timeout=3.0),
    ):
        raise AssertionError("a stranger came in")


def test_commands_show_runs_and_ledgers(running, first, capsys):
    federation, _ = running
    kit, site = str(federation.person().folder), str(federation.kit("a"))
    assert run(["federation", "results", first[0].run, "--kit", kit, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == first[1]["metrics"]
    assert run(["federation", "ledger", "--kit", site]) == 0
    ledger = capsys.readouterr().out
    assert "codes to b" in ledger
    assert "unchanged" in ledger
    assert run(["federation", "ledger", "--kit", kit]) == 2
    refusal = capsys.readouterr().err
    assert refusal.count("\n") == 1
    assert "must be the kit of a site" in refusal


# --- the long ones ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(("experiment", "settings"), [("cooperate", FAST), ("federate", ROUNDS)])
def test_a_source_that_has_gone_is_named_and_the_run_is_resumed_when_it_is_back(
    running, first, both, experiment, settings
):
    federation, _ = running
    view = "b" if experiment == "cooperate" else "u"
    (table,) = federation.site("b").glob(f"{view}.*")
    away = table.rename(table.with_suffix(".gone"))
    order = RunOrder(new_run(), experiment, settings)
    outcome = federation.run(order, timeout=120.0)
    assert outcome["state"] == "failed"
    assert "site 'b'" in outcome["why"]
    assert "it could not do its part; its own log says why" in outcome["why"]
    fault = federation.kit("b") / "cofill" / "runs" / order.run / "fault.json"
    assert "there is no such file" in json.loads(fault.read_text())["why"]
    away.rename(table)
    assert resumed(federation, order)["state"] == "finished"


@pytest.mark.full
def test_a_slow_site_is_left_out_of_rounds_and_asked_again(running, first, both):
    import time

    federation, _ = running
    order = RunOrder(new_run(), "federate", {**ROUNDS, "rounds": 10, "patience": 3.0})
    with federation.session() as opened:
        job = opened.submit(order)
        while federation.progress(order.run)[1] < 0.3:
            federation.check()
            time.sleep(0.02)
        top = psutil.Process(federation.processes["b"].pid)
        slow = [p for p in top.children(recursive=True) if order_job(p)]
        assert slow
        for process in slow:
            process.suspend()
        time.sleep(5.0)
        for process in slow:
            process.resume()
        opened.wait(job, timeout=120.0)
        outcome = opened.outcome(job)
    assert outcome["state"] == "finished"
    assert any("site 'b' did not answer within 3 s" in note for note in outcome["notes"])
    sites = [entry["sites"] for entry in outcome["result"]["curve"]]
    assert min(sites) == 2
    assert sites[-1] == 3
    assert set(outcome["metrics"]) == {"a", "b", "c"}


def order_job(process: psutil.Process) -> bool:
    return any("worker_process" in word for word in process.cmdline())


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
    words += ["--experiment", "cooperate", "--set", "fusion={hidden=[],folds=3}"]
    words += ["--set", "encoder_training={epochs=30}"]
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
        # For each of two partners ids are encrypted once at home, theirs a second time.
        sent = Counter(entry.kind for entry in Ledger.load(shown["ledgers"][name]))
        expected = {"encrypted-ids": 4, "blinding-part": 2, "blinded-ids": 6, "codes": 4}
        assert sent == {**expected, "figures": 1}
    here = str(tmp_path)
    left = [
        p for p in psutil.process_iter(["cmdline"]) if here in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []


@pytest.mark.full
def test_csv_parquet_and_a_database_complete_what_one_process_completes(tmp_path, postgres):
    settings = {"fusion": {"hidden": [], "folds": 3}, "encoder_training": {"epochs": 30}}
    done = run_local(
        tmp_path / "out", experiment="cooperate", settings=settings, database=postgres.url()
    )
    assert done.database == "PostgreSQL"
    forms = [p.suffix for n in done.results for p in (tmp_path / "out" / "sites" / n).glob("*.*")]
    assert {".csv", ".parquet"} <= set(forms)
    holed, _ = drop_rows(load("wdbc").views, 0.3, key=0)
    estimator = CooperativeReconstruction(
        fusion=FusionSettings(hidden=(), folds=3), encoder_training=TrainSettings(epochs=30)
    )
    whole = estimator.fit_complete(holed)
    for name, folder in done.results.items():
        (path,) = folder.glob(f"{name}.*")
        made = read_views({name: str(path)}, id="id")[name].cells
        spread = holed[name].cells.std(axis=0)
        # Over the network every site draws its encoder's first weights.
        assert np.abs((made - whole.cells[name]) / spread).mean() < 0.1
    assert done.seconds < 90
    left = [
        p
        for p in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(p.info["cmdline"] or [])
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
            env={**os.environ, "COFILL_KEYS": str(federation.keys)},  # which signed its policy
        )
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_free_port_is_free():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", free_port()))
