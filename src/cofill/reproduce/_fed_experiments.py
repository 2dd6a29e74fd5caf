"""The experiments on modalities split by row: which there are, what was printed, how one runs.

Figures are those of Wu Zhenwei, "Multimodal clustering method based on federated learning" (Dalian
University of Technology, 2023), Tables 4.3 to 4.10. The thesis does not say on which of its images
its errors were measured; here they are test images that no training has seen (`_fed_judge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Any

import jax
import numpy as np

from cofill.completion._completer import Progress
from cofill.errors import SettingError
from cofill.federate import FederatedVIGAN, LocalSettings, RoundSettings, fit_sites_many
from cofill.metrics import Recorder
from cofill.reproduce._fed_judge import Judge
from cofill.views import MultiView, by_row, by_row_paired, load, pair_up

__all__ = ["FED_EXPERIMENTS", "FED_METHODS", "FedExperiment", "check_fed", "run_fed_experiment"]

FED_METHODS: Mapping[str, str] = {
    "fed-faithful": "the thesis's system: VIGAN, pre-trained at ten sites, then averaged in rounds",
    "central-faithful": "the same model trained on all sites' individuals in one place",
    "local-faithful": "the same model trained on the fifth site's individuals alone",
    "fed-pix2pix-faithful": "federated pix2pix on the pairs, as the thesis compares with it",
    "fed-best": "one network for all patterns with skip connections, pairs supervise, ten sites",
    "central-best": "the same network trained in one place",
    "local-best": "the same network trained on the fifth site alone",
}
_STRATEGIES = ("fedavg", "fedprox", "fedadam", "fedyogi", "scaffold")


@dataclass(frozen=True)
class FedExperiment:
    """One experiment; `published` as in the experiments on reconstruction."""

    name: str
    description: str
    protocol: str
    methods: Mapping[str, str]
    published: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 3


@dataclass(frozen=True, eq=False)
class Given:
    """The data of an experiment: training and test views, labels of the former, how many pairs."""

    train: MultiView
    test: MultiView
    labels: np.ndarray
    pairs: int
    singles: int
    rounds: int
    small: bool


def check_fed(experiment: FedExperiment, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods to run; raise a `SettingError` for one that is not there."""
    for name in methods or ():
        if name not in experiment.methods:
            raise SettingError(
                f"there is no method {name!r} in {experiment.name}; there is "
                f"{', '.join(experiment.methods)}"
            )
    return tuple(m for m in experiment.methods if methods is None or m in methods)


def run_fed_experiment(
    experiment: FedExperiment,
    recorder: Recorder,
    *,
    quick: bool,
    methods: Sequence[str],
    progress: Progress,
) -> None:
    """Run every method over all seeds and write its figures to the recorder."""
    given = _data(quick)
    job = _one_strategy if experiment.name == "fed-noniid" else _one_method
    done = dict.fromkeys(methods, 0.0)

    def run(name: str) -> dict[str, Any]:
        def tell(what: str, share: float) -> None:
            done[name] = share
            progress(f"{name}: {what}", sum(done.values()) / len(done))

        return job(name, given, recorder.seeds, tell)

    # On a GPU the programs are small and wait for each other; on a CPU they would only compete.
    together = 1 if jax.default_backend() == "cpu" else 3
    with ThreadPoolExecutor(together) as pool:
        found = dict(zip(methods, pool.map(run, methods), strict=True))
    for name, made in found.items():
        for (metric, where), values in made["figures"].items():
            recorder.add(name, metric, where, values)
    for note in ("curves", "images", "seconds", "notes"):
        kept = {name: made[note] for name, made in found.items() if made.get(note)}
        if kept:
            recorder.note(note, kept)
    progress("done", 1.0)


@lru_cache(maxsize=1)
def _data(quick: bool) -> Given:
    if not quick:
        train, test = load("mnist", part="train"), load("mnist", part="test")
        labels = np.asarray(train.labels)
        return Given(train.views, test.views, labels, 30_000, 15_000, 40, small=False)
    digits = load("digits")
    order = np.random.default_rng(0).permutation(digits.views.n_individuals)
    kept = np.sort(order[:1500])
    rest = np.sort(order[1500:])
    labels = np.asarray(digits.labels)[kept]
    return Given(digits.views.take(kept), digits.views.take(rest), labels, 750, 375, 12, small=True)


def _held(method: str, given: Given, seed: int) -> dict[str, MultiView]:
    """Return who holds what: ten sites, everything in one place, or the fifth site alone."""
    counts: dict[str, Any] = {
        "paired": given.pairs,
        "only": {"image": given.singles, "edge": given.singles},
        "key": seed,
    }
    if method.startswith("central"):
        return {"all": pair_up(given.train, **counts)}
    sites = by_row_paired(given.train, 10, **counts)
    return {"site_05": sites["site_05"]} if method.startswith("local") else sites


def _estimator(method: str, given: Given, seed: int) -> FederatedVIGAN:
    """Return the model of a method with its settings."""
    if method.endswith("best"):
        # One place takes ten sites' pairs an epoch, hence larger batches and moments that stay.
        central = method.startswith("central")
        batch = (16 if central else 8) if given.small else (64 if central else 4)
        local = LocalSettings(
            batch=batch, learning_rate=3e-3, moments="keep" if central else "reset"
        )
        network = {"fine": 0 if given.small else 16, "width": 64, "blocks": 3}
        return FederatedVIGAN(
            network=network, local=local, settings=RoundSettings(rounds=given.rounds), seed=seed
        )
    pretrain = {"autoencoder": 5, "cycle": 2} if given.small else {"autoencoder": 20, "cycle": 5}
    return FederatedVIGAN(
        model="pix2pix" if "pix2pix" in method else "vigan",
        network={"adversarial": "printed"},
        local=LocalSettings(
            batch=16 if given.small else 32,
            learning_rate=1e-3,
            first_moment=0.5,
            moments="reset",
        ),
        settings=RoundSettings(rounds=given.rounds, pretrain=pretrain),
        strategy="fedavg",
        seed=seed,
    )


def _one_method(method: str, given: Given, seeds: Sequence[int], tell: Progress) -> dict[str, Any]:
    estimators = [_estimator(method, given, seed) for seed in seeds]
    held = [_held(method, given, seed) for seed in seeds]
    return _measured(estimators, held, given, tell)


def _one_strategy(
    strategy: str, given: Given, seeds: Sequence[int], tell: Progress
) -> dict[str, Any]:
    """Train by one strategy where each site has few classes and works long alone."""
    plain = strategy == "scaffold"
    estimators = [
        FederatedVIGAN(
            network={"width": 64, "blocks": 2},
            local=LocalSettings(
                epochs=5,
                batch=16,
                optimizer="sgd" if plain else "adam",
                learning_rate=0.1 if plain else 3e-3,
                momentum=0.0 if plain else 0.9,
                moments="reset",
            ),
            settings=RoundSettings(rounds=given.rounds),
            strategy=strategy,
            seed=seed,
        )
        for seed in seeds
    ]
    held: list[Mapping[str, MultiView]] = []
    for seed in seeds:
        both = pair_up(
            given.train,
            paired=given.pairs,
            only={"image": given.singles, "edge": given.singles},
            key=seed,
        )
        place = {int(i): k for k, i in enumerate(given.train.ids)}
        labels = given.labels[[place[int(i)] for i in both.ids]]
        held.append(by_row(both, 10, key=seed, labels=labels, alpha=0.1, min_rows=10))
    return _measured(estimators, held, given, tell)


def _measured(
    estimators: list[FederatedVIGAN],
    held: list[Any],
    given: Given,
    tell: Progress,
) -> dict[str, Any]:
    """Fit and measure: the last round of all seeds, more rounds of the first one."""
    marks = sorted({1, *range(5, given.rounds + 1, 5), given.rounds})
    judge = Judge(given.test)
    curve: list[dict[str, Any]] = []
    images: dict[str, Any] = {}
    started = perf_counter()
    ends: list[float] = []

    def after(number: int, estimator: FederatedVIGAN) -> None:
        if estimator is not estimators[0]:
            return
        ends.append(perf_counter())
        if number in marks or number == 0:
            curve.append({"round": number, **judge.errors(estimator, modules=True)})
        if number in marks[2::2] or number == given.rounds:
            images[f"round {number}"] = judge.pictures(estimator)

    fit_sites_many(estimators, held, progress=tell, on_round=after)
    took = perf_counter() - started
    figures: dict[tuple[str, str], list[float]] = {}
    for estimator in estimators:
        for where, error in judge.errors(estimator).items():
            figures.setdefault(("mse255", where), []).append(error)
            figures.setdefault(("psnr", where), []).append(10 * np.log10(255**2 / error))
    later = np.diff(ends)
    return {
        "figures": figures,
        "curves": curve,
        "images": images,
        "seconds": {
            "all_seeds": round(took, 1),
            "a_round": round(float(np.median(later)), 3) if len(later) else None,
        },
        "notes": sorted({note for e in estimators for note in e.notes_}),
    }


_SETUP = (
    "60,000 training images and their edges: 30,000 pairs, 15,000 images alone, 15,000 edges "
    "alone, dealt evenly to ten sites; measured on the 10,000 test images (quick: 8×8 digits)"
)

FED_EXPERIMENTS: tuple[FedExperiment, ...] = (
    FedExperiment(
        "fed-vigan",
        "digits and their edges, completed by models trained in rounds (Tables 4.3 to 4.10)",
        _SETUP,
        FED_METHODS,
        {
            "fed-faithful/mse255/all": 1773.149,
            "fed-faithful/psnr/all": 15.643,
            "central-faithful/mse255/all": 1555.901,
            "central-faithful/psnr/all": 16.211,
            "local-faithful/mse255/all": 2676.680,
            "local-faithful/psnr/all": 13.854,
            "fed-pix2pix-faithful/mse255/all": 2337.901,
            "fed-pix2pix-faithful/psnr/all": 14.443,
        },
    ),
    FedExperiment(
        "fed-noniid",
        "the same digits at sites with few classes each, by strategy (not in the thesis)",
        f"{_SETUP}; classes dealt by Dirichlet(0.1), five local epochs a round",
        {name: f"sites' models combined by {name}, best network" for name in _STRATEGIES},
    ),
)
