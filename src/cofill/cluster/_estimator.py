"""Clustering as estimators: sites are made from rows and run in this process.

`fit` takes an array or a `MultiView` (one site), or a mapping from site names to those. Groups are
numbered from 0; learned attributes end in an underscore, and no label is ever asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.cluster._augment import WarpSettings
from cofill.cluster._clusterer import AbstractClusterer
from cofill.cluster._deep import deep_steps
from cofill.cluster._deep_settings import DeepSettings, DeepState, plan_of
from cofill.cluster._kmeans import KMeansSettings, KMeansState, kmeans_steps, sureness
from cofill.cluster._lloyd import nearest
from cofill.cluster._network import NetworkSettings
from cofill.cluster._noise import GroupNoise
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._rounds import probabilities
from cofill.cluster._rows import Table
from cofill.cluster._select import Selection
from cofill.errors import DataError, SettingError
from cofill.protocol import Federation, Step

__all__ = ["DeepClustering", "FederatedKMeans"]


class FederatedKMeans(AbstractClusterer):
    """k-means over sites: what leaves a site is sums and counts of groups.

    Parameters
    ----------
    k
        Number of groups; None chooses one of `ks`.
    restarts, rounds, tolerance, local_groups, seed_group, min_group, noise
        See `KMeansSettings`. With noise, `scale` must be ``"none"``: scaling would cost more.
    init
        Starting centres in the rows' own units, in place of those that the sites propose.
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
        Centres in the rows' own units.
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

    def __init__(
        self,
        k: int | None = 8,
        *,
        restarts: int = 4,
        rounds: int = 100,
        tolerance: float | int = 1e-4,
        init: Any = None,
        scale: str = "auto",
        local_groups: int | None = None,
        seed_group: int = 5,
        min_group: int = 1,
        noise: GroupNoise | None = None,
        ks: tuple[int, ...] = tuple(range(2, 11)),
        choose: str = "stability",
        seed: int = 0,
    ) -> None:
        self.k = k
        self.restarts = restarts
        self.rounds = rounds
        self.tolerance = tolerance
        self.init = init
        self.scale = scale
        self.local_groups = local_groups
        self.seed_group = seed_group
        self.min_group = min_group
        self.noise = noise
        self.ks = ks
        self.choose = choose
        self.seed = seed

    def _settings(self, k: int) -> KMeansSettings:
        return KMeansSettings(
            k=k,
            restarts=self.restarts,
            rounds=self.rounds,
            tolerance=self.tolerance,
            local_groups=self.local_groups,
            seed_group=self.seed_group,
            min_group=self.min_group,
            noise=self.noise,
        )

    def _steps(self, k: int) -> tuple[Step[Any], ...]:
        return kmeans_steps(self._settings(k))

    def _choose_k(self, tables: Mapping[str, Table], method: str) -> Selection:
        if self.noise is not None:
            raise SettingError("k must be given with noise: choosing it would cost privacy as well")
        return super()._choose_k(tables, method)

    def _start(self, tables: Mapping[str, Table], k: int, method: str) -> Federation[Any]:
        if self.noise is not None and method != "none":
            raise SettingError(
                f"scale must be 'none' with noise, because exact means and spreads would leave "
                f"otherwise, got {self.scale!r}; scale by bounds known beforehand"
            )
        federation = super()._start(tables, k, method)
        if self.init is not None:
            centers = np.asarray(self.init, dtype=np.float64).reshape(k, -1)
            if centers.shape[1] != len(federation.coordinator.kinds):
                raise DataError(
                    f"init must have {len(federation.coordinator.kinds)} columns, got "
                    f"{centers.shape[1]}"
                )
            federation.coordinator = federation.coordinator.with_(state=centers)
        return federation

    def _read(self, federation: Federation[Any], tables: Mapping[str, Table]) -> None:
        super()._read(federation, tables)
        state: KMeansState = self.state_
        self._scaled_centers = state.centers[0]
        self.centers_: Float[np.ndarray, "k columns"] = self.scaling_.undo(state.centers[0])
        self.inertia_ = float(state.inertia[0])
        self.n_iter_ = int(state.rounds[0])
        self.cost_ = None if self.noise is None else self.noise.cost()

    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return nearest(scaled, self._scaled_centers)[0], sureness(scaled, self._scaled_centers)

    def _codes(self, scaled: np.ndarray) -> np.ndarray:
        return scaled


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
    neighbours, reach, adversary, network, objective, warp
        See `DeepSettings`; sensible defaults when left out.
    scale, ks, choose, seed
        See `FederatedKMeans`.

    Attributes
    ----------
    labels_, confidence_, labels_by_site_, confidence_by_site_, ledger_
        See `FederatedKMeans`; confidence is the group's probability.
    centers_
        Mean row of each group, in the rows' own units; NaN for a group without rows.
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

    def __init__(
        self,
        k: int | None = 10,
        *,
        restarts: int = 8,
        finalists: int = 2,
        trial: float | int = 0.2,
        apart: float | int = 0.4,
        rounds: int = 100,
        local_steps: int = 24,
        batch: int = 256,
        learning_rate: float | int = 2e-3,
        over: tuple[int, ...] = (),
        start: str = "auto",
        warm: float | int = 0.15,
        neighbours: int = 10,
        reach: float | int = 1.0,
        adversary: float | int = 0.5,
        network: NetworkSettings | None = None,
        objective: ObjectiveSettings | None = None,
        warp: WarpSettings | None = None,
        scale: str = "auto",
        ks: tuple[int, ...] = tuple(range(2, 11)),
        choose: str = "stability",
        seed: int = 0,
    ) -> None:
        self.k = k
        self.restarts = restarts
        self.finalists = finalists
        self.trial = trial
        self.apart = apart
        self.rounds = rounds
        self.local_steps = local_steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.over = over
        self.start = start
        self.warm = warm
        self.neighbours = neighbours
        self.reach = reach
        self.adversary = adversary
        self.network = network
        self.objective = objective
        self.warp = warp
        self.scale = scale
        self.ks = ks
        self.choose = choose
        self.seed = seed

    def _settings(self, k: int) -> DeepSettings:
        own = ("k", "scale", "ks", "choose", "seed")
        chosen = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in own and value is not None
        }
        return DeepSettings(k=k, **chosen)

    def _steps(self, k: int) -> tuple[Step[Any], ...]:
        return deep_steps(self._settings(k))

    def _read(self, federation: Federation[Any], tables: Mapping[str, Table]) -> None:
        super()._read(federation, tables)
        state: DeepState = self.state_
        assert state.centers is not None  # noqa: S101  (the last step sets them)
        self.plan_ = plan_of(self._settings(self.k_), self.kinds_)
        self.centers_: Float[np.ndarray, "k columns"] = self.scaling_.undo(state.centers[0])
        self.objective_ = float(state.objective[0])
        self.restart_ = int(state.restarts[0])
        self.history_: Float[np.ndarray, "rounds restarts"] = np.array(state.history)
        self.n_iter_ = state.number

    def predict_proba(self, rows: Any) -> Any:
        """Return the probability of each group for each row."""
        return self._by_site(
            rows, lambda s: probabilities(self.plan_, self.state_.weights[0], s)[0]
        )

    def _assign(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sure, _ = probabilities(self.plan_, self.state_.weights[0], scaled)
        return sure.argmax(axis=1), sure.max(axis=1).astype(np.float64)

    def _codes(self, scaled: np.ndarray) -> np.ndarray:
        return probabilities(self.plan_, self.state_.weights[0], scaled)[1].astype(np.float64)
