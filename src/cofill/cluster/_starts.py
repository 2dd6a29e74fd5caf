"""Starting centres without a row leaving its site: local centroids, joined by the coordinator.

With noise the starts are drawn without looking at any row, so that they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._lloyd import choose_centers, lloyd, nearest, sum_groups
from cofill.cluster._noise import GroupNoise
from cofill.errors import DataError
from cofill.privacy import GroupSums


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
    drawn /= np.linalg.norm(drawn, ord=noise.norm, axis=1, keepdims=True)
    drawn *= float(noise.clip) / 2
    return choose_centers(drawn, np.ones(len(drawn)), k, rng)[None]
