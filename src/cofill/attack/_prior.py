"""The share of positives, from the records and the released mean alone.

On the discriminant's line a record has a position, and the released mean says where the positives'
mean lies: at e, with all records' mean at 0. A share π puts the negatives' mean at −πe / (1 − π).
So both centres of a mixture are known for every share, and only the share and the widths are left
to fit. Two mixtures of normal distributions are tried: one width for both classes, which then is
what π leaves of the positions' variance, and a width for each class.

Two things are known of the share whatever the classes' shapes. Its odds are at most Var / e², as no
variance within classes is negative. And the π records in the highest positions must have at least
the position e in the mean, or no choice of positives has the released mean.

The estimate is that of the mixture which fits the histogram of the positions better, if it is
possible at all. A mixture is believed as far as it fits: its likelihood is divided by how much
worse than chance the histogram agrees with it (quasi-likelihood). The interval holds what either
mixture finds likely, and as much more as the mixtures are off what is possible at the least
position of the mean that its noise allows. Where classes overlap much, or noise hides the mean, it
is wide: then the mean does not tell the share.

The mean is taken for one of these records. A mean of other people lies beyond e by as much as
samples differ, which looks like a smaller share.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.attack._direction import fit_direction, read_release
from cofill.attack._inputs import Noise, Records
from cofill.attack._mixture import fit_mixtures
from cofill.errors import DataError

_SHARES = 150  # tried, from the least to the largest that the records allow
_LEAST = 0.003
_NOTHING = 1e-6  # position of a mean that is everybody's, in standard deviations
_DROP = 1.92  # of the log-likelihood at the ends of a 95 % interval
_TELLING = 0.25  # width of an interval that still tells something


@dataclass(frozen=True)
class ShareEstimate:
    """An estimated share of positives.

    Parameters
    ----------
    value
        The estimate.
    low, high
        Ends of an interval that should hold the truth in 19 cases of 20.
    most
        The share that no choice of positives can exceed, given the mean.
    """

    value: float
    low: float
    high: float
    most: float

    @property
    def is_narrow(self) -> bool:
        """Whether the interval is narrow enough to say that the mean tells the share."""
        return self.high - self.low <= _TELLING

    def __str__(self) -> str:
        return f"{self.value:.3f} (95 % interval {self.low:.3f} to {self.high:.3f})"


def estimate_share(
    records: Records, mean: Float[np.ndarray, " features"], noise: Noise | None = None
) -> ShareEstimate:
    """Return the share of positives that agrees best with the mean, and its interval.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(1000) < 300
    >>> records = rng.normal(size=(1000, 5)) + 2 * truth[:, None]
    >>> share = estimate_share(records, records[truth].mean(axis=0))
    >>> share.low < 0.3 < share.high, round(share.value, 1)
    (True, 0.3)
    """
    spread, belief, _ = read_release(records, mean, noise, None)
    line = fit_direction(spread, belief)
    positions = np.sort(line.positions(records))
    scale = float(positions.std())
    if line.expected <= _NOTHING * scale:
        return ShareEstimate(0.5, 0.0, 1.0, 1.0)
    positions, position, error = positions / scale, line.expected / scale, line.error / scale
    highest = min(1 / (1 + position**2), 0.999) - 1e-3
    if highest <= _LEAST:
        raise DataError(
            f"the mean lies {position:.0f} standard deviations from the records' own, which no "
            f"{_LEAST:.1%} of them can have; check that both are in the same units, or state the "
            "share of the class (--prior)"
        )
    most = _largest_share(positions, position - 2 * error)
    tried: list[tuple[float, float]] = []
    ends: list[float] = []
    shares = np.linspace(_LEAST, highest, _SHARES)
    for free in (False, True):
        fits = fit_mixtures(positions, np.full(_SHARES, position), shares, free=free)
        ends.extend(shares[fits.likelihood >= -_DROP * fits.misfit][[0, -1]])
        tried.append((fits.misfit, float(shares[fits.best])))
    modes = [mode for _, mode in sorted(tried)]
    value = next((mode for mode in modes if mode <= most), most)
    # The bound is met where classes do not overlap and nothing hides the mean. How far a mixture is
    # from it, on either side, says how much shapes and noise matter, which mixtures only guess.
    doubt = max(abs(most - mode) for mode in modes)
    low = max(min(*ends, value) - doubt, _LEAST)
    return ShareEstimate(value, float(low), float(min(max(*ends, value) + doubt, most)), most)


def _largest_share(positions: Float[np.ndarray, " records"], position: float) -> float:
    """Return the largest share of records whose highest positions have at least this mean."""
    count = np.arange(1, len(positions) + 1)
    highest = np.cumsum(positions[::-1]) / count
    # Classes that lie apart meet the bound exactly, but for rounding.
    reached = (highest >= position - 1e-6 * abs(position)).sum()
    return float(np.clip(reached, 1, len(positions) - 1) / len(positions))
