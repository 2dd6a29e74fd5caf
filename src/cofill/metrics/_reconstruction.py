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

from cofill.errors import DataError, SettingError
from cofill.metrics._cells import is_missing, mean_by_feature, mean_by_row, pair, require_same_shape

# Leaves out 0.8 % of the cells of standard normal features.
NEAR_ZERO = 0.01


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


def mse(truth: Real[np.ndarray, "n *d"], guess: Real[np.ndarray, "n *d"]) -> float:
    """Mean squared error (Eq. 9): over the known features of a row, then over the rows.

    Parameters
    ----------
    truth
        The true cells, NaN where not known.
    guess
        The reconstructed cells.

    Examples
    --------
    >>> mse(np.array([[0.0, 2.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [3.0, 9.0]]))
    2.25
    """
    y, x, known = pair(truth, guess)
    return mean_by_row((x - y) ** 2, known)


def mse_per_feature(
    truth: Real[np.ndarray, "n *d"], guess: Real[np.ndarray, "n *d"]
) -> Float[np.ndarray, "*d"]:
    """Mean squared error of each feature over the rows that know it.

    Examples
    --------
    >>> mse_per_feature(np.array([[0.0, 2.0], [1.0, 5.0]]), np.array([[1.0, 2.0], [3.0, 5.0]]))
    array([2.5, 0. ])
    """
    y, x, known = pair(truth, guess)
    return mean_by_feature((x - y) ** 2, known).reshape(truth.shape[1:])


def mrd(
    truth: Real[np.ndarray, "n *d"],
    guess: Real[np.ndarray, "n *d"],
    *,
    near_zero: int | float = NEAR_ZERO,
    scale: Real[np.ndarray, "*d"] | None = None,
) -> float:
    """Mean relative difference (Eq. 10): ``|guess − truth| / |truth|``, by row, then over rows.

    The paper does not say what becomes of a true value of zero, where the ratio does not exist, nor
    of one beside zero, where one cell decides the whole mean (for standardised data the expectation
    is infinite). Here a cell is left out when ``|truth| <= near_zero * scale``.

    Parameters
    ----------
    truth
        The true cells, NaN where not known.
    guess
        The reconstructed cells.
    near_zero
        The part of a feature's scale below which a true value counts as zero; 0 leaves out exact
        zeros only.
    scale
        Typical size of each feature. By default the root mean square of its known true values,
        which unlike the standard deviation is not zero for a constant feature. Give the training
        set's to leave out the same values in every test set.

    Examples
    --------
    >>> mrd(np.array([[2.0, 0.0], [4.0, 1.0]]), np.array([[3.0, 7.0], [4.0, 2.0]]))
    0.5
    """
    return mean_by_row(*_relative(truth, guess, near_zero, scale))


def mrd_per_feature(
    truth: Real[np.ndarray, "n *d"],
    guess: Real[np.ndarray, "n *d"],
    *,
    near_zero: int | float = NEAR_ZERO,
    scale: Real[np.ndarray, "*d"] | None = None,
) -> Float[np.ndarray, "*d"]:
    """Mean relative difference of each feature (see `mrd`); NaN for one that is always zero.

    Examples
    --------
    >>> mrd_per_feature(np.array([[2.0, 0.0], [4.0, 0.0]]), np.array([[3.0, 7.0], [4.0, 2.0]]))
    array([0.25,  nan])
    """
    return mean_by_feature(*_relative(truth, guess, near_zero, scale)).reshape(truth.shape[1:])


def r2(truth: Real[np.ndarray, "n *d"], guess: Real[np.ndarray, "n *d"]) -> float:
    """Share of the variance explained, averaged over the features that can be scored.

    Examples
    --------
    >>> r2(np.array([[1.0, 1.0], [3.0, 2.0]]), np.array([[1.0, 1.5], [3.0, 1.5]]))
    0.5
    """
    scores = r2_per_feature(truth, guess)
    scored = ~np.isnan(scores)
    return float(scores[scored].mean()) if scored.any() else float("nan")


def r2_per_feature(
    truth: Real[np.ndarray, "n *d"], guess: Real[np.ndarray, "n *d"]
) -> Float[np.ndarray, "*d"]:
    """Share of each feature's variance explained: 1 is perfect, 0 as good as the true mean.

    A feature whose known true values are all equal has no variance: it scores 1 when every guess is
    right and 0 otherwise (scikit-learn's rule). One with fewer than two known values scores NaN.

    Examples
    --------
    >>> r2_per_feature(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([[1.0, 7.0], [3.0, 8.0]]))
    array([1., 0.])
    """
    y, x, known = pair(truth, guess)
    centred = y - mean_by_feature(y, known)
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


def _relative(
    truth: Real[np.ndarray, "..."],
    guess: Real[np.ndarray, "..."],
    near_zero: int | float,
    scale: Real[np.ndarray, "..."] | None,
) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, "n d"]]:
    """Return differences relative to the truth, and the cells where the truth is not about zero."""
    if not near_zero >= 0:
        raise SettingError(f"near_zero must be zero or more, got {near_zero}.")
    y, x, known = pair(truth, guess)
    if scale is None:
        size = np.sqrt(mean_by_feature(y**2, known))
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
