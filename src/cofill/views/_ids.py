"""Ids of individuals: whole numbers or text, never both, never missing, never twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cofill.errors import DataError


def as_ids(values: Any, where: str) -> np.ndarray:
    """Return ids as an ``int64`` or text array; anything else is a `DataError`.

    Text stays text even where it looks like a number: ``"007"`` and ``7`` may be two people.

    Examples
    --------
    >>> as_ids([3, 1], "here")
    array([3, 1])
    >>> as_ids(["007", "7"], "here")
    array(['007', '7'], dtype='<U3')
    """
    ids = np.asarray(values)
    if ids.dtype.kind == "U" and not isinstance(values, np.ndarray):
        ids = np.asarray(values, dtype=object)  # numpy makes [1, "a"] text without a word
    if ids.ndim != 1:
        raise DataError(f"{where}: ids must be one-dimensional, got an array of shape {ids.shape}")
    if ids.size == 0:
        return ids.astype(np.int64)
    if ids.dtype.kind == "O":
        if not all(isinstance(v, str) for v in ids):
            raise DataError(
                f"{where}: ids must be all whole numbers or all text, got mixed or missing values; "
                "store the id column as one type"
            )
        return ids.astype(str)
    if ids.dtype.kind in "US":
        return ids.astype(str)
    if ids.dtype.kind in "iu":
        if ids.dtype.kind == "u" and ids.max() > np.iinfo(np.int64).max:
            raise DataError(f"{where}: ids are larger than 64-bit integers; store them as text")
        return ids.astype(np.int64)
    raise DataError(
        f"{where}: ids must be whole numbers or text, got {ids.dtype}; "
        "convert the id column to integers or text"
    )


def id_type(ids: np.ndarray) -> str:
    """Return ``"integer"`` or ``"text"``."""
    return "integer" if ids.dtype.kind == "i" else "text"


def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where sorted ids hold the wanted ones, −1 where they do not."""
    if not len(ids) or not len(wanted) or id_type(wanted) != id_type(ids):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, at, -1)


def require_unique(ids: np.ndarray, where: str, first_row: int = 1, row: str = "row") -> None:
    """Raise a `DataError` that counts repeated ids and points at the first repetition."""
    order = np.argsort(ids, kind="stable")
    repeated = ids[order][1:] == ids[order][:-1]
    if repeated.any():
        at = int(order[1:][repeated].min())
        first = int(np.flatnonzero(ids == ids[at])[0])
        raise DataError(
            f"{where}: {int(repeated.sum())} ids occur more than once (the first in {row}s "
            f"{first + first_row} and {at + first_row}); keep one row per individual"
        )


def require_one_type(ids: Mapping[str, np.ndarray]) -> None:
    """Raise a `DataError` when some views have whole-number ids and others text."""
    kinds = {name: id_type(values) for name, values in ids.items() if values.size}
    if len(set(kinds.values())) > 1:
        whole = next(n for n, k in kinds.items() if k == "integer")
        text = next(n for n, k in kinds.items() if k == "text")
        raise DataError(
            f"ids are whole numbers in view {whole!r} but text in view {text!r} (such as leading "
            "zeros or letters); store them the same way in every view, or read all as text "
            '(id_type="text", --id-type text)'
        )
