"""Public bounds of a record: a box that is stated beforehand, never taken from the data.

What one record can change in a mean is only limited by what a record can be. These bounds are part
of the guarantee: whoever takes them from the data (a minimum, a maximum) releases those too.
Records outside are moved to the border.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError

Norm = Literal[1, 2]


@dataclass(frozen=True)
class Box:
    """Lowest and highest value of each coordinate; one number stands for all coordinates.

    In *units*, the centre is 0 and the border is at 1: a unit is half a coordinate's width, so that
    coordinates of unlike units get noise in proportion.

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
        """Return the middle."""
        return _broadcast(self.low, width, "low") + self.unit_of(width)

    def unit_of(self, width: int) -> Float[np.ndarray, " width"]:
        """Return how long a unit is in each coordinate."""
        return _broadcast(self.high, width, "high") / 2 - _broadcast(self.low, width, "low") / 2

    def in_units(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        """Return rows in units, moved to the border where they are outside."""
        width = rows.shape[1]
        return np.clip((rows - self.centre_of(width)) / self.unit_of(width), -1.0, 1.0)

    def reach(self, norm: Norm, width: int) -> float:
        """Return the largest L1 or L2 norm that a record has in units."""
        return float(width) if norm == 1 else math.sqrt(width)

    def clip(self, rows: np.ndarray) -> Float[np.ndarray, "rows width"]:
        """Return rows, moved to the border where they are outside."""
        width = rows.shape[1]
        return self.centre_of(width) + self.unit_of(width) * self.in_units(rows)


def _broadcast(value: float | int | tuple[float | int, ...], width: int, name: str) -> np.ndarray:
    values = np.asarray(value, float)
    if values.ndim and len(values) != width:
        raise SettingError(
            f"{name} must be one number or one for each of {width} coordinates, got {len(values)}"
        )
    return np.broadcast_to(values, (width,)).astype(float)
