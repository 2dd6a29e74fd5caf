"""Intervals over people: exact for shares, else by a bootstrap that draws people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv

_CELLS = 2**24


def exact_interval(right: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper–Pearson interval of a share.

    Examples
    --------
    >>> [round(end, 4) for end in exact_interval(0, 10)]
    [0.0, 0.3085]
    """
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else float(betaincinv(right, count - right + 1, tail))
    high = 1.0 if right == count else float(betaincinv(right + 1, count - right, 1 - tail))
    return low, high


def bootstrap_people(
    statistic: Callable[[Float[np.ndarray, "draws people"]], Float[np.ndarray, " draws"]],
    people: int,
    *,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, Float[np.ndarray, " draws"]]:
    """Return a statistic of the people, and of people drawn again with replacement.

    The statistic is given how often each person was drawn. Two statistics with one seed are of the
    same draws: their difference is paired.

    Examples
    --------
    >>> x = np.arange(50.0)
    >>> value, drawn = bootstrap_people(lambda counts: counts @ x / 50, 50)
    >>> value, bool(18 < drawn.min() < drawn.max() < 31)
    (24.5, True)
    """
    rng = np.random.default_rng([seed, 0xB007])
    step = max(1, _CELLS // people)
    even = np.full(people, 1 / people)
    parts = [
        statistic(rng.multinomial(people, even, size=min(step, draws - at)).astype(np.float64))
        for at in range(0, draws, step)
    ]
    return float(statistic(np.ones((1, people)))[0]), np.concatenate(parts)


def percentile_interval(
    drawn: Float[np.ndarray, " draws"], level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile interval of drawn statistics.

    Examples
    --------
    >>> [round(end, 6) for end in percentile_interval(np.arange(101.0), 0.9)]
    [5.0, 95.0]
    """
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def r2_statistic(
    truth: Float[np.ndarray, "people features"],
    guesses: Float[np.ndarray, "repeats people features"],
) -> Callable[[Float[np.ndarray, "draws people"]], Float[np.ndarray, " draws"]]:
    """Return the statistic R², a mean over features that vary and over repeats.

    Examples
    --------
    >>> truth = np.array([[0.0], [1.0], [2.0]])
    >>> float(r2_statistic(truth, truth[None])(np.ones((1, 3)))[0])
    1.0
    """
    varies = (truth != truth[:1]).any(axis=0)
    centred = truth[:, varies] - truth[:, varies].mean(axis=0)
    scale = centred.std(axis=0)
    y = centred / scale
    # R² is linear in the squared errors, so that repeats may be averaged first.
    wrong = (((guesses - truth)[:, :, varies] / scale) ** 2).mean(axis=0)

    def statistic(counts: Float[np.ndarray, "draws people"]) -> Float[np.ndarray, " draws"]:
        total = counts @ y**2 - (counts @ y) ** 2 / counts.sum(axis=1, keepdims=True)
        # A draw may miss everyone who differs: such a feature does not count in it.
        counted = total > 1e-9 * len(y)
        share = np.where(counted, (counts @ wrong) / np.where(counted, total, 1.0), 0.0)
        return 1 - share.sum(axis=1) / np.maximum(counted.sum(axis=1), 1)

    return statistic
