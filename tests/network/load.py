"""Thirty sites and a coordinator on one machine, and two hundred rounds without growth.

    python -m tests.network.load --out results/load.json

Memory is what processes have for themselves and their share of what they have in common (PSS), of
all parties of the federation together; the most of it that was seen while a run went on. Of the
rounds, the process of a run at a site is looked at in the middle and in the last fifth.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cofill.metrics import Recorder
from cofill.network._local import LocalFederation, local_federation, write_local
from cofill.network._order import RunOrder, new_run
from cofill.protocol import COORDINATOR

from .conftest import ROUNDS, row_sites

ORDERS: dict[str, dict[str, Any]] = {
    "mean": {"epsilon": 0.5, "low": 7.6e6, "high": 7.8e6, "view": "u"},
    "cluster": {"k": 2, "rounds": 10, "restarts": 2},
}
STARTED_AT_ONCE = 6


def processes_of(federation: LocalFederation) -> list[psutil.Process]:
    """Return the processes of all parties."""
    found = []
    for started in federation.processes.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(started.pid)
            found += [top, *top.children(recursive=True)]
    return found


def memory_of(federation: LocalFederation) -> float:
    """Return what all processes have together, in MiB."""
    total = 0
    for process in processes_of(federation):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 2**20


@contextmanager
def watched(look: Any, seconds: float) -> Iterator[list[Any]]:
    """Give a list to which what `look` returns is added every so many seconds."""
    seen: list[Any] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            with contextlib.suppress(psutil.Error, OSError):
                seen.append(look())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def run_many(base: Path, sites: int, recorder: Recorder) -> None:
    """Run a mean and groups at many sites."""
    names = [f"s{k:02}" for k in range(sites)]
    held = row_sites(20 * sites, names, whole=True)
    federation = write_local(base / "many", held, people=False)
    try:
        federation.start(COORDINATOR)
        for k, name in enumerate(names):
            federation.start(name)
            if k % STARTED_AT_ONCE == STARTED_AT_ONCE - 1:
                time.sleep(8.0)  # each needs a second of a processor for its imports
        with federation.session():
            pass
        recorder.add("idle", "mebibytes", f"{sites}_sites", [memory_of(federation)])
        for experiment, settings in ORDERS.items():
            began = time.monotonic()
            with watched(lambda: memory_of(federation), 3.0) as seen:
                order = RunOrder(new_run(), experiment, settings)
                done = federation.run(order, timeout=900.0)
            seconds = time.monotonic() - began
            results = [(federation.site(n) / "results" / order.run).exists() for n in names]
            sys.stdout.write(
                f"{experiment} at {sites} sites: {done['state']} {done['why']} in {seconds:.0f} s, "
                f"{sum(results)} have results, {max(seen, default=0):.0f} MiB, {done['notes']}\n"
            )
            sys.stdout.flush()
            where = f"{sites}_sites"
            recorder.add(experiment, "finished", where, [float(done["state"] == "finished")])
            recorder.add(experiment, "results", where, [float(sum(results))])
            recorder.add(experiment, "seconds", where, [seconds])
            recorder.add(experiment, "mebibytes", where, [max(seen, default=0.0)])
    finally:
        federation.stop()


def figures_of(federation: LocalFederation, run: str) -> tuple[float, ...] | None:
    """Return the share done, and of a site: MiB, threads and files of its run, MiB of its kit."""
    top = psutil.Process(federation.processes["a"].pid)
    jobs = [p for p in top.children(recursive=True) if "worker_process" in " ".join(p.cmdline())]
    if not jobs:
        return None
    (job,) = jobs[:1]
    kit = sum(path.stat().st_size for path in federation.kit("a").rglob("*") if path.is_file())
    return (
        federation.progress(run)[1],
        job.memory_info().rss / 2**20,
        float(job.num_threads()),
        float(job.num_fds()),
        kit / 2**20,
    )


def run_rounds(base: Path, rounds: int, recorder: Recorder) -> None:
    """Run many rounds, and compare the process of a site early and late."""
    with local_federation(base / "rounds", row_sites(), people=False) as federation:
        order = RunOrder(new_run(), "federate", {**ROUNDS, "rounds": rounds})
        with watched(lambda: figures_of(federation, order.run), 1.0) as seen:
            done = federation.run(order, timeout=1500.0)
    figures = np.array([one for one in seen if one is not None and one[0] > 0])
    # FLARE keeps a thread for a minute after each stream: rounds of the first minute have fewer.
    early = figures[(figures[:, 0] > 0.5) & (figures[:, 0] < 0.65)]
    late = figures[figures[:, 0] > 0.8]
    sys.stdout.write(f"{rounds} rounds: {done['state']} {done['why']}, {len(figures)} looks\n")
    for k, what in enumerate(("mebibytes", "threads", "files", "kit_mebibytes"), start=1):
        for when, part in (("early", early), ("late", late)):
            value = float(np.median(part[:, k])) if len(part) else float("nan")
            recorder.add("rounds", what, when, [value])
            sys.stdout.write(f"  {what}, {when}: {value:.1f}\n")
    recorder.add("rounds", "finished", "all", [float(done["state"] == "finished")])
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    what = __doc__.partition("\n")[0]
    settings = {"what": what, "sites": options.sites, "rounds": options.rounds}
    recorder = Recorder("load", seeds=[0], settings=settings)
    with tempfile.TemporaryDirectory() as base:
        if options.sites:
            run_many(Path(base), options.sites, recorder)
        if options.rounds:
            run_rounds(Path(base), options.rounds, recorder)
    if options.out:
        recorder.finish().write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
