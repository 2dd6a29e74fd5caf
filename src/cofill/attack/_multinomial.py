"""Multinomial logistic regression without labels, from the released means of several classes.

The likelihood needs of the labels only the sums of each class's records, and those are n π_c m_c,
with the class's share and released mean. So the means of all classes give the regression that
somebody with all labels would fit. What is not released is one more class, the rest: its share is
what the others leave of 1, its mean what they leave of all records' mean.

Where the means of all classes are released their shares need not be: all records' mean is the
classes' average weighted by the shares, which is as many equations as there are features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize, nnls
from scipy.special import logsumexp, softmax

from cofill.attack._direction import weigh_signals
from cofill.attack._inputs import Records, check_mean, check_prior
from cofill.attack._spread import Spread
from cofill.errors import DataError, SettingError

REST = "rest"
_RIDGE = 1e-8  # per record: keeps separable classes from pulling weights to infinity
_STIFF = 1e6  # a ridge at which a weight is nothing; a larger one spoils the search
_STEPS = 400  # of the quasi-Newton method, at most
_EXCESS = 0.01  # of the sum of shares over 1 that rounding explains
_KEPT = 30_000_000  # numbers up to which turned records are in double precision


@dataclass(frozen=True, eq=False)
class Classes:
    """Names, shares and means of all classes, the rest among them."""

    names: tuple[str, ...]
    shares: Float[np.ndarray, " classes"]
    means: Float[np.ndarray, "classes features"]


@dataclass(frozen=True, eq=False)
class Multinomial:
    """A fitted regression: a column of weights in the records' own units for each class."""

    weights: Float[np.ndarray, "features classes"]
    intercepts: Float[np.ndarray, " classes"]

    def logits(self, records: Records) -> Float[np.ndarray, "records classes"]:
        """Return each class's logit, up to a constant for each record."""
        return np.asarray(records @ self.weights, dtype=np.float64) + self.intercepts


def complete_classes(
    spread: Spread, means: Mapping[str, Any], priors: Mapping[str, float | int] | None
) -> Classes:
    """Return all classes: those released, checked, and the rest where shares leave one.

    Examples
    --------
    >>> from cofill.attack._spread import measure_spread
    >>> spread = measure_spread(np.array([[0.0], [1.0], [4.0], [5.0]]))
    >>> complete_classes(spread, {"low": [0.5], "high": [4.5]}, None).shares.round(3)
    array([0.5, 0.5])
    >>> complete_classes(spread, {"low": [0.5]}, {"low": 0.5}).means.ravel()
    array([0.5, 4.5])
    """
    names = tuple(means)
    if not names:
        raise DataError("at least one class's mean must be given, got none")
    rows = np.stack([check_mean(mean, features=len(spread.mean)) for mean in means.values()])
    if priors is None:
        if len(names) < 2:
            raise SettingError(
                "shares can be left out where the means of all classes are given, got one mean; "
                "give the share of its class, or fit an attack for one mean, which estimates it"
            )
        return _spread_error(Classes(names, _solve_shares(spread, rows), rows), spread)
    if set(priors) != set(names):
        raise SettingError(
            f"means and shares must be of the same classes, got {_listed(names)} and "
            f"{_listed(priors)}"
        )
    shares = np.array([check_prior(priors[name]) for name in names])
    left = 1 - shares.sum()
    if left < -_EXCESS:
        raise SettingError(f"shares of classes must not exceed 1 in all, got {shares.sum():.4g}")
    if left <= _EXCESS:
        if len(names) < 2:
            raise SettingError(f"one class must leave some records to others, got {shares[0]:.4g}")
        return _spread_error(Classes(names, shares / shares.sum(), rows), spread)
    if REST in names:
        raise SettingError(f"a class cannot be named {REST!r}, which is what shares leave of 1")
    rest = (spread.mean - shares @ rows) / left
    return Classes((*names, REST), np.append(shares, left), np.vstack([rows, rest]))


def fit_multinomial(records: Records, spread: Spread, classes: Classes) -> Multinomial:
    """Maximise the likelihood by a quasi-Newton method, where records have unit variance."""
    basis = spread.basis
    observed = (classes.means - spread.mean) @ basis
    count, shares = spread.count, classes.shares
    turned = np.asarray(records @ basis) - spread.mean @ basis
    turned = turned.astype(np.float64 if turned.size <= _KEPT else np.float32)
    target = (shares[:, None] * observed).T
    ridge = np.full(target.shape, _RIDGE)
    for k, share in enumerate(shares):
        factors = weigh_signals(observed[k], spread.noise, (1 - share) / share)[0].factors
        held = share * (1 - share) * (1 / np.maximum(factors, 1e-12) - 1)
        ridge[:, k] += np.minimum(held * len(shares) / (len(shares) - 1), _STIFF)

    # In units in which all curvatures are alike at the start: ridges differ by many orders.
    unit = 1 / np.sqrt(shares * (1 - shares) + ridge)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        scaled, intercepts = _split(flat, len(shares))
        weights = unit * scaled
        logits = (turned @ weights.astype(turned.dtype)).astype(np.float64) + intercepts
        chance = softmax(logits, axis=1)
        total = float(np.sum(logsumexp(logits, axis=1))) / count
        total += float(0.5 * (ridge * weights**2).sum() - (target * weights).sum())
        slope = (turned.T @ chance.astype(turned.dtype)) / count - target + ridge * weights
        steps = np.vstack([unit * slope, chance.mean(axis=0) - shares])
        return total - float(shares @ intercepts), steps.ravel().astype(np.float64)

    start = np.vstack([np.zeros_like(target), np.log(shares)]).ravel()
    settings = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6}
    fit = minimize(value, start, jac=True, method="L-BFGS-B", options=settings)
    scaled, intercepts = _split(fit.x, len(shares))
    weights = basis @ (unit * scaled)
    return Multinomial(weights, intercepts - spread.mean @ weights)


def _split(flat: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    both = flat.reshape(-1, classes)
    return both[:-1], both[-1]


def _solve_shares(spread: Spread, means: np.ndarray) -> np.ndarray:
    """Solve for the shares with which the classes' means make all records' mean."""
    along = (means - spread.mean) @ spread.basis
    scale = np.ones(along.shape[1])
    if spread.noise.any():
        # Shrunk means do not pull shares towards each other.
        longest = float((along**2).sum(axis=1).max())
        beliefs = [weigh_signals(mean, spread.noise, longest)[0] for mean in along]
        along, scale = np.stack([belief.expected for belief in beliefs]), np.sqrt(spread.noise)
    # The last equation, that shares have the sum 1, outweighs the others.
    heavy = 1e3 * np.abs(along / scale).max()
    left = np.vstack([(along / scale).T, np.full(len(means), heavy)])
    shares, _ = nnls(left, np.append(np.zeros(along.shape[1]), heavy))
    if shares.min() <= 0:
        raise DataError(
            "the shares of the classes cannot be told from their means, because one would have no "
            "records; give the shares"
        )
    return shares / shares.sum()


def _spread_error(classes: Classes, spread: Spread) -> Classes:
    """Return means that average to all records' mean: noise is shared out among them."""
    off = spread.mean - classes.shares @ classes.means
    moved = np.outer(classes.shares / (classes.shares @ classes.shares), off)
    return replace(classes, means=classes.means + moved)


def _listed(names: Any) -> str:
    shown = ", ".join(map(str, list(names)[:5]))
    return shown + (" …" if len(names) > 5 else "")
