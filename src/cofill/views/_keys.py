"""Explicit randomness: every random choice is a function of a key and of what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from cofill.errors import SettingError

Key = int | Sequence[int]


def stream(key: Key, *purpose: str) -> np.random.Generator:
    """Return the random numbers that belong to a key and a purpose.

    Streams of different purposes (a view's name, a step) are independent, so that adding a view or
    changing the order of views leaves the choices made for the others as they were.

    Examples
    --------
    >>> bool(stream(7, "lab").integers(100) == stream([7], "lab").integers(100))
    True
    """
    whole = (int, np.integer)
    words = [key] if isinstance(key, whole) else list(key)
    if not words or not all(isinstance(w, whole) and w >= 0 for w in words):
        raise SettingError(
            f"key must be a whole number of at least 0 or several of them, got {key!r}"
        )
    return np.random.default_rng([*map(int, words), *(crc32(p.encode()) for p in purpose)])
