"""Clustering as estimators: sites are made from rows and run in this process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from cofill.cluster._augment import WarpSettings
from cofill.cluster._deep_protocol import DeepClusterProtocol
from cofill.cluster._deep_settings import DeepSettings, DeepState, plan_of
from cofill.cluster._kmeans import assign_groups
from cofill.cluster._kmeans_settings import GroupNoise, KMeansSettings, KMeansState
from cofill.cluster._network import NetworkSettings
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._protocol import Progress, members_of, run_clustering, run_kmeans
from cofill.cluster._rounds import probabilities
from cofill.cluster._rows import (
    ColumnKinds,
    Sites,
    gather_rows,
    is_site_mapping,
    require_groups,
    require_same_columns,
)
from cofill.cluster._scale import Scaling, choose_scale
from cofill.cluster._select import choose_k
from cofill.errors import DataError, SettingError
from cofill.privacy import Ledger
from cofill.protocol import Federation

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
        rows = gather_rows(sites)
        scale = self._choose_scale(next(iter(rows.values())).kinds)
        k, selection = self.k, None
        if k is None:
            selection = choose_k(rows, self.ks, method=self.choose, scale=scale, seed=self.seed)
            k = selection.k
        require_groups(rows, k)
        ledger = Ledger() if selection is None else selection.ledger
        federation = self._run(rows, k, scale, ledger, progress)
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

    def _settings(self, settings: type, k: int) -> Any:
        """Return settings by the parameters of their names; None stands for a setting's default."""
        parameters = {field.name: getattr(self, field.name) for field in fields(settings)}
        options = {name: value for name, value in parameters.items() if value is not None}
        return settings(**{**options, "k": k})

    def _read(self, federation: Federation[Any]) -> None:
        """Learn from what the parties have become."""
        self.ledger_: Ledger = federation.ledger
        self.kinds_: ColumnKinds = federation.coordinator.kinds
        self.scaling_: Scaling = federation.coordinator.scaling
        self.state_ = federation.coordinator.state
        sites = federation.sites.items()
        self.labels_by_site_: dict[str, np.ndarray] = {name: site.labels for name, site in sites}
        self.confidence_by_site_ = {name: site.confidence for name, site in sites}
        labels, confidence = self.labels_by_site_.values(), self.confidence_by_site_.values()
        self.labels_: Int[np.ndarray, " individuals"] = np.concatenate(list(labels))
        self.confidence_: Float[np.ndarray, " individuals"] = np.concatenate(list(confidence))
        self.n_features_in_ = len(self.kinds_)

    def _apply_to_sites(self, rows: Any, apply: Callable[[np.ndarray], np.ndarray]) -> Any:
        check_is_fitted(self, "scaling_")
        results, reference = {}, "the data that the groups are of"
        for name, site in gather_rows(rows).items():
            require_same_columns(self.kinds_, site.kinds, f"site {name!r}", reference)
            results[name] = apply(self.scaling_.apply(site.rows))
        return results if is_site_mapping(rows) else next(iter(results.values()))

    @abstractmethod
    def _run(
        self, sites: Sites, k: int, scale: str, ledger: Ledger, progress: Progress | None
    ) -> Federation[Any]:
        """Return the parties after the method has run."""

    @abstractmethod
    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups of scaled rows, and how sure they are."""

    @abstractmethod
    def _encode(self, scaled: np.ndarray) -> np.ndarray:
        """Return the codes of scaled rows."""


@dataclass(kw_only=True, eq=False, repr=False)
class FederatedKMeans(AbstractClusterer):
    """k-means over sites: what leaves a site is sums and counts of groups.

    Parameters
    ----------
    k
        Number of groups; None chooses one of `ks`.
    restarts, rounds, tolerance, local_groups, seed_group, min_group, noise
        See `KMeansSettings`. With noise, `scale` must be ``"none"``: scaling would cost more.
    init
        Starting centres in the rows' units, in place of those that the sites propose.
    scale
        ``"standard"``, ``"robust"``, ``"overall"``, ``"none"``, or ``"auto"``: overall for images,
        else standard.
    ks, choose
        What is tried when k is None, and how: ``"gap"`` or ``"stability"``.
    seed
        Start of all randomness.

    Attributes
    ----------
    labels_, confidence_
        Group of each individual, site after site, and how much nearer its centre is than the next.
    labels_by_site_, confidence_by_site_
        The same by site.
    centers_
        Centres in the rows' units.
    inertia_
        Sum of squared distances in scaled units; NaN with noise.
    n_iter_
        Rounds taken.
    cost_
        What noise costs an individual, or None.
    ledger_
        What left a site, when and how much.

    Examples
    --------
    >>> north, south = np.array([[0.0], [0.2], [9.0]]), np.array([[9.1], [0.1], [9.2]])
    >>> model = FederatedKMeans(k=2, seed_group=1).fit({"north": north, "south": south})
    >>> model.centers_.round(2).ravel().tolist() in ([0.1, 9.1], [9.1, 0.1])
    True
    """

    k: int | None = field(default=8, kw_only=False)
    restarts: int = 4
    rounds: int = 100
    tolerance: float | int = 1e-4
    init: Any = None
    scale: str = "auto"
    local_groups: int | None = None
    seed_group: int = 5
    min_group: int = 1
    noise: GroupNoise | None = None
    ks: tuple[int, ...] = tuple(range(2, 11))
    choose: str = "stability"
    seed: int = 0

    def _choose_scale(self, kinds: ColumnKinds) -> str:
        if self.noise is not None and self.k is None:
            raise SettingError("k must be given with noise: choosing it would cost privacy as well")
        return choose_scale(self.scale, kinds, self.noise)

    def _run(
        self, sites: Sites, k: int, scale: str, ledger: Ledger, progress: Progress | None
    ) -> Federation[Any]:
        init = None
        if self.init is not None:
            init = np.asarray(self.init, dtype=np.float64).reshape(k, -1)
            columns = len(next(iter(sites.values())).kinds)
            if init.shape[1] != columns:
                raise DataError(f"init must have {columns} columns, got {init.shape[1]}")
        settings = self._settings(KMeansSettings, k)
        return run_kmeans(sites, settings, scale, self.seed, ledger, init=init, progress=progress)

    def _read(self, federation: Federation[Any]) -> None:
        super()._read(federation)
        state: KMeansState = self.state_
        self.centers_: Float[np.ndarray, "k columns"] = self.scaling_.undo(state.centers[0])
        self.inertia_ = float(state.inertia[0])
        self.n_iter_ = int(state.rounds[0])
        self.cost_ = None if self.noise is None else self.noise.cost()

    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return assign_groups(scaled, self.state_.centers[0])

    def _encode(self, scaled: np.ndarray) -> np.ndarray:
        return scaled


@dataclass(kw_only=True, eq=False, repr=False)
class DeepClustering(AbstractClusterer):
    """Groups by a network that learns without labels, over sites; what leaves is weights.

    Rows that are images (a view with an image shape, or an array of three axes) are compared with
    small warps of themselves, other rows with their neighbours at their site.

    Parameters
    ----------
    k
        Number of groups; None chooses one of `ks` by k-means.
    restarts, finalists, trial, apart, rounds, local_steps, batch, learning_rate, over, start, warm
        See `DeepSettings`.
    neighbours, reach, adversary, seed_group, min_group, network, objective, warp
        See `DeepSettings`; sensible defaults when left out.
    scale, ks, choose, seed
        See `FederatedKMeans`.

    Attributes
    ----------
    labels_, confidence_, labels_by_site_, confidence_by_site_, ledger_
        See `FederatedKMeans`; confidence is the group's probability.
    centers_
        Mean row of each group, in the rows' units; NaN for a group without rows.
    objective_, restart_
        The loss of the restart that was chosen (by it), and its number.
    history_
        Loss of every restart after each round; NaN once it is out.
    n_iter_
        Rounds taken.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 8])
    >>> quick = DeepClustering(2, restarts=2, rounds=6, local_steps=10, batch=32,
    ...                        learning_rate=0.01, network=NetworkSettings(hidden=(16,)))
    >>> labels = quick.fit(rows).labels_
    >>> len(set(labels[:60])), len(set(labels[60:])), bool(labels[0] != labels[-1])
    (1, 1, True)
    """

    k: int | None = field(default=10, kw_only=False)
    restarts: int = 8
    finalists: int = 2
    trial: float | int = 0.2
    apart: float | int = 0.4
    rounds: int = 100
    local_steps: int = 24
    batch: int = 256
    learning_rate: float | int = 2e-3
    over: tuple[int, ...] = ()
    start: str = "auto"
    warm: float | int = 0.15
    neighbours: int = 10
    reach: float | int = 1.0
    adversary: float | int = 0.5
    seed_group: int = 5
    min_group: int = 1
    network: NetworkSettings | None = None
    objective: ObjectiveSettings | None = None
    warp: WarpSettings | None = None
    scale: str = "auto"
    ks: tuple[int, ...] = tuple(range(2, 11))
    choose: str = "stability"
    seed: int = 0

    def _run(
        self, sites: Sites, k: int, scale: str, ledger: Ledger, progress: Progress | None
    ) -> Federation[Any]:
        settings = self._settings(DeepSettings, k)
        protocol = DeepClusterProtocol(members_of(sites), settings, scale, self.seed)
        return run_clustering(protocol, sites, ledger, progress=progress)

    def _read(self, federation: Federation[Any]) -> None:
        super()._read(federation)
        state: DeepState = self.state_
        assert state.centers is not None  # noqa: S101  (the last step sets them)
        self.plan_ = plan_of(self._settings(DeepSettings, self.k_), self.kinds_)
        self.centers_: Float[np.ndarray, "k columns"] = self.scaling_.undo(state.centers[0])
        self.objective_ = float(state.objective[0])
        self.restart_ = int(state.restarts[0])
        self.history_: Float[np.ndarray, "rounds restarts"] = np.array(state.history)
        self.n_iter_ = state.number

    def predict_proba(self, rows: Any) -> Any:
        """Return the probability of each group for each row."""
        return self._apply_to_sites(rows, lambda scaled: self._probabilities(scaled)[0])

    def _probabilities(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return probabilities(self.plan_, self.state_.weights[0], scaled)

    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probability, _ = self._probabilities(scaled)
        return probability.argmax(axis=1), probability.max(axis=1).astype(np.float64)

    def _encode(self, scaled: np.ndarray) -> np.ndarray:
        return self._probabilities(scaled)[1].astype(np.float64)
