"""Mixtures of two normal distributions on a line, one of whose centres the released mean gives.

Places are in units in which all records' mean is 0 and their variance 1. A share π of positives
whose centre is e then leaves the negatives' centre at −πe / (1 − π) and, where both classes are as
wide, the variance 1 − πe² / (1 − π) within them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

__all__ = ["Mixtures", "farthest", "fit_mixtures", "mean_of_highest"]

_CELLS = 400  # groups of places by which mixtures are fitted
_BINS = 40  # of the histogram by which a fit is judged
_ROUNDS = 100
_UNLIKE = 2.0  # squared relative difference of histogram and mixture, in the mean over the bins
_NARROWEST = 1e-3  # variance of a class


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Mixtures fitted to the same places.

    Parameters
    ----------
    likelihood
        Log-likelihood of each mixture, less that of the best.
    best
        Which is most likely.
    misfit
        How much worse than chance the best agrees with the histogram of the places; at least 1.
    sureness
        Share of right guesses by the best, if it is true.
    apt
        Whether the best resembles the histogram at all; few different places make it look unlike
        any mixture of normal distributions.
    """

    likelihood: Float[np.ndarray, " mixtures"]
    best: int
    misfit: float
    sureness: float
    apt: bool


def fit_mixtures(
    places: Float[np.ndarray, " records"],
    centre: Float[np.ndarray, " mixtures"],
    share: Float[np.ndarray, " mixtures"],
    *,
    free: bool = False,
) -> Mixtures:
    """Fit a mixture for each pair of a positives' centre and a share.

    Parameters
    ----------
    places
        From the lowest, with mean 0 and variance 1.
    centre, share
        Of the positives.
    free
        Whether each class has a width of its own, fitted by expectation and maximisation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> places = rng.normal(size=4000) + 5 * (np.arange(4000) < 1000)
    >>> places = np.sort((places - places.mean()) / places.std())
    >>> centres = np.linspace(0.1, 1.7, 17)
    >>> found = fit_mixtures(places, centres, np.full(17, 0.25))
    >>> round(float(centres[found.best]), 1), found.sureness > 0.98
    (1.6, True)
    """
    cells, count = _cells(places)
    centres = np.stack([centre, -share * centre / (1 - share)])
    away = (cells[:, None] - centres[:, None]) ** 2
    weights = np.stack([share, 1 - share])
    within = np.maximum(1 - share * centre**2 / (1 - share), _NARROWEST)
    widths = np.stack([within, within])
    value = _densities(away, weights, widths)
    for _ in range(_ROUNDS if free else 0):
        own = count[:, None] * np.exp(value - np.logaddexp(*value))
        widths = (own * away).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-9)
        widths = np.maximum(widths, _NARROWEST)
        value = _densities(away, weights, widths)
    total = np.logaddexp(*value)
    found = count @ total
    best = int(found.argmax())
    misfit = _misfit(places, weights[:, best], centres[:, best], np.sqrt(widths[:, best]))
    surer = np.exp(value[:, :, best].max(axis=0) - total[:, best])
    sureness = float(count @ surer / count.sum())
    apt = misfit * _BINS <= max(_UNLIKE * len(places), _BINS)
    return Mixtures(found - found[best], best, misfit, sureness, apt)


def farthest(share: float) -> float:
    """Return the centre at which no variance within classes would be left."""
    return float(np.sqrt((1 - share) / share))


def mean_of_highest(places: Float[np.ndarray, " records"], share: float) -> float:
    """Return the mean of the highest places: no choice of that share of records has a higher one.

    Examples
    --------
    >>> mean_of_highest(np.array([0.0, 1.0, 2.0, 4.0]), 0.5)
    3.0
    """
    count = int(np.clip(round(share * len(places)), 1, len(places)))
    return float(np.partition(places, len(places) - count)[-count:].mean())


def _cells(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means of groups of neighbours, and how many they are."""
    starts = np.linspace(0, len(places), min(_CELLS, len(places)), endpoint=False).astype(int)
    count = np.diff(np.append(starts, len(places))).astype(np.float64)
    return np.add.reduceat(places, starts) / count, count


def _densities(away: np.ndarray, weights: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return the logarithm of each class's weighted density, class × cell × mixture."""
    spread = widths[:, None]
    return np.log(weights)[:, None] - 0.5 * np.log(spread) - 0.5 * away / spread


def _misfit(
    places: Float[np.ndarray, " records"],
    weights: Float[np.ndarray, " two"],
    centres: Float[np.ndarray, " two"],
    deviations: Float[np.ndarray, " two"],
) -> float:
    edges = np.unique(np.quantile(places, np.linspace(0, 1, _BINS + 1)[1:-1]))
    below = ndtr((edges[:, None] - centres) / deviations) @ weights
    wanted = len(places) * np.diff(below, prepend=0.0, append=1.0)
    seen = np.diff(np.searchsorted(places, edges, side="right"), prepend=0, append=len(places))
    chi = float(((seen - wanted) ** 2 / np.maximum(wanted, 1.0)).sum())
    return max(chi / max(len(edges) - 3, 1), 1.0)
