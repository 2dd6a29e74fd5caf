"""What settings of privacy must be: positive, a probability, one of a few words, whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cofill.errors import SettingError


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
