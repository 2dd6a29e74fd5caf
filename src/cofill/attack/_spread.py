"""Records in units in which they vary alike in every direction, and the noise of a mean there.

Columns are divided by their deviations, whatever units they came in; directions are the
eigenvectors of the correlations, divided by their own deviations, so that all variances are 1 and
columns that repeat others leave no direction. A second rotation makes noise that was added to each
coordinate independent between directions too: each direction then has one variance of noise.

Dense and sparse records alike are summed in pieces, so that millions of them need the memory of a
features × features matrix. Where features outnumber records the eigenvectors come from the
records × records products instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from cofill.attack._inputs import Records

_ROWS = 16_384  # of a dense piece: bounds the copies that are made of it
_KEPT = 30_000_000  # numbers up to which turned records are kept between passes
_LEAST = 1e-9  # eigenvalue of correlations, relative to the largest, that is more than rounding
_OFF = 1e-3  # part of a mean's shift that may lie where records do not vary


@dataclass(frozen=True, eq=False)
class Spread:
    """Directions along which records have variance 1 and a mean's noise is independent."""

    mean: Float[np.ndarray, " features"]
    basis: Float[np.ndarray, "features kept"]  # records times it are records in these units
    loadings: Float[np.ndarray, "features kept"]  # and back: shifts = loadings · turned shifts
    noise: Float[np.ndarray, " kept"]  # variance of the mean's noise along each direction
    units: Float[np.ndarray, " features"]  # deviations of columns
    count: int  # of records

    def along(self, mean: Float[np.ndarray, " features"]) -> Float[np.ndarray, " kept"]:
        """Return a mean in these units; that of all records is zero."""
        return (mean - self.mean) @ self.basis

    def is_off(self, mean: Float[np.ndarray, " features"]) -> bool:
        """Return whether a mean lies where no choice of these records can have it."""
        shift = (mean - self.mean) / self.units
        left = shift - (self.loadings @ self.along(mean)) / self.units
        return bool(np.linalg.norm(left) > _OFF * np.linalg.norm(shift) + 1e-9)


class Turned:
    """The records along a spread's directions, in pieces with a last column of ones."""

    def __init__(self, records: Records, spread: Spread) -> None:
        self.records, self.spread = records, spread
        few = records.shape[0] * spread.basis.shape[1] <= _KEPT
        self._stored = list(self._turn()) if few else None

    def __iter__(self) -> Iterator[Float[np.ndarray, "rows columns"]]:
        return iter(self._stored) if self._stored is not None else self._turn()

    def times(self, weights: Float[np.ndarray, "columns ..."]) -> Float[np.ndarray, "records ..."]:
        """Return the product with weights of all directions and the ones."""
        return np.concatenate([part @ weights for part in self])

    def _turn(self) -> Iterator[np.ndarray]:
        basis, centre = self.spread.basis, self.spread.mean @ self.spread.basis
        for start in range(0, self.records.shape[0], _ROWS):
            part = np.asarray(self.records[start : start + _ROWS] @ basis) - centre
            yield np.column_stack([part, np.ones(len(part))])


def measure_spread(records: Records, variance: float = 0.0) -> Spread:
    """Return the units of records, for a mean with this variance of noise on each coordinate."""
    count, features = records.shape
    mean = np.asarray(records.mean(axis=0), dtype=np.float64).ravel()
    if features <= count:
        covariance, mean = _covariance(records, mean)
        units, varied = _units(np.diagonal(covariance), mean)
        scales = varied / units
        values, vectors = np.linalg.eigh(covariance * np.outer(scales, scales))
    else:
        values, vectors, units = _wide(records, mean)
    varies = values > max(_LEAST * values[-1], 0.0)
    roots, vectors = np.sqrt(values[varies]), vectors[:, varies]
    basis, loadings = vectors / roots / units[:, None], vectors * roots * units[:, None]
    noise = np.zeros(len(roots))
    if variance > 0:
        noise, rotation = np.linalg.eigh(variance * basis.T @ basis)
        noise, basis, loadings = np.maximum(noise, 0.0), basis @ rotation, loadings @ rotation
    return Spread(mean, basis, loadings, noise, units, count)


def _units(variances: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return deviations of columns, and which of them vary by more than rounding."""
    deviations = np.sqrt(np.maximum(variances, 0.0))
    varied = deviations > 1e-7 * np.abs(mean)
    return np.where(varied, deviations, np.maximum(np.abs(mean), 1.0)), varied


def _covariance(records: Records, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count, features = records.shape
    if sparse.issparse(records):
        product: Any = records.T @ records
        return product.toarray() / count - np.outer(mean, mean), mean
    # Moments about a record-like point: sums of squares about zero would cancel.
    total, sums = np.zeros((features, features)), np.zeros(features)
    for start in range(0, count, _ROWS):
        part = records[start : start + _ROWS].astype(np.float64) - mean
        total += part.T @ part
        sums += part.sum(axis=0)
    shift = sums / count
    return total / count - np.outer(shift, shift), mean + shift


def _wide(records: Records, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the correlations of more features than records."""
    # There are few records where features are more, so that a dense copy does no harm.
    dense: Any = records.toarray() if sparse.issparse(records) else records
    centred = dense.astype(np.float64) - mean
    units, varied = _units((centred**2).mean(axis=0), mean)
    scaled = centred * (varied / units)
    values, left = np.linalg.eigh(scaled @ scaled.T / len(scaled))
    varies = values > 1e-10 * values[-1]
    values, left = values[varies], left[:, varies]
    return values, scaled.T @ left / np.sqrt(len(scaled) * values), units
