"""Rows by what they have: those with the same pattern of gaps are treated as one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool


def patterns_of(
    present: Bool[np.ndarray, "rows groups"],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each pattern of present groups with the rows that have it.

    Examples
    --------
    >>> present = np.array([[True, False], [True, True], [True, False]])
    >>> [rows.tolist() for _, rows in patterns_of(present)]
    [[0, 2], [1]]
    """
    if not len(present):
        return
    packed = np.packbits(present, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel(), minlength=len(first)))
    for at, rows in zip(first, np.split(order, ends[:-1]), strict=True):
        yield present[at], rows
