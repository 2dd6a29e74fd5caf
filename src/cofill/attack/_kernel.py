"""Self-training by a kernel ridge regression whose predictions leave the record's own label out.

A Gaussian kernel on some of the records as landmarks (Nyström) makes features; the smoother
``H = Φ(ΦᵀΦ + λI)⁻¹Φᵀ`` does not depend on labels, so it is made once, and each new set of labels
costs two products. Leaving a record out has the closed form ``(f − h·y) / (1 − h)`` with its
leverage h: cross-fitting of as many folds as there are records, for nothing.

Because the smoother is fixed, rounds of guessing from the last guesses (`repeat_guesses`) are
nearly free and go on until guesses repeat themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy import linalg, sparse

from cofill.attack._inputs import Records

_JITTER = 1e-4
_PAIRS = 2000  # of records whose median distance sets the kernel's width
_ROWS = 16_384
_RIDGES = (0.1, 1.0)
_FAR = 20.0  # half ranges of the middle half, beyond which a tail is heavy
_TRIAL = 400  # landmarks with which kernels are compared


@dataclass(frozen=True, eq=False)
class Units:
    """Units in which distances between records are measured."""

    scale: Float[np.ndarray, " features"]  # by which columns are divided
    centre: Float[np.ndarray, " features"] | None = None  # of columns whose tails are drawn in

    def apply(self, records: Records) -> Any:
        """Return records in these units, in single precision."""
        if sparse.issparse(records):
            return (records * (1 / self.scale)[None, :]).tocsr().astype(np.float32)
        if self.centre is None:
            return (records / self.scale).astype(np.float32)
        return np.arcsinh((records - self.centre) / self.scale).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Gaussian kernel to landmarks, as features whose products approximate it."""

    landmarks: Records  # some of the records, in scaled units
    units: Units
    width: float  # squared distance at which the kernel has fallen to 1/e
    root: Float[np.ndarray, "landmarks landmarks"]  # Cholesky factor of their own kernel

    def features(self, records: Records) -> Float[np.ndarray, "records landmarks"]:
        """Return one feature per landmark for each record."""
        features = np.empty((records.shape[0], len(self.root)), np.float32)
        for start in range(0, records.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            near = _gauss(self.units.apply(records[part]), self.landmarks, self.width)
            features[part] = _solve(self.root, near.T).T
        return features


def fit_kernel(records: Records, units: Units, landmarks: int, key: int) -> Kernel:
    """Return a kernel whose width is the median squared distance between two records."""
    rng = np.random.default_rng(key)
    count = records.shape[0]
    chosen = np.sort(rng.permutation(count)[:landmarks])
    rows = units.apply(records[chosen])
    first, second = rng.integers(rows.shape[0], size=(2, _PAIRS))
    width = float(np.median(_squares(rows[first] - rows[second])[first != second])) or 1.0
    # In double precision: rounded products of far records would leave it indefinite.
    gram = _gauss(rows.astype(np.float64), rows.astype(np.float64), width)
    gram[np.diag_indices_from(gram)] += _JITTER
    root = linalg.cholesky(gram, lower=True, check_finite=False).astype(np.float32)
    return Kernel(rows, units, width, root)


@dataclass(frozen=True, eq=False)
class Smoother:
    """Ridge regression on features, with leave-one-out predictions for any labels."""

    half: Float[np.ndarray, "records features"]  # Φ L⁻ᵀ: the smoother is half · halfᵀ
    leverage: Float[np.ndarray, " records"]  # the smoother's diagonal
    system: Float[np.ndarray, "features features"]  # L, where LLᵀ is the ridge's system

    @classmethod
    def of(cls, features: Float[np.ndarray, "records features"], ridge: float) -> "Smoother":
        """Factor the ridge's system."""
        gram = features.T @ features
        gram[np.diag_indices_from(gram)] += ridge
        system = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        half = _solve(system, features.T).T
        return cls(half, np.einsum("rk,rk->r", half, half), system)

    def left_out(
        self, labels: Float[np.ndarray, "records ..."]
    ) -> Float[np.ndarray, "records ..."]:
        """Return each record's prediction from all other records' labels."""
        predicted = self.half @ (self.half.T @ labels)
        leverage = self.leverage if labels.ndim == 1 else self.leverage[:, None]
        return (predicted - leverage * labels) / np.maximum(1 - leverage, 1e-6)

    def weights(
        self, labels: Float[np.ndarray, "records ..."]
    ) -> Float[np.ndarray, "features ..."]:
        """Return the regression's weights for new records' features."""
        return _solve(self.system, self.half.T @ labels, trans=1)


_solve = partial(linalg.solve_triangular, lower=True, check_finite=False)


def choose_smoother(
    records: Records,
    labels: Sequence[Float[np.ndarray, " records"]],
    landmarks: int,
    seed: int,
) -> tuple[Kernel, Smoother]:
    """Return the kernel and the ridge regression that predict labels best out of sample.

    Compared are ridges, and the records' own units with those in which every column varies alike
    and, where columns have heavy tails, with those that draw tails in.
    """
    trials: list[tuple[float, int, Units, float]] = []
    count = records.shape[0]
    for units in _choices(records):
        features = fit_kernel(records, units, min(_TRIAL, count), seed).features(records)
        for ridge in _RIDGES:
            smoother = Smoother.of(features, ridge)
            errors = [np.mean((smoother.left_out(values) - values) ** 2) for values in labels]
            trials.append((float(np.sum(errors)), len(trials), units, ridge))
    _, _, units, ridge = min(trials, key=lambda trial: trial[:2])
    kernel = fit_kernel(records, units, min(landmarks, count), seed)
    return kernel, Smoother.of(kernel.features(records), ridge)


def sample_records(count: int, most: int, seed: int) -> Int[np.ndarray, " some"]:
    """Return the positions of all records, or of so many chosen at random."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, 1]).permutation(count)[:most])


def repeat_guesses(
    judge: Callable[[np.ndarray], np.ndarray],
    guess: Callable[[np.ndarray], tuple[np.ndarray, Any]],
    first: Shaped[np.ndarray, " records"],
    rounds: int,
) -> tuple[np.ndarray, np.ndarray, Any, list[float]]:
    """Judge records by the last guesses and guess anew, until guesses repeat themselves.

    Returns the last judgements, the guesses by them, the cut that made these, and the share of
    guesses that changed in each round.
    """
    previous = current = first
    changed: list[float] = []
    while True:
        judged = judge(current).astype(np.float64)
        following, cut = guess(judged)
        changed.append(float((following != current).mean()))
        # A few records at the cut may go back and forth for ever.
        if (following == previous).all() or not changed[-1] or len(changed) == rounds:
            return judged, following, cut, changed
        previous, current = current, following


def _choices(records: Records) -> list[Units]:
    """Return units to compare: own ones, equal variances, tails drawn in where they are heavy."""
    features = records.shape[1]
    if sparse.issparse(records):
        mean = np.asarray(records.mean(axis=0)).ravel()
        squares = np.asarray(records.multiply(records).mean(axis=0)).ravel()
        deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
    else:
        deviation = records.std(axis=0, dtype=np.float64)
    varies = deviation > 1e-7 * deviation.max()
    alike = np.where(varies, deviation, deviation.max())
    units = [Units(np.ones(features))]
    if np.ptp(deviation[varies]) > 0.01 * deviation.max():
        units.append(Units(alike))
    if not sparse.issparse(records):
        low, centre, high = np.quantile(records[:_ROWS], [0.25, 0.5, 0.75], axis=0)
        scale = np.where(high > low, (high - low) / 2, alike)
        far = np.maximum(records.max(axis=0) - centre, centre - records.min(axis=0))
        if (varies & (far > _FAR * scale) & (high > low)).any():
            units.append(Units(scale, centre))
    return units


def _squares(rows: Any) -> np.ndarray:
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("rf,rf->r", rows, rows)


def _gauss(rows: Any, landmarks: Any, width: float) -> np.ndarray:
    products = rows @ landmarks.T
    # In place: this is the largest array of the attack.
    distances = products.toarray() if sparse.issparse(products) else products
    distances *= -2
    distances += _squares(rows)[:, None]
    distances += _squares(landmarks)[None, :]
    np.maximum(distances, 0, out=distances)
    distances *= -1 / width
    return np.exp(distances, out=distances)
