"""Checks: what settings of privacy must be, and what fields of releases must be on the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cofill.errors import SettingError

Check = Callable[[Any], bool]
# Messages come from outside: a name or key of any length would let a sender fill a receiver's disk.
_MAX_TEXT = 200  # characters of a name
_MAX_KEY = 4096  # bytes of a key, signature or sealed share


def require_positive(name: str, value: float | int) -> None:
    """Raise a `SettingError` unless the value is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise SettingError(f"{name} must be a finite number above 0, got {value}")


def require_delta(value: float | int, *, name: str = "delta", zero: bool = True) -> None:
    """Raise a `SettingError` unless the value is a usable δ; 0 only where it means something."""
    if not (0 <= value < 1) or (value == 0 and not zero):
        least = "at least 0" if zero else "above 0 with Gaussian noise (or use Laplace noise)"
        raise SettingError(f"{name} must be {least} and below 1, got {value}")


def require_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raise a `SettingError` unless the value is one of a few words."""
    if value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def require_whole(name: str, value: int, least: int) -> None:
    """Raise a `SettingError` unless the value is a whole number that is large enough."""
    if isinstance(value, bool) or value != int(value) or value < least:
        raise SettingError(f"{name} must be a whole number of {least} or more, got {value}")


# --- fields of releases --------------------------------------------------------------------------


def is_text(value: Any) -> bool:
    """Whether a value is a name of moderate length."""
    return isinstance(value, str) and len(value) <= _MAX_TEXT


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, no larger than a share of a secret."""
    # Of hundreds of digits, a number would not even fit a float.
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**264


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least zero, of a usual size."""
    return is_integer(value) and 0 <= value < 2**63


def is_key(value: Any) -> bool:
    """Whether a value is a short byte string: a key, a signature, a sealed share."""
    return isinstance(value, bytes) and len(value) <= _MAX_KEY


def of_type(cls: type) -> Check:
    """Return a check for objects of a class."""
    return lambda value: isinstance(value, cls)


def of_fields(cls: type, **checks: Check) -> Check:
    """Return a check for objects of a class whose fields each pass a check."""
    return lambda value: (
        isinstance(value, cls) and all(check(getattr(value, n)) for n, check in checks.items())
    )


def one_of(*choices: Any) -> Check:
    """Return a check for one of a few values."""
    return lambda value: value in choices


def any_of(*checks: Check) -> Check:
    """Return a check for values that pass at least one of the checks."""
    return lambda value: any(check(value) for check in checks)


def tuple_of(check: Check) -> Check:
    """Return a check for a tuple whose values each pass a check."""
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def map_of(check: Check) -> Check:
    """Return a check for a mapping from names to values that each pass a check."""
    return lambda value: (
        isinstance(value, Mapping) and all(is_text(k) and check(v) for k, v in value.items())
    )


def vector_of(kind: str) -> Check:
    """Return a check for a vector of one NumPy type."""
    return lambda value: (
        isinstance(value, np.ndarray) and value.dtype == np.dtype(kind) and value.ndim == 1
    )


def of_floats(axes: int) -> Check:
    """Return a check for finite real numbers in an array with this number of axes."""
    return lambda value: (
        isinstance(value, np.ndarray)
        and value.dtype.kind == "f"
        and value.ndim == axes
        and _are_finite(value)
    )


def _are_finite(values: np.ndarray) -> bool:
    # A sum is finite only if all of it is, and takes no memory; a large one says nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)
    return bool(np.isfinite(total) or np.isfinite(values).all())


def _is_number(value: Any) -> bool:
    is_float = isinstance(value, float | np.floating) and bool(np.isfinite(value))
    return is_float or is_integer(value)


is_bytes = of_type(bytes)
is_figures = map_of(_is_number)
is_tokens = vector_of("S32")  # blinded ids
is_words = vector_of("uint64")
is_vector = any_of(of_floats(1), vector_of("int64"))
is_words_or_floats = any_of(of_floats(1), is_words)  # words where a vector is masked
