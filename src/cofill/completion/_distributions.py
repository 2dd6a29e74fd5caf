"""How observed and completed cells are distributed, in counts that stand for several people each.

A bin or category in which one or two individuals lie says something about them, so such bins are
merged with their neighbours until every count is zero or at least `LEAST`; edges are round numbers
and the outer bins are open, so that nobody's extreme value is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cofill.completion._completed import Completed
from cofill.views import Feature, Kind, MultiView, Scaler

LEAST = 3
"""Individuals of whom a count must stand, at least."""

_BINS, _MOST = 16, 40
_REACH, _CELLS = 3.0, 24


def distributions(completed: Completed) -> dict[str, dict[str, dict[str, Any]]]:
    """Count observed and completed cells per feature: ``{view: {feature: counts}}``.

    A numeric feature has ``edges`` and, per bin, ``observed`` and ``completed``; the first and the
    last bin hold the tails. Others have ``values`` instead of edges. Images are left out, and so
    are features beyond the fortieth of a view.

    Examples
    --------
    >>> from cofill.views import View
    >>> people = MultiView([View("a", list(range(9)), np.arange(9.0)[:, None])])
    >>> found = distributions(Completed.merge(people, {}))["a"]["a_0"]
    >>> sum(found["observed"]), all(n == 0 or n >= LEAST for n in found["observed"])
    (9, True)
    """
    by_view: dict[str, dict[str, dict[str, Any]]] = {}
    for name, view in completed.source.items():
        if view.image_shape is not None:
            continue
        origin, cells = completed.origin(name), completed.cells[name]
        by_feature = {}
        for k, feature in enumerate(view.features[:_MOST]):
            both = [np.asarray(cells[origin[:, k] == where, k], np.float64) for where in (0, 1)]
            counts = _numeric(*both) if feature.kind is Kind.NUMERIC else _coded(feature, *both)
            if counts is not None:
                by_feature[feature.name] = counts
        if by_feature:
            by_view[name] = by_feature
    return by_view


def _numeric(observed: np.ndarray, completed: np.ndarray) -> dict[str, Any] | None:
    everything = np.concatenate([observed, completed])
    if len(everything) < LEAST:
        return None
    low, high = np.percentile(everything, [2, 98])
    step = _round_step((high - low) / _BINS)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    edges = [round(k * step, 12) for k in range(first, last + 1)]
    inner = np.array(edges[1:-1])
    counts = np.array(
        [
            np.bincount(np.searchsorted(inner, v, side="right"), minlength=len(edges) - 1)
            for v in (observed, completed)
        ]
    )
    groups = _merged(counts)
    if groups is None:
        return None
    starts = [group[0] for group in groups]
    summed = np.add.reduceat(counts, starts, axis=1)
    return {
        "edges": [edges[k] for k in starts] + [edges[-1]],
        "step": step,
        "observed": summed[0].tolist(),
        "completed": summed[1].tolist(),
    }


def _merged(counts: np.ndarray) -> list[list[int]] | None:
    """Return runs of bins in each of which every count is zero or enough; None if there are none.

    Examples
    --------
    >>> _merged(np.array([[5, 1, 1, 4, 0, 9], [0, 3, 3, 0, 0, 2]]))
    [[0], [1, 2, 3, 4, 5]]
    """
    groups: list[list[int]] = []
    current: list[int] = []
    for k in range(counts.shape[1]):
        current.append(k)
        if _enough(counts[:, current].sum(axis=1)):
            groups.append(current)
            current = []
    while current and groups:
        current = groups.pop() + current
        if _enough(counts[:, current].sum(axis=1)):
            groups.append(current)
            current = []
    return groups if groups and not current else None


def _enough(counts: np.ndarray) -> bool:
    return bool(((counts == 0) | (counts >= LEAST)).all())


def _coded(feature: Feature, observed: np.ndarray, completed: np.ndarray) -> dict[str, Any] | None:
    """Count categories, the rare ones together."""
    names = [str(value) for value in feature.categories] or ["0", "1"]
    counts = np.array(
        [np.bincount(v.astype(np.int64), minlength=len(names)) for v in (observed, completed)]
    )
    order = np.argsort(counts.sum(axis=0), kind="stable")[::-1]
    common = [int(k) for k in order if _enough(counts[:, k]) and counts[:, k].any()]
    rest = [int(k) for k in order if k not in common]
    while common and not _enough(counts[:, rest].sum(axis=1)):
        rest.append(common.pop())
    if not common:
        return None
    values, columns = [names[k] for k in common], [counts[:, k] for k in common]
    if counts[:, rest].any():
        values, columns = [*values, "other"], [*columns, counts[:, rest].sum(axis=1)]
    table = np.stack(columns, axis=1)
    return {"values": values, "observed": table[0].tolist(), "completed": table[1].tolist()}


def _round_step(step: float) -> float:
    """Return the next round number: 1, 2 or 5 times a power of ten."""
    if not step > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= step * (1 - 1e-9))


class Agreement:
    """Counts hidden cells by what they were and what was filled in, both standardised.

    Cells of the plane in which fewer than `LEAST` individuals lie are left out.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[np.ndarray]] = {}

    def add(self, completed: Completed, truth: MultiView, hidden: Mapping[str, np.ndarray]) -> None:
        """Take in the numeric cells of hidden rows; `hidden` marks individuals of ``truth.ids``."""
        for name, mask in hidden.items():
            view, left = truth[name], completed.source[name]
            columns = [f.name for f in view.features if f.kind is Kind.NUMERIC]
            if not columns or not mask.any():
                continue
            places = [view.feature_names.index(column) for column in columns]
            actual, guess = (c[:, places] for c in completed.beside(truth, name, mask))
            scaler = Scaler.fit(left.select(columns))
            pair = [_bin(scaler.encode(cells.astype(np.float64))) for cells in (actual, guess)]
            known = ~np.isnan(actual) & ~np.isnan(guess)
            people = np.broadcast_to(np.flatnonzero(mask)[:, None], actual.shape)
            self._seen.setdefault(name, []).append(
                np.stack([people[known], *(side[known] for side in pair)], axis=1)
            )

    def to_json(self) -> dict[str, Any]:
        """Return ``{"edges": …, "views": {view: [[true bin, completed bin, cells], …]}}``."""
        views = {name: _cells(np.concatenate(parts)) for name, parts in self._seen.items()}
        edges = np.linspace(-_REACH, _REACH, _CELLS + 1).tolist()
        return {"edges": edges, "views": {name: cells for name, cells in views.items() if cells}}


def _bin(scaled: np.ndarray) -> np.ndarray:
    """Return the bin of each value; what lies outside is put at the margin."""
    share = (np.nan_to_num(scaled) + _REACH) / (2 * _REACH)
    return np.clip(np.floor(share * _CELLS), 0, _CELLS - 1).astype(np.int64)


def _cells(seen: np.ndarray) -> Sequence[list[int]]:
    place = seen[:, 1] * _CELLS + seen[:, 2]
    cells, counts = np.unique(place, return_counts=True)
    different = np.unique(np.stack([place, seen[:, 0]], axis=1), axis=0)[:, 0]
    people = np.unique(different, return_counts=True)[1]
    return [
        [int(cell) // _CELLS, int(cell) % _CELLS, int(count)]
        for cell, count, individuals in zip(cells, counts, people, strict=True)
        if individuals >= LEAST
    ]
