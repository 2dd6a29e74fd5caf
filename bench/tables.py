"""Compare imputers on tables with holes: RMSE after min-max scaling, accuracy of codes, seconds.

    python -m bench.tables --out results/bench_tables.json [--jobs 16] [--sets iris,wine]
        [--rates 0.3] [--seeds 3] [--minutes 9]
    python -m bench.tables --out results/bench_split.json --methods pooled,private,cooperative
        --mechanisms MCAR --rates 0.3 [--sets iris,wine]

HyperImpute's protocol: columns scaled to 0…1, holes MCAR, MAR or MNAR (logistic, as in
R-miss-tastic) at rates from 0.1 to 0.9. cofill and the peers that scikit-learn holds run in
`--jobs` processes of one thread each, so that seconds are a core's; HyperImpute, miceforest and
ReMasker run in the Python that PEERS names (with bench/requirements-imputers.txt), at the
rates of `--slow-rates` only, because they take minutes a table. A peer that is not installed is
skipped and named. Every run is one line of the journal beside the record: a run that was stopped
(`--minutes` stops it) goes on where it was. numpy, scipy and scikit-learn are enough: what cofill
imports besides is stood in for where it is absent.

`private` and `cooperative` are what organisations run: the columns are split, in their order, over
three sites. They need all that cofill needs, and are compared with `pooled`, which has all columns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

import numpy as np
from bench.imputers import METHODS, StandIns
from scipy.optimize import brentq
from scipy.special import expit

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
OURS = {"pooled": "normal", "pooled-quick": "quick", "pooled-thorough": "thorough"}
SPLIT = ("private", "cooperative")
SITES = 3
FAST = ("mean", "knn", "iterative", "missforest", "extratrees", "boosted", "iterated_boosting")
SLOW = {"hyperimpute": "hyperimpute", "miceforest": "miceforest", "remasker": "torch"}
STAND_INS = ("jaxtyping", "narwhals", "pyarrow", "safetensors")


def read_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cells scaled to 0…1 (codes as they are) and which columns hold codes."""
    path = DATA / f"{name}.csv"
    cells = np.genfromtxt(path, delimiter=",", skip_header=1)[:, 1:]
    for k in np.flatnonzero(np.isnan(cells).all(axis=0)):  # labels in letters
        labels = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, usecols=k + 1)
        cells[:, k] = np.unique(labels, return_inverse=True)[1]
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


def fill_ours(cells: np.ndarray, coded: np.ndarray, seed: int, effort: str) -> np.ndarray:
    """Return the table as the imputer fills it."""
    from cofill.impute import fit_table

    return fit_table(cells, features_of(cells, coded), effort=effort, seed=seed).predict(cells)


def features_of(cells: np.ndarray, coded: np.ndarray) -> list:
    """Return kinds and categories of the columns."""
    from cofill.views import Feature, Kind

    features = []
    for k, is_coded in enumerate(coded):
        levels = tuple(range(int(np.nanmax(cells[:, k])) + 1)) if is_coded else ()
        features.append(Feature(f"c{k}", Kind.CATEGORICAL if is_coded else Kind.NUMERIC, levels))
    return features


def fill_split(cells: np.ndarray, coded: np.ndarray, seed: int, method: str) -> np.ndarray:
    """Return the table as three sites fill it that have a third of the columns each."""
    import cofill
    from cofill.views import MultiView, View

    features, ids = features_of(cells, coded), np.array([f"{i:06}" for i in range(len(cells))])
    columns = np.array_split(np.arange(cells.shape[1]), SITES)
    views = []
    for site, at in enumerate(columns):
        rows = ~np.isnan(cells[:, at]).all(axis=1)
        part = cells[np.ix_(rows, at)]
        views.append(View(f"site {site}", ids[rows], part, [features[k] for k in at]))
    kinds = {"private": cofill.PrivateCompletion, "cooperative": cofill.CooperativeReconstruction}
    done = kinds[method](seed=seed).fit_complete(MultiView(views, more_ids=ids))
    return np.hstack([done.cells[view.name] for view in views])


def fill_elsewhere(
    method: str, cells: np.ndarray, coded: np.ndarray, seed: int, limit: int
) -> tuple[np.ndarray, float]:
    """Return the table as a peer fills it in the Python that PEERS names, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, cells=cells, coded=coded, seed=seed)
        subprocess.run(
            [_peers(), "bench/imputers.py", method, str(source), str(out)],
            check=True,
            timeout=limit,
            capture_output=True,
        )
        filled = np.load(out)
        return filled["cells"], float(filled["seconds"])


def _peers() -> str:
    return os.environ.get("PEERS", sys.executable)


def run_case(key: tuple[str, ...], limit: int) -> dict:
    """Return the scores and seconds of one method on one table with holes, or why it failed."""
    name, mechanism, rate, seed, method = key
    actual, coded = read_table(name)
    hidden = hide(actual, mechanism, float(rate), int(seed))
    cells = np.where(hidden, np.nan, actual)
    run: dict = {"key": key}
    try:
        if method in SLOW:
            filled, seconds = fill_elsewhere(method, cells, coded, int(seed), limit)
        else:
            if method in OURS:
                with StandIns(STAND_INS):
                    import cofill.impute  # noqa: F401  loading it is not counted
            if hasattr(signal, "SIGALRM"):
                signal.signal(signal.SIGALRM, _out_of_time)
                signal.alarm(limit)
            started = time.perf_counter()
            if method in SPLIT:
                filled = fill_split(cells, coded, int(seed), method)
            elif method in OURS:
                filled = fill_ours(cells, coded, int(seed), OURS[method])
            else:
                filled = METHODS[method](cells, coded, int(seed))
            seconds = time.perf_counter() - started
        run |= score(actual, filled, hidden, coded) | {"seconds": seconds}
    except (TimeoutError, subprocess.TimeoutExpired):
        run["failed"] = f"took more than {limit} s"
    except subprocess.CalledProcessError as error:
        run["failed"] = error.stderr.decode().strip().splitlines()[-1][:200]
    except Exception as error:  # noqa: BLE001  a peer may fail in any way; others still run
        run["failed"] = f"{type(error).__name__}: {error}"[:200]
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)
    return run


def _out_of_time(number, frame):
    raise TimeoutError


def _start_worker() -> None:
    import warnings

    warnings.filterwarnings("ignore")


def score(actual, filled, hidden, coded) -> dict[str, float | None]:
    numbers, codes = hidden & ~coded, hidden & coded
    gaps = (filled - actual)[numbers]
    return {
        "rmse": float(np.sqrt((gaps**2).mean())) if len(gaps) else None,
        "accuracy": float((np.rint(filled) == actual)[codes].mean()) if codes.any() else None,
    }


def main() -> None:
    names = sorted(p.stem for p in DATA.glob("*.csv"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="two small sets, one rate")
    parser.add_argument("--sets", default=",".join(names))
    parser.add_argument("--methods", default=",".join(("pooled", *FAST, *SLOW)))
    parser.add_argument("--mechanisms", default="MCAR,MAR,MNAR")
    parser.add_argument("--rates", default="0.1,0.3,0.5,0.7,0.9")
    parser.add_argument("--slow-rates", default="0.3")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--limit", type=int, default=3600, help="seconds a run may take")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so many")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.rates, options.seeds = "iris,yacht", "0.3", 1
        options.methods = ",".join(("pooled", *FAST))
    journal = (options.out or Path(tempfile.mkdtemp()) / "tables.json").with_suffix(".jsonl")
    lines = journal.read_text().splitlines() if journal.exists() else []
    runs = {tuple(run["key"]): run for run in map(json.loads, lines)}
    methods, absent = installed(options.methods.split(","))
    if absent:
        print(f"not installed, left out: {', '.join(absent)}", flush=True)
    wanted = list(cases(options, methods))
    for run in run_all([key for key in wanted if key not in runs], options):
        runs[run["key"]] = run
        if "failed" in run:
            print(f"{' '.join(run['key'])}: {run['failed']}", flush=True)
        with journal.open("a") as file:
            file.write(json.dumps(run) + "\n")
    missing = sum(key not in runs for key in wanted)
    if missing:
        print(f"{missing} of {len(wanted)} runs are left; the same command goes on with them")
    runs = {key: runs[key] for key in wanted if key in runs}
    fast = {k: r for k, r in runs.items() if k[4] not in (*SLOW, *SPLIT)}
    print("all rates, methods that take seconds")
    table = {"all rates": compare(fast)}
    if table_split := compare_split(runs):
        table["three sites"] = table_split
    if any(k[4] in SLOW for k in runs):
        print(f"rates {options.slow_rates}, all methods")
        slow = {float(r) for r in options.slow_rates.split(",")}
        alone = {k: r for k, r in runs.items() if k[4] not in SPLIT}
        table["slow rates"] = compare({k: r for k, r in alone.items() if float(k[2]) in slow})
    if options.out:
        write_record(options.out, runs, table | {"not installed": absent}, options)


def installed(methods: list[str]) -> tuple[list[str], list[str]]:
    """Return the methods that can run here and those that cannot."""
    absent = []
    for method in methods:
        if method not in SLOW:
            continue
        probe = f"import importlib.util as u, sys; sys.exit(u.find_spec({SLOW[method]!r}) is None)"
        lacks = subprocess.run([_peers(), "-c", probe], capture_output=True).returncode
        if lacks or (method == "remasker" and "REMASKER" not in os.environ):
            absent.append(method)
    return [m for m in methods if m not in absent], absent


def cases(options: argparse.Namespace, methods: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield all runs: seed by seed, the largest tables first, all methods of a case together."""
    sizes = {name: (DATA / f"{name}.csv").stat().st_size for name in options.sets.split(",")}
    slow = {float(r) for r in options.slow_rates.split(",")}
    for seed in range(options.seeds):
        for name in sorted(sizes, key=lambda n: -sizes[n]):
            for rate in options.rates.split(","):
                for mechanism in options.mechanisms.split(","):
                    for method in methods:
                        if method not in SLOW or float(rate) in slow:
                            yield name, mechanism, str(float(rate)), str(seed), method


def run_all(keys: list[tuple[str, ...]], options: argparse.Namespace) -> Iterator[dict]:
    """Yield the runs as they end, of as many processes as were asked for."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    end = time.monotonic() + 60 * options.minutes
    context = multiprocessing.get_context("spawn")
    ahead, running = iter(keys), set()
    with ProcessPoolExecutor(options.jobs, context, _start_worker) as pool:
        while True:
            while len(running) < options.jobs and time.monotonic() < end:
                key = next(ahead, None)
                if key is None:
                    break
                running.add(pool.submit(run_case, key, options.limit))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()


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


def compare_split(runs: dict) -> dict[str, dict[str, float]]:
    """Print and return by how much methods of three sites are behind one site, for each set."""
    behind: dict = defaultdict(lambda: defaultdict(list))
    for (*case, method), run in runs.items():
        alone = runs.get((*case, "pooled"), {})
        if method in SPLIT and run.get("rmse") and alone.get("rmse"):
            behind[method][case[0]].append((run["rmse"], alone["rmse"]))
    table = {}
    for method, sets in behind.items():
        ratios = {name: np.mean(pairs, axis=0) for name, pairs in sets.items()}
        table[method] = {name: float(split / one - 1) for name, (split, one) in ratios.items()}
        print(f"{method} of {SITES} sites behind pooled on one, RMSE:")
        print("  " + ", ".join(f"{name} {value:+.1%}" for name, value in table[method].items()))
    return table


def write_record(out: Path, runs: dict, table: dict, options) -> None:
    with StandIns(STAND_INS):
        from cofill.metrics import Recorder

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
