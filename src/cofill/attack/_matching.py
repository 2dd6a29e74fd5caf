"""Who is who in two clouds: the likelihood ratio of a pair, and how to learn it.

In whitened coordinates *u* and *v* of two jointly normal clouds with canonical correlations ρ, the
logarithm of the likelihood ratio of "the same person" against "two people" is

    Σ_k  (ρ_k u_k v_k − ρ_k² (u_k² + v_k²) / 2) / (1 − ρ_k²)  −  log(1 − ρ_k²) / 2

Each cloud is whitened by everybody in it; pairs are needed only for the correlations between the
two. Without pairs, a rough start (`starts`) and turns of optimal assignment and re-estimation
(`self_trained`, Artetxe, Labaka and Agirre 2018, with canonical correlations) find them.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist, squareform

from cofill.attack._alignment import aligned, whitened

__all__ = ["assigned", "learned_scores", "pair_scores", "self_trained", "starts"]

_RANKS = (1, 2, 3, 4, 6, 8, 12, 20)
_SHRINKS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
_FLATTERED = 0.97  # assigned pairs look more alike than pairs are
_SETTLED = 0.98  # share of partners that stay, at which another round is not worth its time
_LARGEST = 0.999  # correlation: beyond, one outlier would decide


def pair_scores(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "m q"],
    cross: Float[np.ndarray, "p q"],
) -> tuple[Float[np.ndarray, "n m"], float]:
    """Return every pair's log likelihood ratio, and the mutual information of a person's two codes.

    Parameters
    ----------
    first, second
        Whitened clouds.
    cross
        Covariance between them.

    Examples
    --------
    >>> scores, bits = pair_scores(np.eye(2), np.eye(2), 0.5 * np.eye(2))
    >>> bool(scores[0, 0] > scores[0, 1]), round(bits, 3)
    (True, 0.288)
    """
    left, found, right = np.linalg.svd(cross, full_matrices=False)
    rho = np.minimum(found, _LARGEST)
    u, v = first @ left, second @ right.T
    rest = 1 - rho**2
    told = -0.5 * float(np.log(rest).sum())
    own = 0.5 * rho**2 / rest
    scores = (u * (rho / rest)) @ v.T - ((u**2) @ own)[:, None] - ((v**2) @ own)[None, :]
    return scores + told, told


def assigned(scores: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """Return everyone's partner in the most likely matching of all.

    Examples
    --------
    >>> assigned(np.array([[3.0, 2.0], [2.9, 0.0]])).tolist()
    [1, 0]
    """
    return linear_sum_assignment(scores, maximize=True)[1]


def learned_scores(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "n q"],
    left: Int[np.ndarray, " pairs"],
    right: Int[np.ndarray, " pairs"],
) -> Float[np.ndarray, "n n"]:
    """Return every pair's score by a map learned from known pairs.

    Number of components and shrinkage are those that rank the known pairs best when each tenth of
    them is left out.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2)) * [2, 1]
    >>> scores = learned_scores(x, x[::-1], np.arange(20), 59 - np.arange(20))
    >>> bool((scores.argmax(axis=1) == 59 - np.arange(60)).mean() > 0.9)
    True
    """
    u, v = whitened(first, _RANKS[-1]).points, whitened(second, _RANKS[-1]).points
    count = len(left)
    folds = np.arange(count) % min(10, count)
    best, lowest = (1, _SHRINKS[-1]), np.inf
    for rank in _RANKS:
        if rank > min(u.shape[1], v.shape[1]) and rank > 1:
            break
        for shrink in _SHRINKS:
            ranks = 0.0
            for fold in range(folds.max() + 1):
                out = folds == fold
                cross = _cross(u, v, left[~out], right[~out], rank, shrink)
                scores, _ = pair_scores(u[left[out], :rank], v[:, :rank], cross)
                own = scores[np.arange(len(scores)), right[out]]
                ranks += float(np.log1p((scores > own[:, None]).sum(axis=1)).sum())
            if ranks < lowest:
                best, lowest = (rank, shrink), ranks
    cross = _cross(u, v, left, right, *best)
    return pair_scores(u[:, : best[0]], v[:, : best[0]], cross)[0]


def self_trained(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "n q"],
    scores: Float[np.ndarray, "n n"],
    left: Int[np.ndarray, " pairs"],
    right: Int[np.ndarray, " pairs"],
    *,
    rounds: int = 30,
) -> tuple[Float[np.ndarray, "n n"], float]:
    """Improve scores by taking the best matching for true, again and again; known pairs stay.

    Returns the scores and the mutual information that the last matching implies, which is larger
    for a matching that fits.
    """
    most = max(2, min(len(first) // 20, _RANKS[-1]))
    u, v = whitened(first, most).points, whitened(second, most).points
    told, before = 0.0, None
    for _ in range(rounds):
        known = scores.copy()
        known[left, :] = known[:, right] = scores.min() - 1.0
        known[left, right] = scores.max() + 1.0
        onto = assigned(known)
        if before is not None and (onto == before).mean() > _SETTLED:
            break
        before = onto
        scores, told = pair_scores(u, v, _FLATTERED * u.T @ v[onto] / len(u))
    return scores, told


def starts(
    first: Float[np.ndarray, "n p"], second: Float[np.ndarray, "n q"], *, seed: int
) -> list[Float[np.ndarray, "n n"]]:
    """Return rough scores without any pair, several to choose from.

    Some lay the leading principal components over each other (`aligned`); others compare how far
    everybody is from all others in his own cloud, which no rotation changes (Mémoli 2011's lower
    bound of the Gromov-Wasserstein distance).
    """
    found = []
    for rank in (2, 3, 6, 8):
        a, b = whitened(first, rank).points, whitened(second, rank).points
        both = min(a.shape[1], b.shape[1])
        turn = aligned(a[:, :both], b[:, :both], seed=seed)
        found.append(-cdist(a[:, :both] @ turn, b[:, :both], "sqeuclidean"))
        if both < rank:
            break
    flat = [(first, second), (whitened(first, 10).points, whitened(second, 10).points)]
    found += [-cdist(_surroundings(a), _surroundings(b), "sqeuclidean") for a, b in flat]
    return found


def _surroundings(cloud: np.ndarray) -> np.ndarray:
    far = np.sort(squareform(pdist(cloud)), axis=1)[:, 1:]
    places = np.linspace(0, far.shape[1] - 1, min(64, far.shape[1])).astype(int)
    return far[:, places] / max(float(np.median(far)), 1e-300)


def _cross(
    u: np.ndarray, v: np.ndarray, left: np.ndarray, right: np.ndarray, rank: int, shrink: float
) -> np.ndarray:
    """Return the covariance between the clouds by ridge regression on known pairs, both ways.

    Of whitened clouds it is the coefficients, which pairs that are no fair sample do not bend.
    """
    a, b = u[left, :rank], v[right, :rank]
    ridge = shrink * rank * np.eye(rank)
    there = np.linalg.solve(a.T @ a + ridge, a.T @ b)
    back = np.linalg.solve(b.T @ b + ridge, b.T @ a)
    cross = (there + back.T) / 2
    largest = float(np.linalg.norm(cross, 2))
    return cross * min(1.0, _LARGEST / largest) if largest > 0 else cross
