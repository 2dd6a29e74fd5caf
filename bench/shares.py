"""Compare completion on secret shares with `best` with codes, on the same splits.

    python -m bench shares [--data NAME ...] [--seeds N] [--processes N] [--plain NAME ...]

Errors are squared, in standardised units, over all cells of a view and then over views: ``best``
(codes; masked links or fusion by cross-validation, with more than four views the fusion alone) and
``private`` (shares). ``ratio`` is the second over the first, seed by seed. WDBC, MFDD and Scene-15:
90/10 of the people; credit: a tenth of each view's rows hidden; TCGA: a tenth of the protein rows.

Data sets named by ``--plain`` are computed in plain arithmetic, which is the same computation
(`tests/cooperate/plain_completion.py`), and ``arithmetic`` in the record says so. Every set and
method, and on shares every seed, runs in a process of its own; `best` trains on an accelerator
where there is one.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
SETS = {"wdbc": "wdbc", "credit": "credit", "scene15": "scene15", "tcga": "tcga_brca",
        "mfdd": "mfdd"}  # fmt: skip


def draw_splits(name, seeds, quick):
    """Return what methods learn from and are asked, by seed, as the papers' experiments do."""
    from cofill.views import load
    from cofill_papers import hidden_rows, split_individuals

    data = load(SETS[name])
    if quick:
        chosen = np.arange(data.views.n_individuals) < 300
        data = replace(data, views=data.views.take(chosen), labels=data.labels[chosen])
    if name == "tcga":
        return [hidden_rows(data, seed, names=["protein"]) for seed in seeds]
    prepare = hidden_rows if name == "credit" else split_individuals
    return [prepare(data, seed) for seed in seeds]


def fit_best(splits):
    from cofill.cooperate import CooperativeReconstruction, fit_many

    method = "auto" if len(splits[0].train) <= 4 else "fused"
    models = [CooperativeReconstruction(method=method, seed=split.seed) for split in splits]
    fit_many(models, [split.train for split in splits])
    return models


def fit_private(splits, *, plain):
    from cofill.cooperate import PrivateCompletion

    if plain:
        sys.path.insert(0, str(ROOT))
        from tests.cooperate.plain_completion import PlainCompletion as PrivateCompletion
    return [PrivateCompletion(seed=split.seed).fit(split.train) for split in splits]


def run_task(task):
    """Return each view's error by seed, and the seconds that the task took."""
    from cofill.metrics import mse

    started = time.perf_counter()
    splits = draw_splits(task["data"], task["seeds"], task["quick"])
    if task["method"] == "best":
        models = fit_best(splits)
    else:
        models = fit_private(splits, plain=task["arithmetic"] == "plain")
    errors = {}
    for split, model in zip(splits, models, strict=True):
        errors[split.seed] = {
            view: float(
                mse(
                    split.standardised(view, split.truth[view]),
                    split.standardised(view, np.asarray(model.reconstruct(asked, view), float)),
                )
            )
            for view, asked in split.tests.items()
        }
    return {"errors": errors, "seconds": time.perf_counter() - started}


def start_task(task, threads):
    """Run a task in a process of its own and return what it printed."""
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if task["method"] != "best":
        env |= {"JAX_PLATFORMS": "cpu"}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[name] = str(threads)
    command = [sys.executable, "-m", "bench.shares", "--task", json.dumps(task)]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    label = f"{task['data']:10}{task['method']:10}{task['arithmetic']:8}{task['seeds']}"
    if done.returncode:
        print(f"{label} failed", flush=True)
        return task, None
    outcome = json.loads(done.stdout.splitlines()[-1])
    mean = np.mean([list(views.values()) for views in outcome["errors"].values()])
    print(f"{label} {mean:.4f}  {outcome['seconds']:.0f} s", flush=True)
    return task, outcome


def list_tasks(options):
    """Return tasks, the longest first: all seeds of `best` as one batch, of shares each alone."""
    tasks = []
    for name in sorted(options.data, key=["mfdd", "credit", "scene15", "wdbc", "tcga"].index):
        common = {"data": name, "quick": options.quick}
        tasks.append({**common, "method": "best", "arithmetic": "codes", "seeds": options.seeds})
        arithmetic = "plain" if name in options.plain else "shares"
        tasks += [
            {**common, "method": "private", "arithmetic": arithmetic, "seeds": [seed]}
            for seed in options.seeds
        ]
    return tasks


def known_outcome(task, earlier):
    """Return a task's outcome from an earlier record, or None where that lacks a seed."""
    prefix = f"{task['method']}/view_mse/{task['data']}."
    if task["arithmetic"] not in ("codes", earlier.settings["arithmetic"].get(task["data"])):
        return None
    columns = {k.removeprefix(prefix): v for k, v in earlier.values.items() if prefix in k}
    errors = {
        seed: {view: values[k] for view, values in columns.items()}
        for k, seed in enumerate(earlier.seeds)
        if seed in task["seeds"]
    }
    known = [error for views in errors.values() for error in views.values()]
    is_whole = set(errors) == set(task["seeds"]) and known and None not in known
    return {"errors": errors, "seconds": None} if is_whole else None


def record_of(recorder, options, outcomes):
    """Return the record of all outcomes that there are."""
    recorder = copy.deepcopy(recorder)
    totals = {}
    for task, outcome in outcomes:
        name, method = task["data"], task["method"]
        for seed, views in (outcome["errors"] if outcome else {}).items():
            totals[name, method, int(seed)] = float(np.mean(list(views.values())))
            for view, error in views.items():
                recorder.add(method, "view_mse", f"{name}.{view}", error, seed=int(seed))
    for (name, method, seed), error in totals.items():
        recorder.add(method, "mse", name, error, seed=seed)
        if method == "private" and (name, "best", seed) in totals:
            recorder.add("private", "ratio", name, error / totals[name, "best", seed], seed=seed)
    seconds = [{**task, "seconds": outcome and outcome["seconds"]} for task, outcome in outcomes]
    recorder.note("tasks", seconds)
    return recorder.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--quick", action="store_true", help="two seeds of 300 people of WDBC")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=5, help="how many repeats")
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    parser.add_argument("--plain", nargs="*", choices=SETS, default=[], help="in plain arithmetic")
    parser.add_argument("--earlier", type=Path, help="take what this record has from it")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        from cofill.paths import keep_compiled_programs

        keep_compiled_programs()
        print(json.dumps(run_task(json.loads(options.task))))
        return 0
    options.seeds = list(range(2 if options.quick else options.seeds))
    if options.quick:
        options.data = ["wdbc"]
    from cofill.metrics import Recorder, ResultRecord

    settings = {
        "data": options.data,
        "arithmetic": {n: "plain" if n in options.plain else "shares" for n in options.data},
        "processes": options.processes,
    }
    recorder = Recorder(
        "bench_shares",
        seeds=options.seeds,
        settings=settings,
        accelerator=os.environ.get("COFILL_ACCELERATOR"),
    )
    threads = max(1, (os.cpu_count() or 1) // options.processes)
    tasks, outcomes = list_tasks(options), []
    if options.earlier:
        earlier = ResultRecord.read(options.earlier)
        recorder.note("earlier", {"machine": earlier.machine, "versions": earlier.versions,
                                  "duration_s": earlier.duration_s})  # fmt: skip
        outcomes = [(task, known_outcome(task, earlier)) for task in tasks]
        outcomes = [(task, outcome) for task, outcome in outcomes if outcome]
        done = [task for task, _ in outcomes]
        tasks = [task for task in tasks if task not in done]
    with ThreadPoolExecutor(options.processes) as pool:
        pending = [pool.submit(start_task, task, threads) for task in tasks]
        for future in as_completed(pending):
            outcomes.append(future.result())
            if options.out:  # also what a run that is cut off has reached
                record_of(recorder, options, outcomes).write(options.out)
    record = record_of(recorder, options, outcomes)
    for name in options.data:
        for key in (f"best/mse/{name}", f"private/mse/{name}", f"private/ratio/{name}"):
            if key in record.summary:
                value = record.summary[key]
                print(f"{key:32}{value['mean']:8.4f} ± {value['std']:.4f}")
    return 0 if all(outcome for _, outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
