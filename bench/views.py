"""Wide tables of which people lack whole views: every method that one owner may use, side by side.

    python -m bench views [--methods pooled,knn,central] [--seeds 3]

Thirty per cent of each view's rows are hidden. Errors are squared, of hidden rows, over the
variance of their column, averaged over columns and views. ``classes`` is made up: three views of a
hundred classes with sixteen people each. Scene-15 and TCGA were not looked at while views that a
row lacks came to be told as a whole; Multiple Features and ``classes`` were.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from cofill.completion import make
from cofill.metrics import Recorder
from cofill.views import MultiView, drop_rows, load
from cofill_papers import table

SETS = ("classes", "mfdd", "scene15", "tcga_brca")
METHODS = ("pooled", "knn", "central", "central-ridge", "mean")


def many_classes(seed: int = 1, classes: int = 100, each: int = 16, columns: int = 64) -> MultiView:
    """Return histograms that are told by a person's class."""
    rng = np.random.default_rng(seed)
    of_person = np.repeat(np.arange(classes), each)
    views = {}
    for name in "abc":
        centres = rng.gamma(0.6, size=(classes, columns))
        centres /= centres.sum(axis=1, keepdims=True)
        cells = rng.gamma(40 * centres[of_person] + 0.05)
        views[name] = cells / cells.sum(axis=1, keepdims=True)
    return MultiView.from_arrays(views)


def error_of(truth: MultiView, holed: MultiView, method: str, seed: int) -> float:
    """Return the mean over views and columns of squared errors in units of the variance."""
    settings = {"seed": seed} if method in ("pooled", "central") else {}
    done = make(method, **settings).fit_complete(holed)
    errors = []
    for name, view in truth.items():
        actual, filled = done.beside(truth, name, ~holed.present(name) & truth.present(name))
        variance = view.cells.var(axis=0)
        errors.append(((actual - filled) ** 2).mean(axis=0)[variance > 0] / variance[variance > 0])
    return float(np.mean([error.mean() for error in errors]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one seed of the smallest set")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    seeds = list(range(1 if options.quick else options.seeds))
    settings = {"missing": 0.3}
    recorder = Recorder("bench_views", seeds=seeds, settings=settings)
    for name in ["classes"] if options.quick else options.sets.split(","):
        truth = many_classes() if name == "classes" else load(name).views
        for seed in seeds:
            holed, _ = drop_rows(truth, 0.3, key=seed)
            for method in options.methods.split(","):
                began = time.process_time()
                error = error_of(truth, holed, method, seed)
                seconds = time.process_time() - began
                recorder.add(method, "error", name, error, seed=seed)
                recorder.add(method, "cpu_s", name, seconds, seed=seed)
                print(f"{name}, {method}, seed {seed}: {error:.4f} in {seconds:.0f} s", flush=True)
    record = recorder.finish()
    print(table(record, metrics=["error"]))
    if options.out:
        record.write(options.out)


if __name__ == "__main__":
    main()
