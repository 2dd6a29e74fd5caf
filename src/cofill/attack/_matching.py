"""Who is who in two clouds of points: the likelihood ratio of a pair, and how to learn it.

In whitened coordinates *u* and *v* of two jointly normal clouds with canonical correlations ρ, the
logarithm of the likelihood ratio of "the same person" against "two people" is

    Σ_k  (ρ_k u_k v_k − ρ_k² (u_k² + v_k²) / 2) / (1 − ρ_k²)  −  log(1 − ρ_k²) / 2

Each cloud is whitened by everybody in it; pairs are needed only for the correlations between the
two. Without pairs, a rough start (`initial_scores`) and turns of optimal assignment and
re-estimation (`refine_scores`, Artetxe, Labaka and Agirre 2018, with canonical correlations) find
them.

Laying one cloud over another without pairs (`align_clouds`): whitening fixes a cloud up to a
rotation, and the order of the components fixes that roughly up to signs. Signs are tried and
judged by how cheaply the one cloud can be moved onto the other; the rotation is then improved by
turns of optimal assignment and Procrustes' problem (Grave, Joulin and Berthet 2019, without their
stochastic steps). It works where both clouds have the same lopsided shape, and fails for round
ones: a normal distribution looks alike from all sides.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist, squareform

_SIGNED = 4  # components whose signs are tried
# Among these the known pairs choose, each judged by a map that was learned without it.
_RANKS = (1, 2, 3, 4, 6, 8, 12, 20)
_SHRINKS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
_FLATTERED = 0.97  # assigned pairs look more alike than pairs are
_SETTLED = 0.98  # share of partners that stay, at which another round is not worth its time
_LARGEST = 0.999  # correlation: beyond, one outlier would decide


@dataclass(frozen=True, eq=False)
class Whitened:
    """A cloud in its leading principal components, each of variance 1.

    ``points @ back + mean`` is the cloud again, as far as so many components tell.
    """

    points: Float[np.ndarray, "n rank"]
    back: Float[np.ndarray, "rank columns"]
    mean: Float[np.ndarray, " columns"]


def whiten(cloud: Float[np.ndarray, "n columns"], rank: int) -> Whitened:
    """Return a cloud's leading principal components, fewer where it has fewer."""
    mean = cloud.mean(axis=0)
    left, sizes, right = np.linalg.svd(cloud - mean, full_matrices=False)
    rank = min(rank, int((sizes > 1e-6 * max(sizes[0], 1e-300)).sum()))
    # SVD leaves the signs open: the longer tail of every component points up.
    skewness = (left[:, :rank] ** 3).sum(axis=0)
    sign = np.where(skewness < 0, -1.0, 1.0)
    root = np.sqrt(len(cloud))
    back = (sizes[:rank] / root * sign)[:, None] * right[:rank]
    return Whitened(left[:, :rank] * root * sign, back, mean)


def align_clouds(
    source: Float[np.ndarray, "n rank"],
    target: Float[np.ndarray, "m rank"],
    *,
    rounds: int = 20,
    points: int = 300,
    seed: int = 0,
) -> Float[np.ndarray, "rank rank"]:
    """Return the rotation that lays whitened source points over whitened target points.

    Neither the order nor the number of the points need agree. So many `points` of each cloud are
    drawn at random for every assignment.
    """
    rng = np.random.default_rng([seed, 0xA119])
    rank = source.shape[1]
    count = min(points, len(source), len(target))

    def draw() -> tuple[np.ndarray, np.ndarray]:
        first = rng.choice(len(source), count, replace=False)
        return source[first], target[rng.choice(len(target), count, replace=False)]

    first, second = draw()
    tried = min(_SIGNED, rank)
    turns = [
        np.diag([*signs, *np.ones(rank - tried)]) for signs in product((1.0, -1.0), repeat=tried)
    ]
    best = min(turns, key=lambda turn: _move(first @ turn, second)[0])
    for _ in range(rounds):
        first, second = draw()
        _, partners = _move(first @ best, second)
        best, _ = orthogonal_procrustes(first, second[partners])
    return best


def _move(
    source: Float[np.ndarray, "n rank"], target: Float[np.ndarray, "n rank"]
) -> tuple[float, np.ndarray]:
    """Return what it costs to move the one cloud onto the other, and which point goes where."""
    costs = ((source[:, None, :] - target[None, :, :]) ** 2).sum(axis=2)
    rows, partners = linear_sum_assignment(costs)
    return float(costs[rows, partners].mean()), partners


def pair_scores(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "m q"],
    cross: Float[np.ndarray, "p q"],
) -> tuple[Float[np.ndarray, "n m"], float]:
    """Return every pair's log likelihood ratio, and the mutual information of a person's two codes.

    The clouds are whitened; `cross` is the covariance between them.
    """
    left, correlations, right = np.linalg.svd(cross, full_matrices=False)
    rho = np.minimum(correlations, _LARGEST)
    u, v = first @ left, second @ right.T
    rest = 1 - rho**2
    information = -0.5 * float(np.log(rest).sum())
    squares = 0.5 * rho**2 / rest
    scores = (u * (rho / rest)) @ v.T - ((u**2) @ squares)[:, None] - ((v**2) @ squares)[None, :]
    return scores + information, information


def assign_partners(scores: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """Return everyone's partner in the most likely matching of all."""
    return linear_sum_assignment(scores, maximize=True)[1]


def learn_scores(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "n q"],
    left: Int[np.ndarray, " pairs"],
    right: Int[np.ndarray, " pairs"],
) -> Float[np.ndarray, "n n"]:
    """Return every pair's score by a map learned from known pairs.

    Number of components and shrinkage are those that rank the known pairs best when each tenth of
    them is left out.
    """
    u, v = whiten(first, _RANKS[-1]).points, whiten(second, _RANKS[-1]).points
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
                cross = _fit_cross(u, v, left[~out], right[~out], rank, shrink)
                scores, _ = pair_scores(u[left[out], :rank], v[:, :rank], cross)
                true = scores[np.arange(len(scores)), right[out]]
                ranks += float(np.log1p((scores > true[:, None]).sum(axis=1)).sum())
            if ranks < lowest:
                best, lowest = (rank, shrink), ranks
    cross = _fit_cross(u, v, left, right, *best)
    return pair_scores(u[:, : best[0]], v[:, : best[0]], cross)[0]


def refine_scores(
    first: Float[np.ndarray, "n p"],
    second: Float[np.ndarray, "n q"],
    scores: Float[np.ndarray, "n n"],
    left: Int[np.ndarray, " pairs"],
    right: Int[np.ndarray, " pairs"],
    *,
    rounds: int = 30,
) -> tuple[Float[np.ndarray, "n n"], float]:
    """Improve scores by rounds that take the best matching for true; known pairs stay.

    Returns the scores and the mutual information that the last matching implies, which is larger
    for a matching that fits.
    """
    most = max(2, min(len(first) // 20, _RANKS[-1]))
    u, v = whiten(first, most).points, whiten(second, most).points
    information, before = 0.0, None
    for _ in range(rounds):
        known = scores.copy()
        known[left, :] = known[:, right] = scores.min() - 1.0
        known[left, right] = scores.max() + 1.0
        partners = assign_partners(known)
        if before is not None and (partners == before).mean() > _SETTLED:
            break
        before = partners
        scores, information = pair_scores(u, v, _FLATTERED * u.T @ v[partners] / len(u))
    return scores, information


def initial_scores(
    first: Float[np.ndarray, "n p"], second: Float[np.ndarray, "n q"], *, seed: int
) -> list[Float[np.ndarray, "n n"]]:
    """Return rough scores without any pair, several to choose from.

    Some lay the leading principal components over each other (`align_clouds`); others compare how
    far everybody is from all others in the same cloud, which no rotation changes (Mémoli 2011's
    lower bound of the Gromov-Wasserstein distance).
    """
    scores = []
    for rank in (2, 3, 6, 8):
        a, b = whiten(first, rank).points, whiten(second, rank).points
        both = min(a.shape[1], b.shape[1])
        turn = align_clouds(a[:, :both], b[:, :both], seed=seed)
        scores.append(-cdist(a[:, :both] @ turn, b[:, :both], "sqeuclidean"))
        if both < rank:
            break
    clouds = [(first, second), (whiten(first, 10).points, whiten(second, 10).points)]
    return scores + [-cdist(_surroundings(a), _surroundings(b), "sqeuclidean") for a, b in clouds]


def _surroundings(cloud: np.ndarray) -> np.ndarray:
    distances = np.sort(squareform(pdist(cloud)), axis=1)[:, 1:]
    quantiles = np.linspace(0, distances.shape[1] - 1, min(64, distances.shape[1])).astype(int)
    return distances[:, quantiles] / max(float(np.median(distances)), 1e-300)


def _fit_cross(
    u: np.ndarray, v: np.ndarray, left: np.ndarray, right: np.ndarray, rank: int, shrink: float
) -> np.ndarray:
    """Return the covariance between the clouds by ridge regression on known pairs, both ways.

    Of whitened clouds it is the coefficients, which pairs that are no fair sample do not bend.
    """
    a, b = u[left, :rank], v[right, :rank]
    ridge = shrink * rank * np.eye(rank)
    forth = np.linalg.solve(a.T @ a + ridge, a.T @ b)
    back = np.linalg.solve(b.T @ b + ridge, b.T @ a)
    cross = (forth + back.T) / 2
    largest = float(np.linalg.norm(cross, 2))
    return cross * min(1.0, _LARGEST / largest) if largest > 0 else cross
