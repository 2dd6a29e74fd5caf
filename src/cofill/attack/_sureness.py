"""How sure an attack may be, where the released mean is a poor witness of it.

Probabilities are calibrated by where the released mean lies on the discriminant's line. Noise moves
it, and so moves what the attack claims. A mean of other people than the records, or of a generator,
lies even farther out than any choice of so many records: then it says nothing of certainty.

The places' own histogram is a second witness. A mixture with the given share of positives has a
most likely centre, and the mean's place is believed within its noise only; a place that is
impossible is not believed at all. Where the mean is exact and possible, or the histogram is unlike
any mixture, nothing is changed. Only `sureness_` goes by this; guesses, scores and their order do
not.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from cofill.attack._mixture import farthest, fit_mixtures, mean_of_highest

__all__ = ["BEYOND", "believed_place", "is_beyond", "sureness_of_scores"]

BEYOND = (
    "the mean lies farther out than that of any such share of these records: it is of other people "
    "or the share is too large; the expected accuracy goes by how the scores are spread"
)
_CENTRES = np.linspace(0.02, 0.995, 100)
_SLACK = 0.02  # of the share, which is rarely stated to the last record
_TAIL = 0.001  # of the scores on each side, which few records may stretch


def is_beyond(places: Float[np.ndarray, " records"], prior: float, place: float) -> bool:
    """Return whether no choice of this share of the records has so high a mean place.

    Examples
    --------
    >>> places = np.arange(100.0)
    >>> is_beyond(places, 0.5, 75.0), is_beyond(places, 0.5, 80.0)
    (False, True)
    """
    return place > mean_of_highest(places, (1 - _SLACK) * prior)


def believed_place(
    places: Float[np.ndarray, " records"], prior: float, expected: float, error: float
) -> tuple[float, bool]:
    """Return where the positives' mean is taken to lie, and whether the released one is impossible.

    Parameters
    ----------
    places
        Of the records on the line, with mean 0.
    prior
        Share of positives.
    expected, error
        Place of the released mean, and its standard error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> places = rng.normal(size=2000) + 4 * (np.arange(2000) < 1000)
    >>> places -= places.mean()
    >>> believed_place(places, 0.5, 1.9, 0.0)
    (1.9, False)
    >>> place, impossible = believed_place(places, 0.5, 7.0, 0.0)
    >>> round(place), impossible
    (2, True)
    """
    beyond = is_beyond(places, prior, expected - 2 * error)
    scale = float(places.std())
    if not scale > 0 or not (beyond or error > 0):
        return expected, beyond
    centres = _CENTRES * farthest(prior)
    found = fit_mixtures(np.sort(places) / scale, centres, np.full_like(centres, prior))
    if not found.apt:
        return expected, beyond
    likely = found.likelihood / found.misfit
    if not beyond:
        likely = likely - 0.5 * ((centres * scale - expected) / error) ** 2
    return float(centres[likely.argmax()] * scale), beyond


def sureness_of_scores(judged: Float[np.ndarray, " records"], prior: float) -> float | None:
    """Return the share of right guesses by the mixture that fits the scores best, if one does.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> judged = rng.normal(size=4000) + 4 * (np.arange(4000) < 1000)
    >>> 0.96 < sureness_of_scores(judged, 0.25) < 1.0  # the best guess of these is right in 98 %
    True
    """
    held = np.sort(np.clip(judged, *np.quantile(judged, [_TAIL, 1 - _TAIL])))
    scale = float(held.std())
    if not scale > 0:
        return None
    centres = _CENTRES * farthest(prior)
    found = fit_mixtures((held - held.mean()) / scale, centres, np.full_like(centres, prior))
    return found.sureness if found.apt else None
