"""Compare what sites that hold other people of the same table can tell of missing cells.

    python -m bench by_row
    python -m bench.by_row --out results/bench_by_row.json [--sets raisin,yacht] [--seeds 3]
        [--minutes 20] [--once]

Columns are scaled to 0…1, 30 % of the cells are hidden (`cells`), or 30 % of the thirds of columns
(`views`), and people are dealt to sites: five alike, or ten of which half have thirty people and
the others ever more (`uneven`). The error is the root mean square over hidden numbers; codes are
counted right or wrong. Side by side: `pooled` on one table, each site `alone` with the same
imputer, `federated` as it is by default, and the `network` that it trains on request (at five
sites, for the first seed: it takes long). Sets of `ONCE` are looked at when everything is frozen.
Figures are written after every case; `--minutes` ends a run, and the next one goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from bench.tables import features_of, hide, read_table
from sklearn import datasets

from cofill.federate import FederatedCompletion
from cofill.impute import fit_table
from cofill.metrics import Recorder
from cofill.views import MultiView, View

DEVELOPMENT = ("raisin", "yacht", "health", "credit", "wine", "letter")
ONCE = ("wdbc", "digits")
MOST_PEOPLE = 900
LAYOUTS = ("five", "uneven")
SMALL_SITE = 30


def read_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cells scaled to 0…1 and which columns hold codes, of at most `MOST_PEOPLE`."""
    if name in ONCE:
        load = datasets.load_breast_cancer if name == "wdbc" else datasets.load_digits
        cells = np.asarray(load()["data"], dtype=np.float64)
        cells = cells[:, cells.std(axis=0) > 0]
        cells = (cells - cells.min(axis=0)) / (cells.max(axis=0) - cells.min(axis=0))
        coded = np.zeros(cells.shape[1], bool)
    else:
        cells, coded = read_table(name)
    order = np.random.default_rng(0).permutation(len(cells))
    return cells[order[:MOST_PEOPLE]], coded


def hide_thirds(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Return which cells are hidden: thirds of the columns, of nobody all."""
    rng = np.random.default_rng(seed)
    gone = rng.random((shape[0], 3)) < 0.3
    everything = np.flatnonzero(gone.all(axis=1))
    gone[everything, rng.integers(3, size=len(everything))] = False
    return np.repeat(gone, [len(part) for part in np.array_split(np.arange(shape[1]), 3)], axis=1)


def deal(people: int, layout: str, seed: int) -> list[np.ndarray]:
    """Return the positions of each site's people."""
    order = np.random.default_rng([seed, 7]).permutation(people)
    if layout == "five":
        return np.array_split(order, 5)
    large = np.arange(1, 6) / 15 * (people - 5 * SMALL_SITE)
    return np.split(order, np.cumsum([SMALL_SITE] * 5 + large.astype(int).tolist())[:-1])


def fill_federated(cells: np.ndarray, features: list, sites: list[np.ndarray], **settings):
    """Return the table as its sites complete it, and the cells of others that nobody missed."""
    width = 3 if len(features) >= 6 else 1
    parts = np.array_split(np.arange(len(features)), width)
    held = {}
    for number, rows in enumerate(sites):
        views = []
        for part in parts:
            known = ~np.isnan(cells[np.ix_(rows, part)]).all(axis=1)
            site_cells = cells[np.ix_(rows[known], part)]
            name = f"part {part[0]}"
            views.append(View(name, rows[known], site_cells, [features[k] for k in part]))
        held[f"site {number}"] = MultiView(views, more_ids=rows)
    model = FederatedCompletion(**settings).fit_sites(held)
    filled = cells.copy()
    for done in model.complete_sites(held).values():
        at = np.asarray(done.views.ids, dtype=int)
        for part in parts:
            filled[np.ix_(at, part)] = done.cells[f"part {part[0]}"]
    return filled


def fill_alone(cells: np.ndarray, features: list, sites: list[np.ndarray], seed: int) -> np.ndarray:
    """Return the table as every site fills its own people's cells."""
    filled = cells.copy()
    for rows in sites:
        filled[rows] = fit_table(cells[rows], features, seed=seed).predict(cells[rows])
    return filled


def run_case(name: str, holes: str, seed: int, done: dict[str, dict]) -> None:
    """Fill one table in every way that is not done yet; figures go into `done`."""
    actual, coded = read_set(name)
    hidden = (
        hide(actual, "MCAR", 0.3, seed) if holes == "cells" else hide_thirds(actual.shape, seed)
    )
    cells, features = np.where(hidden, np.nan, actual), features_of(actual, coded)
    jobs = {"pooled": lambda: fit_table(cells, features, seed=seed).predict(cells)}
    for layout in LAYOUTS:
        sites = deal(len(cells), layout, seed)
        jobs[f"federated-{layout}"] = lambda s=sites: fill_federated(cells, features, s, seed=seed)
        jobs[f"alone-{layout}"] = lambda s=sites: fill_alone(cells, features, s, seed)
    if seed == 0:
        five = deal(len(cells), "five", seed)
        jobs["network-five"] = lambda: fill_federated(
            cells, features, five, seed=seed, model="network", secure=False
        )
    for method, fill in jobs.items():
        key = f"{method}/{name}-{holes}/{seed}"
        if key in done:
            continue
        clock = time.process_time()
        filled = fill()
        gaps, right = (filled - actual)[:, ~coded], (filled == actual)[:, coded]
        figures = {"rmse": float(np.sqrt(np.mean(gaps[hidden[:, ~coded]] ** 2)))}
        if coded.any():
            figures["accuracy"] = float(np.mean(right[hidden[:, coded]]))
        done[key] = figures | {"processor_seconds": time.process_time() - clock}
        print(key, {metric: round(value, 4) for metric, value in done[key].items()}, flush=True)


def make_record(done: dict[str, dict], seeds: int):
    """Return the record of all figures, with how far each method is from pooled."""
    recorder = Recorder("by_row", seeds=range(seeds), settings={"most_people": MOST_PEOPLE})
    figures = defaultdict(dict)
    for key, values in done.items():
        method, where, seed = key.split("/")
        for metric, value in values.items():
            figures[method, metric, where][int(seed)] = value
        pooled = done.get(f"pooled/{where}/{seed}")
        if pooled is not None:
            ratio = values["rmse"] / pooled["rmse"]
            figures[method, "ratio", where][int(seed)] = ratio
    for (method, metric, where), by_seed in figures.items():
        recorder.add(method, metric, where, [by_seed.get(seed) for seed in range(seeds)])
    recorder.note("once", list(ONCE))
    return recorder.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", default=",".join(DEVELOPMENT))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--once", action="store_true", help="the sets that nothing was built on")
    parser.add_argument("--quick", action="store_true", help="one small table")
    options = parser.parse_args()
    names = ["yacht"] if options.quick else options.sets.split(",")
    journal = None if options.out is None else options.out.with_suffix(".journal")
    done = {} if journal is None or not journal.exists() else json.loads(journal.read_text())
    clock = time.monotonic()
    for seed in range(1 if options.quick else options.seeds):
        for name in ONCE if options.once else names:
            for holes in ("cells", "views"):
                if time.monotonic() - clock > 60 * options.minutes:
                    return
                run_case(name, holes, seed, done)
                if options.out is not None and journal is not None:
                    journal.write_text(json.dumps(done))
                    make_record(done, options.seeds).write(options.out)


if __name__ == "__main__":
    main()
