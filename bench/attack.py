"""Time attacks on a mean: growPU beside the same loop in eager PyTorch, a million sparse records.

Both sides of growPU take the same steps of fine-tuning, the longest stage: label a batch of 500 by
the classifier, weight it, one step of gradient descent. cofill trains fifteen runs as one batch, as
the experiment does: five seeds with their own records, and three means each. PyTorch trains one
run. Times are per run and step.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from cofill.attack import Discriminant, GrowSettings, train_classifiers
from cofill.metrics import Recorder
from cofill.paths import keep_compiled_programs

SEEDS, MEANS, RECORDS, FEATURES, BATCH = 5, 3, 10_000, 784, 500


def draw_records(seed=0, count=RECORDS, features=FEATURES):
    rng = np.random.default_rng(seed)
    truth = np.arange(count) % 2 == 0
    shift = 0.3 * rng.normal(size=features)
    x = np.tanh(rng.normal(size=(count, features)) + np.where(truth[:, None], shift, -shift))
    return x.astype(np.float32), truth


def time_cofill(classifier, steps):
    """Return seconds per run and step; pre-training and growth take one step each."""
    sets, truths = zip(*[draw_records(seed) for seed in range(SEEDS)], strict=True)
    records, rng = jnp.stack(sets), np.random.default_rng(0)
    seed_of_run = np.repeat(np.arange(SEEDS), MEANS)
    exact = np.stack([x[truth].mean(axis=0) for x, truth in zip(sets, truths, strict=True)])
    means = exact[seed_of_run] + np.tile([0, 0.01, 0.04], SEEDS)[:, None] * rng.laplace(
        size=FEATURES
    )
    keys = jax.vmap(jax.random.key)(seed_of_run)
    settings = GrowSettings(classifier=classifier, t_pre=1, t_grow=1, t_tune=steps)

    def train_once():
        started = time.perf_counter()
        train_classifiers(settings, records, seed_of_run, keys, positives=means[:, None])
        return time.perf_counter() - started

    train_once()  # compile
    return train_once() / (SEEDS * MEANS) / (steps + 2)


def time_torch(classifier, steps):
    """Return seconds per step of one run, with one thread or all, whichever is faster."""
    import torch
    from torch import nn

    x, truth = draw_records()
    rows, mean = torch.from_numpy(x), torch.from_numpy(x[truth].mean(axis=0))[None]
    best, most = np.inf, torch.get_num_threads()
    for threads in (1, most):  # all threads last, which `time_products` needs
        torch.set_num_threads(threads)
        hidden = int(classifier.partition("-")[2] or 0)
        layers = (
            [nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Dropout(0.2), nn.Linear(hidden, 1)]
            if hidden
            else [nn.Linear(FEATURES, 1)]
        )
        network = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
        softplus = nn.Softplus()

        def step(network=network, optimizer=optimizer, softplus=softplus):
            batch = rows[torch.randint(RECORDS, (BATCH,))]
            network.eval()
            with torch.no_grad():
                positive = network(batch)[:, 0] > 0
            network.train()
            count = positive.sum()
            w_n = (count + 1) / torch.clamp(BATCH - count, min=1)
            w_p = 0.5 if count / BATCH >= 0.55 else 1.0
            if count / BATCH <= 0.45:
                w_n = w_n / 2
            values = network(torch.cat([mean, batch]))[:, 0]
            scores = values[1:]
            losses = torch.where(positive, w_p * softplus(-scores), w_n * softplus(scores))
            loss = 0.5 / (count + 1) * (w_p * softplus(-values[0]) + losses.sum())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        for _ in range(10):
            step()
        started = time.perf_counter()
        for _ in range(steps):
            step()
        best = min(best, (time.perf_counter() - started) / steps)
    return best


def time_products(classifier, steps):
    """Return seconds of the two matrix products with a batch that every step needs."""
    import torch

    hidden = int(classifier.partition("-")[2] or 1)
    batch, weights = torch.randn(BATCH, FEATURES), torch.randn(hidden, FEATURES)
    slopes = torch.randn(BATCH, hidden)
    started = time.perf_counter()
    for _ in range(steps):
        batch @ weights.T
        slopes.T @ batch
    return (time.perf_counter() - started) / steps


def time_sparse(count):
    """Return seconds, accuracy and peak GiB of an attack on `count` sparse records."""
    rng = np.random.default_rng(0)
    truth = rng.random(count) < 0.3
    per_row = 6
    chosen = np.where(truth[:, None], rng.integers(0, 120, (count, per_row)),
                     rng.integers(40, 200, (count, per_row)))  # fmt: skip
    columns = np.sort(chosen.astype(np.int32), axis=1)
    indices = np.arange(0, count * per_row + 1, per_row)
    x = sparse.csr_array((np.ones(count * per_row), columns.ravel(), indices), (count, 200))
    x.sum_duplicates()
    mean = np.asarray(x[np.flatnonzero(truth)].mean(axis=0)).ravel()
    started = time.perf_counter()
    attack = Discriminant().fit(x, mean=mean, prior=0.3)
    seconds = time.perf_counter() - started
    accuracy = float((attack.labels_ == truth).mean())
    return seconds, accuracy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sparse", type=int)
    options = parser.parse_args()
    if options.sparse:  # in a process of its own, to measure its peak memory
        print(*time_sparse(options.sparse))
        return
    keep_compiled_programs()
    steps = 100 if options.quick else 500
    count = 50_000 if options.quick else 1_000_000
    work = {
        "seeds": SEEDS,
        "means": MEANS,
        "steps": steps,
        "records": count,
        "torch": version("torch"),
    }
    recorder = Recorder("bench_attack", seeds=[0], settings=work)

    def add(method, metric, where, value):
        recorder.add(method, metric, where, [float(value)])
        print(f"  {method} {metric} {where}: {value:.5g}", flush=True)

    for classifier in ("linear", "3lp-300"):
        cofill_s, torch_s = time_cofill(classifier, steps), time_torch(classifier, steps)
        add("cofill", "ms_per_step", classifier, 1e3 * cofill_s)
        add("pytorch", "ms_per_step", classifier, 1e3 * torch_s)
        add("pytorch", "times_cofill", classifier, torch_s / cofill_s)
        add("pytorch", "ms_of_products", classifier, 1e3 * time_products(classifier, steps))
    output = subprocess.run(
        [sys.executable, "-m", "bench.attack", "--sparse", str(count)],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for metric, value in zip(("seconds", "accuracy", "peak_gib"), output, strict=True):
        add("discriminant", metric, "sparse", float(value))
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
