"""Cooperative reconstruction: the paper's 50 WDBC repeats against eager PyTorch, and how it scales.

The PyTorch loop trains the same networks (autoencoders 10-15-10, links 15-15-10-10) for the same
epochs and batches; one repeat is timed and scaled. Both are timed in this run.
"""

from __future__ import annotations

import argparse
import resource
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np

from cofill.cooperate import CooperativeReconstruction, CooperativeSettings, fit_many
from cofill.metrics import Recorder, paper_forest
from cofill.nets import TrainSettings
from cofill.paths import keep_compiled_programs
from cofill.views import MultiView, Scaler, View, load

# No early stopping, so that both sides take the same steps.
LINKS = TrainSettings(epochs=100, batch_size=32, learning_rate=1e-3)


def split(dataset, seed):
    order = np.random.default_rng(seed).permutation(dataset.views.n_individuals)
    test = np.zeros(len(order), bool)
    test[order[: len(order) // 10]] = True
    return test


def wdbc(repeats):
    """Train and evaluate the faithful method, all repeats as one batch; return the seconds."""
    data = load("wdbc")
    began = time.perf_counter()
    tests = [split(data, seed) for seed in range(repeats)]
    makers = [
        CooperativeReconstruction(
            method="faithful", architecture="wdbc", link_training=LINKS, seed=seed
        )
        for seed in range(repeats)
    ]
    fit_many(makers, [data.views.take(~test) for test in tests])
    trained = time.perf_counter() - began
    for estimator, test, seed in zip(makers, tests, range(repeats), strict=True):
        there = data.views.take(test)
        for name, view in there.items():
            made = estimator.reconstruct(there, name)
            whole = data.views[name].cells
            forest = paper_forest(seed).fit(whole[~test], data.labels[~test])
            for rows in (view.cells, made):
                forest.predict(rows)
    return trained, time.perf_counter() - began


def wdbc_in_torch():
    """Train one repeat's networks as one would in eager PyTorch."""
    import torch

    torch.set_num_threads(1)  # the faster choice for networks this small
    settings = CooperativeSettings(method="faithful")
    data = load("wdbc")
    train = data.views.take(~split(data, 0))
    rows = {
        n: torch.tensor(Scaler.fit(v).encode(v.cells, dtype=np.float32)) for n, v in train.items()
    }

    def fit(network, x, y, training):
        optimizer = torch.optim.Adam(network.parameters(), lr=training.learning_rate)
        mean = torch.nn.MSELoss()
        for _ in range(training.epochs):
            for part in torch.randperm(len(x)).split(training.batch_size):
                optimizer.zero_grad()
                mean(network(x[part]), y[part]).backward()
                optimizer.step()

    def chain(*widths):
        layers = []
        for a, b in pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    began = time.perf_counter()
    codes = {}
    for name, x in rows.items():
        network = chain(10, 15, 10)
        fit(network, x, x, settings.encoder_training)
        with torch.no_grad():
            codes[name] = network[:2](x)
    for target in rows:
        for source in rows:
            if source != target:
                fit(chain(15, 15, 10, 10), codes[source], rows[target], LINKS)
    return time.perf_counter() - began


def invented(rows, views, features=8, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, 4)).astype(np.float32)
    made = []
    for k in range(views):
        cells = factors @ rng.normal(size=(4, features)).astype(np.float32)
        there = rng.random(rows) < 0.8
        made.append(View(f"v{k:02d}", np.flatnonzero(there), cells[there]))
    return MultiView(made)


def scaled(rows, views):
    """Return the seconds to fit and complete invented data with one pass of every network."""
    data = invented(rows, views)
    once = TrainSettings(epochs=1, batch_size=256)
    began = time.perf_counter()
    estimator = CooperativeReconstruction(
        method="faithful", encoder_training=once, link_training=once, on_unreconstructable="fill"
    )
    estimator.fit_complete(data)
    return time.perf_counter() - began


def joined():
    """Return the seconds a fourth view's joining takes, and those of fitting all four anew."""
    data = invented(2000, 4)
    settings = {"method": "masked", "seed": 0}
    CooperativeReconstruction(**settings).fit(data)  # compile
    began = time.perf_counter()
    CooperativeReconstruction(**settings).fit(data)
    anew = time.perf_counter() - began
    three = CooperativeReconstruction(**settings).fit(data.without_view("v03"))
    three.add_view(data["v03"])  # compile
    three = CooperativeReconstruction(**settings).fit(data.without_view("v03"))
    began = time.perf_counter()
    three.add_view(data["v03"])
    return time.perf_counter() - began, anew


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    keep_compiled_programs()
    repeats = 4 if options.quick else 50
    work = {"repeats": repeats, "torch": version("torch")}
    recorder = Recorder("bench_cooperate", seeds=[0], settings=work)

    def note(method, metric, where, value):
        recorder.add(method, metric, where, [float(value)])
        print(f"  {method} {metric} {where}: {value:.2f}", flush=True)

    wdbc(repeats)  # compile
    trained, whole = wdbc(repeats)
    note("cofill", "train_seconds", "wdbc", trained)
    note("cofill", "seconds", "wdbc", whole)
    torch_seconds = repeats * wdbc_in_torch()
    note("pytorch", "train_seconds", "wdbc", torch_seconds)
    note("pytorch", "times_cofill", "wdbc", torch_seconds / trained)
    join, anew = joined()
    note("cofill", "seconds", "join_a_view", join)
    note("cofill", "seconds", "fit_anew", anew)
    for rows in (1_000, 10_000) if options.quick else (10_000, 100_000, 1_000_000):
        scaled(rows, 4)
        note("cofill", "seconds", f"rows_{rows}", scaled(rows, 4))
    for views in (4, 8) if options.quick else (8, 16, 32):
        note("cofill", "seconds", f"views_{views}", scaled(10_000, views))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note("cofill", "peak_gib", "all", peak)
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
