"""Time rounds: ten sites beside Flower's simulation engine, a thousand sites, the paper's size.

Flower's clients call the same training as cofill's sites do: the difference is the engine. Flower's
simulation has a process per core; rounds are timed from one aggregation to the next, and the first
ones (compilation) are left out for both. Networks are small: for tables with ten columns per view,
and for 8 × 8 images; then the thesis's 28 × 28. Values are random: times do not depend on them.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

from cofill.federate import (
    CompletionNet,
    FederatedCompletion,
    LocalSettings,
    LocalWork,
    RoundSettings,
    Rows,
    Shape,
    initial_weights,
    plan_batches,
    train_sites,
)
from cofill.metrics import Recorder
from cofill.paths import keep_compiled_programs
from cofill.views import MultiView, View

SITES, PEOPLE = 10, 150
SMALL = {
    "tables": {"size": 10, "side": None, "width": 16, "blocks": 1, "patch": 1},
    "digits": {"size": 64, "side": 8, "width": 32, "blocks": 1, "patch": 2},
}


def site_rows(number, people, size, only=0.5):
    """Return one site's individuals: half with both modalities, a quarter with each alone."""
    rng = np.random.default_rng(number)
    present = np.ones((people, 2), dtype=bool)
    alone = int(people * (1 - only))
    present[np.arange(alone), np.arange(alone) % 2] = False
    known = np.repeat(present, size, axis=1)
    return Rows((rng.random((people, 2 * size)) * known).astype(np.float32), known, present)


def learner_of(size, side, width, blocks, patch):
    image = None if side is None else (side, side)
    shape = Shape(("image", "edge"), (size, size), image, bounded=True)
    return CompletionNet(shape, width=width, blocks=blocks, patch=patch, shift=0)


def site_views(number, people, size, side):
    """Return one site's individuals as views, with the same patterns as `site_rows`."""
    rows = site_rows(number, people, size)
    shape = (-1,) if side is None else (side, side)
    views = {}
    for k, name in enumerate(("image", "edge")):
        cells = rows.cells[:, k * size : (k + 1) * size].reshape(people, *shape)
        present = rows.present[:, k]
        views[name] = View(name, np.flatnonzero(present), cells[present])
    return MultiView(list(views.values()))


def fit_cofill(sites, people, case, local, settings, on_round):
    held = {f"site {k}": site_views(k, people, case["size"], case["side"]) for k in range(sites)}
    network = {name: case[name] for name in ("width", "blocks", "patch")} | {"shift": 0}
    model = FederatedCompletion(network=network, local=local, settings=settings)
    model.fit_sites(held, on_round=on_round)


def time_cofill(case, local, rounds, people=PEOPLE, secure=False):
    """Return the seconds of each round but the first two; other systems' sums are plain too."""
    ends = []
    fit_cofill(
        SITES,
        people,
        case,
        local,
        RoundSettings(rounds=rounds, secure=secure),
        lambda *_: ends.append(time.perf_counter()),
    )
    return np.diff(ends)[1:]


def time_flower(case, local, rounds):
    """Return the seconds of each round but the first two."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    ends = []

    class Timed(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            if failures:
                raise RuntimeError(f"{len(failures)} of Flower's clients failed: {failures[0]}")
            aggregated = super().aggregate_fit(server_round, results, failures)
            ends.append(time.perf_counter())
            return aggregated

    class Client(NumPyClient):
        def __init__(self, number):
            self.number = number

        def fit(self, parameters, config):
            learner = learner_of(**case)
            rows = _site(self.number, PEOPLE, case["size"])
            phase = learner.phases[-1]
            drawn = plan_batches(rows, phase, local, local.epochs, [self.number, config["round"]])
            work = LocalWork(parameters[0], None, rows, drawn, jax.random.key(self.number))
            (done,) = train_sites(learner, phase, local, [work])
            return [done.weights], drawn.steps, {}

    def client(context):
        return Client(int(context.node_config["partition-id"])).to_client()

    def server(context):
        start = initial_weights(learner_of(**case), jax.random.key(0))
        strategy = Timed(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=SITES,
            min_available_clients=SITES,
            initial_parameters=ndarrays_to_parameters([start]),
            on_fit_config_fn=lambda number: {"round": number},
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=client),
        num_supernodes=SITES,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return np.diff(ends)[1:]


@cache
def _site(number, people, size):
    """Return a site's rows, cached because Flower makes a new client for each round."""
    return site_rows(number, people, size)


def time_thousand_sites(rounds):
    """Return seconds per round, peak GiB, and the growth in GiB after the second round."""
    ends, peaks = [], []

    def after(number, model):
        ends.append(time.perf_counter())
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)

    fit_cofill(
        1000,
        40,
        SMALL["digits"],
        LocalSettings(batch=8, moments="reset"),
        RoundSettings(rounds=rounds, participation=0.05, secure=False),
        after,
    )
    return float(np.median(np.diff(ends)[1:])), peaks[-1], peaks[-1] - peaks[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    keep_compiled_programs()
    quick = options.quick
    rounds = 4 if quick else 12
    local = LocalSettings(batch=8, learning_rate=3e-3, moments="reset")
    recorder = Recorder(
        "bench_federate",
        seeds=list(range(rounds - 2)),
        settings={
            "what": "seconds a round of ten sites, repeats are rounds",
            "small": SMALL,
            "individuals_a_site": PEOPLE,
            "local": local,
            "flwr": version("flwr"),
            "ray": version("ray"),
        },
    )
    ratios = {}
    for name, case in SMALL.items():
        cofill = time_cofill(case, local, rounds)
        flower = time_flower(case, local, rounds)
        recorder.add("cofill", "seconds", name, cofill.tolist())
        recorder.add("flower", "seconds", name, flower.tolist())
        ratios[name] = float(np.median(flower) / np.median(cofill))
        print(
            f"{name}: {np.median(cofill):.4f} s a round of {SITES} sites, flower "
            f"{version('flwr')} {np.median(flower):.4f} s: {ratios[name]:.1f}×",
            flush=True,
        )
    many, peak, grown = time_thousand_sites(4 if quick else 20)
    print(
        f"1,000 sites, 50 a round: {many:.3f} s a round, peak {peak:.2f} GiB, "
        f"{grown:.3f} GiB of it after the second round",
        flush=True,
    )
    people = 600 if quick else 6000
    big = {"size": 784, "side": 28, "width": 64, "blocks": 3, "patch": 4}
    paper = time_cofill(big, LocalSettings(batch=32, moments="reset"), 3, people)
    print(f"28 × 28, {people:,} individuals a site: {paper[-1]:.1f} s a round", flush=True)
    recorder.note("ratio", ratios)
    recorder.note(
        "thousand_sites", {"seconds": many, "peak_gib": peak, "grown_gib": grown, "cohort": 50}
    )
    recorder.note("paper_size", {"seconds": float(paper[-1]), "individuals_a_site": people})
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
