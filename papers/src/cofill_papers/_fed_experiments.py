"""The experiments on modalities split by row: which there are, what was printed, how one runs.

Figures are those of Wu Zhenwei, "Multimodal clustering method based on federated learning" (Dalian
University of Technology, 2023), Tables 4.3 to 4.10. The thesis does not say on which of its images
its errors were measured; here they are test images that no training has seen
(`cofill.federate.PairScores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from cofill.completion import Progress
from cofill.federate import (
    FederatedCompletion,
    LocalSettings,
    PairScores,
    RoundSettings,
    fit_sites_many,
)
from cofill.metrics import Recorder, ResultRecord, psnr
from cofill.views import MultiView, by_row, pair_up
from cofill_papers._fed_clusters import CLUSTERED, cluster_method
from cofill_papers._fed_pictures import fed_pictures
from cofill_papers._fed_setup import Given, data_of, estimator_of, held_by

__all__ = ["FED_EXPERIMENTS", "FED_METHODS", "FedExperiment", "run_fed_experiment"]

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
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Squared error of generated test images (scale 0 to 255)": ("mse255",),
        "Peak signal-to-noise ratio (dB)": ("psnr",),
        "Clusters against the true classes (fractions)": ("acc", "purity", "ari"),
        "Clusters against those of the real data": ("mi", "nmi"),
    }

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        """Return the pictures of a record by name."""
        return fed_pictures(record)

    def draw_data(self) -> dict[str, str]:
        """Return no pictures: the data are shown elsewhere."""
        return {}


def run_fed_experiment(
    experiment: FedExperiment,
    recorder: Recorder,
    *,
    quick: bool,
    methods: Sequence[str],
    progress: Progress,
) -> None:
    """Run every method over all seeds and write its figures to the recorder."""
    given = data_of(quick)
    jobs = {"fed-noniid": _one_strategy, "fed-vigan-clusters": cluster_method}
    job = jobs.get(experiment.name, _one_method)
    found = {}
    for number, name in enumerate(methods):

        def report_progress(what: str, share: float, at: int = number, method: str = name) -> None:
            progress(f"{method}: {what}", (at + share) / len(methods))

        found[name] = job(name, given, recorder.seeds, report_progress)
    for name, made in found.items():
        for (metric, where), values in made["figures"].items():
            recorder.add(name, metric, where, values)
    for note in ("curves", "images", "seconds", "notes"):
        kept = {name: made[note] for name, made in found.items() if made.get(note)}
        if kept:
            recorder.note(note, kept)
    progress("done", 1.0)


def _one_method(
    method: str, given: Given, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    estimators = [estimator_of(method, given, seed) for seed in seeds]
    held = [held_by(method, given, seed) for seed in seeds]
    return _measured(estimators, held, given, report_progress)


def _one_strategy(
    strategy: str, given: Given, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    """Train by one strategy where each site has few classes and works long alone."""
    plain = strategy == "scaffold"
    estimators = [
        FederatedCompletion(
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
    return _measured(estimators, held, given, report_progress)


def _measured(
    estimators: list[FederatedCompletion],
    held: list[Any],
    given: Given,
    report_progress: Progress,
) -> dict[str, Any]:
    """Fit and measure: the last round of all seeds, more rounds of the first one."""
    marks = sorted({1, *range(5, given.rounds + 1, 5), given.rounds})
    scores = PairScores(given.test)
    curve: list[dict[str, Any]] = []
    images: dict[str, Any] = {}
    started = perf_counter()
    ends: list[float] = []

    def after(number: int, estimator: FederatedCompletion) -> None:
        if estimator is not estimators[0]:
            return
        ends.append(perf_counter())
        if number in marks or number == 0:
            curve.append({"round": number, **scores.errors(estimator, modules=True)})
        if number in marks[2::2] or number == given.rounds:
            images[f"round {number}"] = scores.pictures(estimator)

    fit_sites_many(estimators, held, progress=report_progress, on_round=after)
    took = perf_counter() - started
    figures: dict[tuple[str, str], list[float]] = {}
    for estimator in estimators:
        for where, error in scores.errors(estimator).items():
            figures.setdefault(("mse255", where), []).append(error)
            figures.setdefault(("psnr", where), []).append(psnr(error))
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
        "fed-vigan-clusters",
        "groups of the individuals completed so (Tables 5.1 and 5.2)",
        f"{_SETUP.partition('; measured')[0]}; completed, then grouped by K-means over both "
        "modalities, and by deep clustering over sites",
        CLUSTERED,
        {
            "real/purity/kmeans": 0.496,
            "fed-faithful/purity/kmeans": 0.415,
            "central-faithful/purity/kmeans": 0.437,
            "local-faithful/purity/kmeans": 0.277,
            "real/ari/kmeans": 0.299,
            "fed-faithful/ari/kmeans": 0.207,
            "central-faithful/ari/kmeans": 0.249,
            "local-faithful/ari/kmeans": 0.078,
            "fed-faithful/mi/kmeans": 1.041,
            "central-faithful/mi/kmeans": 1.209,
            "local-faithful/mi/kmeans": 0.830,
            "fed-faithful/nmi/kmeans": 0.329,
            "central-faithful/nmi/kmeans": 0.383,
            "local-faithful/nmi/kmeans": 0.253,
        },
    ),
    FedExperiment(
        "fed-noniid",
        "the same digits at sites with few classes each, by strategy (not in the thesis)",
        f"{_SETUP}; classes dealt by Dirichlet(0.1), five local epochs a round",
        {name: f"sites' models combined by {name}, best network" for name in _STRATEGIES},
    ),
)
