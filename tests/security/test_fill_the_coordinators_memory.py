"""A hostile site wants the coordinator's memory: an answer far larger than messages may be."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.network.conftest import row_sites
from tests.network.test_commands import kits as kits

from cofill.errors import DataError
from cofill.network import Kit
from cofill.network._config import Limits
from cofill.network._local import local_federation
from cofill.network._order import RunOrder, new_run
from cofill.network._processes import party_environment

MEAN = {"epsilon": 0.5, "low": 0.0, "high": 1.0, "view": "u"}
MEGABYTE = 2**20
ROOT = Path(__file__).parents[2]

# What FLARE does with a stream whose first frame says how large it is, in a process of a party.
RECEIVER = """
import resource
from nvflare.fuel.f3.streaming.blob_streamer import BlobHandler
from nvflare.fuel.f3.streaming.stream_types import Stream, StreamFuture

class Endless(Stream):
    def read(self, size):
        return bytes(size)

told = []
handler = BlobHandler(lambda future: told.append(future))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for size in (SIZE, 0):
    future = StreamFuture(1)
    handler.handle_blob_cb(future, Endless(size), False)
    assert future.waiter.wait(20)
    print(type(future.error).__name__)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def receive(kit: Kit, size: int) -> list[str]:
    """Return why a party refuses a stream that declares a size, then one that declares none."""
    program = RECEIVER.replace("SIZE", str(size))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=party_environment(kit, None),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_stream_larger_than_agreed_is_refused_before_it_is_read(kits):
    kit = Kit.read(kits / "coordinator", "coordinator")
    limits = replace(kit.federation.limits, message_megabytes=64)
    kit = replace(kit, federation=replace(kit.federation, limits=limits))
    declared, endless, grown = receive(kit, 2**30)
    assert (declared, endless) == ("BlobSizeError", "StreamError")
    assert int(grown) < 2 * 2 * 64


def test_one_frame_is_far_smaller_than_a_message(kits):
    for kit in (kits / "coordinator", kits / "sites" / "lab"):
        options = dict(
            json.loads((kit / "local" / "comm_config.json").read_text())["grpc"]["options"]
        )
        assert options["grpc.max_receive_message_length"] == 64 * MEGABYTE


def test_a_step_in_which_a_site_would_send_too_much_is_refused_in_words(rows_at):
    federation = rows_at("mean", MEAN)
    runner = federation.place("a")
    runner.limit = 2100  # as much as an address may have, and hardly more
    with pytest.raises(DataError, match=r"larger than a message may be.*limits.message_megabytes"):
        runner.act(0, {})


def test_mail_that_is_too_large_together_is_not_read(rows_at, monkeypatch):
    office = rows_at("mean", MEAN).office()
    for sender in "ab":
        office.folder.write_message(0, sender, "c", bytes(60), sync=False)
    monkeypatch.setattr(office, "_wanted", lambda _: [(0, "a"), (0, "b")])
    assert len(office.messages_for("c")) == 2
    office.mail_limit = 100
    with pytest.raises(DataError, match=r"messages for 'c' have 120 bytes, more than 100"):
        office.messages_for("c")


def test_a_limit_counts_once_for_a_message_and_twice_for_a_step():
    assert (Limits(3).message_bytes, Limits(3).mail_bytes) == (3 * MEGABYTE, 6 * MEGABYTE)


HOSTILE = """
import importlib.abc, importlib.machinery, os, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "cofill.network._streams" or not any("/sites/c" in w for w in sys.orig_argv):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            offer = module.MessageStreams.offer

            def flood(self, messages, receiver):
                return dict.fromkeys(offer(self, messages, receiver), bytes(2**30))

            module.MessageStreams.offer = flood

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.full
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)
def test_a_gigabyte_from_a_site_does_not_fill_the_coordinator(tmp_path, monkeypatch):
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOSTILE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hook"), prepend=os.pathsep)
    held = 0
    with (
        local_federation(tmp_path / "out", row_sites()) as federation,
        federation.session() as opened,
    ):
        job = opened.submit(RunOrder(new_run(), "mean", {**MEAN, "low": 0.0, "high": 1e7}))
        top = psutil.Process(federation.processes["coordinator"].pid)
        until = time.monotonic() + 40
        while time.monotonic() < until:
            with suppress(psutil.NoSuchProcess):
                memory = [p.memory_info().rss for p in (top, *top.children(recursive=True))]
                held = max(held, *memory)
            time.sleep(0.05)
        # It waits for the site as for any other that does not answer, and can be stopped.
        assert not opened.session.get_job_status(job).startswith("FINISHED")
        logs = [path.read_text(errors="ignore") for path in top_logs(tmp_path / "out" / "kits")]
    assert any("exceeds configured limit" in log for log in logs)
    assert held < 2 * 256 * MEGABYTE


def peak_memory(federation, name: str, ended: threading.Event, peaks: dict[str, int]) -> None:
    """Note how much memory each process of a party has held, by what it does, until told to end."""
    top = psutil.Process(federation.processes[name].pid)
    while not ended.wait(0.05):
        for process in top.children(recursive=True):
            with suppress(psutil.NoSuchProcess, OSError):
                words = " ".join(process.cmdline())
                role = "run" if re.search("runner_process|worker_process", words) else "party"
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
                peaks[f"{name} {role}"] = max(peaks.get(f"{name} {role}", 0), peak)


@pytest.mark.full
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:nvflare", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)
def test_messages_near_the_limit_cost_less_than_twice_the_limit(tmp_path, monkeypatch, capsys):
    """Three sites send a message each at once; what is counted is the growth over small ones."""
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.carrying import register
    from bench.network import started_federation, time_steps

    register()
    for folder in (ROOT, ROOT / "bench" / "hook"):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("COFILL_BENCH", "1")
    limit = Limits().message_bytes
    held: list[dict[str, int]] = []
    with started_federation({}) as federation:
        for megabytes in (0.001, 0.97 * limit / 1e6):
            held.append({})
            ended = threading.Event()
            watching = [
                threading.Thread(target=peak_memory, args=(federation, name, ended, held[-1]))
                for name in ("coordinator", "a")
            ]
            for thread in watching:
                thread.start()
            try:
                time_steps(federation, "relay", megabytes, 1)
            finally:
                ended.set()
                for thread in watching:
                    thread.join()
    small, large = held
    grown = {role: (large[role] - small[role]) / limit for role in small}
    with capsys.disabled():
        sys.stdout.write(f"memory grown, in limits: {grown}\n")
    assert set(grown) >= {"coordinator party", "coordinator run", "a run"}
    assert large["a run"] > limit  # a message of that size was there
    assert max(grown["coordinator party"], grown["coordinator run"]) < 2


def top_logs(kits: Path) -> list[Path]:
    """Return what the coordinator's processes have logged."""
    return [*kits.glob("coordinator/**/*.txt"), *kits.glob("coordinator/**/*.log")]
