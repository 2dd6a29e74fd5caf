"""What parts of `bench.holds` yield: one method beside its peers on one set, draw by draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Run:
    """How much is run."""

    draws: int = 5
    quick: bool = False
    once: bool = False  # also the sets that are looked at one time
    sets: tuple[str, ...] = ()  # beginnings of names; all sets if empty


@dataclass(frozen=True)
class Comparison:
    """Figures of one method and its peers, the same draws for each.

    A method is short where the best peer's mean is better by more than `allowed`, and behind where
    it is so by more than chance: twice the standard error of the paired differences.
    """

    where: str
    metric: str
    method: str
    values: Sequence[float | None]
    peers: Mapping[str, Sequence[float | None]]
    seconds: Sequence[float]  # of processor time, of the method
    allowed: float = 0.0
    higher_is_better: bool = True
    also: Mapping[str, Sequence[float | None]] | None = None  # what methods expected of themselves

    @property
    def mean(self) -> float:
        return _mean(self.values)

    def mean_of(self, peer: str) -> float:
        return _mean(self.peers[peer])

    def best_peer(self) -> tuple[str, bool, bool]:
        """Return the best peer, whether the method is short of it, and by more than chance."""
        sign = 1 if self.higher_is_better else -1
        best = max(self.peers, key=lambda peer: sign * self.mean_of(peer))
        gaps = sign * (np.array(self.peers[best], float) - np.array(self.values, float))
        gap, error = float(np.nanmean(gaps)), float(np.nanstd(gaps, ddof=1) / len(gaps) ** 0.5)
        return best, gap > self.allowed, gap > max(self.allowed, 2 * error)


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))
