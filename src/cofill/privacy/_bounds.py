"""Public bounds of a record: a box per coordinate or a ball around a centre, never from the data.

What one record can change in a mean is only limited by what a record can be. These bounds are part
of the guarantee: whoever takes them from the data (a minimum, a maximum, a mean as centre) releases
those too. Records outside are moved to the border.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError
from cofill.privacy._checks import require_positive

Norm = Literal[1, 2]


@dataclass(frozen=True)
class Bounds(ABC):
    """Where records can be. In *units*, the centre is 0 and the border is at 1."""

    @abstractmethod
    def centre_of(self, width: int) -> Float[np.ndarray, " width"]:
        """Return the middle."""

    @abstractmethod
    def unit_of(self, width: int) -> Float[np.ndarray, " width"]:
        """Return how long a unit is in each coordinate."""

    @abstractmethod
    def in_units(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        """Return rows in units, moved to the border where they are outside."""

    @abstractmethod
    def reach(self, norm: Norm, width: int) -> float:
        """Return the largest L1 or L2 norm that a record has in units."""

    def clip(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        """Return rows, moved to the border where they are outside."""
        width = rows.shape[1]
        return self.centre_of(width) + self.unit_of(width) * self.in_units(rows)


@dataclass(frozen=True)
class Box(Bounds):
    """Lowest and highest value of each coordinate; one number stands for all coordinates.

    A unit is half a coordinate's width, so that coordinates of unlike units get noise in
    proportion.

    Examples
    --------
    >>> Box((0, 40), (120, 250)).unit_of(2).tolist()
    [60.0, 105.0]
    """

    low: float | int | tuple[float | int, ...]
    high: float | int | tuple[float | int, ...]

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise SettingError(
                f"low and high must be of one length, got {len(low)} and {len(high)} values"
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            wrong = int((~(low < high)).sum() or 1)
            raise SettingError(
                "low must be finite and below high in every coordinate, got reversed, equal or "
                f"infinite bounds in {wrong}"
            )

    def centre_of(self, width: int) -> Float[np.ndarray, " width"]:
        return _broadcast(self.low, width, "low") + self.unit_of(width)

    def unit_of(self, width: int) -> Float[np.ndarray, " width"]:
        return _broadcast(self.high, width, "high") / 2 - _broadcast(self.low, width, "low") / 2

    def in_units(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        width = rows.shape[1]
        return np.clip((rows - self.centre_of(width)) / self.unit_of(width), -1.0, 1.0)

    def reach(self, norm: Norm, width: int) -> float:
        return float(width) if norm == 1 else math.sqrt(width)


@dataclass(frozen=True)
class Ball(Bounds):
    """All records within a radius of a centre, by the L2 or the L1 norm.

    Examples
    --------
    >>> Ball(radius=5.0).clip(np.array([[6.0, 8.0]])).round(6).tolist()
    [[3.0, 4.0]]
    """

    radius: float | int
    centre: float | int | tuple[float | int, ...] = 0.0
    norm: Norm = 2

    def __post_init__(self) -> None:
        require_positive("radius", self.radius)
        if not np.isfinite(np.asarray(self.centre, float)).all():
            raise SettingError("centre must be finite in every coordinate")
        if self.norm not in (1, 2):
            raise SettingError(f"norm must be 1 or 2, got {self.norm}")

    def centre_of(self, width: int) -> Float[np.ndarray, " width"]:
        return _broadcast(self.centre, width, "centre")

    def unit_of(self, width: int) -> Float[np.ndarray, " width"]:
        return np.full(width, float(self.radius))

    def in_units(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        moved = (rows - self.centre_of(rows.shape[1])) / self.radius
        # Of vectors with huge entries the norm is infinite; of their directions it is not.
        top = np.maximum(np.abs(moved).max(axis=1, keepdims=True, initial=0.0), 1.0)
        norms = np.linalg.norm(moved / top, ord=self.norm, axis=1, keepdims=True) * top
        # A hair inside, so that rounding does not lift a norm above 1.
        return np.where(norms > 1, moved / np.maximum(norms, 1e-300) * (1 - 1e-12), moved)

    def reach(self, norm: Norm, width: int) -> float:
        # An L2 ball has points whose L1 norm is √width.
        return math.sqrt(width) if (norm, self.norm) == (1, 2) else 1.0


def _broadcast(value: float | int | tuple[float | int, ...], width: int, name: str) -> np.ndarray:
    values = np.asarray(value, float)
    if values.ndim and len(values) != width:
        raise SettingError(
            f"{name} must be one number or one for each of {width} coordinates, got {len(values)}"
        )
    return np.broadcast_to(values, (width,)).astype(float)
