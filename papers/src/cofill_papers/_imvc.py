"""Incomplete multi-view clustering as the literature runs it: two views, some people lack one.

At rate r a share r of the individuals has exactly one of the two views, half of them the first; the
others have both. The number of classes is given; labels are looked at by the judge only. Published
figures are those at rate 0.5: of CAMERA for Scene-15, of DCG for Handwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cofill.cluster import MultiViewClustering
from cofill.completion import Progress
from cofill.metrics import Recorder, ResultRecord, ari, clustering_accuracy, nmi
from cofill.views import MultiView, by_row, load
from cofill_papers._base import AbstractExperiment
from cofill_papers._draw import line_chart
from cofill_papers._methods import chosen

__all__ = ["IMVC_EXPERIMENTS", "hide_one_view"]

_DATA: Mapping[str, tuple[str, tuple[str, str]]] = {
    "handwritten": ("mfdd", ("fou", "kar")),
    "scene15": ("scene15", ("descriptor_20", "descriptor_59")),
}
_RATES = (0.0, 0.1, 0.3, 0.5, 0.7)
_SITES = 5
_METHODS: Mapping[str, str] = {
    "multiview": "`MultiViewClustering` with its defaults, all rows in one place",
    "multiview-all": "the same, but all groupings vote, not the most telling quarter",
    "multiview-five": "`MultiViewClustering` with its defaults over five sites that show no row",
    "ridge-spectral": "gaps filled by ridge regression, spectral clustering of 12 neighbours",
    "mean-kmeans": "gaps filled by the mean, k-means",
}
_SCORES = {"acc": clustering_accuracy, "nmi": nmi, "ari": ari}


def hide_one_view(views: MultiView, rate: float, seed: int) -> MultiView:
    """Return two views in which a share of the individuals has exactly one of the two."""
    n = views.n_individuals
    drawn = np.random.default_rng(seed).permutation(n)[: round(rate * n)]
    hidden = {name: np.zeros(n, bool) for name in views.names}
    for name, part in zip(views.names, np.array_split(drawn, 2), strict=True):
        hidden[name][part] = True
    return views.hide(hidden)


@dataclass(frozen=True)
class ImvcExperiment(AbstractExperiment):
    """Groups of individuals of whom some lack one of two views, at several rates."""

    name: str
    description: str
    protocol: str
    published: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 5
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Accuracy of groups": ("acc",),
        "Normalised mutual information with the classes": ("nmi",),
        "Adjusted Rand index against the classes": ("ari",),
    }

    def plan(
        self, methods: Sequence[str] | None, seeds: Sequence[int], *, quick: bool
    ) -> Mapping[str, str]:
        return {name: _METHODS[name] for name in chosen(methods, _METHODS, self.name)}

    def run(
        self,
        recorder: Recorder,
        methods: Sequence[str],
        *,
        quick: bool,
        earlier: ResultRecord | None,
        progress: Progress,
    ) -> None:
        rates = (0.5,) if quick else _RATES
        turns = [
            (data, rate, seed, method)
            for data in _DATA
            for rate in rates
            for seed in recorder.seeds
            for method in methods
        ]
        for number, (data, rate, seed, method) in enumerate(turns):
            progress(f"{data} at rate {rate}: {method}", number / len(turns))
            source, names = _DATA[data]
            dataset = load(source)
            views = hide_one_view(dataset.views.select(names), rate, seed)
            k = len(np.unique(dataset.labels))
            groups = _group(method, views, k, seed)
            for metric, score in _SCORES.items():
                value = score(dataset.labels, groups)
                recorder.add(method, metric, f"{data}_{rate}", value, seed=seed)
        progress("done", 1.0)

    def draw_record(self, record: ResultRecord) -> dict[str, str]:
        drawn = {}
        for data in _DATA:
            lines: dict[str, list[tuple[float, float]]] = {}
            for key, value in record.summary.items():
                method, metric, where = key.split("/")
                name, _, rate = where.rpartition("_")
                if metric == "acc" and name == data and value["mean"] is not None:
                    lines.setdefault(method, []).append((float(rate), value["mean"]))
            drawn[data] = line_chart(
                f"Accuracy of groups: {data}",
                {method: sorted(points) for method, points in lines.items()},
                x_axis="share of individuals who lack a view",
                y_axis="accuracy",
                caption=f"Mean over {len(record.seeds)} repeats.",
            )
        return drawn


def _group(method: str, views: MultiView, k: int, seed: int) -> np.ndarray:
    """Return everybody's group, in the order of their ids."""
    if method == "multiview":
        return MultiViewClustering(k, seed=seed).fit(views).labels_
    if method == "multiview-all":
        return MultiViewClustering(k, voters=1.0, seed=seed).fit(views).labels_
    if method == "multiview-five":
        sites = by_row(views, _SITES, key=seed)
        fitted = MultiViewClustering(k, seed=seed).fit(dict(sites))
        groups = np.empty(views.n_individuals, np.int64)
        for name, site in sites.items():
            groups[np.searchsorted(views.ids, site.ids)] = fitted.labels_by_site_[name]
        return groups
    return _group_plainly(method, views, k, seed)


def _group_plainly(method: str, views: MultiView, k: int, seed: int) -> np.ndarray:
    """Return groups by what scikit-learn has, the peer."""
    from sklearn.cluster import KMeans, SpectralClustering
    from sklearn.linear_model import Ridge

    known = views.presence
    rows = []
    for view, name in enumerate(views.names):
        cells = views.aligned(name)
        seen = cells[known[:, view]]
        rows.append((cells - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), 1e-12))
    both = known.all(axis=1)
    filled = [np.nan_to_num(view_rows) for view_rows in rows]
    if method == "mean-kmeans":
        model = KMeans(k, n_init=10, random_state=seed)  # pyright: ignore[reportArgumentType]
        return model.fit_predict(np.hstack(filled))
    for here, there in ((0, 1), (1, 0)):
        lacking = ~known[:, here]
        if lacking.any():
            fit = Ridge(alpha=1.0).fit(rows[there][both], rows[here][both])
            filled[here][lacking] = fit.predict(rows[there][lacking])
    spectral = SpectralClustering(
        k, affinity="nearest_neighbors", n_neighbors=12, random_state=seed
    )
    return spectral.fit_predict(np.hstack(filled))


IMVC_EXPERIMENTS = (
    ImvcExperiment(
        "imvc",
        "groups of individuals of whom some lack one of two views",
        "two views; at rate r a share r of the individuals has exactly one of them; the number of "
        "classes is given, no label is used",
        {
            "multiview/acc/scene15_0.5": 0.462,
            "multiview/nmi/scene15_0.5": 0.452,
            "multiview/acc/handwritten_0.5": 0.808,
            "multiview/nmi/handwritten_0.5": 0.762,
            "multiview/ari/handwritten_0.5": 0.705,
        },
    ),
)
