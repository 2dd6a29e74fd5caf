"""A line that is cut, a black hole, a stopped site, a stopped database, over real processes.

    python -m tests.network.outages --out results/outages.json
    python -m tests.network.outages --experiments mean federate --faults cut stop

A trial is a run in which one site's line to the coordinator, the site itself, or the database that
another site reads is gone for a while in the middle. It must end by itself, with results of every
site, and go on within so many seconds of the return. The line is a relay in this process, on which
the site's kit is set.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jax
import psutil
import pytest

from cofill.metrics import Recorder
from cofill.network._local import LocalFederation, write_local
from cofill.network._order import RunOrder, new_run
from cofill.network._processes import free_port
from cofill.protocol import COORDINATOR
from cofill.views import MultiView

from ..postgres import Postgres, postgres_server
from . import hooks
from .conftest import FAST, ROUNDS, marked_views, row_sites

SECONDS = {"cut": 20.0, "hole": 20.0, "stop": 60.0, "database": 20.0}
LONGEST_STALL_S = 15.0
VICTIM = "b"
MEAN = {"epsilon": 0.5, "low": 7.6e6, "high": 7.8e6, "view": "u"}
ORDERS: dict[str, dict[str, Any]] = {
    "cooperate": FAST,
    "private": {"features": 3, "min_overlap": 10, "views": ["a", "b", "c"]},
    "federate": {**ROUNDS, "rounds": 40, "min_sites": 2},
    "cluster": {"k": 2, "rounds": 30, "restarts": 3},
    "deep-cluster": {"k": 2, "rounds": 10, "restarts": 1, "network": {"hidden": [8]}},
    "mean": MEAN,
}
# A mean has one step of sites, in which they read: one without its database is left out of it.
CASES = [(e, f) for e in ORDERS for f in SECONDS if (e, f) != ("mean", "database")]


@dataclass
class Relay:
    """A line between a site and the coordinator that can be cut, or swallow what is sent."""

    target: int
    port: int = field(default_factory=free_port)
    mode: Literal["open", "cut", "hole"] = "open"
    sockets: set[socket.socket] = field(default_factory=set)

    @contextmanager
    def listening(self) -> Iterator[Relay]:
        """Pass connections on while the block runs."""
        with socket.create_server(("127.0.0.1", self.port)) as server:
            server.settimeout(0.2)
            ended = threading.Event()
            thread = threading.Thread(target=self._accept, args=(server, ended), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                ended.set()
                thread.join()
                self.hang_up()

    def _accept(self, server: socket.socket, ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                inner, _ = server.accept()
                if self.mode == "cut":
                    inner.close()
                    continue
                outer = socket.create_connection(("127.0.0.1", self.target), 5)
                self.sockets |= {inner, outer}
                for one, other in ((inner, outer), (outer, inner)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.settimeout(None)
            while content := one.recv(1 << 16):
                while self.mode == "hole":
                    time.sleep(0.05)
                other.sendall(content)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Close what is open."""
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.sockets = set()


@dataclass
class Breakable:
    """A federation with what can fail: site b's line to the coordinator, site c's database."""

    federation: LocalFederation
    relay: Relay
    database: Postgres


@contextmanager
def breakable_federation(base: Path, database: Postgres) -> Iterator[Breakable]:
    """Start a federation whose site b reaches the coordinator through a relay."""
    own, shared = marked_views(), row_sites(whole=True)
    held = {name: MultiView([own[name], *shared[name].values()]) for name in own}
    federation = write_local(base / "out", held, database=database.url())
    relay = Relay(federation.federation.port)
    for path in (federation.kit(VICTIM) / "startup").glob("*.json"):
        text = path.read_text()
        path.write_text(text.replace(f":{relay.target}", f":{relay.port}"))
    try:
        with relay.listening():
            for name in (COORDINATOR, *federation.federation.names):
                federation.start(name)
            yield Breakable(federation, relay, database)
    finally:
        federation.stop()


@contextmanager
def outage(fault: str, broken: Breakable) -> Iterator[None]:
    """Have the site, its line or the database gone while the block runs."""
    federation, relay = broken.federation, broken.relay
    if fault == "database":
        broken.database.stop()
        try:
            yield
        finally:
            broken.database.start()
        return
    if fault == "stop":
        top = psutil.Process(federation.processes[VICTIM].pid)
        stopped = [*top.children(recursive=True), top]
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)
        return
    relay.mode = "cut" if fault == "cut" else "hole"
    if fault == "cut":
        relay.hang_up()
    try:
        yield
    finally:
        relay.mode = "open"


@dataclass(frozen=True)
class Trial:
    """How a run with an outage ended, and how long after the line's return."""

    state: str
    why: str
    notes: tuple[str, ...]
    seconds_after: float
    stall: float
    results: frozenset[str]


def run_trial(broken: Breakable, experiment: str, fault: str) -> Trial:
    """Order a run, have something gone in the middle of it, and see how it ends."""
    federation = broken.federation
    share = 0.0 if experiment == "mean" else 0.3  # which has one step of sites
    order = RunOrder(new_run(), experiment, ORDERS[experiment])
    with federation.session() as opened:
        job = opened.submit(order)
        until = time.monotonic() + 120
        while time.monotonic() < until:
            step, done = federation.progress(order.run)
            if step != "start" and done >= share:
                break
            time.sleep(0.01)
        with outage(fault, broken):
            time.sleep(SECONDS[fault])
        returned = time.monotonic()
        before = federation.progress(order.run)
        while federation.progress(order.run) == before and time.monotonic() < returned + 100:
            if opened.session.get_job_status(job).startswith("FINISHED"):
                break
            time.sleep(0.1)
        stall = time.monotonic() - returned
        opened.wait(job, timeout=240.0)
        ended = opened.outcome(job)
        seconds = time.monotonic() - returned
    names = federation.federation.names
    written = {n for n in names if (federation.site(n) / "results" / order.run).exists()}
    notes = tuple(ended.get("notes", ()))
    time.sleep(5.0)  # until a line that was cut before is there again
    return Trial(ended["state"], ended["why"], notes, seconds, stall, frozenset(written))


def require_whole(trial: Trial, names: frozenset[str]) -> None:
    """Raise unless the outage has cost nothing but time."""
    assert (trial.state, trial.why) == ("finished", ""), trial
    assert trial.notes == (), trial
    assert trial.stall < LONGEST_STALL_S, trial
    assert trial.results == names, trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--faults", nargs="+", choices=SECONDS, default=list(SECONDS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    settings = {"what": __doc__.partition("\n")[0], "seconds": SECONDS}
    recorder = Recorder("outages", seeds=[0], settings=settings)
    failed = 0
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        hooks.install(patch, base / "hook", hooks.SEEDED)
        database = stack.enter_context(postgres_server())
        broken = stack.enter_context(breakable_federation(base, database))
        names = frozenset(broken.federation.federation.names)
        for experiment, fault in CASES:
            if experiment not in options.experiments or fault not in options.faults:
                continue
            try:
                trial = run_trial(broken, experiment, fault)
                sys.stdout.write(f"{experiment}, {fault}: {trial}\n")
                recorder.add(experiment, "stall_s", fault, [trial.stall])
                require_whole(trial, names)
                recorder.add(experiment, "whole", fault, [1.0])
            except Exception as error:  # noqa: BLE001  a trial that fails is a line too
                failed += 1
                recorder.add(experiment, "whole", fault, [0.0])
                words = f"{type(error).__name__}: {error}"
                sys.stdout.write(f"{experiment}, {fault}: FAILED: {words}\n")
            sys.stdout.flush()
    if options.out:
        recorder.finish().write(options.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
