"""How many groups: the stability of groups found in halves of the rows, or the gap statistic.

Both run federated k-means for every number of groups that is tried, so that what leaves a site is
what k-means releases, and for stability a table of how many of its rows got which two groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from jaxtyping import Float

from cofill.cluster._kmeans import KMeansSettings, kmeans_steps
from cofill.cluster._lloyd import lloyd, nearest, spread_out
from cofill.cluster._rows import Table, require_groups
from cofill.cluster._scale import Scaling
from cofill.cluster._site import SCALING, ClusterSite, Conductor, sums_of, told_model
from cofill.errors import SettingError
from cofill.metrics import ari
from cofill.privacy import GroupSums, Ledger
from cofill.protocol import COORDINATOR, Federation, Step, run_steps

__all__ = ["Selection", "choose_k"]

_HALVES, _REFERENCE = 11, 12  # purposes of random numbers
_REFERENCE_ROWS = 2_000


@dataclass(frozen=True)
class Selection:
    """Which number of groups was chosen, and why.

    Attributes
    ----------
    k
        The number chosen.
    method
        ``"gap"`` or ``"stability"``.
    ks, scores, errors
        What was tried, its score (higher is better) and the score's standard error.
    ledger
        What left a site for the choice.
    """

    k: int
    method: str
    ks: tuple[int, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    ledger: Ledger = field(default_factory=Ledger, compare=False)

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each number tried.

        Examples
        --------
        >>> Selection(3, "gap", (2, 3), (0.1, 0.4), (0.01, 0.01)).table()[1]
        {'k': 3, 'score': 0.4, 'error': 0.01, 'chosen': True}
        """
        return [
            {"k": k, "score": score, "error": error, "chosen": k == self.k}
            for k, score, error in zip(self.ks, self.scores, self.errors, strict=True)
        ]


def choose_k(
    tables: Mapping[str, Table],
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
    tables
        Every site's rows; see `gather`.
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
    >>> from cofill.cluster._rows import gather
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(size=(50, 2)) + at for at in ([0, 0], [9, 0], [0, 9])])
    >>> choose_k(gather(rows), (2, 3, 4, 5)).k
    3
    """
    chosen = tuple(sorted({int(k) for k in ks}))
    if not chosen:
        raise SettingError("ks must name at least one number of groups, got none")
    if method not in ("gap", "stability"):
        raise SettingError(f"choose must be gap or stability, got {method!r}")
    if repeats < 2:
        raise SettingError(f"repeats must be at least 2, got {repeats}")
    for k in (chosen[0], chosen[-1]):
        require_groups(tables, k)
    if method == "stability":
        return _stability(tables, chosen, scale, repeats, seed)
    return _gap(tables, chosen, scale, repeats, seed)


def _federation(
    tables: Mapping[str, Table], settings: Any, scale: str, seed: int, ledger: Ledger
) -> Federation[Any]:
    kinds = next(iter(tables.values())).kinds
    sites = {n: ClusterSite(n, t.rows, kinds, settings, scale, seed) for n, t in tables.items()}
    conductor = Conductor(tuple(tables), kinds, settings, scale, seed)
    return Federation(sites, ledger, conductor)


def _fit(
    tables: Mapping[str, Table], k: int, scale: str, seed: int, ledger: Ledger
) -> Federation[Any]:
    settings = KMeansSettings(k=k, restarts=4, rounds=20, seed_group=2)
    federation = _federation(tables, settings, scale, seed, ledger)
    run_steps((*SCALING, *kmeans_steps(settings)), [federation])
    return federation


def _gap(
    tables: Mapping[str, Table], ks: tuple[int, ...], scale: str, repeats: int, seed: int
) -> Selection:
    # The references are the coordinator's own: even rows with the mean and spread of the real ones,
    # whose extremes nobody has to tell.
    measured = _federation(tables, None, "standard", seed, Ledger())
    run_steps(SCALING, [measured])
    ledger, inertia, scaling = measured.ledger, [], None
    for k in ks:
        found = _fit(tables, k, scale, seed, ledger)
        ledger, scaling = found.ledger, found.coordinator.scaling
        inertia.append(float(found.coordinator.state.inertia[0]))
    assert scaling is not None  # noqa: S101  (ks is not empty)
    real = measured.coordinator.scaling
    middle = np.where(real.numeric, real.center, 0.5)
    half = np.where(real.numeric, np.sqrt(3) * real.scale, 0.5)
    low, high = scaling.apply(np.array([middle - half, middle + half]))
    total = sum(map(len, tables.values()))
    n = min(total, _REFERENCE_ROWS)
    rng = np.random.default_rng([seed, _REFERENCE])
    references = np.array(
        [
            [_reference_inertia(drawn, k, rng) * total / n for k in ks]
            for drawn in (rng.uniform(low, high, size=(n, len(low))) for _ in range(repeats))
        ]
    )
    tiny = np.finfo(float).tiny
    logs = np.log(np.maximum(references, tiny))
    gaps = logs.mean(axis=0) - np.log(np.maximum(inertia, tiny))
    errors = logs.std(axis=0) * np.sqrt(1 + 1 / repeats)
    at = first_enough(gaps, errors)
    return Selection(ks[at], "gap", ks, _floats(gaps), _floats(errors), ledger)


def first_enough(gaps: Float[np.ndarray, " ks"], errors: Float[np.ndarray, " ks"]) -> int:
    """Return the first place whose gap is not below the next one's less its error.

    Where there is none, the place of the largest gap.

    Examples
    --------
    >>> first_enough(np.array([0.1, 0.5, 0.52, 0.9]), np.array([0.0, 0.0, 0.03, 0.0]))
    1
    """
    enough = gaps[:-1] >= gaps[1:] - errors[1:]
    return int(enough.argmax()) if enough.any() else int(gaps.argmax())


def _reference_inertia(rows: np.ndarray, k: int, rng: np.random.Generator) -> float:
    ones = np.ones(len(rows))
    return min(lloyd(rows, ones, spread_out(rows, ones, k, rng), rounds=30)[2] for _ in range(2))


def _stability(
    tables: Mapping[str, Table], ks: tuple[int, ...], scale: str, repeats: int, seed: int
) -> Selection:
    ledger, agreement = Ledger(), np.zeros((len(ks), repeats))
    for row, k in enumerate(ks):
        for repeat in range(repeats):
            agreement[row, repeat], ledger = _agreement(tables, k, scale, seed, repeat, ledger)
    means = agreement.mean(axis=1)
    errors = agreement.std(axis=1, ddof=1) / np.sqrt(repeats)
    # Coarse groups are easily stable: of those as stable as the best, the finest.
    top = int(means.argmax())
    at = int(np.flatnonzero(means >= means[top] - errors[top])[-1])
    return Selection(ks[at], "stability", ks, _floats(means), _floats(errors), ledger)


def _agreement(
    tables: Mapping[str, Table], k: int, scale: str, seed: int, repeat: int, ledger: Ledger
) -> tuple[float, Ledger]:
    """Return the agreement of the groups found in two halves, on all rows."""
    halves: tuple[dict[str, Table], dict[str, Table]] = ({}, {})
    for name, table in tables.items():
        words = [seed, _HALVES, repeat, crc32(name.encode())]
        order = np.random.default_rng(words).permutation(len(table))
        parts = (order, order) if len(table) < 2 else np.array_split(order, 2)
        for half, part in zip(halves, parts, strict=True):
            half[name] = Table(table.rows[part], table.kinds, table.ids[part])
    models = []
    for half in halves:
        found = _fit(half, k, scale, seed, ledger)
        ledger = found.ledger
        models.append((found.coordinator.scaling, found.coordinator.state.centers[0]))
    asked = _federation(tables, scale, "none", seed, ledger)
    asked.coordinator = asked.coordinator.with_(state=models)
    run_steps(_COMPARE, [asked])
    return asked.coordinator.state, asked.ledger


def _send_centers(conductors: Sequence[Conductor], inboxes: Any, report_progress: Any) -> list[Any]:
    """Send both halves' centres, each with its scaling."""
    results = []
    for conductor in conductors:
        parts = [
            np.concatenate([scaling.center, scaling.scale, centers.reshape(-1)])
            for scaling, centers in conductor.state
        ]
        results.append((conductor, conductor.to_all(0, np.concatenate(parts))))
    return results


def _compare(sites: Sequence[ClusterSite], inboxes: Any, report_progress: Any) -> list[Any]:
    """Release how many rows are in each group of the first half and each of the second."""
    results = []
    for site, inbox in zip(sites, inboxes, strict=True):
        model = told_model(inbox)
        assert model is not None  # noqa: S101  (the step before sends it)
        labels, columns = [], len(site.kinds)
        for part in np.split(model.weights, 2):
            center, scale, *centers = part.reshape(-1, columns)
            own = Scaling(site.settings, site.kinds.is_numeric, center, scale)
            labels.append(nearest(own.apply(site.rows), np.array(centers))[0])
        k = len(model.weights) // (2 * columns) - 2
        counts = np.bincount(labels[0] * k + labels[1], minlength=k * k).reshape(k, k)
        release = GroupSums(
            sender=site.name,
            receiver=COORDINATOR,
            round=0,
            sums=counts.astype(np.float64),
            counts=counts.sum(axis=1).astype(np.float64),
        )
        results.append((site, [release]))
    return results


def _add_agreement(
    conductors: Sequence[Conductor], inboxes: Any, report_progress: Any
) -> list[Any]:
    """Add the tables up and score them."""
    results = []
    for conductor, inbox in zip(conductors, inboxes, strict=True):
        k = len(conductor.state[0][1])
        counts = np.sum([one.sums for one in sums_of(conductor, inbox, (k, k))], axis=0)
        # The index needs only the table: a pair of labels for each cell, as often as it was met.
        often = counts.astype(int).ravel()
        one, two = (np.repeat(index.ravel(), often) for index in np.indices((k, k)))
        results.append((conductor.with_(state=ari(one, two)), []))
    return results


_COMPARE = (
    Step("send centres", _send_centers, "coordinator"),
    Step("compare halves", _compare),
    Step("add up agreement", _add_agreement, "coordinator"),
)


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
