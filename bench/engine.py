"""Time cofill's training engine against an eager PyTorch loop and scikit-learn's MLPRegressor.

    .venv-bench/bin/python bench/engine.py --out bench/results/engine.json

Work: 50 repeats × 9 views, one 10-15-10 ReLU autoencoder each, 512 rows of correlated data a
view, batch 32, Adam 1e-3, 50 epochs. PyTorch and scikit-learn are timed on some repeats and scaled
linearly (the record says on how many). cofill's time is a whole `train` call with warm programs;
the first call, with its compilation, is recorded beside it.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from sklearn.neural_network import MLPRegressor

from cofill.nets import Autoencoder, SquaredError, Task, TrainSettings, recipe, split_keys, train

ROWS, FEATURES, HIDDEN, BATCH, RATE, VIEWS = 512, 10, 15, 32, 1e-3, 9


def views(count):
    """Correlated, standardised tables, like the views of WDBC."""
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(count):
        factors = rng.normal(size=(ROWS, 4))
        table = factors @ rng.normal(size=(4, FEATURES)) + 0.3 * rng.normal(size=(ROWS, FEATURES))
        tables.append(((table - table.mean(0)) / table.std(0)).astype(np.float32))
    return tables


def glorot_start(widths, *, key):
    """The start that scikit-learn makes, so that the final losses can be compared."""
    network = Autoencoder(widths, key=key)
    smaller = (widths[0] / (widths[0] + widths[1])) ** 0.5  # from He's bound to Glorot's
    return eqx.tree_at(
        lambda net: net.encoder.weights[0], network, replace_fn=lambda w: w * smaller
    )


def time_cofill(tables, repeats, epochs):
    settings = TrainSettings(epochs=epochs, batch_size=BATCH, learning_rate=RATE)
    made = recipe(glorot_start, (FEATURES, HIDDEN))

    def once(seed):
        began = time.perf_counter()
        keys = split_keys(jax.random.key(seed), repeats * len(tables))
        tasks = [Task(made, tables[i % len(tables)], key=key) for i, key in enumerate(keys)]
        trained = train(tasks, SquaredError(), settings)
        return time.perf_counter() - began, float(np.mean(trained.final_loss))

    first, _ = once(0)
    runs = [once(seed) for seed in (1, 2, 3)]
    return {
        "first_seconds": first,
        "runs_seconds": [seconds for seconds, _ in runs],
        "seconds": float(np.median([seconds for seconds, _ in runs])),
        "final_loss": float(np.mean([loss for _, loss in runs])),
        "networks_timed": repeats * len(tables),
    }


def time_torch(tables, repeats, epochs, threads):
    import torch

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    losses = []

    def fit(table, epochs):
        x_all = torch.from_numpy(table)
        net = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, FEATURES)
        )
        for layer in (net[0], net[2]):  # the same start as the others
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        mean = torch.nn.MSELoss()
        last = 0.0
        for epoch in range(epochs):
            order = torch.randperm(len(x_all))
            total = 0.0
            for start in range(0, len(x_all), BATCH):
                x = x_all[order[start : start + BATCH]]
                optimizer.zero_grad()
                loss = mean(net(x), x)
                loss.backward()
                optimizer.step()
                if epoch == epochs - 1:
                    total += loss.item() * len(x)
            last = total / len(x_all)
        return last

    fit(tables[0], 2)
    began = time.perf_counter()
    for _ in range(repeats):
        losses += [fit(table, epochs) for table in tables]
    return {
        "seconds": time.perf_counter() - began,
        "threads": torch.get_num_threads(),
        "final_loss": float(np.mean(losses)),
        "networks_timed": repeats * len(tables),
    }


def time_sklearn(tables, repeats, epochs):
    losses = []
    began = time.perf_counter()
    for repeat in range(repeats):
        for table in tables:
            model = MLPRegressor(
                hidden_layer_sizes=(HIDDEN,),
                activation="relu",
                solver="adam",
                alpha=0.0,
                batch_size=BATCH,
                learning_rate_init=RATE,
                max_iter=epochs,
                n_iter_no_change=epochs,
                tol=0.0,
                random_state=repeat,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(table, table)
            losses.append(2 * model.loss_)  # scikit-learn reports half the squared error
    return {
        "seconds": time.perf_counter() - began,
        "final_loss": float(np.mean(losses)),
        "networks_timed": repeats * len(tables),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the JSON record")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds")
    options = parser.parse_args()
    repeats, sample, epochs, count = (2, 1, 2, 2) if options.quick else (50, 3, 50, VIEWS)
    tables = views(count)
    networks, steps = repeats * count, epochs * ROWS // BATCH

    methods = {"cofill": time_cofill(tables, repeats, epochs)}
    try:
        import torch

        before = torch.get_num_threads()
        methods["pytorch, default threads"] = time_torch(tables, sample, epochs, before)
        methods["pytorch, 1 thread"] = time_torch(tables, sample, epochs, 1)
    except ImportError:
        print("torch is not installed: see bench/requirements.txt", file=sys.stderr)
    methods["scikit-learn"] = time_sklearn(tables, sample, epochs)

    for method in methods.values():
        method["seconds_for_all"] = method["seconds"] * networks / method["networks_timed"]
        method["us_per_network_step"] = method["seconds_for_all"] / networks / steps * 1e6
    ours = methods["cofill"]["seconds_for_all"]
    for method in methods.values():
        method["times_cofill"] = method["seconds_for_all"] / ours
    eager = [m["times_cofill"] for name, m in methods.items() if name.startswith("pytorch")]
    packages = ("cofill", "jax", "equinox", "optax", "numpy", "scikit-learn", "torch")
    record = {
        "what": __doc__.splitlines()[0],
        "work": {
            "networks": networks,
            "epochs": epochs,
            "rows": ROWS,
            "batch": BATCH,
            "rate": RATE,
            "widths": [FEATURES, HIDDEN, FEATURES],
            "steps_per_network": steps,
        },
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "processor": _processor(),
            "backend": jax.default_backend(),
            "load_at_end": os.getloadavg()[0],
        },
        "versions": {name: _version(name) for name in packages}
        | {"python": sys.version.split()[0]},
        "methods": methods,
        "ratios": {
            "pytorch (the faster)": min(eager) if eager else None,
            "scikit-learn": methods["scikit-learn"]["times_cofill"],
        },
    }
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{networks} networks × {steps} steps; others timed on {sample * count} and scaled")
    print(f"{'method':26}{'seconds':>10}{'µs/step':>10}{'× cofill':>10}{'loss':>9}")
    for name, m in methods.items():
        print(
            f"{name:26}{m['seconds_for_all']:10.2f}{m['us_per_network_step']:10.2f}"
            f"{m['times_cofill']:10.1f}{m['final_loss']:9.4f}"
        )
    print(f"cofill's first call, with compilation: {methods['cofill']['first_seconds']:.2f} s")


def _version(name):
    try:
        return version(name)
    except ImportError:
        return None


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    main()
