"""Groups of completed individuals: how near they are to those of the real data, and to the truth.

K-means over both modalities, as the thesis has it: purity and adjusted Rand index against the
digits, mutual information against the groups that the same K-means finds in the real data. Sites of
a federation group individuals without showing a row (`FederatedKMeans`), and by a network that
learns without labels (`DeepClustering`), whose accuracy is against the digits. Labels are looked at
by the judge only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cofill.cluster import DeepClustering, FederatedKMeans, NetworkSettings
from cofill.completion import Progress
from cofill.federate import FederatedCompletion, fit_sites_many
from cofill.metrics import ari, clustering_accuracy, mutual_information, nmi, purity
from cofill.views import MultiView
from cofill_papers._fed_setup import FedData, estimator_of, held_by

__all__ = ["CLUSTERED", "cluster_method", "group_completed"]

CLUSTERED: Mapping[str, str] = {
    "real": "every individual with both true modalities",
    "fed-best": "completed by one network for all patterns, trained at ten sites",
}
_DEEP = "fed-best"
_GROUPS = 10
_Figures = dict[tuple[str, str], list[float]]


def cluster_method(
    method: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    """Complete by a method, group the individuals, and measure the groups."""
    figures: _Figures = {}
    if method == "real":
        sites_of = [_true_rows(data, held_by("fed", data, seed)) for seed in seeds]
    else:
        held = [held_by(method, data, seed) for seed in seeds]
        estimators = [estimator_of(method, data, seed) for seed in seeds]
        fit_sites_many(
            estimators, held, progress=lambda what, share: report_progress(what, share / 2)
        )
        sites_of = _completed(estimators, held)
    for number, sites in enumerate(sites_of if method == _DEEP else []):
        report_progress("deep clustering", 0.5 + number / len(seeds) / 3)
        truth, deep = _labels(data, sites), _deep(sites, data, seeds[number])
        for metric, score in {"acc": clustering_accuracy, "ari": ari, "purity": purity}.items():
            figures.setdefault((metric, "deep"), []).append(score(truth, deep))
    report_progress("k-means", 0.84)
    return {"figures": figures | _kmeans_figures(data, sites_of, seeds, real=method == "real")}


def group_completed(
    data: FedData,
    estimators: Sequence[FederatedCompletion],
    held: Sequence[Mapping[str, MultiView]],
    seeds: Sequence[int],
) -> dict[tuple[str, str], list[float]]:
    """Return the figures of K-means over the individuals that fitted models completed."""
    return _kmeans_figures(data, _completed(estimators, held), seeds, real=False)


def _kmeans_figures(
    data: FedData, sites_of: Sequence[Mapping[str, MultiView]], seeds: Sequence[int], *, real: bool
) -> _Figures:
    figures: _Figures = {}
    cores = os.cpu_count() or 1
    workers = min(6, cores)
    # Unlimited, each worker's products take all cores.
    with threadpool_limits(cores // workers), ThreadPoolExecutor(workers) as pool:
        true_sites = [] if real else [_true_rows(data, sites) for sites in sites_of]
        real_groups = pool.map(_kmeans, true_sites, seeds)
        groups_of = list(pool.map(_kmeans, sites_of, seeds))
        for sites, groups in zip(sites_of, groups_of, strict=True):
            truth = _labels(data, sites)
            scores = {"purity": purity, "ari": ari, "acc": clustering_accuracy}
            values = {metric: score(truth, groups) for metric, score in scores.items()}
            if not real:
                real_of = next(real_groups)
                values |= {"mi": mutual_information(real_of, groups), "nmi": nmi(real_of, groups)}
            for metric, value in values.items():
                figures.setdefault((metric, "kmeans"), []).append(value)
    return figures


def _completed(
    estimators: Sequence[FederatedCompletion], held: Sequence[Mapping[str, MultiView]]
) -> list[dict[str, MultiView]]:
    """Return each seed's sites with everybody complete."""
    return [
        {site: done.views for site, done in estimator.complete_sites(sites).items()}
        for estimator, sites in zip(estimators, held, strict=True)
    ]


def _true_rows(data: FedData, sites: Mapping[str, MultiView]) -> dict[str, MultiView]:
    """Return the same individuals at the same sites, with their true modalities."""
    return {
        site: data.train.take(np.searchsorted(data.train.ids, views.ids))
        for site, views in sites.items()
    }


def _labels(data: FedData, sites: Mapping[str, MultiView]) -> np.ndarray:
    ids = np.concatenate([views.ids for views in sites.values()])
    return data.labels[np.searchsorted(data.train.ids, ids)]


def _kmeans(sites: Mapping[str, MultiView], seed: int) -> np.ndarray:
    """Return groups by K-means: over sites where there are several, the same as pooled."""
    return FederatedKMeans(_GROUPS, restarts=10, seed=seed).fit(dict(sites)).labels_


def _deep(sites: Mapping[str, MultiView], data: FedData, seed: int) -> np.ndarray:
    """Return groups by deep clustering of the images, which every individual now has."""
    images = {site: views.select(["image"]) for site, views in sites.items()}
    options: dict[str, Any] = {"restarts": 10, "finalists": 3}
    if data.small:
        options = {"restarts": 4, "rounds": 20, "local_steps": 8, "batch": 64}
        options["network"] = NetworkSettings(channels=(16, 32), hidden=(64,))
    return DeepClustering(_GROUPS, seed=seed, **options).fit(images).labels_
