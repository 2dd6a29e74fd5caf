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

from cofill.cluster import DeepClustering, FederatedKMeans, NetworkSettings
from cofill.completion import Progress
from cofill.federate import fit_sites_many
from cofill.metrics import ari, clustering_accuracy, mutual_information, nmi, purity
from cofill.views import MultiView
from cofill_papers._fed_setup import FedData, estimator_of, held_by

__all__ = ["CLUSTERED", "cluster_method"]

CLUSTERED: Mapping[str, str] = {
    "real": "every individual with both true modalities",
    "fed-faithful": "completed by the thesis's system",
    "central-faithful": "completed by the same model trained in one place",
    "local-faithful": "the fifth site's individuals, completed by its own model",
    "fed-best": "completed by one network for all patterns, trained at ten sites",
}
_DEEP = "fed-best"
_GROUPS = 10


def cluster_method(
    method: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> dict[str, Any]:
    """Complete by a method, group the individuals, and measure the groups."""
    figures: dict[tuple[str, str], list[float]] = {}

    def add(metric: str, where: str, value: float) -> None:
        figures.setdefault((metric, where), []).append(value)

    sites_of = _completed(method, data, seeds, lambda what, share: report_progress(what, share / 2))
    # k-means works on the processor's cores while deep clustering may work on an accelerator.
    with ThreadPoolExecutor(max_workers=min(6, os.cpu_count() or 1)) as pool:
        jobs = list(zip(sites_of, seeds, strict=True))
        group_jobs = [pool.submit(_kmeans, sites, seed) for sites, seed in jobs]
        real_jobs = [
            pool.submit(_kmeans, _true_rows(data, sites), seed)
            for sites, seed in (jobs if method != "real" else [])
        ]
        for number, (sites, seed) in enumerate(jobs if method == _DEEP else []):
            report_progress("deep clustering", 0.5 + number / len(seeds) / 3)
            truth, deep = _labels(data, sites), _deep(sites, data, seed)
            add("acc", "deep", clustering_accuracy(truth, deep))
            add("ari", "deep", ari(truth, deep))
            add("purity", "deep", purity(truth, deep))
        for number, (sites, _) in enumerate(jobs):
            report_progress("k-means", 0.84 + number / len(seeds) / 6)
            truth, groups = _labels(data, sites), group_jobs[number].result()
            add("purity", "kmeans", purity(truth, groups))
            add("ari", "kmeans", ari(truth, groups))
            add("acc", "kmeans", clustering_accuracy(truth, groups))
            if method != "real":
                add("mi", "kmeans", mutual_information(real_jobs[number].result(), groups))
                add("nmi", "kmeans", nmi(real_jobs[number].result(), groups))
    return {"figures": figures}


def _completed(
    method: str, data: FedData, seeds: Sequence[int], report_progress: Progress
) -> list[dict[str, MultiView]]:
    """Return each seed's sites with everybody complete."""
    if method == "real":
        return [_true_rows(data, held_by("fed", data, seed)) for seed in seeds]
    held = [held_by(method, data, seed) for seed in seeds]
    estimators = [estimator_of(method, data, seed) for seed in seeds]
    fit_sites_many(estimators, list(held), progress=report_progress)
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
