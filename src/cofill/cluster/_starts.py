"""Starting centres without a row leaving its site: local centroids, joined by the coordinator.

With noise the starts are drawn without looking at any row, so that they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from cofill.cluster._lloyd import add_up, lloyd, nearest, spread_out
from cofill.errors import DataError
from cofill.privacy import GroupSums

if TYPE_CHECKING:
    from cofill.cluster._kmeans import KMeansSettings

__all__ = ["data_free_starts", "joined_starts", "local_groups"]


def local_groups(
    rows: Float[np.ndarray, "n d"], settings: KMeansSettings, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and counts of a site's own groups, none of fewer than `seed_group` rows."""
    wanted = settings.local_groups or 2 * settings.k
    if len(rows) < settings.seed_group:
        return np.zeros((1, rows.shape[1])), np.zeros(1)
    ones = np.ones(len(rows))
    start = spread_out(rows, ones, min(wanted, len(rows)), rng)
    centers, labels, _ = lloyd(rows, ones, start, rounds=20)
    while True:
        # The smallest group joins its neighbour until no centroid stands for a few people.
        members = np.bincount(labels, minlength=len(centers))
        small = int(members.argmin())
        if members[small] >= settings.seed_group or len(centers) == 1:
            return add_up(rows, labels, len(centers))
        centers = np.delete(centers, small, axis=0)
        labels, _ = nearest(rows, centers)


def joined_starts(
    told: Sequence[GroupSums], settings: KMeansSettings, rng: np.random.Generator
) -> Float[np.ndarray, "starts k d"]:
    """Return starting centres by weighted k-means++ and k-means over all sites' centroids."""
    counts = np.concatenate([one.counts for one in told])
    sums = np.concatenate([one.sums for one in told])
    there = counts > 0
    if not there.any():
        raise DataError(
            f"every site has fewer than {settings.seed_group} rows, so none may propose starting "
            "centres; set seed_group lower if a centroid of fewer may leave its site"
        )
    points, weights = sums[there] / counts[there, None], counts[there]
    starts = []
    for _ in range(settings.starts):
        start = spread_out(points, weights, settings.k, rng)
        if len(start) < settings.k:
            # Too few centroids: the rest start between them, a little aside.
            spread = points.std(axis=0) + 1e-3
            drawn = rng.choice(len(points), settings.k - len(start), p=weights / weights.sum())
            aside = points[drawn] + rng.normal(size=(len(drawn), points.shape[1])) * spread
            start = np.concatenate([start, aside])
        starts.append(lloyd(points, weights, start)[0])
    return np.array(starts)


def data_free_starts(
    columns: int, settings: KMeansSettings, rng: np.random.Generator
) -> Float[np.ndarray, "1 k d"]:
    """Return starting centres that no row has a part in: far apart within half the clip norm."""
    assert settings.noise is not None  # noqa: S101  (the caller's case)
    drawn = rng.normal(size=(64 * settings.k, columns))
    order = 2 if settings.noise.mechanism == "gaussian" else 1
    drawn /= np.linalg.norm(drawn, ord=order, axis=1, keepdims=True)
    drawn *= float(settings.noise.clip) / 2
    return spread_out(drawn, np.ones(len(drawn)), settings.k, rng)[None]
