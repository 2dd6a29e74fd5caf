"""Fisher's direction from a released mean, and probabilities that agree with that mean.

The released mean m of the positives, the mean μ and covariance Σ of all records and the share π of
positives give the rest: the negatives' mean is (μ − πm) / (1 − π), so the classes lie Δ = (m − μ) /
(1 − π) apart, and because Σ is the covariance within classes plus π(1 − π)ΔΔᵀ, Σ⁻¹Δ points where
Fisher's direction does. No label is needed.

Noise on the mean is noise on Δ. With Δ ~ N(0, τΣᵃ) beforehand, its expectation given what was
released shrinks each eigenvector of Σ by τλᵃ / (τλᵃ + s²), where τ, a and the part of s² that
nobody stated make the released mean most likely. Nothing is tuned on anybody's label.

Probabilities are calibrated by what was released: their sum must be the number of positives, and
the positives' expected mean on the discriminant's line the released one. These two equations set
the cut and the slope.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import expit

from cofill.attack._inputs import Noise, Records
from cofill.attack._mixture import group_means
from cofill.attack._spread import Spread

FLATTEST, STEEPEST = 1e-2, 1e3  # slopes between which probabilities are calibrated
_TRACE = 1e-6  # ridge relative to the trace of Σ: directions without variance have no say
_HARDLY = 1e-3  # variance of a direction in which classes cannot differ, relative to the largest
_ROUNDING = 1e-9  # of the range of positions, within which they count as equal
_ENOUGH = 20_000  # groups of records by which probabilities are calibrated


@dataclass(frozen=True, eq=False)
class Direction:
    """A line to project records on, and where on it the released mean lies."""

    weights: Float[np.ndarray, " features"]
    offset: float  # a position is record · weights − offset; that of all records' mean is 0
    expected: float  # position of the positives' mean as far as the noise lets it be known
    error: float  # its standard error
    variance: float  # of the noise on a coordinate of the released mean, stated or not

    @property
    def cautious(self) -> float:
        """Position of the positives' mean, less twice its error: a bound for calibration."""
        return self.expected - 2 * self.error

    def positions(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return where records lie on the line."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() - self.offset


def fit_direction(
    spread: Spread, mean: Float[np.ndarray, " features"], noise: Noise | None
) -> Direction:
    """Return the discriminant's direction; it does not depend on the share of positives."""
    observed = spread.vectors.T @ (mean - spread.mean)
    ridge = _TRACE * spread.values.sum()
    factors, variance = fit_shrinkage(
        observed, spread.values, 0.0 if noise is None else noise.variance
    )
    shrunk = factors * observed
    turned = shrunk / (spread.values + ridge)
    weights = spread.vectors @ turned
    error = float(np.sqrt(variance * (factors @ turned**2)))
    return Direction(weights, float(spread.mean @ weights), float(shrunk @ turned), error, variance)


def fit_shrinkage(
    observed: Float[np.ndarray, " kept"], values: Float[np.ndarray, " kept"], variance: float
) -> tuple[Float[np.ndarray, " kept"], float]:
    """Return which part of each coordinate is expected to be true, and the noise's variance.

    A mean may also be off in ways nobody stated: rounded, of other people, made by a generator.
    That shows where records hardly vary and no difference of classes can be; so the variance of
    the noise is at least the one stated, and more where the likelihood says so. Where records vary
    in every direction nothing shows, and what was stated is believed.

    ``observed`` is the released mean less all records' mean along each eigenvector, ``values`` are
    the eigenvalues of the records' covariance.
    """
    shows = values.min() <= _HARDLY * values.max()
    if not shows and not variance:
        return np.ones_like(observed), 0.0
    log_values = np.log(np.maximum(values, values.max() * 1e-9))

    def split_variance(parameters: np.ndarray) -> tuple[np.ndarray, float]:
        true = np.exp(np.clip(parameters[0] + parameters[1] * log_values, -700, 700))
        return true, variance + float(np.exp(np.clip(parameters[2], -700, 700))) * shows

    def surprise(parameters: np.ndarray) -> float:
        true, noise = split_variance(parameters)
        total = np.maximum(true + noise, 1e-300)
        return 0.5 * float(np.sum(np.log(total) + observed**2 / total))

    usual = float(np.mean(observed**2)) or 1.0
    starts = [
        np.array([np.log(usual) - slope * log_values.mean(), slope, np.log(usual) + unstated])
        for slope in (1.0, 2.0)
        for unstated in (-2.0, -30.0)
    ]
    fits: list[Any] = [
        minimize(surprise, start, method="Nelder-Mead", options={"maxiter": 2000})
        for start in starts
    ]
    true, noise = split_variance(min(fits, key=lambda fit: float(fit.fun)).x)
    if noise < 1e-9 * usual:
        return np.ones_like(observed), 0.0
    return true / (true + noise), noise


def quantile_cut(
    positions: Float[np.ndarray, " records"], prior: float
) -> tuple[Bool[np.ndarray, " records"], float]:
    """Return the share of records with the highest positions, and a cut between them and the rest.

    Ties at the cut, up to rounding, are all on one side, so that equal records are guessed alike:
    on the one that leaves the share nearer to what it should be.

    Examples
    --------
    >>> quantile_cut(np.array([3.0, 1.0, 2.0, 0.0]), 0.5)
    (array([ True, False,  True, False]), 1.5)
    >>> quantile_cut(np.array([3.0, 1.0, 1.0, 0.0]), 0.5)
    (array([ True, False, False, False]), 2.0)
    """
    count = len(positions)
    chosen = int(np.clip(round(prior * count), 1, count - 1))
    around = [count - chosen - 1, count - chosen]
    below, above = np.partition(positions, around)[around]
    near = _ROUNDING * float(np.ptp(positions))
    if above - below <= near:
        under, over = positions[positions < below - near], positions[positions > above + near]
        with_ties = count - len(under)
        if len(under) and (not len(over) or with_ties - chosen < chosen - len(over)):
            below = under.max()
        elif len(over):
            above = over.min()
    cut = float((below + above) / 2)
    return positions > cut, cut


def calibrate(
    judged: Float[np.ndarray, " records"],
    positions: Float[np.ndarray, " records"],
    expected: float,
    *,
    prior: float | None = None,
    cut: float = 0.0,
) -> tuple[float, float]:
    """Return the slope and the cut at which judgements, as probabilities, agree with the release.

    With probabilities ``expit(slope · (judged − cut))`` the expected mean of the positives'
    positions must be the released one: too steep, and it lies beyond; too flat, and it falls short.
    With a `prior` the probabilities must also have that mean, which sets the cut; else it stays.
    """
    # Sums over groups of records judged alike are those over records; a sample's would not be.
    order = np.argsort(judged, kind="stable") if len(judged) > _ENOUGH else np.arange(len(judged))
    (judged, positions), count = group_means([judged[order], positions[order]], _ENOUGH)
    scale = float(np.abs(judged - np.median(judged)).mean()) or 1.0

    def cut_at(slope: float) -> float:
        return cut if prior is None else _cut_for_prior(judged, count, slope / scale, prior)

    def mean_at(slope: float) -> float:
        chances = count * expit(slope / scale * (judged - cut_at(slope)))
        return float(chances @ positions / max(chances.sum(), 1e-12))

    if mean_at(STEEPEST) <= expected:
        slope = STEEPEST
    elif mean_at(FLATTEST) >= expected:
        slope = FLATTEST
    else:
        slope = bisect_slope(mean_at, expected)
    return slope / scale, cut_at(slope)


def bisect_slope(
    rising: Callable[[float], float],
    wanted: float,
    low: float = FLATTEST,
    high: float = STEEPEST,
    *,
    rounds: int = 30,
) -> float:
    """Return the slope at which a rising function has the wanted value.

    Examples
    --------
    >>> round(bisect_slope(lambda slope: slope**2, 9.0), 6)
    3.0
    """
    # By the geometric mean: slopes span orders of magnitude.
    for _ in range(rounds):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return float(np.sqrt(low * high))


def _cut_for_prior(judged: np.ndarray, count: np.ndarray, slope: float, prior: float) -> float:
    """Return the cut at which probabilities of this slope have the prior as their mean."""
    wanted = prior * count.sum()
    low, high = judged.min() - 20 / slope, judged.max() + 20 / slope
    for _ in range(50):
        middle = (low + high) / 2
        too_many = count @ expit(slope * (judged - middle)) > wanted
        low, high = (middle, high) if too_many else (low, middle)
    return float((low + high) / 2)
