"""Time cofill's training engine against an eager PyTorch loop and scikit-learn's MLPRegressor.

    python -m bench engine

Work: 50 repeats × 9 views, one 10-15-10 ReLU autoencoder each, 512 rows of correlated data per
view, batch 32, Adam 1e-3, 50 epochs. PyTorch and scikit-learn are timed on some repeats and scaled
linearly (the record says on how many). cofill's time is that of a `train` call
whose programs are compiled; the first call, with its compilation, is recorded separately.
"""

import argparse
import os
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from sklearn.neural_network import MLPRegressor

from cofill.metrics import Recorder
from cofill.nets import Autoencoder, SquaredError, Task, TrainSettings, recipe, split_keys, train

ROWS, FEATURES, HIDDEN, BATCH, RATE, VIEWS = 512, 10, 15, 32, 1e-3, 9


def views(count):
    """Return correlated, standardised tables, like the views of WDBC."""
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(count):
        factors = rng.normal(size=(ROWS, 4))
        table = factors @ rng.normal(size=(4, FEATURES)) + 0.3 * rng.normal(size=(ROWS, FEATURES))
        tables.append(((table - table.mean(0)) / table.std(0)).astype(np.float32))
    return tables


def glorot_start(widths, *, key):
    """Return an autoencoder with scikit-learn's initial weights, so that losses can be compared."""
    network = Autoencoder(widths, key=key)
    smaller = (widths[0] / (widths[0] + widths[1])) ** 0.5  # from He's bound to Glorot's
    return eqx.tree_at(
        lambda net: net.encoder.weights[0], network, replace_fn=lambda w: w * smaller
    )


def time_cofill(tables, repeats, epochs):
    settings = TrainSettings(epochs=epochs, batch_size=BATCH, learning_rate=RATE)
    build = recipe(glorot_start, (FEATURES, HIDDEN))

    def train_once(seed):
        started = time.perf_counter()
        keys = split_keys(jax.random.key(seed), repeats * len(tables))
        tasks = [Task(build, tables[i % len(tables)], key=key) for i, key in enumerate(keys)]
        trained = train(tasks, SquaredError(), settings)
        return time.perf_counter() - started, trained.final_loss

    first, _ = train_once(0)
    runs = [train_once(seed) for seed in (1, 2, 3)]
    return {
        "first_seconds": first,
        "runs_seconds": [seconds for seconds, _ in runs],
        "seconds": float(np.median([seconds for seconds, _ in runs])),
        "final_loss": np.concatenate([loss for _, loss in runs]),
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
        for layer in (net[0], net[2]):  # the same initial weights as the other tools
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
    started = time.perf_counter()
    for _ in range(repeats):
        losses += [fit(table, epochs) for table in tables]
    return {
        "seconds": time.perf_counter() - started,
        "threads": torch.get_num_threads(),
        "final_loss": np.array(losses),
        "networks_timed": repeats * len(tables),
    }


def time_sklearn(tables, repeats, epochs):
    losses = []
    started = time.perf_counter()
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
        "seconds": time.perf_counter() - started,
        "final_loss": np.array(losses),
        "networks_timed": repeats * len(tables),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds")
    options = parser.parse_args()
    repeats, sample, epochs, count = (2, 1, 2, 2) if options.quick else (50, 3, 50, VIEWS)
    tables = views(count)
    networks, steps = repeats * count, epochs * ROWS // BATCH
    work = {
        "networks": networks,
        "steps_per_network": steps,
        "epochs": epochs,
        "rows": ROWS,
        "batch": BATCH,
        "learning_rate": RATE,
        "widths": [FEATURES, HIDDEN, FEATURES],
        "others_timed_on": sample * count,
        "torch": version("torch"),
    }
    recorder = Recorder("bench_engine", seeds=[0], settings=work)
    import torch

    methods = {"cofill": time_cofill(tables, repeats, epochs)}
    default = time_torch(tables, sample, epochs, torch.get_num_threads())
    single = time_torch(tables, sample, epochs, 1)
    methods["pytorch"] = min(default, single, key=lambda m: m["seconds"])  # the faster of the two
    methods["sklearn"] = time_sklearn(tables, sample, epochs)

    for method in methods.values():
        method["seconds"] *= networks / method["networks_timed"]
    print(f"{networks} networks × {steps} steps; others timed on {sample * count} and scaled")
    print(f"{'method':10}{'seconds':>10}{'µs/step':>10}{'× cofill':>10}{'final loss':>18}")
    for name, m in methods.items():
        each = m["seconds"] / networks / steps * 1e6
        ratio = m["seconds"] / methods["cofill"]["seconds"]
        mean, spread = np.mean(m["final_loss"]), np.std(m["final_loss"], ddof=1)
        for metric, value in (
            ("seconds", m["seconds"]),
            ("us_per_step", each),
            ("times_cofill", ratio),
            ("final_loss", mean),
            ("final_loss_std", spread),
        ):
            recorder.add(name, metric, "all", [float(value)])
        loss = f"{mean:.4f} ± {spread:.4f}"
        print(f"{name:10}{m['seconds']:10.2f}{each:10.2f}{ratio:10.1f}{loss:>18}")
    first = methods["cofill"]["first_seconds"]
    recorder.add("cofill", "first_seconds", "all", [first])
    recorder.note("load_at_end", os.getloadavg()[0])
    print(f"cofill's first call, with compilation: {first:.2f} s")
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
