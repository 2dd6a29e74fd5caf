"""The accuracy an attack may expect of itself where the released mean alone would mislead it.

Probabilities are calibrated by where the released mean lies on the discriminant's line. Noise moves
it, and so moves what the attack claims. A mean of other people than the records, or of a generator,
lies even farther out than any choice of so many records: then it says nothing of certainty.

The histogram of the positions is the second source. A mixture with the given share of positives
has a most likely centre, and the mean's position is believed within its noise only; an impossible
position is not believed at all. Where the mean is exact and possible, or the histogram is unlike
any mixture, nothing is changed. Only `expected_accuracy_` depends on this; guesses, scores and
their order do not.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from cofill.attack._mixture import Mixtures, fit_mixtures, mean_of_highest

BEYOND = (
    "the mean lies farther out than that of any such share of these records: it is of other people "
    "or the share is too large; the expected accuracy goes by how the scores are spread"
)
_CENTRES = np.linspace(0.02, 0.995, 100)
_SLACK = 0.02  # of the share, which is rarely stated to the last record
_TAIL = 0.001  # of the scores on each side, which few records may stretch


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
    """Return where the positives' mean is taken to lie, and whether the released one is impossible.

    Parameters
    ----------
    positions
        Of the records on the line, with mean 0.
    prior
        Share of positives.
    expected, error
        Position of the released mean, and its standard error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positions = rng.normal(size=2000) + 4 * (np.arange(2000) < 1000)
    >>> positions -= positions.mean()
    >>> believed_position(positions, 0.5, 1.9, 0.0)
    (1.9, False)
    >>> position, impossible = believed_position(positions, 0.5, 7.0, 0.0)
    >>> round(position), impossible
    (2, True)
    """
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
    """Return the share of right guesses by the mixture that fits the scores best, if one does.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> judged = rng.normal(size=4000) + 4 * (np.arange(4000) < 1000)
    >>> 0.96 < accuracy_from_scores(judged, 0.25) < 1.0  # the best guess of these is right in 98 %
    True
    """
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
