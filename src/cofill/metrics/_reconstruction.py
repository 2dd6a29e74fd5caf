"""How close reconstructed cells are to the true ones.

Equations 9 and 10 are those of Maurel, Lefebvre and Sublime, "Deep Cooperative Reconstruction with
Security Constraints in multi-view environments" (ICDMW 2020, section V-C): an error is averaged
over the features of a row, then over the rows. In every function a NaN in `truth` marks a cell that
nobody knows; it is left out. A score of nothing (no known cell) is NaN. Arrays may have any number
of feature axes, so a view of images is scored like a table. scikit-learn's scores know neither
unknown cells nor Eq. 10, which is why they are not used here.
"""

import numpy as np
from jaxtyping import Bool, Float, Real, Shaped

from cofill.errors import DataError

NEAR_ZERO = 0.01  # leaves out 0.8 % of the cells of standard normal features

Cells = Real[np.ndarray, "n *d"]
Scores = Float[np.ndarray, "*d"]
Table = Float[np.ndarray, "n d"]
Chosen = Bool[np.ndarray, "n d"]


def accuracy(truth: Shaped[np.ndarray, "*s"], guess: Shaped[np.ndarray, "*s"]) -> float:
    """Share of the known cells that are guessed exactly, a fraction; NaN when none is known.

    A truth of NaN (or None, in an array of objects) is not known; a cell without a guess is wrong.

    Examples
    --------
    >>> accuracy(np.array(["a", "b", "b", "c"]), np.array(["a", "b", "c", "c"]))
    0.75
    """
    require_same_shape(truth, guess)
    known = ~is_missing(truth)
    return float(np.mean(truth[known] == guess[known])) if known.any() else float("nan")


def mse(truth: Cells, guess: Cells) -> float:
    """Mean squared error (Eq. 9): over the known features of a row, then over the rows.

    Examples
    --------
    >>> mse(np.array([[0.0, 2.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [3.0, 9.0]]))
    2.25
    """
    y, x, known = _pair(truth, guess)
    return _mean_by_row((x - y) ** 2, known)


def mse_per_feature(truth: Cells, guess: Cells) -> Scores:
    """Mean squared error of each feature over the rows that know it."""
    y, x, known = _pair(truth, guess)
    return _mean((x - y) ** 2, known, axis=0).reshape(truth.shape[1:])


def mrd(
    truth: Cells,
    guess: Cells,
    *,
    scale: Real[np.ndarray, "*d"] | None = None,
    near_zero: float = NEAR_ZERO,
) -> float:
    """Mean relative difference (Eq. 10): ``|guess − truth| / |truth|``, by row, then over rows.

    The paper does not say what becomes of a true value of zero, where the ratio does not exist, nor
    of one beside zero, where one cell decides the whole mean (for standardised data the expectation
    is infinite). Here a cell is left out when ``|truth|`` is not above `near_zero` of the scale.

    Parameters
    ----------
    truth, guess
        The true cells, NaN where not known, and the reconstructed ones.
    scale
        Typical size of each feature. By default the root mean square of its known true values,
        which unlike the standard deviation is not zero for a constant feature. Give the training
        set's to leave out the same values in every test set.
    near_zero
        Share of the scale; 0 leaves out zeros only.

    Examples
    --------
    >>> mrd(np.array([[2.0, 0.0], [4.0, 1.0]]), np.array([[3.0, 7.0], [4.0, 2.0]]))
    0.5
    """
    return _mean_by_row(*_relative(truth, guess, scale, near_zero))


def mrd_per_feature(truth: Cells, guess: Cells) -> Scores:
    """Mean relative difference of each feature (see `mrd`); NaN for one that is always zero."""
    return _mean(*_relative(truth, guess, None), axis=0).reshape(truth.shape[1:])


def r2(truth: Cells, guess: Cells) -> float:
    """Share of the variance explained, averaged over the features that can be scored."""
    scores = r2_per_feature(truth, guess)
    scored = ~np.isnan(scores)
    return float(scores[scored].mean()) if scored.any() else float("nan")


def r2_per_feature(truth: Cells, guess: Cells) -> Scores:
    """Share of each feature's variance explained: 1 is perfect, 0 as good as the true mean.

    A feature whose known true values are all equal has no variance: it scores 1 when every guess is
    right and 0 otherwise (scikit-learn's rule). One with fewer than two known values scores NaN.

    Examples
    --------
    >>> r2_per_feature(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([[1.0, 7.0], [3.0, 8.0]]))
    array([1., 0.])
    """
    y, x, known = _pair(truth, guess)
    centred = y - _mean(y, known, axis=0)
    residual = np.where(known, (x - y) ** 2, 0.0).sum(axis=0)
    total = np.where(known, centred**2, 0.0).sum(axis=0)
    # By the range, not by the total: the mean of equal values need not be exactly that value.
    highest = np.where(known, y, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(known, y, np.inf).min(axis=0, initial=np.inf)
    varies = (highest > lowest) & (total > 0)
    scores = np.where(residual == 0, 1.0, 0.0)
    # A variance of nearly nothing against a large error: minus infinity is the right answer.
    with np.errstate(over="ignore"):
        np.divide(residual, total, out=scores, where=varies)
    scores[varies] = 1.0 - scores[varies]
    scores[known.sum(axis=0) < 2] = np.nan
    return scores.reshape(truth.shape[1:])


def require_same_shape(truth: np.ndarray, guess: np.ndarray, second: str = "guess") -> None:
    """Raise a `DataError` for arrays of two shapes, which NumPy might silently stretch to one."""
    if truth.shape != guess.shape:
        raise DataError(
            f"truth and {second} must have the same shape, got {truth.shape} and {guess.shape}."
        )


def is_missing(cells: Shaped[np.ndarray, "*s"]) -> Bool[np.ndarray, "*s"]:
    """Return which cells hold NaN or None."""
    missing = np.asarray(cells != cells)  # NaN is the one value that differs from itself
    return missing | np.asarray(cells == None) if cells.dtype.kind == "O" else missing  # noqa: E711


def _pair(truth: np.ndarray, guess: np.ndarray) -> tuple[Table, Table, Chosen]:
    """Return both arrays as rows × features in double precision, and which truths are known.

    Unknown cells are zero in both, so that whatever is computed from them is finite.
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


def _mean(values: Table, use: Chosen, axis: int) -> Float[np.ndarray, " means"]:
    """Return the mean over the used cells along an axis; NaN where there is none."""
    counts = use.sum(axis=axis)
    totals = np.where(use, values, 0.0).sum(axis=axis)
    return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def _mean_by_row(values: Table, use: Chosen) -> float:
    """Return the mean over each row's used cells, then over the rows that have one; NaN if none."""
    scored = use.any(axis=1)
    return float(_mean(values, use, axis=1)[scored].mean()) if scored.any() else float("nan")


def _relative(
    truth: np.ndarray, guess: np.ndarray, scale: np.ndarray | None, near_zero: float = NEAR_ZERO
) -> tuple[Table, Chosen]:
    """Return differences relative to the truth, and the cells where the truth is not about zero."""
    y, x, known = _pair(truth, guess)
    if scale is None:
        size = np.sqrt(_mean(y**2, known, axis=0))
    elif scale.size == y.shape[1]:
        size = np.abs(scale.reshape(-1).astype(np.float64))
    else:
        raise DataError(
            f"scale must have one value for each of the {y.shape[1]} features, got {scale.size}."
        )
    comparable = known & (np.abs(y) > near_zero * size)
    # Beside the smallest floats the ratio is past the largest one: infinite is the right answer.
    with np.errstate(over="ignore"):
        ratios = np.divide(np.abs(x - y), np.abs(y), out=np.zeros_like(y), where=comparable)
    return ratios, comparable
