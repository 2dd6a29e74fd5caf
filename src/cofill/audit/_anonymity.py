"""k-anonymity of what is released: how many people share the same values, exactly or nearly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofill.attack import as_matrix, check_varied
from cofill.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Anonymity:
    """How large the groups of people are who look alike.

    Parameters
    ----------
    step
        Values are rounded to so many standard deviations of their column; 0 for values as released.
    people, groups
        How many people, and how many different rounded rows.
    smallest
        People in the smallest group: the release is k-anonymous for this k.
    k
        What is wanted.
    share_below
        Share of the people who are in a group smaller than `k`.
    """

    step: float
    people: int
    groups: int
    smallest: int
    k: int
    share_below: float


def anonymity(
    values: Any, *, k: int = 5, steps: Sequence[float | int] = (0.0, 0.5, 1.0, 2.0)
) -> tuple[Anonymity, ...]:
    """Count the people who share a row of released values.

    A code of real numbers is as good as a name: everybody has their own. Rounded more coarsely,
    people fall into groups.

    Parameters
    ----------
    values
        One row a person.
    k
        A group smaller than this is counted as too small.
    steps
        Roundings, in standard deviations of each column; 0 for the values as they are.

    Examples
    --------
    >>> found = anonymity([[0.0], [0.1], [5.0], [5.1]], k=2, steps=(0, 1))
    >>> [(one.groups, one.smallest, one.share_below) for one in found]
    [(4, 1, 1.0), (2, 2, 0.0)]
    """
    if k < 2:
        raise SettingError(f"k must be at least 2, got {k}")
    if any(step < 0 for step in steps):
        raise SettingError(f"steps must be 0 or more, got {tuple(steps)}")
    matrix = as_matrix("the release", values)
    check_varied("the release", matrix)
    deviation = matrix.std(axis=0)
    varied = matrix[:, deviation > 0] / deviation[deviation > 0]
    anonymities = []
    for step in steps:
        seen = varied if step == 0 else np.rint((varied - varied.min(axis=0)) / step)
        _, counts = np.unique(seen, axis=0, return_counts=True)
        anonymities.append(
            Anonymity(
                step=float(step),
                people=len(matrix),
                groups=len(counts),
                smallest=int(counts.min()),
                k=k,
                share_below=float(counts[counts < k].sum() / len(matrix)),
            )
        )
    return tuple(anonymities)
