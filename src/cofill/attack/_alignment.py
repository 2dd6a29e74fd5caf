"""Laying one cloud of points over another without knowing which point is which.

Both clouds are whitened in their leading principal components, which fixes them up to a rotation.
The order of the components fixes it roughly up to signs; signs are tried and judged by how cheaply
the one cloud can be moved onto the other, and the rotation is then improved by turns of optimal
assignment and Procrustes' problem (Grave, Joulin and Berthet 2019, without their stochastic steps).
It works where both clouds have the same lopsided shape, and fails for round ones: a normal
distribution looks alike from all sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

__all__ = ["Whitened", "aligned", "whitened"]

_SIGNED = 4  # components whose signs are tried


@dataclass(frozen=True, eq=False)
class Whitened:
    """A cloud in its leading principal components, each of variance 1.

    ``points @ back + mean`` is the cloud again, as far as so many components tell.
    """

    points: Float[np.ndarray, "n rank"]
    back: Float[np.ndarray, "rank columns"]
    mean: Float[np.ndarray, " columns"]


def whitened(cloud: Float[np.ndarray, "n columns"], rank: int) -> Whitened:
    """Return a cloud's leading principal components, fewer where it has fewer.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(50, 3)) * [3, 2, 1]
    >>> flat = whitened(x, 2)
    >>> flat.points.shape, bool(np.allclose(flat.points.std(axis=0), 1))
    ((50, 2), True)
    """
    mean = cloud.mean(axis=0)
    left, sizes, right = np.linalg.svd(cloud - mean, full_matrices=False)
    kept = min(rank, int((sizes > 1e-6 * max(sizes[0], 1e-300)).sum()))
    # SVD leaves the signs open: the longer tail of every component points up.
    lopsided = (left[:, :kept] ** 3).sum(axis=0)
    sign = np.where(lopsided < 0, -1.0, 1.0)
    root = np.sqrt(len(cloud))
    return Whitened(
        left[:, :kept] * root * sign, (sizes[:kept] / root * sign)[:, None] * right[:kept], mean
    )


def aligned(
    source: Float[np.ndarray, "n rank"],
    target: Float[np.ndarray, "m rank"],
    *,
    rounds: int = 20,
    points: int = 300,
    seed: int = 0,
) -> Float[np.ndarray, "rank rank"]:
    """Return the rotation that lays whitened source points over whitened target points.

    Parameters
    ----------
    source, target
        Whitened clouds; neither their order nor their numbers need agree.
    rounds
        Turns of assignment and rotation.
    points
        Of each cloud, drawn at random for every assignment.
    seed
        Of the draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.exponential(size=(400, 2)) * [2.0, 1.0]
    >>> a, b = whitened(x, 2), whitened(rng.permutation(x), 2)
    >>> bool(np.allclose(aligned(a.points, b.points, points=400), np.eye(2), atol=0.02))
    True
    """
    rng = np.random.default_rng([seed, 0xA119])
    rank = source.shape[1]
    count = min(points, len(source), len(target))
    first = rng.choice(len(source), count, replace=False)
    second = rng.choice(len(target), count, replace=False)
    tried = min(_SIGNED, rank)
    best, cheapest = np.eye(rank), np.inf
    for signs in product((1.0, -1.0), repeat=tried):
        turn = np.diag([*signs, *np.ones(rank - tried)])
        cost, _ = _moved(source[first] @ turn, target[second])
        if cost < cheapest:
            best, cheapest = turn, cost
    for _ in range(rounds):
        first = rng.choice(len(source), count, replace=False)
        second = rng.choice(len(target), count, replace=False)
        _, onto = _moved(source[first] @ best, target[second])
        left, _, right = np.linalg.svd(source[first].T @ target[second][onto])
        best = left @ right
    return best


def _moved(
    source: Float[np.ndarray, "n rank"], target: Float[np.ndarray, "n rank"]
) -> tuple[float, np.ndarray]:
    """Return what it costs to move the one cloud onto the other, and which point goes where."""
    costs = ((source[:, None, :] - target[None, :, :]) ** 2).sum(axis=2)
    rows, onto = linear_sum_assignment(costs)
    return float(costs[rows, onto].mean()), onto
