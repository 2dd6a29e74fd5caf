"""Mean and covariance of unlabelled records, by their eigenvectors.

Dense and sparse records alike are summed in pieces, so that millions of them need the memory of a
features × features matrix. Where features outnumber records the eigenvectors come from the
records × records products instead.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from cofill.attack._inputs import Records

_ROWS = 65_536  # of a dense piece: bounds the copies that are made of it


@dataclass(frozen=True, eq=False)
class Spread:
    """Where records lie and how they vary: ``Σ = vectors · diag(values) · vectorsᵀ``.

    Eigenvalues rise; directions without variance may be left out.
    """

    mean: Float[np.ndarray, " features"]
    values: Float[np.ndarray, " kept"]
    vectors: Float[np.ndarray, "features kept"]
    count: int  # of records


def measure_spread(records: Records) -> Spread:
    """Return the mean and the covariance's eigenvectors."""
    count, features = records.shape
    mean = np.asarray(records.mean(axis=0), dtype=np.float64).ravel()
    if features <= count:
        return _spread_of_features(records, mean)
    if sparse.issparse(records):
        # (X − 1mᵀ)(X − 1mᵀ)ᵀ without making X dense.
        product = (records @ records.T).toarray()
        beside = np.asarray(records @ mean).ravel()
        gram = product - beside[:, None] - beside[None, :] + mean @ mean
        values, left = np.linalg.eigh(gram / count)
    else:
        centred = records - mean
        values, left = np.linalg.eigh((centred @ centred.T).astype(np.float64) / count)
    varies = values > values[-1] * 1e-10
    values, left = values[varies], left[:, varies]
    turned = np.asarray(records.T @ left) - np.outer(mean, left.sum(axis=0))
    return Spread(mean, values, turned / np.sqrt(count * values), count)


def _spread_of_features(records: Records, mean: Float[np.ndarray, " features"]) -> Spread:
    count, features = records.shape
    if sparse.issparse(records):
        centre = np.zeros(features)
        product: Any = records.T @ records
        total = product.toarray()
        sums = np.asarray(records.sum(axis=0), dtype=np.float64).ravel()
    else:
        # Moments about a record-like point: sums of squares about zero would cancel.
        centre = mean
        total, sums = np.zeros((features, features)), np.zeros(features)
        for start in range(0, count, _ROWS):
            part = records[start : start + _ROWS].astype(np.float64) - centre
            total += part.T @ part
            sums += part.sum(axis=0)
    shift = sums / count
    values, vectors = np.linalg.eigh(total / count - np.outer(shift, shift))
    return Spread(centre + shift, np.maximum(values, 0.0), vectors, count)
