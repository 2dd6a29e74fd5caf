"""How many groups: the stability of groups found in halves of the rows, or the gap statistic.

Both run federated k-means for every number of groups that is tried, so that what leaves a site is
what k-means releases, and for stability a table of how many of its rows got which two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
from jaxtyping import Float

from cofill.cluster._kmeans import received_centers, send_centers
from cofill.cluster._kmeans_settings import KMeansSettings, KMeansState
from cofill.cluster._lloyd import choose_centers, lloyd, nearest
from cofill.cluster._parties import (
    AGREE_ON_SCALING,
    ClusterCoordinator,
    ClusterSite,
    CoordinatorStep,
    SiteStep,
    read_scales,
    received_sums,
    send_scales,
    start_federation,
)
from cofill.cluster._protocol import run_kmeans
from cofill.cluster._rows import SiteRows, Sites, gather_rows, require_groups
from cofill.cluster._scale import Scaling
from cofill.errors import SettingError
from cofill.metrics import ari
from cofill.privacy import Ledger, require_one_of
from cofill.protocol import Inbox, Step, one_by_one, run_steps

_HALVES, _REFERENCE = 11, 12  # purposes of random numbers
_REFERENCE_ROWS = 2_000  # at most, to limit the time; sums are scaled up to all rows


@dataclass(frozen=True)
class Selection:
    """The number of groups that was chosen, and what was tried.

    ``scores`` (higher is better) and ``errors`` (standard errors of the scores) belong to ``ks``;
    ``ledger`` says what left a site for the choice.
    """

    k: int
    method: str
    ks: tuple[int, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    ledger: Ledger = field(default_factory=Ledger, compare=False)

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each number tried."""
        return [
            {"k": k, "score": score, "error": error, "chosen": k == self.k}
            for k, score, error in zip(self.ks, self.scores, self.errors, strict=True)
        ]


def choose_k(
    data: Any,
    ks: Sequence[int],
    *,
    method: str = "stability",
    scale: str = "standard",
    repeats: int = 5,
    seed: int = 0,
) -> Selection:
    """Return the number of groups by stability or by the gap statistic.

    Parameters
    ----------
    data
        Rows, or ``{site name: rows}``; see `FederatedKMeans.fit`.
    ks
        The numbers tried.
    method
        ``"gap"``: the smallest k whose gap to rows without groups is, but for the standard error,
        not below the next one's (Tibshirani et al. 2001); it finds too many where columns differ
        in how much of their spread is within groups. ``"stability"``: the k whose groups,
        found in two random halves of the rows, agree best on all rows (adjusted Rand index); the
        largest of those that are, but for the standard error, as good.
    scale
        How rows are scaled; see `Scaling`.
    repeats
        Reference sets, or pairs of halves.
    seed
        Start of all randomness.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(50, 2)) + at for at in ([0, 0], [9, 0], [0, 9])])
    >>> choose_k(rows, (2, 3, 4, 5)).k
    3
    """
    numbers = tuple(sorted({int(k) for k in ks}))
    if not numbers:
        raise SettingError("ks must name at least one number of groups, got none")
    require_one_of("choose", method, ("gap", "stability"))
    if repeats < 2:
        raise SettingError(f"repeats must be at least 2, got {repeats}")
    sites = gather_rows(data)
    for k in (numbers[0], numbers[-1]):
        require_groups(sites, k)
    score = _score_stability if method == "stability" else _score_gap
    at, scores, errors, ledger = score(sites, numbers, scale, repeats, seed)
    tables = tuple(scores.tolist()), tuple(errors.tolist())
    return Selection(numbers[at], method, numbers, *tables, ledger)


_Scores = tuple[int, Float[np.ndarray, " ks"], Float[np.ndarray, " ks"], Ledger]


def _fit(
    sites: Sites, k: int, scale: str, seed: int, ledger: Ledger
) -> tuple[ClusterCoordinator, Ledger]:
    settings = KMeansSettings(k=k, restarts=4, rounds=20, seed_group=2)
    federation = run_kmeans(sites, settings, scale, seed, ledger)
    return federation.coordinator, federation.ledger


def _score_gap(sites: Sites, ks: tuple[int, ...], scale: str, repeats: int, seed: int) -> _Scores:
    # The references are the coordinator's: even rows with the mean and spread of the real ones,
    # whose extremes nobody has to release.
    measured = start_federation(sites, None, "standard", seed, Ledger())
    run_steps(AGREE_ON_SCALING, [measured])
    fits, ledger = [], measured.ledger
    for k in ks:
        coordinator, ledger = _fit(sites, k, scale, seed, ledger)
        fits.append(coordinator)
    inertia = [float(coordinator.state.inertia[0]) for coordinator in fits]
    real: Scaling = measured.coordinator.scaling
    middle = np.where(real.numeric, real.center, 0.5)
    half = np.where(real.numeric, np.sqrt(3) * real.scale, 0.5)
    low, high = fits[-1].scaling.apply(np.array([middle - half, middle + half]))
    total = sum(map(len, sites.values()))
    n = min(total, _REFERENCE_ROWS)
    rng = np.random.default_rng([seed, _REFERENCE])
    drawn = (rng.uniform(low, high, size=(n, len(low))) for _ in range(repeats))
    references = np.array(
        [[_reference_inertia(rows, k, rng) * total / n for k in ks] for rows in drawn]
    )
    tiny = np.finfo(float).tiny
    logs = np.log(np.maximum(references, tiny))
    gaps = logs.mean(axis=0) - np.log(np.maximum(inertia, tiny))
    errors = logs.std(axis=0) * np.sqrt(1 + 1 / repeats)
    return _first_enough(gaps, errors), gaps, errors, ledger


def _first_enough(gaps: Float[np.ndarray, " ks"], errors: Float[np.ndarray, " ks"]) -> int:
    """Return the first position whose gap is not below the next one's less its error.

    Where there is none, the position of the largest gap.
    """
    enough = gaps[:-1] >= gaps[1:] - errors[1:]
    return int(enough.argmax()) if enough.any() else int(gaps.argmax())


def _reference_inertia(rows: np.ndarray, k: int, rng: np.random.Generator) -> float:
    ones = np.ones(len(rows))
    return min(lloyd(rows, ones, choose_centers(rows, ones, k, rng), rounds=30)[2] for _ in (1, 2))


def _score_stability(
    sites: Sites, ks: tuple[int, ...], scale: str, repeats: int, seed: int
) -> _Scores:
    ledger, agreement = Ledger(), np.zeros((len(ks), repeats))
    for row, k in enumerate(ks):
        for repeat in range(repeats):
            agreement[row, repeat], ledger = _agreement(sites, k, scale, seed, repeat, ledger)
    means = agreement.mean(axis=1)
    errors = agreement.std(axis=1, ddof=1) / np.sqrt(repeats)
    # Coarse groups are easily stable: of those as stable as the best, the finest.
    top = int(means.argmax())
    at = int(np.flatnonzero(means >= means[top] - errors[top])[-1])
    return at, means, errors, ledger


def _agreement(
    sites: Sites, k: int, scale: str, seed: int, repeat: int, ledger: Ledger
) -> tuple[float, Ledger]:
    """Return the agreement of the groups found in two halves, on all rows."""
    halves: tuple[dict[str, SiteRows], dict[str, SiteRows]] = ({}, {})
    for name, site in sites.items():
        words = [seed, _HALVES, repeat, crc32(name.encode())]
        order = np.random.default_rng(words).permutation(len(site))
        parts = (order, order) if len(site) < 2 else np.array_split(order, 2)
        for half, part in zip(halves, parts, strict=True):
            half[name] = replace(site, rows=site.rows[part])
    fits = []
    for half in halves:
        coordinator, ledger = _fit(half, k, scale, seed, ledger)
        fits.append((coordinator.scaling, coordinator.state.centers[0]))
    comparison = start_federation(sites, None, scale, seed, ledger)
    comparison.coordinator = replace(comparison.coordinator, state=fits)
    run_steps(_COMPARE, [comparison])
    return comparison.coordinator.state, comparison.ledger


def _send_halves(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Send both halves' centres, each with its scaling."""
    scalings = {str(half): scaling for half, (scaling, _) in enumerate(coordinator.state)}
    centers = np.stack([centers for _, centers in coordinator.state])
    sent = send_centers(coordinator, KMeansState.start(centers))
    return coordinator, [*send_scales(coordinator, scalings), *sent]


def _compare_halves(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Release how many rows are in each group of the first half and each of the second."""
    scalings, both_centers = read_scales(site, inbox), received_centers(site, inbox).centres
    first, second = (
        nearest(scalings[str(half)].apply(site.rows), centers)[0]
        for half, centers in enumerate(both_centers)
    )
    k = both_centers.shape[1]
    counts = np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.float64)
    return site, [site.release_sums(0, counts, counts.sum(axis=1))]


def _score_halves(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Add the sites' tables up and score them."""
    k = len(coordinator.state[0][1])
    counts = np.sum([sums.sums for sums in received_sums(coordinator, inbox, (k, k))], axis=0)
    # The index needs only the table: a pair of labels for each cell, as often as it was met.
    repeats = counts.astype(int).ravel()
    first, second = (np.repeat(index.ravel(), repeats) for index in np.indices((k, k)))
    return replace(coordinator, state=ari(first, second)), []


_COMPARE = (
    Step("send centres", one_by_one(_send_halves), "coordinator"),
    Step("compare halves", one_by_one(_compare_halves)),
    Step("add up agreement", one_by_one(_score_halves), "coordinator"),
)
