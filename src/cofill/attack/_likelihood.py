"""Logistic regression and Fisher's discriminant without labels: the released mean is enough.

The likelihood of labels y under ``p = expit(w·x + b)`` is ``Σ y(w·x + b) − Σ log(1 + exp(w·x +
b))``, and the first sum is nπ(w·m + b), with the released mean m and the share π of positives.
Labels enter in no other way. So whoever knows a noiseless mean can fit the very regression that
somebody with all labels would fit to these records: the linear oracle is no ceiling but the start.

With noise, each direction is held back by a ridge that makes the first Newton step equal the
discriminant's shrunk direction. Where the mean is off in ways that nobody knows, as one of more
people than the records show, odds are not to be trusted near one half, but the share of positives
still is: as many records are guessed positive as there should be.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, get_blas_funcs
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack
from cofill.attack._direction import (
    Belief,
    calibrate,
    fit_direction,
    quantile_cut,
    read_release,
)
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._spread import Spread, Turned

_STEPS = 60
_syrk: Any = get_blas_funcs("syrk", dtype=np.float32)
RIDGE = 1e-6  # per record: keeps separable classes from pulling weights to infinity
_STIFF = 1e12
_CONVERGED = 1e-6  # of the likelihood per record that another step would add
_CERTAIN = 20.0  # log-odds in the mean over records
STEEP = 4.0  # times the odds held back: if more still agrees, the mean says nothing of certainty
_UNSURE = 0.03  # relative error of the mean's position beyond which odds cannot be calibrated by it
UNSURE = (
    "no accuracy is expected of guesses: with this noise the mean agrees with attacks that are "
    "right about very different shares of the records"
)
OFF = (
    "the mean is not one of these records, or the share is too large: no accuracy is expected of "
    "guesses, because the records do not tell how far off the mean is"
)


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted regression: weights in the records' own units and an intercept."""

    weights: Float[np.ndarray, " features"]
    intercept: float

    def logits(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return the log-odds of being positive."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() + self.intercept

    @classmethod
    def of(cls, spread: Spread, turned: Float[np.ndarray, " columns"]) -> "Logistic":
        """Return a regression in own units from weights of directions and of the ones."""
        weights = spread.basis @ turned[:-1]
        return cls(weights, float(turned[-1] - spread.mean @ weights))


def maximise_likelihood(
    turned: Turned,
    sums: Float[np.ndarray, " columns"],
    ridge: Float[np.ndarray, " columns"],
    offset: Float[np.ndarray, " records"],
) -> Float[np.ndarray, " columns"]:
    """Return the weights that maximise the likelihood beyond an offset of the log-odds.

    ``sums`` are those of the positives' turned records, all that the likelihood needs of labels.
    Newton's method; the curvature is summed in single precision, which costs steps no accuracy.
    """
    count = turned.records.shape[0]
    weights = np.zeros(len(sums))

    def objective(at: np.ndarray) -> float:
        total = float(np.logaddexp(0.0, offset + turned.times(at)).sum())
        return total - float(sums @ at) + 0.5 * float(ridge @ at**2)

    value = objective(weights)
    for _ in range(_STEPS):
        slope, curvature = ridge * weights - sums, np.zeros((len(sums), len(sums)), np.float32)
        start = 0
        for part in turned:
            chance = expit(offset[start : start + len(part)] + part @ weights)
            slope += part.T @ chance
            roots = (part * np.sqrt(chance * (1 - chance))[:, None]).astype(np.float32)
            curvature = _syrk(1.0, roots.T, 1.0, curvature, lower=1)
            start += len(part)
        step = _solve(curvature.astype(np.float64), ridge, slope)
        gain = float(slope @ step)
        size, new_value = 1.0, objective(weights - step)
        while new_value > value - 1e-4 * size * gain and size > 1e-6:
            size /= 2
            new_value = objective(weights - size * step)
        weights = weights - size * step
        if gain < _CONVERGED * count or size <= 1e-6:
            break
        value = new_value
    return weights


def _solve(system: np.ndarray, ridge: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return Newton's step; what single precision has rounded off the system is not curvature."""
    largest, rounded = float(system.diagonal().max()), 1e-7
    while True:
        held = system + np.diag(ridge + rounded * largest + 1e-9)
        try:
            return cho_solve(cho_factor(held, lower=True), slope)
        except np.linalg.LinAlgError:
            rounded *= 10


def fit_logistic(turned: Turned, belief: Belief, prior: float) -> Float[np.ndarray, " columns"]:
    """Return the regression's weights of directions and of the ones."""
    count = turned.records.shape[0]
    held = count * prior * (1 - prior) * (1 / np.maximum(belief.factors, 1e-12) - 1)
    ridge = np.append(RIDGE * count + np.minimum(held, _STIFF), 0.0)
    start = float(np.log(prior / (1 - prior)))
    weights = maximise_likelihood(
        turned, prior * count * np.append(belief.observed, 1.0), ridge, np.full(count, start)
    )
    weights[-1] += start
    return weights


def fit_line(records: Records, released: ReleasedMean) -> "Line":
    """Return the regression that a released mean allows."""
    spread, belief, is_off = read_release(records, released.mean, released.noise, released.prior)
    turned = Turned(records, spread)
    weights = fit_logistic(turned, belief, released.prior)
    if belief.is_noisy:
        # The ridge holds odds back more than noise does: they must agree with what is believed.
        logits = turned.times(weights)
        expected = float(weights @ np.append(belief.expected, 1.0))
        slope, cut = calibrate(logits, logits, expected, prior=released.prior)
        if slope < STEEP:
            weights *= slope
            weights[-1] -= slope * cut
    if is_off:
        # As many are guessed as there should be.
        weights[-1] -= quantile_cut(turned.times(weights), released.prior)[1]
    return Line(spread, turned, belief, is_off, weights)


@dataclass(frozen=True, eq=False)
class Line:
    """A regression from a released mean, with the units and beliefs that it was fitted by."""

    spread: Spread
    turned: Turned
    belief: Belief
    is_off: bool  # whether the mean is off in ways that nobody stated
    weights: Float[np.ndarray, " columns"]

    def with_discriminant(self, prior: float) -> "Line":
        """Return the line whose log-odds are the average of these and the discriminant's."""
        expected = self.belief.expected
        positions = self.turned.times(np.append(expected, 0.0))
        slope, cut = calibrate(positions, positions, float(expected @ expected), prior=prior)
        if slope * float(np.abs(positions - cut).mean()) > _CERTAIN:
            return self  # even certain guesses agree with the mean, which says nothing of odds
        discriminant = np.append(slope * expected, -slope * cut)
        return replace(self, weights=(self.weights + discriminant) / 2)


def withheld_reason(belief: Belief, is_off: bool) -> str | None:
    """Return why no accuracy can be expected of a line, or None where it can."""
    if is_off:
        return OFF
    expected = belief.expected
    error = float(np.sqrt(belief.factors * belief.noise @ expected**2))
    return UNSURE if error > _UNSURE * float(expected @ expected) else None


class Likelihood(AbstractCalibratedAttack):
    """Maximum likelihood from the released mean: the linear oracle's own fit, without labels.

    Columns may be in any units and may repeat each other.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) < 100
    >>> records = rng.normal(size=(400, 5)) + 2 * truth[:, None]
    >>> attack = Likelihood().fit(records, mean=records[truth].mean(axis=0), prior=0.25)
    >>> from sklearn.linear_model import LogisticRegression
    >>> oracle = LogisticRegression(C=1e6).fit(records, truth)
    >>> bool((attack.labels_ == oracle.predict(records)).all())
    True
    """

    name = "likelihood"
    accepts_sparse = True

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        line = fit_line(records, released)
        self.model_ = Logistic.of(line.spread, line.weights)
        self._withhold(withheld_reason(line.belief, line.is_off))

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.model_.logits(records))


class Discriminant(AbstractCalibratedAttack):
    """Fisher's discriminant, in closed form (derived in _direction).

    Takes dense and sparse records. Scores are probabilities, calibrated by the released mean.

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

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        spread, belief, is_off = read_release(
            records, released.mean, released.noise, released.prior
        )
        line = fit_direction(spread, belief)
        positions = line.positions(records)
        self.direction_ = line
        self.slope_, self.cut_ = calibrate(
            positions, positions, line.expected, prior=released.prior
        )
        self._withhold(withheld_reason(belief, is_off))

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.slope_ * (self.direction_.positions(records) - self.cut_))
