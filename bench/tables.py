"""Compare imputers on tables with holes: RMSE after min-max scaling, accuracy of codes, seconds.

    python -m bench.tables --out results/bench_tables.json [--sets iris,wine] [--rates 0.3]

HyperImpute's protocol: columns scaled to 0…1, holes MCAR, MAR or MNAR (logistic, as in
R-miss-tastic) at rates from 0.1 to 0.9. Peers run in the Python that PEERS names (an environment
with bench/requirements.txt and hyperimpute, miceforest; the project's own otherwise). Every run is
one line of the journal beside the record: a run that was stopped goes on where it was. HyperImpute
and miceforest take minutes a table and run at the rates of `--slow-rates` only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from bench.imputers import METHODS
from scipy.optimize import brentq
from scipy.special import expit

from cofill.metrics import Recorder

DATA = Path(os.environ.get("COFILL_DATA", Path(__file__).parents[2] / "shared/data")) / "uci"
CODED = {  # columns that hold codes, counted without the row number; all others are numbers
    "blood": (4,),
    "credit": (0, 3, 4, 5, 6, 8, 9, 11, 12, 15),
    "health": (6,),
    "ionosphere": (34,),
    "letter": (0,),
    "obesity": (0, 4, 5, 8, 9, 11, 14, 15, 16),
    "parkinsons": (16,),
    "raisin": (7,),
    "sonar": (60,),
    "yeast": (8,),
}
OURS = ("pooled",)
FAST = ("mean", "knn", "iterative", "missforest", "boosted")
SLOW = ("hyperimpute", "miceforest", "remasker")


def read_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cells scaled to 0…1 (codes as they are) and which columns hold codes."""
    cells = np.genfromtxt(DATA / f"{name}.csv", delimiter=",", skip_header=1)[:, 1:]
    cells = cells[~np.isnan(cells).any(axis=1)]
    coded = np.isin(np.arange(cells.shape[1]), CODED.get(name, ()))
    for k in np.flatnonzero(coded):
        cells[:, k] = np.unique(cells[:, k], return_inverse=True)[1]
    low, high = cells.min(axis=0), cells.max(axis=0)
    scaled = (cells - low) / np.where(high > low, high - low, 1.0)
    return np.where(coded, cells, scaled), coded


def hide(cells: np.ndarray, mechanism: str, rate: float, seed: int) -> np.ndarray:
    """Return which cells are hidden; three of each column stay."""
    rng = np.random.default_rng(seed)
    n, d = cells.shape
    if mechanism == "MCAR":
        hidden = rng.random((n, d)) < rate
    else:
        # A third of the columns decides, through a logistic model, what is missing of the others;
        # under MNAR they are themselves missing at random.
        hidden = np.zeros((n, d), bool)
        order = rng.permutation(d)
        inputs, others = np.split(order, [max(int(0.3 * d), 1)])
        spread = cells[:, inputs] / np.where(
            cells[:, inputs].std(0) > 0, cells[:, inputs].std(0), 1
        )
        for k in others:
            pull = spread @ rng.random(len(inputs))
            pull /= pull.std() or 1.0
            shift = brentq(lambda s, pull=pull: expit(pull + s).mean() - rate, -100, 100)
            hidden[:, k] = rng.random(n) < expit(pull + shift)
        if mechanism == "MNAR":
            hidden[:, inputs] = rng.random((n, len(inputs))) < rate
    for k in range(d):
        if (~hidden[:, k]).sum() < 3:
            hidden[rng.choice(n, 3, replace=False), k] = False
    return hidden


def fill(method: str, cells: np.ndarray, coded: np.ndarray, seed: int, limit: int):
    """Return the filled table and seconds; cofill's own runs in a process of its own too."""
    python = os.environ.get("PEERS", sys.executable) if method in METHODS else sys.executable
    module = ["bench/imputers.py"] if method in METHODS else ["-m", "bench.tables", "--fill"]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, cells=cells, coded=coded, seed=seed)
        subprocess.run(
            [python, *module, method, str(source), str(out)],
            check=True,
            timeout=limit,
            capture_output=True,
        )
        filled = np.load(out)
        return filled["cells"], float(filled["seconds"])


def fill_ours(source: str, out: str) -> None:
    import time

    from cofill.impute import fit_table
    from cofill.views import Feature, Kind

    table = np.load(source)
    cells, coded = table["cells"], table["coded"]
    features = []
    for k, is_coded in enumerate(coded):
        levels = tuple(range(int(np.nanmax(cells[:, k])) + 1)) if is_coded else ()
        features.append(Feature(f"c{k}", Kind.CATEGORICAL if is_coded else Kind.NUMERIC, levels))
    started = time.perf_counter()
    filled = fit_table(cells, features, seed=int(table["seed"])).predict(cells)
    np.savez(out, cells=filled, seconds=time.perf_counter() - started)


def score(actual, filled, hidden, coded) -> dict[str, float | None]:
    numbers, codes = hidden & ~coded, hidden & coded
    gaps = (filled - actual)[numbers]
    return {
        "rmse": float(np.sqrt((gaps**2).mean())) if len(gaps) else None,
        "accuracy": float((np.rint(filled) == actual)[codes].mean()) if codes.any() else None,
    }


def main() -> None:
    if sys.argv[1:2] == ["--fill"]:
        fill_ours(*sys.argv[3:5])
        return
    names = sorted(p.stem for p in DATA.glob("*.csv"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="two small sets, one rate")
    parser.add_argument("--sets", default=",".join(names))
    parser.add_argument("--methods", default=",".join((*OURS, *FAST, *SLOW)))
    parser.add_argument("--mechanisms", default="MCAR,MAR,MNAR")
    parser.add_argument("--rates", default="0.1,0.3,0.5,0.7,0.9")
    parser.add_argument("--slow-rates", default="0.3")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=3600, help="seconds a run may take")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.rates, options.seeds = "iris,yacht", "0.3", 1
        options.methods = ",".join((*OURS, *FAST))
    journal = (options.out or Path(tempfile.mkdtemp()) / "tables.json").with_suffix(".jsonl")
    lines = journal.read_text().splitlines() if journal.exists() else []
    runs = {tuple(run["key"]): run for run in map(json.loads, lines)}
    slow = {float(r) for r in options.slow_rates.split(",")}
    for name in options.sets.split(","):
        actual, coded = read_table(name)
        for mechanism in options.mechanisms.split(","):
            for rate in map(float, options.rates.split(",")):
                for seed in range(options.seeds):
                    hidden = hide(actual, mechanism, rate, seed)
                    holed = np.where(hidden, np.nan, actual)
                    for method in options.methods.split(","):
                        key = (name, mechanism, str(rate), str(seed), method)
                        if key in runs or (method in SLOW and rate not in slow):
                            continue
                        if method == "remasker" and "REMASKER" not in os.environ:
                            continue
                        run = {"key": key}
                        try:
                            filled, seconds = fill(method, holed, coded, seed, options.limit)
                            run |= score(actual, filled, hidden, coded) | {"seconds": seconds}
                        except subprocess.TimeoutExpired:
                            run["failed"] = f"took more than {options.limit} s"
                        except subprocess.CalledProcessError as error:
                            run["failed"] = error.stderr.decode().strip().splitlines()[-1][:200]
                        if "failed" in run:
                            print(f"{' '.join(key)}: {run['failed']}", flush=True)
                        runs[key] = run
                        with journal.open("a") as file:
                            file.write(json.dumps(run) + "\n")
    wanted = (options.sets.split(","), options.methods.split(","))
    runs = {k: r for k, r in runs.items() if k[0] in wanted[0] and k[4] in wanted[1]}
    fast = {k: r for k, r in runs.items() if k[4] not in SLOW}
    print("all rates, methods that take seconds")
    table = {"all rates": compare(fast)}
    if len(fast) < len(runs):
        print(f"rates {options.slow_rates}, all methods")
        table["slow rates"] = compare({k: r for k, r in runs.items() if float(k[2]) in slow})
    if options.out:
        write_record(options.out, runs, table, options)


def compare(runs: dict) -> dict[str, dict[str, float]]:
    """Print and return, for each method, its rank, its distance to the best, failures and seconds.

    The rank is the mean over settings and metrics in which it ran; the distance is the largest over
    sets and mechanisms of its mean RMSE against the lowest mean RMSE of any method.
    """
    methods = sorted({key[4] for key in runs})
    cases, groups = defaultdict(dict), defaultdict(lambda: defaultdict(dict))
    for key, run in runs.items():
        if run.get("rmse") is not None:
            cases[(*key[:4], "rmse")][key[4]] = run["rmse"]
            groups[key[:2]][key[4]][key[2:4]] = run["rmse"]
        if run.get("accuracy") is not None:
            cases[(*key[:4], "accuracy")][key[4]] = -run["accuracy"]
    table = {}
    print(f"{'method':<12} {'rank':>6} {'worst':>7} {'where':<18} {'failed':>6} {'seconds':>8}")
    for method in methods:
        ranks = [
            1 + sum(loss < losses[method] for loss in losses.values())
            for losses in cases.values()
            if method in losses
        ]
        distances = {}
        for group, results in groups.items():
            ours = results.get(method, {})
            # Only methods that ran wherever this one ran are compared by their means.
            means = [
                np.mean([r[c] for c in ours]) for r in results.values() if ours.keys() <= r.keys()
            ]
            if ours:
                distances[group] = np.mean(list(ours.values())) / min(means) - 1
        where = max(distances, key=distances.get, default=("", ""))
        results = [r for k, r in runs.items() if k[4] == method]
        seconds = [r["seconds"] for r in results if "seconds" in r]
        table[method] = {
            "rank": float(np.mean(ranks)) if ranks else float("nan"),
            "worst": float(distances.get(where, 0.0)),
            "failed": sum("failed" in r for r in results),
            "seconds": float(np.mean(seconds)) if seconds else float("nan"),
        }
        values = table[method]
        print(
            f"{method:<12} {values['rank']:6.2f} {values['worst']:7.1%} {' '.join(where):<18} "
            f"{values['failed']:6d} {values['seconds']:8.1f}"
        )
    return table


def write_record(out: Path, runs: dict, table: dict, options) -> None:
    seeds = list(range(options.seeds))
    recorder = Recorder("tables", seeds=seeds, settings=vars(options) | {"out": str(out)})
    series: dict = defaultdict(lambda: [None] * options.seeds)
    for (name, mechanism, rate, seed, method), run in runs.items():
        for metric in ("rmse", "accuracy", "seconds"):
            if run.get(metric) is not None and int(seed) < options.seeds:
                series[method, metric, f"{name}-{mechanism}-{rate}"][int(seed)] = run[metric]
    for (method, metric, part), values in series.items():
        for seed, value in enumerate(values):
            if value is not None:
                recorder.add(method, metric, part, value, seed=seed)
    recorder.note("ranks", table)
    recorder.finish().write(out)


if __name__ == "__main__":
    main()
