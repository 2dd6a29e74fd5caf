"""What the estimators share: gathering rows, running the protocol, reading groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from cofill.cluster._rows import Kinds, Table, gather, require_groups, require_same
from cofill.cluster._scale import Scaling, chosen_method
from cofill.cluster._select import Selection, choose_k
from cofill.cluster._site import SCALING, ClusterSite, Conductor
from cofill.privacy import Ledger
from cofill.protocol import Federation, Step, run_steps
from cofill.views import MultiView

__all__ = ["AbstractClusterer"]

Progress = Callable[[str, float], None]
Fitted = TypeVar("Fitted", bound="AbstractClusterer")


class AbstractClusterer(ClusterMixin, BaseEstimator):
    """What both estimators share: gathering rows, running the protocol, reading groups."""

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
            Ignored, for scikit-learn's sake.
        progress
            Called with the name of a step and the share that is done.
        """
        tables = gather(sites)
        method = chosen_method(self.scale, next(iter(tables.values())).kinds.shape)
        k, selection = self.k, None
        if k is None:
            selection = self._choose_k(tables, method)
            k = selection.k
        require_groups(tables, k)
        federation = self._start(tables, k, method)
        if selection is not None:
            federation.ledger = selection.ledger
        run_steps((*SCALING, *self._steps(k)), [federation], progress=progress)
        self.k_, self.selection_ = k, selection
        self._read(federation, tables)
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Find groups and return them as `predict` would."""
        self.fit(X, y, **options)
        return self.labels_by_site_ if _is_sites(X) else self.labels_

    def predict(self, rows: Any) -> Any:
        """Return the group of each row; one array, or one a site where sites are given."""
        return self._by_site(rows, lambda scaled: self._assign(scaled)[0])

    def confidence(self, rows: Any) -> Any:
        """Return how sure each row's group is, from 0 to 1."""
        return self._by_site(rows, lambda scaled: self._assign(scaled)[1])

    def codes(self, rows: Any) -> Any:
        """Return what a map of individuals is drawn from: one row of numbers each."""
        return self._by_site(rows, self._codes)

    def _start(self, tables: Mapping[str, Table], k: int, method: str) -> Federation[Any]:
        settings = self._settings(k)
        kinds = next(iter(tables.values())).kinds
        sites = {
            name: ClusterSite(name, table.rows, kinds, settings, method, self.seed)
            for name, table in tables.items()
        }
        return Federation(
            sites, coordinator=Conductor(tuple(tables), kinds, settings, method, self.seed)
        )

    def _choose_k(self, tables: Mapping[str, Table], method: str) -> Selection:
        return choose_k(tables, self.ks, method=self.choose, scale=method, seed=self.seed)

    def _read(self, federation: Federation[Any], tables: Mapping[str, Table]) -> None:
        self.ledger_: Ledger = federation.ledger
        self.kinds_: Kinds = federation.coordinator.kinds
        self.scaling_: Scaling = federation.coordinator.scaling
        self.state_ = federation.coordinator.state
        sites = federation.sites
        self.labels_by_site_: dict[str, np.ndarray] = {n: sites[n].labels for n in tables}
        self.confidence_by_site_ = {n: sites[n].sureness for n in tables}
        self.labels_: Int[np.ndarray, " individuals"] = np.concatenate(
            list(self.labels_by_site_.values())
        )
        self.confidence_ = np.concatenate(list(self.confidence_by_site_.values()))
        self.n_features_in_ = len(self.kinds_)

    def _by_site(self, given: Any, made: Callable[[np.ndarray], np.ndarray]) -> Any:
        check_is_fitted(self, "scaling_")
        tables = gather(given)
        found = {}
        for name, table in tables.items():
            require_same(self.kinds_, table.kinds, f"site {name!r}", "what the groups are of")
            found[name] = made(self.scaling_.apply(table.rows))
        return found if _is_sites(given) else next(iter(found.values()))

    @abstractmethod
    def _settings(self, k: int) -> Any: ...

    @abstractmethod
    def _steps(self, k: int) -> tuple[Step[Any], ...]: ...

    @abstractmethod
    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def _codes(self, scaled: np.ndarray) -> np.ndarray: ...


def _is_sites(given: Any) -> bool:
    return isinstance(given, Mapping) and not isinstance(given, MultiView)
