"""Mixtures of two normal distributions on a line, one of whose centres the released mean gives.

Positions are in units in which all records' mean is 0 and their variance 1. A share π of positives
whose centre is e then leaves the negatives' centre at −πe / (1 − π) and, where both classes are as
wide, the variance 1 − πe² / (1 − π) within them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

_CELLS = 400  # groups of positions by which mixtures are fitted
_BINS = 40  # of the histogram by which a fit is judged
_ROUNDS = 100
_NARROWEST = 1e-3  # variance of a class
_SLACK = 0.02  # of the share, which is rarely stated to the last record


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Mixtures fitted to the same positions."""

    likelihood: Float[np.ndarray, " mixtures"]  # logarithm, less that of the best
    best: int
    misfit: float  # how much worse than chance the best agrees with the histogram; at least 1


def fit_mixtures(
    positions: Float[np.ndarray, " records"],
    centre: Float[np.ndarray, " mixtures"],
    share: Float[np.ndarray, " mixtures"],
    *,
    free: bool = False,
) -> Mixtures:
    """Fit a mixture for each pair of a positives' centre and a share.

    Positions rise, with mean 0 and variance 1. If `free`, each class has its own width, fitted by
    expectation and maximisation.
    """
    (cells,), count = group_means([positions], _CELLS)
    centres = np.stack([centre, -share * centre / (1 - share)])
    away = (cells[:, None] - centres[:, None]) ** 2
    weights = np.stack([share, 1 - share])
    within = np.maximum(1 - share * centre**2 / (1 - share), _NARROWEST)
    widths = np.stack([within, within])
    value = _densities(away, weights, widths)
    for _ in range(_ROUNDS if free else 0):
        members = count[:, None] * np.exp(value - np.logaddexp(*value))
        widths = (members * away).sum(axis=1) / np.maximum(members.sum(axis=1), 1e-9)
        widths = np.maximum(widths, _NARROWEST)
        value = _densities(away, weights, widths)
    total = np.logaddexp(*value)
    likelihood = count @ total
    best = int(likelihood.argmax())
    misfit = _misfit(positions, weights[:, best], centres[:, best], np.sqrt(widths[:, best]))
    return Mixtures(likelihood - likelihood[best], best, misfit)


def mean_of_highest(positions: Float[np.ndarray, " records"], share: float) -> float:
    """Return the mean of the highest positions, the most that this share of records can have."""
    count = int(np.clip(round(share * len(positions)), 1, len(positions)))
    return float(np.partition(positions, len(positions) - count)[-count:].mean())


def group_means(
    columns: Sequence[Float[np.ndarray, " records"]], groups: int
) -> tuple[list[Float[np.ndarray, " groups"]], Float[np.ndarray, " groups"]]:
    """Return the means of at most so many groups of neighbouring values, and the groups' sizes.

    Examples
    --------
    >>> group_means([np.array([1.0, 3.0, 5.0, 7.0])], 2)
    ([array([2., 6.])], array([2., 2.]))
    """
    total = len(columns[0])
    starts = np.linspace(0, total, min(groups, total), endpoint=False).astype(int)
    count = np.diff(np.append(starts, total)).astype(np.float64)
    return [np.add.reduceat(values, starts) / count for values in columns], count


def is_beyond(positions: Float[np.ndarray, " records"], prior: float, position: float) -> bool:
    """Return whether no choice of this share of the records has so high a mean position.

    Examples
    --------
    >>> positions = np.arange(100.0)
    >>> is_beyond(positions, 0.5, 75.0), is_beyond(positions, 0.5, 80.0)
    (False, True)
    """
    return position > mean_of_highest(positions, (1 - _SLACK) * prior)


def _densities(away: np.ndarray, weights: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return the logarithm of each class's weighted density, class × cell × mixture."""
    spread = widths[:, None]
    return np.log(weights)[:, None] - 0.5 * np.log(spread) - 0.5 * away / spread


def _misfit(
    positions: Float[np.ndarray, " records"],
    weights: Float[np.ndarray, " two"],
    centres: Float[np.ndarray, " two"],
    deviations: Float[np.ndarray, " two"],
) -> float:
    edges = np.unique(np.quantile(positions, np.linspace(0, 1, _BINS + 1)[1:-1]))
    below = ndtr((edges[:, None] - centres) / deviations) @ weights
    wanted = len(positions) * np.diff(below, prepend=0.0, append=1.0)
    ranks = np.searchsorted(positions, edges, side="right")
    seen = np.diff(ranks, prepend=0, append=len(positions))
    chi = float(((seen - wanted) ** 2 / np.maximum(wanted, 1.0)).sum())
    return max(chi / max(len(edges) - 3, 1), 1.0)
