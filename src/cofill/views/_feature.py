"""What a column is: its name, its kind of cell, and the type it has in the user's own table."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import SettingError

_TEMPORAL = ("date", "time", "duration")  # date32[day], time64[us], timestamp[us, tz=UTC], …


@storable
class Kind(StrEnum):
    """How a cell is read, scored and completed."""

    NUMERIC = "numeric"
    BINARY = "binary"
    CATEGORICAL = "categorical"


@storable
@dataclass(frozen=True)
class Feature:
    """One column of a view.

    Parameters
    ----------
    name
        The column's name.
    kind
        Numeric cells are stored as they are; binary and categorical cells are stored as the
        position of their value in `categories`.
    categories
        The values a binary (two) or categorical (one or more) cell can take.
    dtype
        Arrow name of the user's column type (``"int64"``, ``"double"``, ``"bool"``, ``"string"``,
        …). A completed column is written with it, so that integers come back as integers.
    dictionary, ordered
        Whether the user's column was dictionary encoded (pandas ``category``, polars ``Enum``),
        and whether its categories stand in a meaningful order.
    decimals
        Digits after the point that numeric cells are rounded to; None where they are not. A matter
        of style: two sites whose columns differ in it alone have the same feature.

    Examples
    --------
    >>> Feature("smoker", Kind.BINARY, categories=(False, True), dtype="bool")
    Feature('smoker', binary of 2)
    >>> Feature("age", dtype="int64").is_integer
    True
    >>> Feature("dose", decimals=1).rounded(np.array([-0.01, 2.46]))
    array([0. , 2.5])
    """

    name: str
    kind: Kind = Kind.NUMERIC
    categories: tuple[Any, ...] = ()
    dtype: str = "double"
    dictionary: bool = False
    ordered: bool = False
    decimals: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise SettingError("a feature must have a name, got an empty one")
        needs = {
            Kind.NUMERIC: (0, 0, "no"),
            Kind.BINARY: (2, 2, "two"),
            Kind.CATEGORICAL: (1, None, "at least one"),
        }
        least, most, words = needs[self.kind]
        n = len(self.categories)
        if n < least or (most is not None and n > most):
            raise SettingError(
                f"feature {self.name!r} is {self.kind} and must have {words} categories, got {n}"
            )

    def __repr__(self) -> str:
        of = f" of {len(self.categories)}" if self.categories else ""
        return f"Feature({self.name!r}, {self.kind}{of})"

    @property
    def is_integer(self) -> bool:
        """Whether numeric cells are whole numbers in the user's table."""
        whole = self.decimals == 0 or "int" in self.dtype or self.is_temporal
        return self.kind is Kind.NUMERIC and whole

    @property
    def is_temporal(self) -> bool:
        """Whether cells are dates, times or durations: Arrow's integers of the user's type."""
        return self.kind is Kind.NUMERIC and self.dtype.startswith(_TEMPORAL)

    def rounded(self, values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Return numeric values with as many decimals as the user's column has, and no ``-0``."""
        if self.kind is not Kind.NUMERIC:
            return values
        if self.is_integer:
            return np.rint(values) + 0.0
        if self.decimals is None:
            return values + 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = np.round(values, self.decimals)
        return np.where(np.isfinite(rounded), rounded, values) + 0.0  # 1e300 has no decimals

    def around(
        self, low: Float[np.ndarray, "*shape"], high: Float[np.ndarray, "*shape"]
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """Return the ends of intervals with the column's decimals.

        Ends move outwards, so that an interval holds no less and its share of hits stays true.

        Examples
        --------
        >>> low, high = Feature("dose", decimals=1).around(np.array([1.23]), np.array([1.61]))
        >>> low.tolist(), high.tolist()
        ([1.2], [1.7])
        """
        decimals = 0 if self.is_integer else self.decimals
        if self.kind is not Kind.NUMERIC or decimals is None:
            return low, high
        unit, ends = 10.0**decimals, []
        for values, outwards in ((low, np.floor), (high, np.ceil)):
            with np.errstate(over="ignore", invalid="ignore"):
                moved = np.asarray(outwards(values * unit) / unit)
            # What 1e300 becomes is not finite, and what 0.1 + 0.2 becomes is its neighbour.
            nearest = np.asarray(self.rounded(values))
            moved = np.where(np.isclose(nearest, values, rtol=1e-12, atol=0), nearest, moved)
            ends.append(np.where(np.isfinite(moved), moved, values) + 0.0)
        return ends[0], ends[1]

    def code_fault(self, cells: Float[np.ndarray, " n"]) -> str | None:
        """Return what is wrong with coded cells that are no positions in `categories`, or None."""
        if self.kind is Kind.NUMERIC:
            return None
        known = cells[~np.isnan(cells)]
        last = len(self.categories) - 1
        if not ((known != np.floor(known)) | (known < 0) | (known > last)).any():
            return None
        return f"column {self.name!r} is {self.kind} and its cells must be positions 0 to {last}"

    @property
    def width(self) -> int:
        """How many columns the feature takes once encoded: one per category, else one."""
        return len(self.categories) if self.kind is Kind.CATEGORICAL else 1
