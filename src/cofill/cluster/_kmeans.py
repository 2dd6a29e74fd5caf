"""k-means, pooled and federated: only sums and counts of groups leave a site.

One round of Lloyd's algorithm needs, per group, the sum of its rows and their number; these add up
over sites, so federated rounds make the centres that pooled rows would make (to rounding), however
the rows are spread over sites. Starting centres come from the sites too: each summarises its rows
by a few local centroids with counts, and the coordinator runs weighted k-means++ and k-means over
those. Several starts go round together; the least sum of squared distances wins.

What leaves: a group's sum over one member is that member's row, and two rounds that differ by one
member differ by that row. Without noise the releases are therefore no protection by themselves:
`min_group` withholds small groups, `GroupNoise` gives a guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._lloyd import add_up_starts, nearest
from cofill.cluster._noise import GroupNoise
from cofill.cluster._site import ClusterSite, Conductor, Inbox, sums_of, told_model
from cofill.cluster._starts import data_free_starts, joined_starts, local_groups
from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy import GroupSums, ModelWeights, Release
from cofill.protocol import COORDINATOR, Step

__all__ = ["KMeansSettings", "KMeansState", "kmeans_steps", "pooled_kmeans", "sureness"]

_SEEDING, _NOISE = 1, 2  # purposes of a site's random numbers


@dataclass(frozen=True)
class KMeansSettings:
    """How k-means is run.

    Parameters
    ----------
    k
        Number of groups.
    restarts
        Starts that go round together; the best one stays. 1 with noise.
    rounds
        Most rounds of sums.
    tolerance
        A start is done when its centres move, squared and added up, by less than this share of the
        mean squared distance a column; 0 goes on until nobody changes the group.
    local_groups
        Groups a site summarises its rows by for the starting centres; None for 2k.
    seed_group
        A local group of fewer members is joined to its neighbour before its centroid leaves; a
        site with fewer rows keeps out of the choice of starting centres.
    min_group
        A site withholds the sum of a group that has fewer of its rows. Above 1 the result is no
        longer that of pooled rows.
    noise
        Noise on sums and counts, and their cost; None for exact sums.

    Examples
    --------
    >>> KMeansSettings(k=3).restarts
    4
    """

    k: int = 8
    restarts: int = 4
    rounds: int = 100
    tolerance: float | int = 1e-4
    local_groups: int | None = None
    seed_group: int = 5
    min_group: int = 1
    noise: GroupNoise | None = None

    def __post_init__(self) -> None:
        if self.k < 2:
            raise SettingError(f"k must be at least 2, got {self.k}")
        for name in ("restarts", "rounds", "seed_group", "min_group"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.tolerance >= 0:
            raise SettingError(f"tolerance must be 0 or more, got {self.tolerance}")
        if self.local_groups is not None and self.local_groups < 1:
            raise SettingError(f"local_groups must be at least 1, got {self.local_groups}")

    @property
    def starts(self) -> int:
        """How many starts there are."""
        return 1 if self.noise is not None else self.restarts

    @property
    def most_rounds(self) -> int:
        """How many rounds there are at most, or exactly with noise."""
        return self.rounds if self.noise is None else self.noise.rounds


@storable
@dataclass(frozen=True, eq=False)
class KMeansState:
    """What the coordinator knows.

    Attributes
    ----------
    centers
        Centres of each start, in scaled units.
    inertia
        Sum of squared distances of each start before its last move of centres; NaN with noise.
    rounds
        How many rounds each start has taken.
    running
        Which starts still move.
    """

    centers: Float[np.ndarray, "starts k d"]
    inertia: Float[np.ndarray, " starts"]
    rounds: Int[np.ndarray, " starts"]
    running: np.ndarray
    number: int = 0

    @property
    def best(self) -> int:
        """The start with the least sum of squared distances."""
        return 0 if np.isnan(self.inertia).all() else int(np.nanargmin(self.inertia))


def pooled_kmeans(
    rows: Float[np.ndarray, "n d"], k: int, *, restarts: int = 10, seed: int = 0
) -> tuple[Float[np.ndarray, "k d"], Int[np.ndarray, " n"], float]:
    """Return centres, groups and sum of squared distances by scikit-learn, on rows in one place.

    Examples
    --------
    >>> _, labels, _ = pooled_kmeans(np.array([[0.0], [0.1], [9.0], [9.1]]), 2)
    >>> bool(labels[0] == labels[1] != labels[2])
    True
    """
    from sklearn.cluster import KMeans

    found: Any = KMeans(k, random_state=seed).set_params(n_init=restarts).fit(rows)
    return found.cluster_centers_, found.labels_.astype(np.int64), float(found.inertia_)


def kmeans_steps(settings: KMeansSettings) -> tuple[Step[Any], ...]:
    """Return the whole protocol: starting centres, rounds, groups. Steps after the last are empty.

    A coordinator whose state is an array of centres, in the rows' own units, starts from those.
    """
    seeding = (Step("summarise", _summarise), Step("choose starts", _choose, "coordinator"))
    turn = (Step("add up groups", _assign), Step("move centres", _move, "coordinator"))
    end = (Step("assign", _finish), Step("close", _close, "coordinator"))
    return (*seeding, *(turn * settings.most_rounds), *end)


def _summarise(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Release a few local centroids with counts; nothing where noise is asked for."""
    results = []
    for site in sites:
        settings: KMeansSettings = site.settings
        outbox: list[Release] = []
        if settings.noise is None:
            sums, counts = local_groups(site.rows, settings, site.rng(_SEEDING))
            outbox.append(_release(site, 0, sums, counts))
        results.append((site, outbox))
    return results


def _choose(
    conductors: Sequence[Conductor], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Choose starting centres from the sites' centroids and send them."""
    results = []
    for conductor, inbox in zip(conductors, inboxes, strict=True):
        settings: KMeansSettings = conductor.settings
        state = conductor.state
        if state is None or isinstance(state, np.ndarray):
            rng = np.random.default_rng([conductor.seed, _SEEDING])
            columns = len(conductor.kinds)
            if state is not None:  # centres in the rows' own units
                assert conductor.scaling is not None  # noqa: S101  (scaling comes first)
                centers = conductor.scaling.apply(state)[None]
            elif settings.noise is None:
                told = sums_of(conductor, inbox, (0, columns))
                centers = joined_starts(told, settings, rng)
            else:
                centers = data_free_starts(columns, settings, rng)
            starts = len(centers)
            state = KMeansState(
                centers,
                np.full(starts, np.nan),
                np.zeros(starts, np.int64),
                np.ones(starts, bool),
            )
        results.append((conductor.with_(state=state), _sent(conductor, state)))
    return results


def _sent(conductor: Conductor, state: KMeansState) -> list[Release]:
    return conductor.to_all(
        state.number,
        state.centers.reshape(-1),
        shape=np.array(state.centers.shape),
        running=state.running.astype(np.float64),
        best=np.array([state.best]),
    )


def _centers_in(model: ModelWeights) -> np.ndarray:
    return model.weights.reshape(tuple(int(size) for size in model.extras["shape"]))


def _release(site: ClusterSite, number: int, sums: np.ndarray, counts: np.ndarray) -> GroupSums:
    noise: GroupNoise | None = site.settings.noise
    return GroupSums(
        sender=site.name,
        receiver=COORDINATOR,
        round=number,
        sums=sums,
        counts=counts,
        event=None if noise is None or noise.seed is not None else noise.event(),
    )


def _assign(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Release sums, counts and sums of squared distances (the last column) of every group."""
    results = []
    for site, inbox in zip(sites, inboxes, strict=True):
        model = told_model(inbox)
        outbox: list[Release] = []
        if model is not None:
            site = site.with_(memory=model)
            running = model.extras["running"] > 0
            if running.any():
                told = _group_sums(site, _centers_in(model), running, model.round)
                outbox.append(_release(site, model.round, *told))
        results.append((site, outbox))
    return results


def _group_sums(
    site: ClusterSite, starts: np.ndarray, running: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    settings: KMeansSettings = site.settings
    noise, k = settings.noise, starts.shape[1]
    rows = site.rows if noise is None else noise.clipped(site.rows)
    sums = np.zeros((*starts.shape[:2], starts.shape[2] + 1))
    counts = np.zeros(starts.shape[:2])
    at = np.flatnonzero(running)
    sums[at, :, :-1], counts[at], sums[at, :, -1] = add_up_starts(rows, starts[at])
    for s in at:
        if noise is not None:
            # Distances are not released with noise: there is one start, nothing to choose by them.
            rng = None if noise.seed is None else site.rng(_NOISE, noise.seed, number)
            noisy, counts[s] = noise.added(sums[s, :, :-1], counts[s], rng)
            sums[s] = np.concatenate([noisy, np.zeros((k, 1))], axis=1)
        elif settings.min_group > 1:
            small = counts[s] < settings.min_group
            sums[s, small], counts[s, small] = 0.0, 0.0
    return sums.reshape(-1, sums.shape[-1]), counts.reshape(-1)


def _move(
    conductors: Sequence[Conductor], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Move every running start's centres to the means of their groups; send them on."""
    results = []
    for conductor, inbox in zip(conductors, inboxes, strict=True):
        outbox: list[Release] = []
        if inbox and conductor.state is not None:
            state = _moved(conductor, inbox)
            conductor = conductor.with_(state=state)
            outbox = _sent(conductor, state)
        results.append((conductor, outbox))
    return results


def _moved(conductor: Conductor, inbox: Inbox) -> KMeansState:
    settings: KMeansSettings = conductor.settings
    state: KMeansState = conductor.state
    starts, k, d = state.centers.shape
    told = sums_of(conductor, inbox, (starts * k, d + 1))
    sums = np.sum([one.sums for one in told], axis=0).reshape(starts, k, d + 1)
    counts = np.sum([one.counts for one in told], axis=0).reshape(starts, k)
    # With noise a count below one is no group; an empty group keeps its centre.
    there = counts >= (1.0 if settings.noise is not None else 0.5)
    means = sums[..., :-1] / np.where(there, counts, 1.0)[..., None]
    if settings.noise is not None:
        means = settings.noise.clipped(means.reshape(-1, d)).reshape(means.shape)
    running = state.running
    centers = np.where((there & running[:, None])[..., None], means, state.centers)
    shift = ((centers - state.centers) ** 2).sum(axis=(1, 2))
    inertia = np.where(running, sums[..., -1].sum(axis=1), state.inertia)
    number = state.number + 1
    if settings.noise is None:
        unit = inertia / np.maximum(counts.sum(axis=1), 1.0) / d
        moving = shift > settings.tolerance * np.where(running, unit, 0.0)
        moving &= running & (number < settings.rounds)
    else:
        inertia = np.full(starts, np.nan)
        moving = running & (number < settings.noise.rounds)
    return replace(
        state,
        centers=centers,
        inertia=inertia,
        rounds=state.rounds + running,
        running=moving,
        number=number,
    )


def _finish(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Give every row its group by the best start; release the groups' final sums."""
    results = []
    for site, inbox in zip(sites, inboxes, strict=True):
        model = told_model(inbox) or site.memory
        centers = _centers_in(model)[int(model.extras["best"][0])]
        settings: KMeansSettings = site.settings
        labels, _ = nearest(site.rows, centers)
        outbox: list[Release] = []
        if settings.noise is None:
            last = _group_sums(site, centers[None], np.ones(1, bool), model.round)
            outbox.append(_release(site, model.round, *last))
        site = site.with_(labels=labels, sureness=sureness(site.rows, centers), memory=None)
        results.append((site, outbox))
    return results


def _close(
    conductors: Sequence[Conductor], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Keep the best start and its final sum of squared distances."""
    results = []
    for conductor, inbox in zip(conductors, inboxes, strict=True):
        state: KMeansState = conductor.state
        best = [state.best]
        inertia = state.inertia[best]
        if inbox:
            k, d = state.centers.shape[1:]
            inertia = np.array(
                [sum(one.sums[:, -1].sum() for one in sums_of(conductor, inbox, (k, d + 1)))]
            )
        state = replace(
            state,
            centers=state.centers[best],
            inertia=inertia,
            rounds=state.rounds[best],
            running=np.zeros(1, bool),
        )
        results.append((conductor.with_(state=state), []))
    return results


def sureness(
    rows: Float[np.ndarray, "n d"], centers: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, " n"]:
    """Return how much nearer a row's centre is than the next: 0 between two, 1 on its centre.

    Examples
    --------
    >>> sureness(np.array([[0.0], [1.0], [0.5]]), np.array([[0.0], [2.0]])).tolist()
    [1.0, 0.0, 0.6666666666666667]
    """
    _, first = nearest(rows, centers)
    every = (rows * rows).sum(axis=1, keepdims=True) + (centers * centers).sum(axis=1)
    every = np.sqrt(np.maximum(every - 2 * rows @ centers.T, 0.0))
    second = np.partition(every, 1, axis=1)[:, 1]
    return np.clip(1.0 - np.sqrt(first) / np.where(second > 0, second, 1.0), 0.0, 1.0)
