"""Which cells can be scored: pairing a truth with a guess, and averages over the known cells."""

import numpy as np
from jaxtyping import Bool, Float, Real, Shaped

from cofill.errors import DataError


def same_shape(
    truth: Shaped[np.ndarray, "..."],
    guess: Shaped[np.ndarray, "..."],
    names: tuple[str, str] = ("truth", "guess"),
) -> None:
    """Refuse two arrays that NumPy would silently stretch to fit each other."""
    if truth.shape != guess.shape:
        raise DataError(
            f"{names[0]} and {names[1]} must have the same shape, "
            f"got {truth.shape} and {guess.shape}."
        )


def pair(
    truth: Real[np.ndarray, "..."], guess: Real[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"], Bool[np.ndarray, "n d"]]:
    """Both arrays as rows × features in double precision, and the cells whose truth is known.

    Unknown cells are zero in both, so that whatever is computed from them is finite.

    Raises
    ------
    DataError
        When the shapes differ, or a known cell has no guess.
    """
    same_shape(truth, guess)
    if truth.ndim == 0:
        raise DataError("truth must have one row per individual, got a single number.")
    rows = (truth.shape[0], int(np.prod(truth.shape[1:])))
    x, y = (a.reshape(rows).astype(np.float64) for a in (guess, truth))
    known = ~np.isnan(y)
    unguessed = int(np.count_nonzero(np.isnan(x) & known))
    if unguessed:
        raise DataError(
            f"guess is NaN in {unguessed} of {int(known.sum())} cells whose truth is known; "
            "fill them, or set the same cells of truth to NaN to leave them out."
        )
    return np.where(known, y, 0.0), np.where(known, x, 0.0), known


def mean_by_row(values: Float[np.ndarray, "n d"], use: Bool[np.ndarray, "n d"]) -> float:
    """Mean over the used cells of each row, then over the rows that have one; NaN if none has."""
    count = use.sum(axis=1)
    some = count > 0
    if not some.any():
        return float("nan")
    total = np.where(use, values, 0.0).sum(axis=1)
    return float(np.mean(total[some] / count[some]))


def mean_by_feature(
    values: Float[np.ndarray, "n d"], use: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, " d"]:
    """Mean over the used cells of each feature; NaN for a feature without one."""
    count = use.sum(axis=0)
    total = np.where(use, values, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
