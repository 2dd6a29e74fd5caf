"""What sites add up before the first round, so that all can scale alike and no summary is shown.

Of every column of numbers the sites' counts, sums and sums of squares are added in a secure sum,
exactly (`ExactSums`): mean and deviation over all sites follow, whatever a column's scale, and no
site has to say how large its numbers are. Lowest and highest values are nobody's to send. A range
comes from declared bounds or else from flags, of which it is told whether *anybody* raises them:

- a column of numbers ends at 0 where nobody's cell is below (or above) it, and else at mean ± 10
  deviations, within which almost everything lies, or nearer where so few rows cannot reach that;
- images end at the power of two that nobody's pixel passes (16, 256, 1): pixels of a known format
  tell the format, and there is no column of a person's amounts to be read off.

A column that one site alone has is not hidden by a sum over sites.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError
from cofill.privacy import Columns, ExactSums, ImpossibleSumError, NumbersAndFlags
from cofill.views import Kind, View

Bounds = Mapping[str, tuple[float | int, float | int]]

Pooled = Float[np.ndarray, "5 features"]
"""Count, mean, variance, lowest and highest of each column over all sites' rows."""

MOST_ROWS = 10**10  # more than there are people
FEWEST_ROWS = 3  # of a modality, below which a site tells nothing of it

_LARGEST = 2.0**100  # absolute value of a cell; squares of many of them fit the digits
_UNIT = 2**256  # of a sum: squares of deviations down to 2^-128 count
_ROUNDING = Fraction(1, 2**64)  # squares are of double precision before they are summed exactly
_IMAGE_ENDS = np.array([0.0, *(2.0**k for k in range(-32, 33))])  # where a range may end
# Deviations. Narrower ranges would cut off what heavy tails hold: the largest concavity error of
# WDBC lies 12 away, and amounts of credit up to 73.
_REACH = 10.0


def range_of(bounds: Bounds, view: str, column: str) -> tuple[float, float] | None:
    """Return the declared bounds of a column: its own, or those of its whole view.

    Examples
    --------
    >>> range_of({"image": (0, 255), "lab/age": (0, 120)}, "lab", "age")
    (0.0, 120.0)
    """
    declared = bounds.get(f"{view}/{column}", bounds.get(view))
    return None if declared is None else (float(declared[0]), float(declared[1]))


def require_possible(
    figures: Float[np.ndarray, "2 columns"],
    declared: Sequence[tuple[float, float] | None],
    most: int,
) -> None:
    """Raise an `ImpossibleSumError` for counts above a most, or means outside of their bounds.

    ``figures`` are count and mean of each column; those without a mean have 0.
    """
    if (figures[0] > most).any() or (np.abs(figures[1]) > _LARGEST).any():
        raise ImpossibleSumError
    for (count, mean), ends in zip(figures.T, declared, strict=False):
        if ends is None or not count or not mean:
            continue
        room = 1e-6 * max(map(abs, ends))  # rounding of cells in single precision
        if not ends[0] - room <= mean <= ends[1] + room:
            raise ImpossibleSumError


def require_bounded(site: str, view: View, bounds: Bounds) -> None:
    """Raise a `DataError` if some cell of a view is outside of the declared bounds."""
    for k, feature in enumerate(view.features):
        declared = range_of(bounds, view.name, feature.name)
        if declared is None or feature.kind is not Kind.NUMERIC:
            continue
        column = view.cells[:, k]
        low, high = declared
        if ((column < low) | (column > high)).any():
            raise DataError(
                f"site {site!r}: column {feature.name!r} of {view.name!r} has cells outside of the "
                f"declared bounds {low:g} to {high:g}; declare wider ones"
            )


@dataclass(frozen=True, eq=False)
class Survey:
    """The numbers and flags that sites add up about agreed columns.

    ``bounds`` are the declared ones; see `range_of`.
    """

    columns: Columns
    bounds: Bounds

    def code(self, sites: int) -> ExactSums:
        """Return the encoding for a sum of so many sites."""
        numbers = sum(3 * len(part.is_number) for part in self._parts.values())
        flags = sum(2 * part.is_open.sum() * len(part.ends) for part in self._parts.values())
        return ExactSums(numbers, int(flags), sites=sites)

    @cached_property
    def _parts(self) -> dict[str, _Part]:
        parts = {}
        for name, features in self.columns.features.items():
            is_image = name in self.columns.shapes
            # The pixels of an image are one column: they are scaled alike.
            shown = features[:1] if is_image else features
            is_number = np.array([f.kind is Kind.NUMERIC for f in shown], dtype=bool)
            declared = [range_of(self.bounds, name, f.name) is not None for f in shown]
            parts[name] = _Part(name, is_image, is_number, is_number & ~np.array(declared, bool))
        return parts

    def describe(self, views: Mapping[str, View]) -> NumbersAndFlags:
        """Return what a site adds of its views, nothing of a modality with very few rows."""
        numbers: list[int] = []
        flags = []
        for name, part in self._parts.items():
            cells = views[name].cells
            cells = cells if len(cells) >= FEWEST_ROWS else cells[:0]
            cells = cells.reshape(-1, 1) if part.is_image else cells
            numbers += part.numbers(cells)
            flags.append(part.flags(cells))
        return NumbersAndFlags(numbers, np.concatenate(flags))

    def pool(self, total: NumbersAndFlags, rows: int = MOST_ROWS) -> dict[str, Pooled]:
        """Return count, mean, variance and range of all columns, by view, of at most so many rows.

        Raises an `ImpossibleSumError` where no rows within the declared bounds add up to it.
        """
        numbers, flags = iter(total.numbers), iter(total.flags.tolist())
        pooled = {}
        for name, features in self.columns.features.items():
            part = self._parts[name]
            columns = part.pool(numbers, flags)
            declared = [range_of(self.bounds, name, f.name) for f in features]
            require_possible(columns[:2], declared, rows * (len(features) if part.is_image else 1))
            pooled[name] = np.repeat(columns, len(features), axis=1) if part.is_image else columns
        return pooled


@dataclass(frozen=True, eq=False)
class _Part:
    """The columns of one view, of which an image has one; ``is_open`` where a range is to find."""

    name: str
    is_image: bool
    is_number: Bool[np.ndarray, " columns"]
    is_open: Bool[np.ndarray, " columns"]

    @property
    def ends(self) -> Float[np.ndarray, " ends"]:
        """Distances from 0 beyond which it is asked whether anybody has a cell."""
        return _IMAGE_ENDS if self.is_image else _IMAGE_ENDS[:1]

    def numbers(self, cells: np.ndarray) -> list[int]:
        """Return count, sum and sum of squares of each column, as whole numbers."""
        known = ~np.isnan(cells)
        # Images need a range only.
        summed = known & self.is_number & (not self.is_image)
        values = np.where(summed, cells, 0.0).astype(np.float64)
        if (np.abs(values) > _LARGEST).any():
            raise DataError(
                f"cells of {self.name!r} must lie within ±2^100 to be summed securely; state them "
                "in a larger unit"
            )
        count = known.sum(axis=0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        away = np.where(summed, values - mean, 0.0)
        columns = zip(count, mean, away.sum(axis=0), (away**2).sum(axis=0), strict=True)
        return [number for column in columns for number in _whole_numbers(*map(float, column))]

    def flags(self, cells: np.ndarray) -> Bool[np.ndarray, " flags"]:
        """Return whether some cell lies further above 0 than each end, then whether below."""
        known, shown = ~np.isnan(cells), self.is_open
        high = np.max(cells, axis=0, initial=0.0, where=known)[shown]
        low = np.min(cells, axis=0, initial=0.0, where=known)[shown]
        return (np.array([high, -low])[:, :, None] > self.ends).ravel()

    def pool(self, numbers: Iterator[int], flags: Iterator[bool]) -> Pooled:
        """Return the view's columns over all sites; reads as many numbers as it has."""
        moments = [_pool_moments(*islice(numbers, 3)) for _ in self.is_number]
        count, mean, variance = np.array(moments).T
        shape = 2, int(self.is_open.sum()), len(self.ends)
        raised = np.array(list(islice(flags, int(np.prod(shape)))), dtype=bool).reshape(shape)
        if self.is_image:
            ends = self._image_ends(raised) if self.is_open.any() else np.zeros((2, 1))
            return np.stack([count, mean, variance, -ends[1], ends[0]])
        # No cell lies further from the mean of n than √(n − 1) deviations (Samuelson 1968).
        reach = np.minimum(_REACH, np.sqrt(np.maximum(count - 1, 0))) * np.sqrt(variance)
        low, high = mean - reach, mean + reach
        above, below = np.ones((2, len(count)), bool)
        above[self.is_open], below[self.is_open] = raised[:, :, 0]
        high, low = (
            np.where(above, high, np.minimum(high, 0)),
            np.where(below, low, np.maximum(low, 0)),
        )
        return np.stack([count, mean, variance, low, high])

    def _image_ends(self, raised: Bool[np.ndarray, "2 1 ends"]) -> Float[np.ndarray, "2 1"]:
        """Return the first end, above and below 0, that nobody's pixel passes."""
        if raised.all(axis=2).any():
            raise DataError(
                f"pixels of {self.name!r} must lie within ±2^32, or their range must be declared; "
                f"state bounds of {self.name!r}"
            )
        return self.ends[np.argmin(raised, axis=2)]


def _whole_numbers(count: float, mean: float, rest: float, squares: float) -> tuple[int, int, int]:
    """Return count, sum and sum of squares of a column in units, without loss.

    ``rest`` and ``squares`` are the sums of what the mean leaves of cells and of its squares: the
    square of a mean far from 0 is taken in whole numbers, so that it does not swallow them.
    """
    n, m, d = Fraction(count), Fraction(mean), Fraction(rest)
    total, total_squares = n * m + d, n * m * m + 2 * m * d + Fraction(squares)
    return int(count), int(total * _UNIT), int(total_squares * _UNIT)


def _pool_moments(count: int, total: int, total_squares: int) -> tuple[float, float, float]:
    """Return count, mean and variance; zeros without rows."""
    if count < 0:
        raise ImpossibleSumError
    if not count:
        return 0.0, 0.0, 0.0
    mean = Fraction(total, count * _UNIT)
    variance = Fraction(total_squares, count * _UNIT) - mean * mean
    if variance < -_ROUNDING * (1 + mean * mean):
        raise ImpossibleSumError
    return float(count), float(mean), max(float(variance), 0.0)
