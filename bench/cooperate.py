"""Time cooperative reconstruction: 50 WDBC repeats beside eager PyTorch, and growing sizes.

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
from cofill.metrics import Recorder
from cofill.nets import TrainSettings
from cofill.paths import keep_compiled_programs
from cofill.views import MultiView, Scaler, View, load
from cofill_papers import paper_forest

# No early stopping, so that both sides take the same steps.
LINKS = TrainSettings(epochs=100, batch_size=32, learning_rate=1e-3)


def draw_test_rows(dataset, seed):
    order = np.random.default_rng(seed).permutation(dataset.views.n_individuals)
    test = np.zeros(len(order), bool)
    test[order[: len(order) // 10]] = True
    return test


def time_wdbc(repeats):
    """Return the seconds to train, and to train and evaluate, all repeats as one batch."""
    data = load("wdbc")
    started = time.perf_counter()
    tests = [draw_test_rows(data, seed) for seed in range(repeats)]
    estimators = [
        CooperativeReconstruction(
            method="faithful", architecture="wdbc", link_training=LINKS, seed=seed
        )
        for seed in range(repeats)
    ]
    fit_many(estimators, [data.views.take(~test) for test in tests])
    trained = time.perf_counter() - started
    for estimator, test, seed in zip(estimators, tests, range(repeats), strict=True):
        test_views = data.views.take(test)
        for name, view in test_views.items():
            reconstructed = estimator.reconstruct(test_views, name)
            cells = data.views[name].cells
            forest = paper_forest(seed).fit(cells[~test], data.labels[~test])
            for rows in (view.cells, reconstructed):
                forest.predict(rows)
    return trained, time.perf_counter() - started


def time_wdbc_in_torch():
    """Return the seconds to train one repeat's networks in eager PyTorch."""
    import torch

    torch.set_num_threads(1)  # the faster choice for networks this small
    settings = CooperativeSettings(method="faithful")
    data = load("wdbc")
    train = data.views.take(~draw_test_rows(data, 0))
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

    def perceptron(*widths):
        layers = []
        for a, b in pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    started = time.perf_counter()
    codes = {}
    for name, x in rows.items():
        network = perceptron(10, 15, 10)
        fit(network, x, x, settings.encoder_training)
        with torch.no_grad():
            codes[name] = network[:2](x)
    for target in rows:
        for source in rows:
            if source != target:
                fit(perceptron(15, 15, 10, 10), codes[source], rows[target], LINKS)
    return time.perf_counter() - started


def draw_views(rows, views, features=8, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, 4)).astype(np.float32)
    drawn = []
    for k in range(views):
        cells = factors @ rng.normal(size=(4, features)).astype(np.float32)
        observed = rng.random(rows) < 0.8
        drawn.append(View(f"v{k:02d}", np.flatnonzero(observed), cells[observed]))
    return MultiView(drawn)


def time_size(rows, views):
    """Return the seconds to fit and complete random data with one pass of every network."""
    data = draw_views(rows, views)
    one_pass = TrainSettings(epochs=1, batch_size=256)
    started = time.perf_counter()
    estimator = CooperativeReconstruction(
        method="faithful",
        encoder_training=one_pass,
        link_training=one_pass,
        on_unreconstructable="fill",
    )
    estimator.fit_complete(data)
    return time.perf_counter() - started


def time_added_view():
    """Return the seconds to add a fourth view, and to fit all four from scratch."""
    data = draw_views(2000, 4)
    settings = {"method": "masked", "seed": 0}
    CooperativeReconstruction(**settings).fit(data)  # compile
    started = time.perf_counter()
    CooperativeReconstruction(**settings).fit(data)
    scratch = time.perf_counter() - started
    three = CooperativeReconstruction(**settings).fit(data.without_view("v03"))
    three.add_view(data["v03"])  # compile
    three = CooperativeReconstruction(**settings).fit(data.without_view("v03"))
    started = time.perf_counter()
    three.add_view(data["v03"])
    return time.perf_counter() - started, scratch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    keep_compiled_programs()
    repeats = 4 if options.quick else 50
    work = {"repeats": repeats, "torch": version("torch")}
    recorder = Recorder("bench_cooperate", seeds=[0], settings=work)

    def add(method, metric, where, value):
        recorder.add(method, metric, where, [float(value)])
        print(f"  {method} {metric} {where}: {value:.2f}", flush=True)

    time_wdbc(repeats)  # compile
    trained, evaluated = time_wdbc(repeats)
    add("cofill", "train_seconds", "wdbc", trained)
    add("cofill", "seconds", "wdbc", evaluated)
    torch_seconds = repeats * time_wdbc_in_torch()
    add("pytorch", "train_seconds", "wdbc", torch_seconds)
    add("pytorch", "times_cofill", "wdbc", torch_seconds / trained)
    added, scratch = time_added_view()
    add("cofill", "seconds", "join_a_view", added)
    add("cofill", "seconds", "fit_anew", scratch)
    for rows in (1_000, 10_000) if options.quick else (10_000, 100_000, 1_000_000):
        time_size(rows, 4)  # compile
        add("cofill", "seconds", f"rows_{rows}", time_size(rows, 4))
    for views in (4, 8) if options.quick else (8, 16, 32):
        add("cofill", "seconds", f"views_{views}", time_size(10_000, views))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    add("cofill", "peak_gib", "all", peak)
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
