"""Fisher's discriminant from a released mean alone, in closed form.

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

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack, Noise, Records
from cofill.attack._spread import Spread, spread_of
from cofill.attack._sureness import BEYOND, believed_place

__all__ = ["Direction", "Discriminant", "calibrated", "direction_of", "quantile_cut", "shrinkage"]

_TRACE = 1e-6  # ridge relative to the trace of Σ: directions without variance have no say
_HARDLY = 1e-3  # variance of a direction in which classes cannot differ, relative to the largest
_FLATTEST, _STEEPEST = 1e-2, 1e3
_ROUNDING = 1e-9  # of the range of places, within which they count as equal
_ENOUGH = 20_000  # groups of records by which probabilities are calibrated


@dataclass(frozen=True, eq=False)
class Direction:
    """A line to project records on, and where on it the released mean lies.

    Parameters
    ----------
    weights, offset
        A record's place is ``record · weights − offset``, that of all records' mean is 0.
    expected, error
        Place of the positives' mean as far as the noise lets it be known, and its standard error.
    variance
        Of the noise on a coordinate of the released mean, stated or not.
    """

    weights: Float[np.ndarray, " features"]
    offset: float
    expected: float
    error: float
    variance: float

    @property
    def cautious(self) -> float:
        """Place of the positives' mean, less twice its error: what guesses may be sure of."""
        return self.expected - 2 * self.error

    def places(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return where records lie on the line."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() - self.offset


def direction_of(
    spread: Spread, mean: Float[np.ndarray, " features"], noise: Noise | None
) -> Direction:
    """Return the discriminant's direction; it does not depend on the share of positives.

    Examples
    --------
    >>> records = np.array([[0.0, 1.0], [0.0, -1.0], [4.0, 2.0], [4.0, -2.0]])
    >>> found = direction_of(spread_of(records), np.array([4.0, 0.0]), None)
    >>> bool(abs(found.weights[1]) < 1e-6 < found.weights[0])
    True
    """
    seen = spread.vectors.T @ (mean - spread.mean)
    ridge = _TRACE * spread.values.sum()
    kept, variance = shrinkage(seen, spread.values, 0.0 if noise is None else noise.variance)
    along = kept * seen
    turned = along / (spread.values + ridge)
    weights = spread.vectors @ turned
    left = float(np.sqrt(variance * (kept @ turned**2)))
    return Direction(weights, float(spread.mean @ weights), float(along @ turned), left, variance)


def shrinkage(
    seen: Float[np.ndarray, " kept"], values: Float[np.ndarray, " kept"], variance: float
) -> tuple[Float[np.ndarray, " kept"], float]:
    """Return per eigenvector how much of what was seen is expected to be true, and the noise.

    A mean may also be off in ways nobody stated: rounded, of other people, made by a generator.
    That shows where records hardly vary and no difference of classes can be; so the variance of
    the noise is at least the one stated, and more where the likelihood says so. Where records vary
    in every direction nothing shows, and what was stated is believed.
    """
    shows = values.min() <= _HARDLY * values.max()
    if not shows and not variance:
        return np.ones_like(seen), 0.0
    size = np.log(np.maximum(values, values.max() * 1e-9))

    def parts(given: np.ndarray) -> tuple[np.ndarray, float]:
        true = np.exp(np.clip(given[0] + given[1] * size, -700, 700))
        return true, variance + float(np.exp(np.clip(given[2], -700, 700))) * shows

    def surprise(given: np.ndarray) -> float:
        true, noise = parts(given)
        total = np.maximum(true + noise, 1e-300)
        return 0.5 * float(np.sum(np.log(total) + seen**2 / total))

    usual = float(np.mean(seen**2)) or 1.0
    starts = [
        np.array([np.log(usual) - slope * size.mean(), slope, np.log(usual) + unstated])
        for slope in (1.0, 2.0)
        for unstated in (-2.0, -30.0)
    ]
    settings = {"maxiter": 2000}
    found = min(
        (minimize(surprise, s, method="Nelder-Mead", options=settings) for s in starts), key=_value
    )
    true, noise = parts(found.x)
    if noise < 1e-9 * usual:
        return np.ones_like(seen), 0.0
    return true / (true + noise), noise


def _value(result: Any) -> float:
    return float(result.fun)


def quantile_cut(
    places: Float[np.ndarray, " records"], prior: float
) -> tuple[Bool[np.ndarray, " records"], float]:
    """Return the share of records with the highest places, and a cut between them and the others.

    Ties at the cut, up to rounding, are all on one side, so that equal records are guessed alike:
    on the one that leaves the share nearer to what it should be.

    Examples
    --------
    >>> quantile_cut(np.array([3.0, 1.0, 2.0, 0.0]), 0.5)
    (array([ True, False,  True, False]), 1.5)
    >>> quantile_cut(np.array([3.0, 1.0, 1.0, 0.0]), 0.5)
    (array([ True, False, False, False]), 2.0)
    """
    count = len(places)
    chosen = int(np.clip(round(prior * count), 1, count - 1))
    below, above = np.partition(places, [count - chosen - 1, count - chosen])[
        [count - chosen - 1, count - chosen]
    ]
    near = _ROUNDING * float(np.ptp(places))
    if above - below <= near:
        under, over = places[places < below - near], places[places > above + near]
        with_ties = count - len(under)
        if len(under) and (not len(over) or with_ties - chosen < chosen - len(over)):
            below = under.max()
        elif len(over):
            above = over.min()
    cut = float((below + above) / 2)
    return places > cut, cut


def calibrated(
    judged: Float[np.ndarray, " records"],
    places: Float[np.ndarray, " records"],
    expected: float,
    *,
    prior: float | None = None,
    cut: float = 0.0,
) -> tuple[float, float]:
    """Return the slope and the cut at which judgements, as probabilities, agree with the release.

    With probabilities ``expit(slope · (judged − cut))`` the expected mean of the positives' places
    must be the released one: too steep, and it lies beyond; too flat, and it falls short. With a
    `prior` the probabilities must also have that mean, which sets the cut; else it stays.
    """
    judged, places, count = _gathered(judged, places)
    scale = float(np.abs(judged - np.median(judged)).mean()) or 1.0

    def at(slope: float) -> tuple[float, float]:
        here = cut if prior is None else _cut_at(judged, count, slope / scale, prior)
        share = count * expit(slope / scale * (judged - here))
        return float(share @ places / max(share.sum(), 1e-12)), here

    low, high = _FLATTEST, _STEEPEST
    for slope, enough in ((high, at(high)[0] <= expected), (low, at(low)[0] >= expected)):
        if enough:
            return slope / scale, at(slope)[1]
    for _ in range(30):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if at(middle)[0] < expected else (low, middle)
    slope = float(np.sqrt(low * high))
    return slope / scale, at(slope)[1]


def _gathered(judged: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return at most `_ENOUGH` groups of records judged alike: means, and how many they are.

    Sums over groups are those over records, which a sample's would not be.
    """
    total = len(judged)
    if total <= _ENOUGH:
        return judged, places, np.ones(total)
    order = np.argsort(judged, kind="stable")
    starts = np.linspace(0, total, _ENOUGH, endpoint=False).astype(int)
    count = np.diff(np.append(starts, total)).astype(np.float64)
    judged, places = (np.add.reduceat(v[order], starts) / count for v in (judged, places))
    return judged, places, count


def _cut_at(judged: np.ndarray, count: np.ndarray, slope: float, prior: float) -> float:
    """Return the cut at which probabilities of this slope have the prior as their mean."""
    wanted = prior * count.sum()
    low, high = judged.min() - 20 / slope, judged.max() + 20 / slope
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if count @ expit(slope * (judged - middle)) > wanted else (low, middle)
        )
    return float((low + high) / 2)


class Discriminant(AbstractCalibratedAttack):
    """The closed-form discriminant.

    Takes dense and sparse records. Scores are probabilities, calibrated by the released mean.
    `sureness_`, the accuracy the attack expects of itself, is the mean probability of its guesses;
    where the mean is noisy or impossible, that at a more likely place of the mean (see _sureness).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) < 100
    >>> records = rng.normal(size=(400, 5)) + 3 * truth[:, None]
    >>> attack = Discriminant().fit(records, mean=records[truth].mean(axis=0), prior=0.25)
    >>> bool((attack.labels_ == truth).mean() > 0.97)
    True
    """

    name = "discriminant"
    accepts_sparse = True

    def _fit(
        self,
        records: Records,
        mean: Float[np.ndarray, " features"],
        prior: float,
        noise: Noise | None,
    ) -> None:
        line = direction_of(spread_of(records), mean, noise)
        places = line.places(records)
        self.direction_ = line
        self.slope_, self.cut_ = calibrated(places, places, line.expected, prior=prior)
        place, beyond = believed_place(places, prior, line.expected, line.error)
        self.claimed_ = None
        if place != line.expected:
            slope, cut = calibrated(places, places, place, prior=prior)
            self.claimed_ = float(expit(slope * np.abs(places - cut)).mean())
        if beyond:
            self.notes_.append(BEYOND)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.slope_ * (self.direction_.places(records) - self.cut_))
