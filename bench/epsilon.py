"""Measure what ε costs where rows are split between sites: error of completion at several ε.

    python -m bench epsilon [--levels default,sums,record] [--seeds 3] [--processes N]

The credit data (30,000 clients, four views, 30 % of each view's rows hidden) is dealt to twenty
sites. ``default`` is what a run without a guarantee learns, tables from secure sums, and is run
for the first seed. ``sums``: one round of sums with noise (`NoisyTable`), which hides whose row a
site has. ``none`` is a network without a guarantee, ``record`` the same where each site trains
with DP-SGD, so that whether one client's row was used is hidden from everybody. ``site``: updates
are clipped and noised so that whether a whole site took part is hidden. ε is that of all rounds
together at δ = 1e-5, as the site's ledger has it. Errors are squared, of hidden numeric cells over
the variance of their column; the column's mean has error 1. Clipping norms and rates were not
tuned to the data. What has been run is kept beside the record, in a journal: a run that was stopped
goes on, and parts may be run one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
SITES, ROUNDS, BATCH, DELTA = 20, 30, 64, 1e-5
LEVELS = {
    "default": (None,),
    "sums": (8.0, 2.0, 0.5),
    "none": (None,),
    "record": (8.0, 2.0),
    "site": (64.0, 16.0),
}


def settings_of(level, epsilon, rows, rounds):
    """Return how sites train and what rounds do at a level of privacy."""
    from cofill.federate import LocalSettings, RoundSettings
    from cofill.nets import DPSettings
    from cofill.privacy import SiteNoise, noise_for

    if level == "default":
        return {}
    if level == "sums":
        return {"epsilon": epsilon, "delta": DELTA}
    if level == "record":
        steps = rounds * -(-rows // BATCH)
        noise = noise_for(epsilon, DELTA, rate=BATCH / rows, steps=steps, rows=rows)
        return {
            "network": {"width": 32},
            "local": LocalSettings(batch=BATCH, dp=DPSettings(1.0, noise)),
            "settings": RoundSettings(rounds=rounds),
        }
    if level == "site":
        noise = SiteNoise(1.0, noise_for(epsilon, DELTA, steps=rounds), sites=SITES)
        rounds_settings = RoundSettings(rounds=rounds, site_noise=noise)
    else:
        rounds_settings = RoundSettings(rounds=rounds)
    return {
        "network": {"width": 32},
        "local": LocalSettings(batch=BATCH),
        "settings": rounds_settings,
    }


def run_task(task):
    """Return the error of hidden cells, the largest ε of a site, and the seconds."""
    from cofill.federate import FederatedCompletion
    from cofill.privacy import Gate
    from cofill.views import Kind, by_row, drop_rows, load

    started = time.perf_counter()
    truth = load("credit").views
    if task["quick"]:
        truth = truth.take(np.arange(truth.n_individuals) < 2000)
    holes = drop_rows(truth, 0.3, key=task["seed"])[0]
    held = by_row(holes, SITES, key=task["seed"])
    rows = min(part.n_individuals for part in held.values())
    model = FederatedCompletion(
        seed=task["seed"],
        **settings_of(task["level"], task["epsilon"], rows, task["rounds"]),
    )
    model.fit_sites(held)
    done = model.complete(holes)
    errors = []
    for name, view in truth.items():
        numeric = [k for k, f in enumerate(view.features) if f.kind is Kind.NUMERIC]
        actual, filled = done.beside(truth, name, ~holes.present(name) & truth.present(name))
        left = ((actual - filled) ** 2).mean(axis=0) / view.cells.var(axis=0)
        errors.append(left[numeric].mean())
    spent = Gate(model.ledger_).spent_by_site()
    return {
        "error": float(np.mean(errors)),
        "epsilon": max(spent.values(), default=None),
        "seconds": time.perf_counter() - started,
    }


def start_task(task):
    command = [sys.executable, "-m", "bench.epsilon", "--task", json.dumps(task)]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    outcome = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    print(task, outcome, flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--quick", action="store_true", help="one seed of few clients and rounds")
    parser.add_argument("--levels", default=",".join(LEVELS), help="which, separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        from cofill.paths import keep_compiled_programs

        keep_compiled_programs()
        print(json.dumps(run_task(json.loads(options.task))))
        return 0
    from cofill.metrics import Recorder

    seeds, rounds = ([0], 3) if options.quick else (list(range(options.seeds)), ROUNDS)
    recorder = Recorder(
        "bench_epsilon",
        seeds=seeds,
        settings={"sites": SITES, "rounds": rounds, "batch": BATCH, "delta": DELTA},
    )
    tasks = [
        {"level": level, "epsilon": epsilon, "seed": s, "rounds": rounds, "quick": options.quick}
        for level in options.levels.split(",")
        for epsilon in LEVELS[level]
        for s in (seeds[:1] if level == "default" else seeds)  # it takes ten minutes
    ]
    journal = None if options.out is None else options.out.with_suffix(".journal")
    done = {} if journal is None or not journal.exists() else json.loads(journal.read_text())

    def run_or_read(task):
        name = json.dumps(task)
        if done.get(name) is None:
            done[name] = start_task(task)
            if journal is not None:
                journal.write_text(json.dumps(done))
        return task, done[name]

    with ThreadPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(run_or_read, tasks))
    for task, outcome in outcomes:
        where = task["level"] if task["epsilon"] is None else f"{task['epsilon']:g}"
        if outcome is not None:
            recorder.add(task["level"], "error", where, outcome["error"], seed=task["seed"])
            recorder.add(task["level"], "seconds", where, outcome["seconds"], seed=task["seed"])
            if outcome["epsilon"] is not None:
                recorder.add(task["level"], "epsilon", where, outcome["epsilon"], seed=task["seed"])
    if options.out:
        recorder.finish().write(options.out)
    is_whole = all(outcome for _, outcome in outcomes)
    if journal is not None and is_whole and set(options.levels.split(",")) == set(LEVELS):
        journal.unlink()  # the next run is of the next code
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
