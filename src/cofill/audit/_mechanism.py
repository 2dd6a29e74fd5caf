"""Telling two neighbours apart by a noisy mean: what a mechanism's ε is at least.

Attackers know everybody's record but one, and that it is one of two at opposite corners of the
public bounds: the worst case that a guarantee must cover. They see what the mechanism releases, and
go by the likelihood ratio, which no test beats.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from cofill.audit._bound import CONFIDENCE, EpsilonBound, bound_from_scores
from cofill.errors import DataError, SettingError
from cofill.privacy import MeanDefence

_NUMBERS = 2**22  # drawn at one time
_MOST = 200_000  # releases from either neighbour


def prove_epsilon(
    defence: MeanDefence,
    rows: Float[np.ndarray, "rows features"],
    *,
    delta: float | int | None = None,
    draws: int | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> EpsilonBound:
    """Return the ε that telling two neighbours apart proves against a defence.

    Parameters
    ----------
    defence
        The mechanism that is run, as it would be for a release.
    rows
        Rows of the mean; the first one's place is taken by the two neighbours.
    delta
        At which δ; the defence's own when left out.
    draws
        Releases from either neighbour; half choose the threshold, half judge it. When left out, as
        many as take a second or two: 20,000, and more of a mean of few features.
    confidence
        Of the bound.
    seed
        Of the noise.

    Examples
    --------
    >>> from cofill.privacy import Box, MeanDefence
    >>> rows = np.random.default_rng(0).uniform(size=(50, 3))
    >>> bound = prove_epsilon(MeanDefence(Box(0.0, 1.0), 1.0), rows, draws=40_000)
    >>> 0 < bound.epsilon < 1
    True
    """
    if len(rows) < 2:
        raise DataError(f"a mean must be of at least 2 rows to be audited, got {len(rows)}")
    width = rows.shape[1]
    if draws is None:
        draws = max(20_000, min(_MOST, 2 * _NUMBERS // width))
    if draws < 100:
        raise SettingError(f"draws must be at least 100, got {draws}")
    far = defence.bounds.unit_of(width)
    corners = [defence.bounds.centre_of(width) + sign * far for sign in (1.0, -1.0)]
    data = [np.concatenate([defence.bounds.clip(c[None]), rows[1:]]) for c in corners]
    if defence.neighbours == "add or remove one":
        data[1] = rows[1:]
    centres = [defence.bounds.clip(d).mean(axis=0) for d in data]
    scale = defence.release(data[0], sender="a", receiver="b", rng=seed).scale
    scores = []
    for which, rows_with in enumerate(data):
        rng = np.random.default_rng([seed, which, 0xD157])
        size = max(1, _NUMBERS // width)
        parts = [
            _ratio(
                defence, defence.draws(rows_with, min(size, draws - at), rng=rng), centres, scale
            )
            for at in range(0, draws, size)
        ]
        scores.append(np.concatenate(parts))
    return bound_from_scores(
        scores[0],
        scores[1],
        delta=defence.delta if delta is None else delta,
        confidence=confidence,
        how="telling two neighbours at the corners of the bounds apart by the released mean",
    )


def _ratio(
    defence: MeanDefence,
    means: Float[np.ndarray, "draws features"],
    centres: list[np.ndarray],
    scale: Float[np.ndarray, " features"],
) -> Float[np.ndarray, " draws"]:
    """Return the logarithm of the likelihood ratio of the first neighbour against the second."""
    first, second = ((means - centre) / scale for centre in centres)
    if defence.noise == "gaussian":
        return ((second**2 - first**2) / 2).sum(axis=1)
    return (np.abs(second) - np.abs(first)).sum(axis=1)
