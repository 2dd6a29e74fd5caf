"""The base of the estimators: reads rows, runs the protocol in this process, assigns groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from cofill.cluster._rows import (
    ColumnKinds,
    SiteRows,
    gather_rows,
    is_site_mapping,
    require_groups,
    require_same_columns,
)
from cofill.cluster._scale import Scaling, choose_scale
from cofill.cluster._select import choose_k
from cofill.privacy import Ledger
from cofill.protocol import Federation

Progress = Callable[[str, float], None]
Fitted = TypeVar("Fitted", bound="AbstractClusterer")


class AbstractClusterer(ClusterMixin, BaseEstimator):
    """What `FederatedKMeans` and `DeepClustering` share."""

    k: int | None
    scale: str
    ks: tuple[int, ...]
    choose: str
    seed: int

    def fit(self: Fitted, sites: Any, y: Any = None, *, progress: Progress | None = None) -> Fitted:
        """Find groups; `y` is not looked at.

        Parameters
        ----------
        sites
            Rows as an array (individuals × columns, or × height × width), a `View` or a
            `MultiView`; or ``{site name: rows}``.
        y
            Ignored; scikit-learn's pipelines pass it.
        progress
            Called with the name of a step and the share that is done.
        """
        site_rows = gather_rows(sites)
        scale = self._choose_scale(next(iter(site_rows.values())).kinds)
        k, selection = self.k, None
        if k is None:
            selection = choose_k(
                site_rows, self.ks, method=self.choose, scale=scale, seed=self.seed
            )
            k = selection.k
        require_groups(site_rows, k)
        ledger = Ledger() if selection is None else selection.ledger
        federation = self._run(site_rows, k, scale, ledger, progress)
        self.k_, self.selection_ = k, selection
        self._read(federation)
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Find groups and return them as `predict` would."""
        self.fit(X, y, **options)
        return self.labels_by_site_ if is_site_mapping(X) else self.labels_

    def predict(self, rows: Any) -> Any:
        """Return the group of each row; one array, or one a site where sites are given."""
        return self._apply_to_sites(rows, lambda scaled: self._assign(scaled)[0])

    def confidence(self, rows: Any) -> Any:
        """Return how sure each row's group is, from 0 to 1."""
        return self._apply_to_sites(rows, lambda scaled: self._assign(scaled)[1])

    def codes(self, rows: Any) -> Any:
        """Return what a map of individuals is drawn from: one row of numbers each."""
        return self._apply_to_sites(rows, self._encode)

    def _choose_scale(self, kinds: ColumnKinds) -> str:
        return choose_scale(self.scale, kinds)

    def _read(self, federation: Federation[Any]) -> None:
        """Learn from what the parties have become."""
        self.ledger_: Ledger = federation.ledger
        self.kinds_: ColumnKinds = federation.coordinator.kinds
        self.scaling_: Scaling = federation.coordinator.scaling
        self.state_ = federation.coordinator.state
        sites = federation.sites.items()
        self.labels_by_site_: dict[str, np.ndarray] = {name: site.labels for name, site in sites}
        self.confidence_by_site_ = {name: site.confidence for name, site in sites}
        self.labels_: Int[np.ndarray, " individuals"] = np.concatenate(
            list(self.labels_by_site_.values())
        )
        self.confidence_ = np.concatenate(list(self.confidence_by_site_.values()))
        self.n_features_in_ = len(self.kinds_)

    def _apply_to_sites(self, rows: Any, apply: Callable[[np.ndarray], np.ndarray]) -> Any:
        check_is_fitted(self, "scaling_")
        results = {}
        for name, site in gather_rows(rows).items():
            require_same_columns(
                self.kinds_, site.kinds, f"site {name!r}", "the data that the groups are of"
            )
            results[name] = apply(self.scaling_.apply(site.rows))
        return results if is_site_mapping(rows) else next(iter(results.values()))

    @abstractmethod
    def _run(
        self,
        sites: Mapping[str, SiteRows],
        k: int,
        scale: str,
        ledger: Ledger,
        progress: Progress | None,
    ) -> Federation[Any]: ...

    @abstractmethod
    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def _encode(self, scaled: np.ndarray) -> np.ndarray: ...
