"""Mixtures of two normal distributions on a line, one of whose centres the released mean gives.

Positions are in units in which all records' mean is 0 and their variance 1. A share π of positives
whose centre is e then leaves the negatives' centre at −πe / (1 − π) and, where both classes are as
wide, the variance 1 − πe² / (1 − π) within them.

Mixtures also say what accuracy an attack may expect of itself where the released mean alone would
mislead it. Probabilities are calibrated by where the mean lies on the line. Noise moves it, and a
mean of other people, or of a generator, lies farther out than any choice of so many records. Then
the mean's position is believed within its noise only, and an impossible one not at all: the most
likely centre of a mixture stands in. Where the mean is exact and possible, or the histogram is
unlike any mixture, nothing is changed; guesses, scores and their order never depend on this.
"""

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
BEYOND = (
    "the mean lies farther out than that of any such share of these records: it is of other people "
    "or the share is too large; the expected accuracy goes by how the scores are spread"
)
_CENTRES = np.linspace(0.02, 0.995, 100)
_SLACK = 0.02  # of the share, which is rarely stated to the last record
_TAIL = 0.001  # of the scores on each side, which few records may stretch


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Mixtures fitted to the same positions.

    Few different positions make a histogram unlike any mixture: then the best is not ``apt``.
    """

    likelihood: Float[np.ndarray, " mixtures"]  # logarithm, less that of the best
    best: int
    misfit: float  # how much worse than chance the best agrees with the histogram; at least 1
    accuracy: float  # share of right guesses by the best, if it is the true one
    apt: bool  # whether the best resembles the histogram at all


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
    chance = np.exp(value[:, :, best].max(axis=0) - total[:, best])
    accuracy = float(count @ chance / count.sum())
    apt = misfit * _BINS <= max(_UNLIKE * len(positions), _BINS)
    return Mixtures(likelihood - likelihood[best], best, misfit, accuracy, apt)


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


def believed_position(
    positions: Float[np.ndarray, " records"], prior: float, expected: float, error: float
) -> tuple[float, bool]:
    """Return where the positives' mean is taken to lie; whether the released one is impossible."""
    beyond = is_beyond(positions, prior, expected - 2 * error)
    scale = float(positions.std())
    if not scale > 0 or not (beyond or error > 0):
        return expected, beyond
    fits, centres = _fit_centres(np.sort(positions) / scale, prior)
    if not fits.apt:
        return expected, beyond
    likely = fits.likelihood / fits.misfit
    if not beyond:
        likely = likely - 0.5 * ((centres * scale - expected) / error) ** 2
    return float(centres[likely.argmax()] * scale), beyond


def accuracy_from_scores(judged: Float[np.ndarray, " records"], prior: float) -> float | None:
    """Return the share of right guesses by the mixture that fits the scores best, if one does."""
    clipped = np.sort(np.clip(judged, *np.quantile(judged, [_TAIL, 1 - _TAIL])))
    scale = float(clipped.std())
    if not scale > 0:
        return None
    fits, _ = _fit_centres((clipped - clipped.mean()) / scale, prior)
    return fits.accuracy if fits.apt else None


def _fit_centres(positions: np.ndarray, prior: float) -> tuple[Mixtures, np.ndarray]:
    # Beyond this centre no variance within classes would be left.
    centres = _CENTRES * np.sqrt((1 - prior) / prior)
    return fit_mixtures(positions, centres, np.full_like(centres, prior)), centres


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
