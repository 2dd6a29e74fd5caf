"""Mixtures of two normal distributions on a line, one of whose centres the released mean gives.

Positions are in units in which all records' mean is 0 and their variance 1. A share π of positives
whose centre is e then leaves the negatives' centre at −πe / (1 − π) and, where both classes are as
wide, the variance 1 − πe² / (1 − π) within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

_CELLS = 400  # groups of positions by which mixtures are fitted
_BINS = 40  # of the histogram by which a fit is judged
_ROUNDS = 100
_UNLIKE = 2.0  # squared relative difference of histogram and mixture, in the mean over the bins
_NARROWEST = 1e-3  # variance of a class


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Mixtures fitted to the same positions.

    Parameters
    ----------
    likelihood
        Log-likelihood of each mixture, less that of the best.
    best
        Which is most likely.
    misfit
        How much worse than chance the best agrees with the histogram of the positions; at least 1.
    accuracy
        Share of right guesses by the best mixture, if it is the true one.
    apt
        Whether the best resembles the histogram at all; few different positions make it look unlike
        any mixture of normal distributions.
    """

    likelihood: Float[np.ndarray, " mixtures"]
    best: int
    misfit: float
    accuracy: float
    apt: bool


def fit_mixtures(
    positions: Float[np.ndarray, " records"],
    centre: Float[np.ndarray, " mixtures"],
    share: Float[np.ndarray, " mixtures"],
    *,
    free: bool = False,
) -> Mixtures:
    """Fit a mixture for each pair of a positives' centre and a share.

    Parameters
    ----------
    positions
        From the lowest, with mean 0 and variance 1.
    centre, share
        Of the positives.
    free
        Whether each class has its own width, fitted by expectation and maximisation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positions = rng.normal(size=4000) + 5 * (np.arange(4000) < 1000)
    >>> positions = np.sort((positions - positions.mean()) / positions.std())
    >>> centres = np.linspace(0.1, 1.7, 17)
    >>> fits = fit_mixtures(positions, centres, np.full(17, 0.25))
    >>> round(float(centres[fits.best]), 1), fits.accuracy > 0.98
    (1.6, True)
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
    chance = np.exp(value[:, :, best].max(axis=0) - total[:, best])
    accuracy = float(count @ chance / count.sum())
    apt = misfit * _BINS <= max(_UNLIKE * len(positions), _BINS)
    return Mixtures(likelihood - likelihood[best], best, misfit, accuracy, apt)


def mean_of_highest(positions: Float[np.ndarray, " records"], share: float) -> float:
    """Return the mean of the highest positions, the most that this share of records can have.

    Examples
    --------
    >>> mean_of_highest(np.array([0.0, 1.0, 2.0, 4.0]), 0.5)
    3.0
    """
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
