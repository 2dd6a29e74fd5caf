"""Federated k-means: only sums and counts of groups leave a site.

One round of Lloyd's algorithm needs, per group, the sum of its rows and their number; these add up
over sites, so federated rounds make the centres that pooled rows would make (to rounding), however
the rows are spread over sites. Starting centres come from the sites too: each summarises its rows
by a few local centroids with counts, and the coordinator runs weighted k-means++ and k-means over
those. Several starts go round together; the least sum of squared distances wins. With noise the
starts are drawn without looking at any row, so that they cost nothing.

What leaves: a group's sum over one member is that member's row, and two rounds that differ by one
member differ by that row. Without noise the releases are therefore no protection by themselves:
`min_group` withholds small groups, `GroupNoise` gives a guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._kmeans_settings import GroupNoise, KMeansSettings, KMeansState
from cofill.cluster._lloyd import choose_centers, lloyd, nearest, sum_groups, sum_groups_of_starts
from cofill.cluster._parties import (
    ClusterCoordinator,
    ClusterSite,
    CoordinatorStep,
    SiteStep,
    received_sums,
)
from cofill.errors import DataError
from cofill.privacy import GroupCentres, GroupSums, Release
from cofill.protocol import COORDINATOR, Inbox, Step, first_of_type, one_by_one

_SEEDING, _NOISE = 1, 2  # purposes of a site's random numbers


# --- starting centres: no row leaves its site ---------------------------------------------------


def summarise_locally(
    rows: Float[np.ndarray, "n d"], settings: KMeansSettings, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "groups d"], Float[np.ndarray, " groups"]]:
    """Return sums and counts of groups of a site's rows, none of fewer than `seed_group` rows."""
    if len(rows) < settings.seed_group:
        return np.zeros((1, rows.shape[1])), np.zeros(1)
    ones = np.ones(len(rows))
    groups = settings.local_groups or 2 * settings.k
    start = choose_centers(rows, ones, min(groups, len(rows)), rng)
    centers, labels, _ = lloyd(rows, ones, start, rounds=20)
    while True:
        # The smallest group joins its neighbour until no centroid stands for a few people.
        members = np.bincount(labels, minlength=len(centers))
        smallest = int(members.argmin())
        if members[smallest] >= settings.seed_group or len(centers) == 1:
            return sum_groups(rows, labels, len(centers))
        centers = np.delete(centers, smallest, axis=0)
        labels, _ = nearest(rows, centers)


def join_starts(
    releases: Sequence[GroupSums], settings: KMeansSettings, rng: np.random.Generator
) -> Float[np.ndarray, "starts k d"]:
    """Return starting centres by weighted k-means++ and k-means over all sites' centroids."""
    counts = np.concatenate([release.counts for release in releases])
    sums = np.concatenate([release.sums for release in releases])
    filled = counts > 0
    if not filled.any():
        raise DataError(
            f"every site has fewer than {settings.seed_group} rows, so none may propose starting "
            "centres; set seed_group lower if a centroid of fewer may leave its site"
        )
    points, weights = sums[filled] / counts[filled, None], counts[filled]
    starts = []
    for _ in range(settings.starts):
        start = choose_centers(points, weights, settings.k, rng)
        if len(start) < settings.k:
            # Too few centroids: the rest start between them, a little aside.
            spread = points.std(axis=0) + 1e-3
            drawn = rng.choice(len(points), settings.k - len(start), p=weights / weights.sum())
            aside = points[drawn] + rng.normal(size=(len(drawn), points.shape[1])) * spread
            start = np.concatenate([start, aside])
        starts.append(lloyd(points, weights, start)[0])
    return np.array(starts)


def draw_starts(
    columns: int, k: int, noise: GroupNoise, rng: np.random.Generator
) -> Float[np.ndarray, "1 k d"]:
    """Return starting centres that depend on no row: far apart within half the clip norm."""
    drawn = rng.normal(size=(64 * k, columns))
    drawn /= noise.lengths(drawn)
    drawn *= float(noise.clip) / 2
    return choose_centers(drawn, np.ones(len(drawn)), k, rng)[None]


# --- steps --------------------------------------------------------------------------------------


def kmeans_steps(settings: KMeansSettings) -> tuple[Step[Any], ...]:
    """Return the steps after scaling: starting centres, as many rounds as there may be, groups.

    A coordinator whose state is an array of centres, in the rows' units, starts from those.
    """
    seeding = (
        Step("summarise", one_by_one(_summarise)),
        Step("choose starts", one_by_one(_choose_starts), "coordinator"),
    )
    turn = (
        Step("add up groups", one_by_one(_add_up)),
        Step("move centres", one_by_one(_move), "coordinator"),
    )
    end = (Step("assign", one_by_one(_assign)), Step("close", one_by_one(_close), "coordinator"))
    return (*seeding, *(turn * settings.most_rounds), *end)


def _summarise(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Release a few local centroids with counts; nothing where noise is asked for."""
    settings: KMeansSettings = site.settings
    if settings.noise is not None:
        return site, []
    sums, counts = summarise_locally(site.rows, settings, site.rng(_SEEDING))
    return site, [site.release_sums(0, sums, counts)]


def _choose_starts(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Choose starting centres from the sites' centroids and send them."""
    settings: KMeansSettings = coordinator.settings
    rng = np.random.default_rng([coordinator.seed, _SEEDING])
    columns = len(coordinator.kinds)
    if coordinator.state is not None and coordinator.scaling is not None:
        centers = coordinator.scaling.apply(coordinator.state)[None]
    elif settings.noise is None:
        centers = join_starts(received_sums(coordinator, inbox, (0, columns)), settings, rng)
    else:
        centers = draw_starts(columns, settings.k, settings.noise, rng)
    return _send_state(coordinator, KMeansState.start(centers))


def _send_state(coordinator: ClusterCoordinator, state: KMeansState) -> CoordinatorStep:
    centers = send_centers(coordinator, state)
    return replace(coordinator, state=state), centers


def send_centers(coordinator: ClusterCoordinator, state: KMeansState) -> list[GroupCentres]:
    """Return the centres of all starts, for every site."""
    release = GroupCentres(
        sender=COORDINATOR,
        receiver="",
        round=state.number,
        centres=state.centers,
        running=state.running.astype(np.float64),
        best=state.best,
    )
    return [replace(release, receiver=site) for site in coordinator.sites]


def received_centers(site: ClusterSite, inbox: Inbox) -> GroupCentres:
    """Return the centres that came from the coordinator, or raise a `DataError`."""
    release, columns = first_of_type(inbox, GroupCentres), site.rows.shape[1]
    if release is None or release.centres.shape[2] != columns:
        raise DataError(
            f"site {site.name!r} has received no centres of {columns} columns; the coordinator "
            "must send them"
        )
    return release


def _add_up(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Release sums, counts and sums of squared distances (the last column) of every group."""
    sent = received_centers(site, inbox)
    _require_round(site, sent)
    sums = _sum_groups(site, sent.centres, sent.running > 0, sent.round)
    return replace(site, answered=sent.round + 1), [sums]


def _require_round(site: ClusterSite, sent: GroupCentres) -> None:
    """Raise a `DataError` unless these centres are those of a later round that was agreed on.

    What a round costs was stated for so many starts: each of more would be an answer for nothing.
    A site that was away has missed rounds; it answers none of them, and none twice.
    """
    settings: KMeansSettings = site.settings
    starts, groups, _ = sent.centres.shape
    if groups != settings.k or starts > settings.starts:
        raise DataError(
            f"site {site.name!r} answers centres of {settings.k} groups for at most "
            f"{settings.starts} starts, got {groups} groups for {starts}; refused"
        )
    if not site.answered <= sent.round <= settings.most_rounds:
        raise DataError(
            f"site {site.name!r} answers every round once, and round {site.answered} of "
            f"{settings.most_rounds} is next, got {sent.round}; refused"
        )


def _sum_groups(site: ClusterSite, starts: np.ndarray, running: np.ndarray, number: int) -> Release:
    settings: KMeansSettings = site.settings
    noise = settings.noise
    rows = site.rows if noise is None else noise.clip_rows(site.rows)
    sums = np.zeros((*starts.shape[:2], starts.shape[2] + 1))
    counts = np.zeros(starts.shape[:2])
    active = np.flatnonzero(running)
    figures = sum_groups_of_starts(rows, starts[active])
    sums[active, :, :-1], counts[active], sums[active, :, -1] = figures
    if noise is not None:
        # Distances are not released with noise: there is one start, nothing to choose by them.
        rng = None if noise.seed is None else site.rng(_NOISE, noise.seed, number)
        for start in active:
            sums[start, :, :-1], counts[start] = noise.add(sums[start, :, :-1], counts[start], rng)
            sums[start, :, -1] = 0.0
    elif settings.min_group > 1:
        small = counts < settings.min_group
        sums[small], counts[small] = 0.0, 0.0
    release = site.release_sums(number, sums.reshape(-1, sums.shape[-1]), counts.reshape(-1))
    # Whoever knows the seed can subtract the noise, so that seeded noise guarantees nothing.
    event = None if noise is None or noise.seed is not None else noise.event()
    return replace(release, event=event)


def _move(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Move every running start's centres to the means of their groups; send them on."""
    settings: KMeansSettings = coordinator.settings
    state: KMeansState = coordinator.state
    starts, k, columns = state.centers.shape
    releases = received_sums(coordinator, inbox, (starts * k, columns + 1), lacking=True)
    sums = np.sum([release.sums for release in releases], axis=0).reshape(starts, k, columns + 1)
    counts = np.sum([release.counts for release in releases], axis=0).reshape(starts, k)
    # With noise a count below one is no group; an empty group keeps its centre.
    filled = counts >= (1.0 if settings.noise is not None else 0.5)
    means = sums[..., :-1] / np.where(filled, counts, 1.0)[..., None]
    if settings.noise is not None:
        means = settings.noise.clip_rows(means.reshape(-1, columns)).reshape(means.shape)
    running = state.running
    centers = np.where((filled & running[:, None])[..., None], means, state.centers)
    shift = ((centers - state.centers) ** 2).sum(axis=(1, 2))
    inertia = np.where(running, sums[..., -1].sum(axis=1), state.inertia)
    number = state.number + 1
    moving = running & (number < settings.most_rounds)
    if settings.noise is None:
        unit = inertia / np.maximum(counts.sum(axis=1), 1.0) / columns
        moving &= shift > settings.tolerance * np.where(running, unit, 0.0)
    else:
        inertia = np.full(starts, np.nan)
    state = KMeansState(centers, inertia, state.rounds + running, moving, number)
    return _send_state(coordinator, state)


def _assign(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Give every row its group by the best start; release the groups' final sums."""
    sent = received_centers(site, inbox)
    _require_round(site, sent)
    centers = sent.centres[sent.best]
    outbox: list[Release] = []
    if site.settings.noise is None:
        outbox.append(_sum_groups(site, centers[None], np.ones(1, bool), sent.round))
    labels, confidence = assign_groups(site.rows, centers)
    return replace(site, labels=labels, confidence=confidence), outbox


def _close(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Keep the best start and its final sum of squared distances."""
    state: KMeansState = coordinator.state
    best = [state.best]
    inertia = state.inertia[best]
    if inbox:
        k, columns = state.centers.shape[1:]
        releases = received_sums(coordinator, inbox, (k, columns + 1), lacking=True)
        inertia = np.array([sum(release.sums[:, -1].sum() for release in releases)])
    centers, rounds, stopped = state.centers[best], state.rounds[best], np.zeros(1, bool)
    state = KMeansState(centers, inertia, rounds, stopped, state.number)
    return replace(coordinator, state=state), []


def assign_groups(
    rows: Float[np.ndarray, "n d"], centers: Float[np.ndarray, "k d"]
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return each row's group, and how much nearer its centre is than the next.

    Examples
    --------
    >>> assign_groups(np.array([[0.0], [1.0], [0.5]]), np.array([[0.0], [2.0]]))[1].tolist()
    [1.0, 0.0, 0.6666666666666667]
    """
    labels, nearest_square = nearest(rows, centers)
    squares = (rows * rows).sum(axis=1, keepdims=True) + (centers * centers).sum(axis=1)
    distances = np.sqrt(np.maximum(squares - 2 * rows @ centers.T, 0.0))
    second = np.partition(distances, 1, axis=1)[:, 1]
    sureness = 1.0 - np.sqrt(nearest_square) / np.where(second > 0, second, 1.0)
    return labels, np.clip(sureness, 0.0, 1.0)
