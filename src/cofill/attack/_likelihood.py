"""Logistic regression without labels: the released mean is all its likelihood needs.

The likelihood of labels y under ``p = expit(w·x + b)`` is ``Σ y(w·x + b) − Σ log(1 + exp(w·x +
b))``, and the first sum is nπ(w·m + b), with the released mean m and the share π of positives.
Labels enter in no other way. So whoever knows a noiseless mean can fit the very regression that
somebody with all labels would fit to these records: the linear oracle is no ceiling but the start.

With noise, each eigenvector of the records' covariance is held back by a ridge that makes the
first Newton step equal the discriminant's shrunk direction. Where the mean is off in ways that
nobody knows, as one of more people than the records show, odds are not to be trusted near one half,
but the share of positives still is: as many records are guessed positive as there should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cofill.attack._base import AbstractCalibratedAttack, Noise, Records
from cofill.attack._discriminant import Direction, direction_of, quantile_cut, shrinkage
from cofill.attack._spread import Spread, spread_of
from cofill.attack._sureness import BEYOND, is_beyond, sureness_of_scores

__all__ = ["Likelihood", "Logistic", "fit_guesses", "fit_logistic"]

_ROWS = 16_384
_STEPS = 50
_KEPT = 30_000_000  # numbers up to which turned records are kept between steps
_RIDGE = 1e-8  # per record: keeps separable classes from pulling weights to infinity
_STIFF = 1e12
_MATTERS = 1e-3  # error of the mean's place, relative to it, above which more than rounding is off


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted regression: weights in the records' own units and an intercept."""

    weights: Float[np.ndarray, " features"]
    intercept: float

    def logits(self, records: Records) -> Float[np.ndarray, " records"]:
        """Return the log-odds of being positive."""
        return np.asarray(records @ self.weights, dtype=np.float64).ravel() + self.intercept


def fit_logistic(
    records: Records,
    spread: Spread,
    mean: Float[np.ndarray, " features"],
    prior: float,
    noise: Noise | None,
    *,
    beside: Float[np.ndarray, " records"] | None = None,
) -> Logistic:
    """Maximise the likelihood by Newton's method, in the basis of the covariance's eigenvectors.

    With log-odds `beside`, what is fitted comes on top of them, and noise holds it back to none.
    """
    kept = spread.values > 1e-9 * spread.values.max()
    vectors, values = spread.vectors[:, kept], spread.values[kept]
    seen = vectors.T @ (mean - spread.mean)
    count = spread.count
    ridge = np.full(len(values), _RIDGE * count)
    stated = 0.0 if noise is None else noise.variance
    unexplained = seen
    if beside is not None:
        chance = expit(beside)
        expected = np.asarray(chance @ records, dtype=np.float64) / chance.sum()
        unexplained = vectors.T @ (mean - expected)
    believed, variance = shrinkage(unexplained, values, stated)
    if variance > 0:
        believed = np.maximum(believed, 1e-12)
        ridge += np.minimum(count * prior * (1 - prior) * values * (1 / believed - 1), _STIFF)
    ridge = np.append(ridge, 0.0)
    target = prior * count * np.append(seen, 1.0)
    weights = np.zeros(len(target))
    if beside is None:
        weights[-1] = np.log(prior / (1 - prior))

    def value(at: np.ndarray) -> float:
        total = sum(float(np.logaddexp(0.0, odds(k, part, at)).sum()) for k, part in turned())
        return total - float(target @ at) + 0.5 * float(ridge @ at**2)

    def turned() -> Iterable[tuple[int, np.ndarray]]:
        return enumerate(kept_pieces or _turned(records, spread.mean, vectors))

    def odds(piece: int, part: np.ndarray, at: np.ndarray) -> np.ndarray:
        own = part @ at
        return own if beside is None else own + beside[piece * _ROWS : (piece + 1) * _ROWS]

    few = records.shape[0] * len(values) <= _KEPT
    kept_pieces = list(_turned(records, spread.mean, vectors)) if few else []

    here = value(weights)
    for _ in range(_STEPS):
        slope = ridge * weights - target
        curvature = np.diag(ridge + 1e-9 * count)
        for k, part in turned():
            share = expit(odds(k, part, weights))
            slope += part.T @ share
            curvature += (part * (share * (1 - share))[:, None]).T @ part
        step = np.linalg.solve(curvature, slope)
        size, there = 1.0, value(weights - step)
        while there > here - 1e-4 * size * float(slope @ step) and size > 1e-6:
            size /= 2
            there = value(weights - size * step)
        weights = weights - size * step
        if here - there < 1e-6 * count:
            break
        here = there
    own = vectors @ weights[:-1]
    return Logistic(own, float(weights[-1] - spread.mean @ own))


def fit_guesses(
    records: Records,
    spread: Spread,
    direction: Direction,
    mean: Float[np.ndarray, " features"],
    prior: float,
    noise: Noise | None,
) -> Logistic:
    """Fit the regression by whose odds records are guessed.

    Parameters
    ----------
    records, spread
        Records without labels, and how they vary.
    direction
        The discriminant's, which knows whether the mean is off in ways that nobody stated.
    mean, prior, noise
        What was released of the positives, and their share.
    """
    found = fit_logistic(records, spread, mean, prior, noise)
    known = noise is not None and noise.kind != "unknown"
    if known or direction.error <= _MATTERS * abs(direction.expected):
        return found
    _, cut = quantile_cut(found.logits(records), prior)
    return replace(found, intercept=found.intercept - cut)


def _turned(records: Records, mean: np.ndarray, vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield pieces of the records along the eigenvectors, with a last column of ones."""
    for start in range(0, records.shape[0], _ROWS):
        part = records[start : start + _ROWS]
        along = np.asarray(part @ vectors) - mean @ vectors
        yield np.column_stack([along, np.ones(len(along))])


class Likelihood(AbstractCalibratedAttack):
    """Maximum likelihood from the released mean: the linear oracle's own fit, without labels.

    Attributes
    ----------
    sureness_
        Accuracy that the attack expects of its labels.

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

    def _fit(
        self,
        records: Records,
        mean: Float[np.ndarray, " features"],
        prior: float,
        noise: Noise | None,
    ) -> None:
        spread = spread_of(records)
        line = direction_of(spread, mean, noise)
        self.model_ = fit_guesses(records, spread, line, mean, prior, noise)
        self.claimed_ = None
        if is_beyond(line.places(records), prior, line.cautious):
            logits = self.model_.logits(records)
            share = float(np.clip((logits > 0).mean(), 1 / len(logits), 1 - 1 / len(logits)))
            self.claimed_ = sureness_of_scores(logits, share)
            self.notes_.append(BEYOND)

    def _score(self, records: Records) -> Float[np.ndarray, " records"]:
        return expit(self.model_.logits(records))
