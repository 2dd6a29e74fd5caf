"""What an attack on people is given: matrices with one row a person, checked."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.errors import DataError

_CELLS = 2**24  # distances held at one time


def as_matrix(what: str, values: Any, *, least: int = 2) -> Float[np.ndarray, "people columns"]:
    """Return values as a float matrix of at least so many people, without gaps.

    Examples
    --------
    >>> as_matrix("codes", [[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers, got something that cannot be read so") from None
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{what} must have a row for each person and at least one column, got the shape "
            f"{array.shape}; an empty release cannot be attacked"
        )
    if len(array) < least:
        raise DataError(f"{what} must be of at least {least} people, got {len(array)}")
    wrong = int((~np.isfinite(array)).sum())
    if wrong:
        raise DataError(
            f"{what} must be finite numbers, got {wrong} cells that are NaN or infinite; leave "
            "those people out"
        )
    return array


def check_same_people(**matrices: np.ndarray | None) -> None:
    """Refuse matrices of different numbers of people.

    Examples
    --------
    >>> check_same_people(codes=np.ones((3, 2)), rows=np.ones((3, 5)), known=None)
    """
    counts = {name: len(m) for name, m in matrices.items() if m is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise DataError(
            f"there must be one row for each person in {' and '.join(counts)}, in the same order, "
            f"got {listed}"
        )


def check_varied(what: str, values: Float[np.ndarray, "people columns"]) -> None:
    """Refuse a matrix in which all people are alike."""
    if not (values != values[:1]).any():
        raise DataError(
            f"{what} must differ between people, got the same values for all {len(values)}; there "
            "is nothing to attack"
        )


def rank_candidates(
    guesses: Float[np.ndarray, "people columns"],
    candidates: Float[np.ndarray, "people columns"],
    precision: Float[np.ndarray, " columns"] | None = None,
) -> Int[np.ndarray, " people"]:
    """Return how many other candidates are at least as near to each guess as its own one.

    Guess and candidate of one person are in the same row. Somebody with a twin is not singled out
    and never of rank 0.

    Examples
    --------
    >>> rank_candidates(np.array([[0.1], [0.9], [0.2]]), np.array([[0.0], [1.0], [5.0]])).tolist()
    [0, 0, 2]
    """
    weight = np.ones(guesses.shape[1]) if precision is None else precision
    ranks = np.empty(len(guesses), np.int64)
    step = max(1, _CELLS // len(candidates))
    # |c|² − 2 g·c orders candidates as the distance does, and ties stay ties.
    norms = (candidates**2) @ weight
    for start in range(0, len(guesses), step):
        part = slice(start, start + step)
        distances = norms - 2 * (guesses[part] * weight) @ candidates.T
        true = distances[np.arange(len(distances)), np.arange(start, start + len(distances))]
        ranks[part] = (distances <= true[:, None]).sum(axis=1) - 1
    return ranks
