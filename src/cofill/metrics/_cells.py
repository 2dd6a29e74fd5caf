"""Which cells can be scored: pairing a truth with a guess, and averages over the known cells."""

import numpy as np
from jaxtyping import Bool, Float, Real, Shaped

from cofill.errors import DataError


def require_same_shape(
    truth: Shaped[np.ndarray, "..."],
    guess: Shaped[np.ndarray, "..."],
    names: tuple[str, str] = ("truth", "guess"),
) -> None:
    """Raise a `DataError` for arrays of two shapes, which NumPy might silently stretch to one."""
    if truth.shape != guess.shape:
        raise DataError(
            f"{names[0]} and {names[1]} must have the same shape, "
            f"got {truth.shape} and {guess.shape}."
        )


def is_missing(cells: Shaped[np.ndarray, "*s"]) -> Bool[np.ndarray, "*s"]:
    """Return which cells hold NaN or None."""
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind == "O":
        # NaN is the one value that differs from itself.
        flat = [v is None or bool(v != v) for v in cells.ravel()]
        return np.array(flat, dtype=bool).reshape(cells.shape)
    return np.zeros(cells.shape, dtype=bool)


def pair(
    truth: Real[np.ndarray, "..."], guess: Real[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"], Bool[np.ndarray, "n d"]]:
    """Return both arrays as rows × features in double precision, and which truths are known.

    Unknown cells are zero in both, so that whatever is computed from them is finite.

    Raises
    ------
    DataError
        When the shapes differ, or a known cell has no guess.
    """
    require_same_shape(truth, guess)
    if truth.ndim == 0:
        raise DataError("truth must have one row per individual, got a single number.")
    shape = (truth.shape[0], int(np.prod(truth.shape[1:])))
    x, y = (cells.reshape(shape).astype(np.float64) for cells in (guess, truth))
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
    counts = use.sum(axis=1)
    scored = counts > 0
    if not scored.any():
        return float("nan")
    totals = np.where(use, values, 0.0).sum(axis=1)
    return float(np.mean(totals[scored] / counts[scored]))


def mean_by_feature(
    values: Float[np.ndarray, "n d"], use: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, " d"]:
    """Mean over the used cells of each feature; NaN for a feature without one."""
    counts = use.sum(axis=0)
    totals = np.where(use, values, 0.0).sum(axis=0)
    return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)
