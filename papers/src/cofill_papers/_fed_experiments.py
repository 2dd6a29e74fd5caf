"""The experiments on modalities split by row: which there are, what was printed, how one runs.

Figures are those of Wu Zhenwei, "Multimodal clustering method based on federated learning" (Dalian
University of Technology, 2023), Tables 4.3 to 4.10. The thesis does not say on which of its images
its errors were measured; here they are test images that no training has seen
(`cofill.federate.PairScores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from cofill_papers._base import AbstractExperiment
from cofill_papers._fed_clusters import CLUSTERED, cluster_method, group_completed
from cofill_papers._fed_pictures import draw_rows
from cofill_papers._fed_printed import THESIS_TABLES, PrintedCurve
from cofill_papers._fed_setup import FedData, data_of, estimator_of, held_by
from cofill_papers._methods import chosen

__all__ = ["FED_EXPERIMENTS", "FED_METHODS", "FedExperiment"]

FED_METHODS: Mapping[str, str] = {
    "fed-faithful": "the thesis's system: VIGAN, pre-trained at ten sites, then averaged in rounds",
    "central-faithful": "the same model trained on all sites' individuals in one place",
    "local-faithful": "the same model trained on the fifth site's individuals alone",
    "fed-pix2pix-faithful": "federated pix2pix on the pairs, as the thesis compares with it",
    "local-pretraining": "the fifth site's model before any round, after each printed epoch",
    "fed-pretraining": "the mean of ten sites' models before any round, after those epochs",
    "fed-best": "one network for all patterns with skip connections, pairs supervise, ten sites",
    "central-best": "the same network trained in one place",
    "local-best": "the same network trained on the fifth site alone",
}
_GROUPED = ("fed-faithful", "central-faithful", "local-faithful")  # Tables 5.1 and 5.2
_STRATEGIES = ("fedavg", "fedprox", "fedadam", "fedyogi", "scaffold")


@dataclass(frozen=True)
class FedExperiment(AbstractExperiment):
    """One experiment on rows at many sites; `methods` are names with words for each."""

    name: str
    description: str
    protocol: str
    methods: Mapping[str, str]
    published: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 3
    printed_curves: Mapping[str, PrintedCurve] = field(default_factory=dict)
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Squared error of generated test images (scale 0 to 255)": ("mse255",),
        "Peak signal-to-noise ratio (dB)": ("psnr",),
        "Clusters against the true classes (fractions)": ("acc", "purity", "ari"),
        "Clusters against those of the real data": ("mi", "nmi"),
    }

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        wanted = chosen(methods, self.methods, self.name)
        return {method: self.methods[method] for method in wanted}

    def parts(self, *, quick: bool) -> list[tuple[str | None, int]]:
        return [(method, 2 if quick else self.repeats) for method in self.methods]

    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        data = data_of(quick)
        jobs = {"fed-noniid": _one_strategy, "fed-vigan-clusters": cluster_method}
        results = {}
        for number, name in enumerate(methods):

            def report_progress(
                what: str, share: float, position: int = number, method: str = name
            ) -> None:
                progress(f"{method}: {what}", (position + share) / len(methods))

            usual = _pretraining if name.endswith("-pretraining") else _one_method
            job = jobs.get(self.name, usual)
            results[name] = job(name, data, recorder.seeds, report_progress)
        for name, result in results.items():
            for (metric, where), values in result["figures"].items():
                recorder.add(name, metric, where, values)
        for note in ("curves", "images", "seconds", "notes"):
            by_method = {name: result[note] for name, result in results.items() if result.get(note)}
            if by_method:
                recorder.note(note, by_method)
        progress("done", 1.0)

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        return draw_rows(record)


def _one_method(
    method: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    estimators = [estimator_of(method, data, seed) for seed in seeds]
    held = [held_by(method, data, seed) for seed in seeds]
    result = _measured(estimators, held, data, report_progress)
    if method in _GROUPED:
        report_progress("k-means", 0.9)
        result["figures"] |= group_completed(data, estimators, held, seeds)
    return result


class _PretrainedError(Exception):
    """Ends a training after the pre-training."""


def _pretraining(
    method: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    """Measure after the epochs of pre-training that the thesis prints; all seeds after the last.

    The thesis prints what sites reach before they exchange anything (Eq. 4.4 and 4.5).
    Each is a training of its own, as long as asked: phases are trained at the sites without the
    others, from the same weights in the same order, so that it passes where the longest one did.
    """
    curve: list[dict[str, Any]] = []
    figures: dict[tuple[str, str], list[float]] = {}
    scores = PairScores(data.test)
    tables = [table for table in THESIS_TABLES.values() if table.phase is not None]
    for number, table in enumerate(tables):
        phase, part = str(table.phase), table.figure.partition("_")[0]
        whole = estimator_of(method, data, seeds[0]).settings or RoundSettings()
        most = whole.pretrain[phase]
        for epochs in (epoch for epoch in table.errors if epoch <= most):
            report_progress(f"{epochs} epochs of {phase}", number / len(tables))
            settings = replace(whole, pretrain={phase: epochs})
            shown = seeds if epochs == most else seeds[:1]
            parts = [replace(estimator_of(method, data, s), settings=settings) for s in shown]
            measured = _measured_early(parts, [held_by(method, data, s) for s in shown], scores)
            curve.append({"round": 0, "phase": phase, "epoch": epochs, **measured[0]})
            if epochs == most:
                figures["mse255", part] = [errors[table.figure] for errors in measured]
    return {"figures": figures, "curves": curve}


def _measured_early(
    estimators: list[FederatedCompletion], held: list[Any], scores: PairScores
) -> list[dict[str, float]]:
    """Return the errors of each estimator's parts after the pre-training, which ends the fit."""
    measured: list[dict[str, float]] = []

    def measure(_: int, fitted: FederatedCompletion) -> None:
        measured.append(scores.errors(fitted, modules=True))
        if fitted is estimators[-1]:
            raise _PretrainedError

    with suppress(_PretrainedError):
        fit_sites_many(estimators, held, on_round=measure)
    return measured


def _one_strategy(
    strategy: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    """Train by one strategy where each site has few classes and works long alone."""
    plain = strategy == "scaffold"
    rule = {"name": strategy} | ({"momentum": 0.0} if strategy in ("fedavg", "fedprox") else {})
    estimators = [
        FederatedCompletion(
            network={"patch": 2 if data.small else 4, "width": 64, "blocks": 2, "shift": 0},
            local=LocalSettings(
                epochs=5,
                batch=16,
                optimizer="sgd" if plain else "adam",
                learning_rate=0.1 if plain else 3e-3,
                momentum=0.0 if plain else 0.9,
                moments="reset",
            ),
            settings=RoundSettings(rounds=data.rounds, secure=False),
            strategy=rule,
            seed=seed,
        )
        for seed in seeds
    ]
    held: list[Mapping[str, MultiView]] = []
    for seed in seeds:
        both = pair_up(
            data.train,
            paired=data.pairs,
            only={"image": data.singles, "edge": data.singles},
            key=seed,
        )
        row_of = {int(i): k for k, i in enumerate(data.train.ids)}
        labels = data.labels[[row_of[int(i)] for i in both.ids]]
        held.append(by_row(both, 10, key=seed, labels=labels, alpha=0.1, min_rows=10))
    return _measured(estimators, held, data, report_progress)


def _measured(
    estimators: list[FederatedCompletion],
    held: list[Any],
    data: FedData,
    report_progress: Progress,
) -> dict[str, Any]:
    """Fit and measure: the last round of all seeds, more rounds of the first one."""
    marks = sorted({1, *range(5, data.rounds + 1, 5), data.rounds})
    scores = PairScores(data.test)
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
        if number in marks[2::2] or number == data.rounds:
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
            "fed-faithful/purity/kmeans": 0.415,
            "central-faithful/purity/kmeans": 0.437,
            "local-faithful/purity/kmeans": 0.277,
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
        printed_curves=THESIS_TABLES,
    ),
    FedExperiment(
        "fed-vigan-clusters",
        "groups of the individuals completed so (Tables 5.1 and 5.2)",
        f"{_SETUP.partition('; measured')[0]}; completed, then grouped by K-means over both "
        "modalities, and by deep clustering over sites",
        CLUSTERED,
        {
            "real/purity/kmeans": 0.496,
            "real/ari/kmeans": 0.299,
        },
    ),
    FedExperiment(
        "fed-noniid",
        "the same digits at sites with few classes each, by strategy (not in the thesis)",
        f"{_SETUP}; classes dealt by Dirichlet(0.1), five local epochs a round",
        {name: f"sites' models combined by {name}, best network" for name in _STRATEGIES},
    ),
)
