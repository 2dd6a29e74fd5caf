"""Checks that a field of a release must pass on the wire: the right type, shape and range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Check = Callable[[Any], bool]
_TOKEN = np.dtype("S32")
_MAX_TEXT = 200  # characters of a name
_MAX_KEY = 4096  # bytes of a key, signature or sealed share


def is_text(value: Any) -> bool:
    """Whether a value is a name of moderate length."""
    return isinstance(value, str) and len(value) <= _MAX_TEXT


def is_texts(value: Any) -> bool:
    """Whether a value is a tuple of names."""
    return isinstance(value, tuple) and all(map(is_text, value))


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least zero."""
    return is_integer(value) and value >= 0


def is_key(value: Any) -> bool:
    """Whether a value is a short byte string: a key, a signature, a sealed share."""
    return isinstance(value, bytes) and len(value) <= _MAX_KEY


def is_bytes(value: Any) -> bool:
    """Whether a value is a byte string of any length."""
    return isinstance(value, bytes)


def is_tokens(value: Any) -> bool:
    """Whether a value is a vector of blinded ids."""
    return isinstance(value, np.ndarray) and value.dtype == _TOKEN and value.ndim == 1


def is_words(value: Any) -> bool:
    """Whether a value is a vector of 64-bit words."""
    return isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.ndim == 1


def of_floats(*axes: int) -> Check:
    """Return a check for finite real numbers in an array with one of these numbers of axes."""

    def check(value: Any) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and value.ndim in axes
            and bool(np.isfinite(value).all())
        )

    return check


def is_vector(value: Any) -> bool:
    """Whether a value is a vector of finite real or whole numbers."""
    whole = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.ndim == 1
    return whole or of_floats(1)(value)


def is_words_or_floats(value: Any) -> bool:
    """Whether a value is a vector of real numbers, or of words where they are masked."""
    return of_floats(1)(value) or is_words(value)


def is_figures(value: Any) -> bool:
    """Whether a value maps names to finite numbers."""
    return map_of(_is_number)(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and bool(np.isfinite(value))


def map_of(check: Check) -> Check:
    """Return a check for a mapping from names to values that each pass a check."""

    def check_map(value: Any) -> bool:
        return isinstance(value, Mapping) and all(is_text(k) and check(v) for k, v in value.items())

    return check_map


def one_of(*choices: Any) -> Check:
    """Return a check for one of a few values."""
    return lambda value: value in choices


def of_type(cls: type) -> Check:
    """Return a check for objects of a class."""
    return lambda value: isinstance(value, cls)
