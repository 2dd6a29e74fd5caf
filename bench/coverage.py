"""Measure how often intervals of 90 % hold a hidden cell: by predicted value, by what is missing.

    python -m bench.coverage --out results/bench_coverage.json [--sets wine,airfoil] [--seeds 3]
        [--jobs 16]

Cells of UCI tables are hidden as in `bench.tables` (MCAR, 30 %, columns scaled to 0…1). A hidden
number counts in the fifth of its column's predictions that it lies in, and in the group of its row:
how many cells of the row are missing, and which, where at least `LEAST` hidden cells have the same
pattern. Coverage of a group is over all columns and seeds. numpy, scipy and scikit-learn are
enough.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from bench.tables import StandIns, features_of, hide, read_table

LEVEL = 0.9
LEAST = 300


def cover(case: tuple[str, int]) -> dict[str, tuple[int, int]]:
    """Return hidden cells and those in their intervals, by group, of one table and seed."""
    name, seed = case
    with StandIns():
        from cofill.impute import fit_table
    actual, coded = read_table(name)
    hidden = hide(actual, "MCAR", 0.3, seed)
    cells = np.where(hidden, np.nan, actual)
    model = fit_table(cells, features_of(cells, coded), seed=seed)
    lower, upper = model.intervals(cells, LEVEL)
    filled = model.predict(cells)
    missing = hidden.sum(axis=1)
    counts: dict = defaultdict(lambda: np.zeros(2, int))
    for k in np.flatnonzero(~coded):
        rows = np.flatnonzero(hidden[:, k])
        inside = (lower[rows, k] <= actual[rows, k]) & (actual[rows, k] <= upper[rows, k])
        fifths = np.argsort(np.argsort(filled[rows, k], kind="stable")) * 5 // max(len(rows), 1)
        for row, fifth, is_inside in zip(rows, fifths, inside, strict=True):
            pattern = "".join("01"[int(gone)] for gone in hidden[row])
            for group in (f"fifth {fifth + 1}", f"{missing[row]} missing", f"pattern {pattern}"):
                counts[group] += (1, is_inside)
    return {group: (int(n), int(held)) for group, (n, held) in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", default="wine,airfoil,compression,yeast,raisin,health")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="one small set, one seed")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.seeds = "raisin", 1
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    with StandIns():
        from cofill.metrics import Recorder
    names = options.sets.split(",")
    recorder = Recorder("coverage", seeds=[0], settings=vars(options) | {"out": str(options.out)})
    cases = [(name, seed) for name in names for seed in range(options.seeds)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context) as pool:
        results = list(pool.map(cover, cases))
    for name in names:
        totals: dict = defaultdict(lambda: np.zeros(2, int))
        for (other, _), groups in zip(cases, results, strict=True):
            if other == name:
                for group, counts in groups.items():
                    totals[group] += counts
        shares = {g: held / n for g, (n, held) in sorted(totals.items()) if n >= LEAST}
        for group, share in shares.items():
            recorder.add("pooled", "coverage", f"{name} {group}", float(share), seed=0)
        fifths = [share for group, share in shares.items() if group.startswith("fifth")]
        others = [share for group, share in shares.items() if not group.startswith("fifth")]
        print(
            f"{name:<12} fifths {' '.join(f'{s:.3f}' for s in fifths)}; {len(others)} patterns "
            f"{min(others, default=np.nan):.3f} to {max(others, default=np.nan):.3f}",
            flush=True,
        )
        if options.out:  # after every set: a run that is cut off keeps what it has reached
            recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
