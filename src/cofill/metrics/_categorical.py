"""Scores of binary and categorical cells: the share that is right, and how good probabilities are.

A cell whose truth is NaN (or None, in an array of objects) is not known and is left out.
"""

import numpy as np
from jaxtyping import Bool, Float, Real, Shaped

from cofill.errors import DataError
from cofill.metrics._cells import same_shape


def accuracy(truth: Shaped[np.ndarray, "*s"], guess: Shaped[np.ndarray, "*s"]) -> float:
    """Share of the known cells that are guessed exactly, a fraction; NaN when none is known.

    A cell left without a guess counts as wrong.

    Examples
    --------
    >>> accuracy(np.array(["a", "b", "b", "c"]), np.array(["a", "b", "c", "c"]))
    0.75
    """
    same_shape(truth, guess)
    known = ~_missing(truth)
    return float(np.mean(truth[known] == guess[known])) if known.any() else float("nan")


def brier(
    truth: Real[np.ndarray, " n"] | Bool[np.ndarray, " n"],
    probability: Float[np.ndarray, " n"] | Float[np.ndarray, "n c"],
) -> float:
    """Mean squared distance between the probabilities and what happened; 0 is best.

    Parameters
    ----------
    truth
        0 or 1 beside one probability a row; the index of the class beside one a class. NaN where
        not known.
    probability
        The probability of 1, or of each class. One a row gives a score up to 1; one a class sums
        the squares over the classes and gives a score up to 2 (Brier's own definition).

    Examples
    --------
    >>> brier(np.array([1, 0]), np.array([0.5, 0.0]))
    0.125
    >>> brier(np.array([1, 0]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.25
    """
    happened, p = _outcomes(truth, probability)
    if not len(p):
        return float("nan")
    score = float(np.mean(np.sum((p - happened) ** 2, axis=1)))
    return score / 2 if probability.ndim == 1 else score


def log_loss(
    truth: Real[np.ndarray, " n"] | Bool[np.ndarray, " n"],
    probability: Float[np.ndarray, " n"] | Float[np.ndarray, "n c"],
) -> float:
    """Mean negative log of the probability given to what happened, in nats; 0 is best.

    Probabilities of zero are raised to the machine's smallest step (2.2e-16), so that one certain
    mistake costs 36 nats and not infinity. Parameters as for `brier`.

    Examples
    --------
    >>> round(log_loss(np.array([1, 0]), np.array([0.5, 0.0])), 4)
    0.3466
    """
    happened, p = _outcomes(truth, probability)
    if not len(p):
        return float("nan")
    given = np.clip(np.sum(p * happened, axis=1), np.finfo(np.float64).eps, 1.0)
    return float(-np.mean(np.log(given)))


def _missing(cells: Shaped[np.ndarray, "*s"]) -> Bool[np.ndarray, "*s"]:
    """Cells that hold NaN or None."""
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind == "O":
        # NaN is the one value that differs from itself.
        flat = [v is None or bool(v != v) for v in cells.ravel()]
        return np.array(flat, dtype=bool).reshape(cells.shape)
    return np.zeros(cells.shape, dtype=bool)


def _outcomes(
    truth: Shaped[np.ndarray, "..."], probability: Float[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "m c"], Float[np.ndarray, "m c"]]:
    """Give indicators of what happened, and the probabilities, of the rows whose truth is known."""
    if probability.ndim not in (1, 2) or truth.shape != probability.shape[:1]:
        raise DataError(
            "probability must be one value a row or one row of class probabilities for each truth, "
            f"got shapes {probability.shape} and {truth.shape}."
        )
    known = ~_missing(truth)
    p = probability[known].astype(np.float64)
    if p.ndim == 1:
        p = np.stack([1.0 - p, p], axis=1)
    classes = p.shape[1]
    seen = truth[known].astype(np.float64)
    strange = int(np.count_nonzero((seen != np.floor(seen)) | (seen < 0) | (seen >= classes)))
    if strange:
        raise DataError(
            f"truth must hold class indices 0 to {classes - 1}, got {strange} other values; "
            "code the categories as indices first."
        )
    # A NaN fails both comparisons, so it is caught too.
    good = (p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1.0) < 1e-4)
    if not good.all():
        raise DataError(
            "probability must lie in [0, 1] and sum to 1 over the classes of a row, "
            f"got {int(np.count_nonzero(~good))} rows that do not."
        )
    return np.eye(classes)[seen.astype(np.int64)], p
