"""Mean and covariance of unlabelled records, by their eigenvectors, whatever the records' form.

Dense and sparse records are summed up in one pass, in pieces if they come in pieces, so that
millions of records need the memory of a features × features matrix. Where features outnumber
records the eigenvectors come from the records × records products instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from cofill.attack._base import Records
from cofill.errors import DataError

__all__ = ["Spread", "spread_of", "spread_of_pieces"]

_ROWS = 65_536  # of a dense piece: bounds the copies that are made of it


@dataclass(frozen=True, eq=False)
class Spread:
    """Where records lie and how they vary: ``Σ = vectors · diag(values) · vectorsᵀ``.

    Parameters
    ----------
    mean
        Of the records.
    values, vectors
        Eigenvalues, from the smallest, and a column for each; directions without variance may be
        left out.
    count
        How many records.
    """

    mean: Float[np.ndarray, " features"]
    values: Float[np.ndarray, " kept"]
    vectors: Float[np.ndarray, "features kept"]
    count: int


def spread_of(records: Records) -> Spread:
    """Return the spread of records that are here at once.

    Examples
    --------
    >>> spread_of(np.array([[0.0, 0.0], [2.0, 0.0]])).values.round(6)
    array([0., 1.])
    """
    count, features = records.shape
    if features <= count:
        return spread_of_pieces([records])
    mean = np.asarray(records.mean(axis=0), dtype=np.float64).ravel()
    if sparse.issparse(records):
        # (X − 1mᵀ)(X − 1mᵀ)ᵀ without making X dense.
        product = (records @ records.T).toarray()
        beside = np.asarray(records @ mean).ravel()
        gram = product - beside[:, None] - beside[None, :] + mean @ mean
        values, left = np.linalg.eigh(gram / count)
    else:
        centred = records - mean
        values, left = np.linalg.eigh((centred @ centred.T).astype(np.float64) / count)
    kept = values > values[-1] * 1e-10
    values, left = values[kept], left[:, kept]
    turned = np.asarray(records.T @ left) - np.outer(mean, left.sum(axis=0))
    return Spread(mean, values, turned / np.sqrt(count * values), count)


def spread_of_pieces(pieces: Iterable[Records]) -> Spread:
    """Return the spread of records that come in pieces; each piece is looked at once."""
    total: Any = None
    count, sums, first = 0, np.zeros(0), np.zeros(0)
    for piece in pieces:
        if total is None:
            features = piece.shape[1]
            total, sums = np.zeros((features, features)), np.zeros(features)
            # Moments about a record-like point: sums of squares about zero would cancel.
            here = np.asarray(piece.mean(axis=0), dtype=np.float64).ravel()
            first = np.zeros(features) if sparse.issparse(piece) else here
        elif piece.shape[1] != len(sums):
            raise DataError(
                f"every piece must have the {len(sums)} columns of the first, got {piece.shape[1]}"
            )
        if sparse.issparse(piece):
            product: Any = piece.T @ piece
            along = np.asarray(piece.sum(axis=0), dtype=np.float64).ravel()
            total += product.toarray() - np.outer(along, first) - np.outer(first, along)
            total += piece.shape[0] * np.outer(first, first)
            sums += along - piece.shape[0] * first
        else:
            for start in range(0, len(piece), _ROWS):
                part = piece[start : start + _ROWS].astype(np.float64) - first
                total += part.T @ part
                sums += part.sum(axis=0)
        count += piece.shape[0]
    if total is None:
        raise DataError("there are no records to take the spread of")
    shift = sums / count
    values, vectors = np.linalg.eigh(total / count - np.outer(shift, shift))
    return Spread(first + shift, np.maximum(values, 0.0), vectors, count)
