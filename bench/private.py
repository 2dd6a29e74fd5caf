"""Time completion on secret shares: in one process, over FLARE, many people, and its parts.

    python -m bench private [--quick]

- ``wdbc``: seconds and bytes of WDBC's three views (30 % of rows missing) in one process, and over
  FLARE with three sites and a coordinator on this machine. ``steps_s`` is the time of all steps at
  the coordinator, ``run_s`` that from the order to the outcome (FLARE starts a process per party
  and waits some seconds for their ends).
- ``largest difference``: of predicted targets to the same computation on plain numbers, in standard
  deviations.
- ``people``: 100,000 people, three views of 20 columns each, of which a fifth of the rows is
  missing: learning and completing, with the alignment, in a process of its own.
- ``alignment``: ids of three sites through all secret exponents, in one process.
- ``Gram block``: a product of 20 × 200 with 200 × 20 numbers between parties: on shares with a
  dealer (here, without a network), by mpyc (three parties, semi-honest, Shamir) and by TenSEAL
  (CKKS: one party's matrix encrypted by columns, the other's plain, and the result stays with the
  first). The last two run in the bench's environment, or in the one whose Python
  ``COFILL_BENCH_MPC`` names.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
VIEWS = ("bank", "clinic", "shop")


def time_wdbc(recorder, quick):
    from cofill.cooperate import PrivateCompletion
    from cofill.views import drop_rows, load

    settings = {"features": 10} if quick else {}
    views = drop_rows(load("wdbc").views, 0.3, key=0)[0]
    model = PrivateCompletion(**settings)
    started = time.perf_counter()
    model.fit_complete(views)
    seconds = time.perf_counter() - started
    sizes = [entry.bytes for entry in model.ledger_]
    add(recorder, "in process", "seconds", "wdbc", seconds)
    add(recorder, "in process", "traffic_mb", "wdbc", sum(sizes) / 1e6)
    add(recorder, "in process", "largest_message_mb", "wdbc", max(sizes) / 1e6)
    steps, run, command = time_flare(views, settings)
    add(recorder, "flare", "steps_s", "wdbc", steps)
    add(recorder, "flare", "run_s", "wdbc", run)
    add(recorder, "flare", "with_start_s", "wdbc", command)
    add(recorder, "flare", "steps_over_process", "wdbc", steps / seconds)
    add(recorder, "in process", "largest_difference_sd", "wdbc", largest_difference(views, model))


def time_flare(views, settings):
    """Return seconds of all steps, of a run in a federation that is up, and of both starts."""
    from cofill.network import RunOrder, new_run, write_local

    with tempfile.TemporaryDirectory() as base:
        federation = write_local(Path(base) / "out", views, people=True)
        started = time.perf_counter()
        try:
            for name in ("coordinator", *federation.federation.names):
                federation.start(name)
            with federation.session() as opened:
                while len(opened.sites()) < len(federation.federation.names):
                    time.sleep(0.1)
            order = RunOrder(new_run(), "private", settings)
            ordered = time.perf_counter()
            outcome = federation.run(order, timeout=500)
            ended = time.perf_counter()
        finally:
            federation.stop()
        assert outcome["state"] == "finished", outcome["why"]
        times = federation.run_folder("coordinator", order.run).read_times()
    return sum(line["seconds"] for line in times), ended - ordered, ended - started


def largest_difference(views, model):
    """Return the largest difference of a predicted target to that of plain arithmetic."""
    sys.path.insert(0, str(ROOT))
    from tests.cooperate.plain_computer import plain_targets

    asked = model._ask(views)
    return max(
        float(np.abs(asked[name].predicted.targets - expected).max())
        for name, expected in plain_targets(model, asked).items()
    )


def processor_seconds():
    """Return what this process has used, and those that it has started and seen end."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def complete_people(count):
    """Learn and complete in this process; print the figures as JSON."""
    from cofill.cooperate import PrivateCompletion
    from cofill.views import MultiView

    rng = np.random.default_rng(0)
    traits = rng.normal(size=(count, 6))
    cells = {
        name: np.tanh(traits @ rng.normal(size=(6, 20))) + 0.5 * rng.normal(size=(count, 20))
        for name in VIEWS
    }
    present = {name: rng.random(count) < 0.8 for name in VIEWS}
    anywhere = np.any(list(present.values()), axis=0)
    views = MultiView.from_arrays(
        {name: rows[anywhere] for name, rows in cells.items()},
        presence={name: known[anywhere] for name, known in present.items()},
    )
    model = PrivateCompletion()
    started, processor = time.perf_counter(), processor_seconds()
    done = model.fit_complete(views)
    seconds, processor = time.perf_counter() - started, processor_seconds() - processor
    errors = [
        np.mean((done.cells[name] - cells[name][anywhere])[~present[name][anywhere]] ** 2)
        / cells[name].var()
        for name in VIEWS
    ]
    figures = {
        "seconds": seconds,
        "processor_seconds": processor,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "traffic_mb": sum(entry.bytes for entry in model.ledger_) / 1e6,
        "largest_message_mb": max(entry.bytes for entry in model.ledger_) / 1e6,
        "squared_error": float(np.mean(errors)),
    }
    print(json.dumps(figures))


def time_alignment(count):
    """Return the seconds in which three lists of ids pass three sites, and the processors'."""
    from cofill.shares import blind_ids, multiply_points

    secrets = [bytes([k]) * 32 for k in range(3)]
    started, processor = time.perf_counter(), processor_seconds()
    for k in range(3):
        points = blind_ids(np.array([f"person {i}" for i in range(count)]), secrets[k])
        for other in range(2):
            points = multiply_points(points, secrets[(k + 1 + other) % 3])
    return time.perf_counter() - started, processor_seconds() - processor


def time_gram(rows, columns):
    """Return the seconds of a Gram block on shares: two computing sites and their dealer."""
    from cofill.shares import ComputingSite, Dealer, input_keys, mask_input, run_as_dealer, to_words

    def program(computer, inputs):
        x, y = (computer.input("owner", k, inputs[k]) for k in "xy")
        share = computer.product("xy", x.T, y)
        return (yield from computer.truncate({"xy": share}, 20))["xy"]

    rng = np.random.default_rng(0)
    tables = {k: rng.normal(size=(rows, columns)) for k in "xy"}
    keys = (os.urandom(32), os.urandom(32))
    started = time.perf_counter()
    words = {k: to_words(table, 20) for k, table in tables.items()}
    dealer = Dealer(keys, os.urandom(32))
    run_as_dealer(program(dealer, {k: np.zeros_like(w) for k, w in words.items()}))
    masked = {k: mask_input(input_keys(keys, "owner"), k, w) for k, w in words.items()}
    sites = ComputingSite(0, keys[0]), ComputingSite(1, keys[1], dealer.dealt)
    programs = [program(site, masked) for site in sites]
    shares = [next(p) for p in programs]
    opened = {"xy": shares[0]["xy"] + shares[1]["xy"]}
    result = np.zeros((columns, columns), np.uint64)
    for p in programs:
        try:
            p.send(opened)
        except StopIteration as stop:
            result += stop.value
    seconds = time.perf_counter() - started
    exact = tables["x"].T @ tables["y"]
    return seconds, float(np.abs(result.view(np.int64) / 2.0**20 - exact).max())


def time_others(rows, columns, recorder):
    """Record the Gram block of mpyc and TenSEAL, where a Python with them is named."""
    python = os.environ.get("COFILL_BENCH_MPC")
    if python is None:
        print("COFILL_BENCH_MPC is not set; mpyc and TenSEAL are left out")
        return
    for method, options in (("mpyc", ["-M3"]), ("tenseal", [])):
        command = [python, str(ROOT / "bench" / "gram.py"), method, str(rows), str(columns)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600)
        line = next(x for x in done.stdout.splitlines() if x.startswith("{"))
        for metric, value in json.loads(line).items():
            add(recorder, method, metric, f"Gram block {rows} × {columns}", value)


def add(recorder, method, metric, case, value):
    recorder.add(method, metric, case, [float(value)])
    print(f"{method:12}{metric:24}{case:32}{value:12.6g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke run")
    parser.add_argument("--people", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.people:
        complete_people(options.people)
        return
    try:
        import nvflare  # noqa: F401
    except ImportError:  # the bench's environment has no FLARE, the project's has
        os.environ.setdefault("COFILL_BENCH_MPC", sys.executable)
        python = ROOT / ".venv" / "bin" / "python"
        os.execv(python, [str(python), "-m", "bench.private", *sys.argv[1:]])
    from cofill.metrics import Recorder

    people, ids, rows, columns = (500, 200, 40, 10) if options.quick else (10**5, 10**5, 200, 20)
    settings = {"people": people, "ids": ids, "gram": [rows, columns], "sites": 3}
    recorder = Recorder("bench_private", seeds=[0], settings=settings)
    seconds, error = time_gram(rows, columns)
    case = f"Gram block {rows} × {columns}"
    add(recorder, "cofill", "seconds", case, seconds)
    add(recorder, "cofill", "largest_error", case, error)
    time_others(rows, columns, recorder)
    time_wdbc(recorder, options.quick)
    seconds, processor = time_alignment(ids)
    add(recorder, "in process", "seconds", f"alignment of {ids} ids", seconds)
    add(recorder, "in process", "processor_seconds", f"alignment of {ids} ids", processor)
    command = [sys.executable, "-m", "bench.private", "--people", str(people)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for metric, value in json.loads(done.stdout.splitlines()[-1]).items():
        add(recorder, "in process", metric, f"{people} people", value)
    recorder.note("load_at_end", os.getloadavg()[0])
    recorder.note("blas_threads", os.environ.get("OMP_NUM_THREADS", "all"))
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
