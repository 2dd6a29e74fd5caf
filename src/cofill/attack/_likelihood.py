"""Logistic regression and Fisher's discriminant without labels: the released mean is enough.

The likelihood of labels y under ``p = expit(w·x + b)`` is ``Σ y(w·x + b) − Σ log(1 + exp(w·x +
b))``, and the first sum is nπ(w·m + b), with the released mean m and the share π of positives.
Labels enter in no other way. So whoever knows a noiseless mean can fit the very regression that
somebody with all labels would fit to these records: the linear oracle is no ceiling but the start.

With noise, each eigenvector of the records' covariance is held back by a ridge that makes the
first Newton step equal the discriminant's shrunk direction. Where the mean is off in ways that
nobody knows, as one of more people than the records show, odds are not to be trusted near one half,
but the share of positives still is: as many records are guessed positive as there should be.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack
from cofill.attack._direction import (
    Direction,
    calibrate,
    fit_direction,
    fit_shrinkage,
    quantile_cut,
)
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._mixture import BEYOND, accuracy_from_scores, believed_position, is_beyond
from cofill.attack._spread import Spread, measure_spread

_ROWS = 16_384
_STEPS = 50
_KEPT = 30_000_000  # numbers up to which turned records are kept between steps
_RIDGE = 1e-8  # per record: keeps separable classes from pulling weights to infinity
_STIFF = 1e12
_MATTERS = 1e-3  # relative error of the mean's position, above which more than rounding is off


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted regression: weights in the records' own units and an intercept."""

    weights: Float[np.ndarray, " features"]
    intercept: float

    def logits(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return the log-odds of being positive."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() + self.intercept


def fit_logistic(records: Records, spread: Spread, released: ReleasedMean) -> Logistic:
    """Maximise the likelihood by Newton's method, in the basis of the covariance's eigenvectors."""
    varies = spread.values > 1e-9 * spread.values.max()
    vectors, values = spread.vectors[:, varies], spread.values[varies]
    observed = vectors.T @ (released.mean - spread.mean)
    count, prior = spread.count, released.prior
    ridge = np.full(len(values), _RIDGE * count)
    stated = 0.0 if released.noise is None else released.noise.variance
    believed, variance = fit_shrinkage(observed, values, stated)
    if variance > 0:
        believed = np.maximum(believed, 1e-12)
        ridge += np.minimum(count * prior * (1 - prior) * values * (1 / believed - 1), _STIFF)
    ridge = np.append(ridge, 0.0)
    target = prior * count * np.append(observed, 1.0)
    weights = np.append(np.zeros(len(values)), np.log(prior / (1 - prior)))
    few = records.shape[0] * len(values) <= _KEPT
    stored_pieces = list(_turned(records, spread.mean, vectors)) if few else []

    def pieces() -> Iterable[np.ndarray]:
        return stored_pieces or _turned(records, spread.mean, vectors)

    def objective(at: np.ndarray) -> float:
        total = sum(float(np.logaddexp(0.0, part @ at).sum()) for part in pieces())
        return total - float(target @ at) + 0.5 * float(ridge @ at**2)

    value = objective(weights)
    for _ in range(_STEPS):
        slope = ridge * weights - target
        curvature = np.diag(ridge + 1e-9 * count)
        for part in pieces():
            chance = expit(part @ weights)
            slope += part.T @ chance
            curvature += (part * (chance * (1 - chance))[:, None]).T @ part
        step = np.linalg.solve(curvature, slope)
        size, new_value = 1.0, objective(weights - step)
        while new_value > value - 1e-4 * size * float(slope @ step) and size > 1e-6:
            size /= 2
            new_value = objective(weights - size * step)
        weights = weights - size * step
        if value - new_value < 1e-6 * count:
            break
        value = new_value
    per_feature = vectors @ weights[:-1]
    return Logistic(per_feature, float(weights[-1] - spread.mean @ per_feature))


def fit_calibrated_logistic(
    records: Records, spread: Spread, direction: Direction, released: ReleasedMean
) -> Logistic:
    """Return the regression whose odds above one are the guesses.

    Where the mean is off in ways that nobody stated, which the discriminant's `direction` knows,
    the intercept is moved so that as many records are guessed positive as there should be.
    """
    model = fit_logistic(records, spread, released)
    known = released.noise is not None and released.noise.kind != "unknown"
    if known or direction.error <= _MATTERS * abs(direction.expected):
        return model
    _, cut = quantile_cut(model.logits(records), released.prior)
    return replace(model, intercept=model.intercept - cut)


def _turned(records: Records, mean: np.ndarray, vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield pieces of the records along the eigenvectors, with a last column of ones."""
    for start in range(0, records.shape[0], _ROWS):
        part = records[start : start + _ROWS]
        along = np.asarray(part @ vectors) - mean @ vectors
        yield np.column_stack([along, np.ones(len(along))])


class Likelihood(AbstractCalibratedAttack):
    """Maximum likelihood from the released mean: the linear oracle's own fit, without labels.

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
        spread = measure_spread(records)
        line = fit_direction(spread, released.mean, released.noise)
        self.model_ = fit_calibrated_logistic(records, spread, line, released)
        self.claimed_ = None
        if is_beyond(line.positions(records), released.prior, line.cautious):
            logits = self.model_.logits(records)
            share = float(np.clip((logits > 0).mean(), 1 / len(logits), 1 - 1 / len(logits)))
            self.claimed_ = accuracy_from_scores(logits, share)
            self.notes_.append(BEYOND)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.model_.logits(records))


class Discriminant(AbstractCalibratedAttack):
    """Fisher's discriminant, in closed form (derived in _direction).

    Takes dense and sparse records. Scores are probabilities, calibrated by the released mean.
    `expected_accuracy_` is the mean probability of the guesses; where the mean is noisy or
    impossible, that at a more likely position of the mean (see _mixture).

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
        line = fit_direction(measure_spread(records), released.mean, released.noise)
        positions, prior = line.positions(records), released.prior
        self.direction_ = line
        self.slope_, self.cut_ = calibrate(positions, positions, line.expected, prior=prior)
        position, beyond = believed_position(positions, prior, line.expected, line.error)
        self.claimed_ = None
        if position != line.expected:
            slope, cut = calibrate(positions, positions, position, prior=prior)
            self.claimed_ = float(expit(slope * np.abs(positions - cut)).mean())
        if beyond:
            self.notes_.append(BEYOND)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.slope_ * (self.direction_.positions(records) - self.cut_))
