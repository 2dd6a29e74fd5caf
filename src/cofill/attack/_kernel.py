"""Kernel ridge regression whose every prediction leaves the record's own label out.

A Gaussian kernel on some of the records as landmarks (Nyström) makes features; the smoother
``H = Φ(ΦᵀΦ + λI)⁻¹Φᵀ`` does not depend on labels, so it is made once, and each new set of labels
costs two products. Leaving a record out has the closed form ``(f − h·y) / (1 − h)`` with its
leverage h: cross-fitting of as many folds as there are records, for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

from cofill.attack._base import Records

__all__ = ["Kernel", "Smoother", "kernel_of"]

_JITTER = 1e-4
_PAIRS = 2000  # of records whose median distance sets the kernel's width
_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Gaussian kernel to landmarks, as features whose products approximate it.

    Parameters
    ----------
    landmarks
        Some of the records, in scaled units.
    scale
        What each column is divided by.
    width
        Squared distance at which the kernel has fallen to 1/e.
    root
        Cholesky factor of the landmarks' own kernel.
    """

    landmarks: Records
    scale: Float[np.ndarray, " features"]
    width: float
    root: Float[np.ndarray, "landmarks landmarks"]

    def features(self, records: Records) -> Float[np.ndarray, "records landmarks"]:
        """Return one feature per landmark for each record."""
        made = np.empty((records.shape[0], len(self.root)), np.float32)
        for start in range(0, records.shape[0], _ROWS):
            part = slice(start, start + _ROWS)
            near = _gauss(_scaled(records[part], self.scale), self.landmarks, self.width)
            made[part] = linalg.solve_triangular(
                self.root, near.T, lower=True, check_finite=False
            ).T
        return made


def kernel_of(
    records: Records, scale: Float[np.ndarray, " features"], landmarks: int, key: int
) -> Kernel:
    """Return a kernel whose width is the median squared distance between two records."""
    rng = np.random.default_rng(key)
    count = records.shape[0]
    chosen = np.sort(rng.permutation(count)[:landmarks])
    rows = _scaled(records[chosen], scale)
    one, other = rng.integers(rows.shape[0], size=(2, _PAIRS))
    width = float(np.median(_squares(rows[one] - rows[other])[one != other])) or 1.0
    # In double precision: rounded products of far records would leave it indefinite.
    own = _gauss(rows.astype(np.float64), rows.astype(np.float64), width)
    own[np.diag_indices_from(own)] += _JITTER
    root = linalg.cholesky(own, lower=True, check_finite=False).astype(np.float32)
    return Kernel(rows, scale, width, root)


@dataclass(frozen=True, eq=False)
class Smoother:
    """Ridge regression on features, with leave-one-out predictions for any labels.

    Parameters
    ----------
    half
        ``Φ L⁻ᵀ`` with LLᵀ the ridge's system, so that the smoother is ``half · halfᵀ``.
    leverage
        Diagonal of the smoother.
    system
        L.
    """

    half: Float[np.ndarray, "records features"]
    leverage: Float[np.ndarray, " records"]
    system: Float[np.ndarray, "features features"]

    @classmethod
    def of(cls, features: Float[np.ndarray, "records features"], ridge: float) -> Smoother:
        """Factor the ridge's system."""
        gram = features.T @ features
        gram[np.diag_indices_from(gram)] += ridge
        system = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        half = linalg.solve_triangular(system, features.T, lower=True, check_finite=False).T
        return cls(half, np.einsum("rk,rk->r", half, half), system)

    def left_out(self, labels: Float[np.ndarray, " records"]) -> Float[np.ndarray, " records"]:
        """Return each record's prediction from all other records' labels.

        Examples
        --------
        >>> import numpy as np
        >>> x, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 2.0])
        >>> rest = (x[1:] * y[1:, None]).sum() / ((x[1:] ** 2).sum() + 0.5) * x[0, 0]
        >>> bool(np.isclose(Smoother.of(x, 0.5).left_out(y)[0], rest))
        True
        """
        made = self.half @ (self.half.T @ labels)
        return (made - self.leverage * labels) / np.maximum(1 - self.leverage, 1e-6)

    def weights(self, labels: Float[np.ndarray, " records"]) -> Float[np.ndarray, " features"]:
        """Return the regression's weights for new records' features."""
        right = self.half.T @ labels
        return linalg.solve_triangular(self.system, right, lower=True, trans=1, check_finite=False)


def _scaled(records: Records, scale: np.ndarray) -> Any:
    if sparse.issparse(records):
        return (records * (1 / scale)[None, :]).tocsr().astype(np.float32)
    return (records / scale).astype(np.float32)


def _squares(rows: Any) -> np.ndarray:
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("rf,rf->r", rows, rows)


def _gauss(rows: Any, landmarks: Any, width: float) -> np.ndarray:
    products = rows @ landmarks.T
    made = products.toarray() if sparse.issparse(products) else products
    made *= -2
    made += _squares(rows)[:, None]
    made += _squares(landmarks)[None, :]
    np.maximum(made, 0, out=made)
    made *= -1 / width
    return np.exp(made, out=made)
