"""Clustering of individuals who lack views, as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils.validation import check_is_fitted

from cofill.cluster._estimator import AbstractClusterer
from cofill.cluster._multiview import GroupModel, ScaledViews, ViewSettings, find_groups
from cofill.cluster._multiview_sites import find_groups_at_sites
from cofill.cluster._protocol import Progress
from cofill.cluster._rows import ONLY_SITE, is_site_mapping
from cofill.errors import DataError, SettingError
from cofill.privacy import Ledger
from cofill.views import MultiView, Scaler, View


@dataclass(kw_only=True, eq=False, repr=False)
class MultiViewClustering(AbstractClusterer):
    """Groups of individuals of whom some lack views; nothing has to be completed first.

    Graphs of near neighbours in every view, votes of many groupings and a kernel discriminant (see
    `ViewSettings` for what can be set). Over sites, each proposes groups by its own graphs, and
    sums of groups, counts and products of features leave it, no row.

    Parameters
    ----------
    k
        Number of groups; it must be stated.
    neighbours, dimensions, voters, rounds
        See `ViewSettings`.
    seed
        Start of all randomness.

    Attributes
    ----------
    labels_, confidence_
        Group of each individual, site after site, in the order of `MultiView.ids`, and the group's
        probability.
    labels_by_site_, confidence_by_site_
        The same by site.
    probabilities_
        The probability of every group.
    ledger_
        What left a site.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1], 40)
    >>> rows = {name: rng.normal(size=(80, 3)) + 6 * truth[:, None] for name in ("lab", "scan")}
    >>> seen = {"lab": rng.random(80) < 0.5}
    >>> seen["scan"] = ~seen["lab"] | (rng.random(80) < 0.5)
    >>> views = MultiView.from_arrays(rows, presence=seen)
    >>> labels = MultiViewClustering(2, neighbours=(10,)).fit(views).labels_
    >>> len(set(labels[:40])), len(set(labels[40:])), bool(labels[0] != labels[-1])
    (1, 1, True)
    """

    k: int | None = field(default=None, kw_only=False)
    neighbours: tuple[int, ...] = ViewSettings.neighbours
    dimensions: tuple[float, ...] = ViewSettings.dimensions
    voters: float | int = ViewSettings.voters
    rounds: int = ViewSettings.rounds
    seed: int = 0

    def fit(
        self, sites: Any, y: Any = None, *, progress: Progress | None = None
    ) -> MultiViewClustering:
        """Find groups, as `AbstractClusterer.fit` does; individuals may lack views."""
        if self.k is None:
            raise SettingError("k must be the number of groups, got none; give --k")
        settings = ViewSettings(self.neighbours, self.dimensions, self.voters, self.rounds)
        views = _read(sites)
        total = sum(site.n_individuals for site in views.values())
        if not 2 <= self.k <= total:
            raise SettingError(
                f"k must be from 2 to the number of individuals, {total:,}, got {self.k}"
            )
        if progress is not None:
            progress("graphs and votes", 0.0)
        self.ledger_ = Ledger()
        first = next(iter(views.values()))
        if len(views) == 1:
            scalers = [Scaler.fit(view) for view in first.values()]
            scaled = ScaledViews.of(first, scalers)
            members, self.model_ = find_groups(scaled, self.k, settings, self.seed)
            chances = {next(iter(views)): members}
        else:
            chances, scalers, self.model_ = find_groups_at_sites(
                views, self.k, settings, self.seed, self.ledger_
            )
        self.scalers_ = dict(zip(first.names, scalers, strict=True))
        self.probabilities_: Float[np.ndarray, "individuals k"] = np.concatenate(
            [chances[name] for name in views]
        )
        self.labels_: Int[np.ndarray, " individuals"] = self.probabilities_.argmax(axis=1)
        self.confidence_: Float[np.ndarray, " individuals"] = self.probabilities_.max(axis=1)
        self.labels_by_site_ = {name: chances[name].argmax(axis=1) for name in views}
        self.confidence_by_site_ = {name: chances[name].max(axis=1) for name in views}
        self.k_, self.selection_ = self.k, None
        self.n_features_in_ = sum(view.n_features for view in first.values())
        return self

    def _scale(self, views: MultiView) -> ScaledViews:
        if set(views) != set(self.scalers_):
            raise DataError(
                f"the groups are of the views {', '.join(self.scalers_)}, got {', '.join(views)}"
            )
        return ScaledViews.of(views.select(list(self.scalers_)), list(self.scalers_.values()))

    def _apply_to_sites(self, rows: Any, apply: Callable[[Any], np.ndarray]) -> Any:
        check_is_fitted(self, "model_")
        results = {name: apply(self._scale(views)) for name, views in _read(rows).items()}
        return results if is_site_mapping(rows) else next(iter(results.values()))

    def predict_proba(self, rows: Any) -> Any:
        """Return the probability of each group for each individual."""
        return self._apply_to_sites(rows, self._encode)

    def _assign(self, scaled: Any) -> tuple[np.ndarray, np.ndarray]:
        chances = self._encode(scaled)
        return chances.argmax(axis=1), chances.max(axis=1)

    def _encode(self, scaled: Any) -> np.ndarray:
        model: GroupModel = self.model_
        return model.probabilities(scaled)


def _read(data: Any) -> dict[str, MultiView]:
    """Return the views of every site, or raise a `DataError`; data of one place are one site."""
    sites = dict(data) if is_site_mapping(data) else {ONLY_SITE: data}
    if not sites:
        raise DataError("there is no site; give at least one as {name: views}")
    views = {}
    for name, rows in sites.items():
        site = MultiView([rows]) if isinstance(rows, View) else rows
        if not isinstance(site, MultiView):
            site = MultiView.from_arrays({"rows": np.asarray(rows, dtype=np.float64)})
        views[str(name)] = site
    for view in next(iter(views.values())).names:
        if not any(len(site[view]) for site in views.values() if view in site):
            raise DataError(f"view {view!r} has no rows; leave it out")
    return views
