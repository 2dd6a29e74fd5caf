"""From a view's cells to the matrix networks train on, and back to the user's units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from cofill.codec import storable
from cofill.errors import DataError, SettingError
from cofill.views._feature import Feature, Kind
from cofill.views._view import View

_METHODS = ("standard", "robust", "none")
_CELLS_AT_ONCE = 2**22  # 32 MiB of float64: what fit, encode and decode hold beside their result
_TINY = float(np.finfo(np.float64).tiny)
_NARROW = 1e-250  # spread of the middle half, relative to the largest value


@dataclass(frozen=True)
class EncodedBlock:
    """The encoded columns ``start:stop`` of the feature at position `feature`."""

    feature: int
    kind: Kind
    start: int
    stop: int


@storable
@dataclass(frozen=True, repr=False)
class Scaler:
    """How the cells of one view are encoded; made by `Scaler.fit`.

    A numeric cell x becomes ``(x − center) / scale`` (method ``"standard"``: mean and standard
    deviation; ``"none"``: as it is) or ``arcsinh((x − center) / scale)`` (``"robust"``: median and
    interquartile range, for heavy tails). A binary cell becomes 0 or 1, a categorical cell one
    column per category. NaN stays NaN, in every column of a categorical cell.

    Parameters
    ----------
    features
        The view's features at fit.
    method
        How numeric cells are scaled.
    center, scale, low, high
        One number per feature: what is subtracted, what divides, and the range seen at fit
        (infinite where nothing was seen). Coded features have 0, 1 and an infinite range.

    Examples
    --------
    >>> lab = View("lab", [1, 2, 3], [[1.0, 0], [3.0, 1], [5.0, 2]],
    ...            ["dose", Feature("group", Kind.CATEGORICAL, ("a", "b", "c"))])
    >>> scaler = Scaler.fit(lab, rows=[0, 1])
    >>> scaler.encode(lab.cells)
    array([[-1.,  1.,  0.,  0.],
           [ 1.,  0.,  1.,  0.],
           [ 3.,  0.,  0.,  1.]])
    >>> scaler.decode(scaler.encode(lab.cells), clip=True)
    array([[1., 0.],
           [3., 1.],
           [3., 2.]])
    """

    features: tuple[Feature, ...]
    method: str
    center: tuple[float, ...]
    scale: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def fit(cls, view: View, *, rows: Any = None, method: str = "standard") -> Scaler:
        """Learn center, scale and range from the known cells of some rows.

        Parameters
        ----------
        view
            The view.
        rows
            The training rows, as a boolean mask or positions; all when left out.
        method
            ``"standard"``, ``"robust"`` or ``"none"``. A constant column, and one without any
            known cell, keeps scale 1.
        """
        if method not in _METHODS:
            raise SettingError(
                f"method must be one of {', '.join(map(repr, _METHODS))}, got {method!r}"
            )
        index = slice(None) if rows is None else np.asarray(rows)
        learned = {
            k: _learn(column, method)
            for k, column in _columns(view.cells, index)
            if view.features[k].kind is Kind.NUMERIC
        }
        coded = (0.0, 1.0, -np.inf, np.inf)
        parts = [learned.get(k, coded) for k in range(view.n_features)]
        center, scale, low, high = zip(*parts, strict=True)
        return cls(view.features, method, center, scale, low, high)

    def __repr__(self) -> str:
        return f"Scaler({self.method}, {len(self.features)} features in {self.width} columns)"

    @cached_property
    def blocks(self) -> tuple[EncodedBlock, ...]:
        """Which encoded columns belong to which feature, in order."""
        stops = np.cumsum([f.width for f in self.features])
        return tuple(
            EncodedBlock(k, f.kind, int(stop) - f.width, int(stop))
            for k, (f, stop) in enumerate(zip(self.features, stops, strict=True))
        )

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.blocks[-1].stop

    def encode(
        self, cells: Float[np.ndarray, "n d"], *, dtype: type[np.floating] = np.float64
    ) -> Float[np.ndarray, "n width"]:
        """Return the encoded matrix of cells whose codes are those of the fit."""
        _require_columns(cells, len(self.features), "cells", "one column per feature")
        out = np.empty((len(cells), self.width), dtype=dtype)
        numeric, columns = self._numeric
        center, scale = (np.asarray(v)[numeric] for v in (self.center, self.scale))
        for part in _chunks(len(cells), max(self.width, len(self.features))):
            if len(numeric):
                block = cells[part][:, numeric].astype(np.float64)
                block -= center
                with np.errstate(over="ignore"):
                    block /= scale
                if self.method == "robust":
                    np.arcsinh(block, out=block)
                out[part, columns] = _finite(block, dtype)
            for coded in self._coded:
                codes = cells[part, coded.feature]
                if fault := self.features[coded.feature].code_fault(codes):
                    raise DataError(
                        f"{fault} in the categories of the fit; use encode_view for a view with "
                        "other categories"
                    )
                if coded.kind is Kind.BINARY:
                    out[part, coded.start] = codes
                else:
                    out[part, coded.start : coded.stop] = codes[:, None] == np.arange(
                        coded.stop - coded.start
                    )
                    out[part, coded.start : coded.stop][np.isnan(codes)] = np.nan
        return out

    def encode_view(
        self,
        view: View,
        *,
        rows: Int[np.ndarray, " some"] | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> tuple[Float[np.ndarray, "n width"], dict[str, int]]:
        """Encode a view whose columns may stand in another order and have other categories.

        Columns are found by name (others are left out) and categories by value. A value that was
        not there at fit has no column and becomes missing. With `rows`, positions in the view,
        only these are encoded.

        Returns
        -------
        tuple
            The encoded matrix, and how many cells of each feature held a value not seen at fit
            (only features that have any).

        Examples
        --------
        >>> def group(*values): return Feature("group", Kind.CATEGORICAL, values)
        >>> scaler = Scaler.fit(View("lab", [1, 2], [[0], [1]], [group("a", "b")]))
        >>> scaler.encode_view(View("lab", [8, 9], [[0], [1]], [group("b", "z")]))
        (array([[ 0.,  1.],
               [nan, nan]]), {'group': 1})
        """
        view_cells = view.cells if rows is None else view.cells[rows]
        if view.features == self.features:
            return self.encode(view_cells, dtype=dtype), {}
        at = {f.name: k for k, f in enumerate(view.features)}
        cells = np.empty((len(view_cells), len(self.features)), dtype=view_cells.dtype)
        unseen: dict[str, int] = {}
        for k, feature in enumerate(self.features):
            if feature.name not in at:
                raise DataError(
                    f"view {view.name!r} lacks the column {feature.name!r} that was there when the "
                    "scaler was fitted; add the column, or fit again"
                )
            offered = view.features[at[feature.name]]
            if (offered.kind is Kind.NUMERIC) != (feature.kind is Kind.NUMERIC):
                raise DataError(
                    f"view {view.name!r}: column {feature.name!r} must be {feature.kind} as it was "
                    f"at fit, got {offered.kind}; read it with kinds={{{feature.name!r}: "
                    f"'{feature.kind}'}}"
                )
            column = view_cells[:, at[feature.name]]
            if offered.categories != feature.categories:
                column, n_unseen = _recode(column, offered.categories, feature.categories)
                if n_unseen:
                    unseen[feature.name] = n_unseen
            cells[:, k] = column
        return self.encode(cells, dtype=dtype), unseen

    def decode(
        self,
        encoded: Float[np.ndarray, "n width"],
        *,
        clip: bool = False,
        whole: bool = True,
        dtype: type[np.floating] = np.float64,
    ) -> Float[np.ndarray, "n d"]:
        """Return the cells of an encoded matrix: the inverse of `encode`.

        Cells are rounded to their column's decimals unless `whole` is false, a binary cell is 1
        from 0.5 on, a categorical cell is its largest column. `clip` keeps numeric cells within the
        range seen at fit.
        Without it an encoded value too large for a number becomes the largest one, never infinite.
        """
        _require_columns(encoded, self.width, "encoded", "the scaler's width")
        out = np.empty((len(encoded), len(self.features)), dtype=dtype)
        numeric, columns = self._numeric
        values = (self.center, self.scale, self.low, self.high)
        center, scale, low, high = (np.asarray(v)[numeric] for v in values)
        for part in _chunks(len(encoded), max(self.width, len(self.features))):
            if len(numeric):
                block = encoded[part][:, columns].astype(np.float64)
                with np.errstate(over="ignore"):
                    if self.method == "robust":
                        np.sinh(block, out=block)
                    block *= scale
                    block += center
                if clip:
                    np.clip(block, low, high, out=block)
                for k, feature in enumerate(numeric if whole else ()):
                    block[:, k] = self.features[feature].rounded(block[:, k])
                out[part, numeric] = _finite(block, dtype)
            for coded in self._coded:
                encoded_cell = encoded[part, coded.start : coded.stop]
                codes = (
                    (encoded_cell[:, 0] >= 0.5)
                    if coded.kind is Kind.BINARY
                    else np.argmax(encoded_cell, axis=1)
                )
                out[part, coded.feature] = np.where(
                    np.isnan(encoded_cell).any(axis=1), np.nan, codes
                )
        return out

    @cached_property
    def _numeric(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the numeric features, and of their encoded columns."""
        blocks = [b for b in self.blocks if b.kind is Kind.NUMERIC]
        return (
            np.array([b.feature for b in blocks], dtype=int),
            np.array([b.start for b in blocks], dtype=int),
        )

    @cached_property
    def _coded(self) -> tuple[EncodedBlock, ...]:
        return tuple(b for b in self.blocks if b.kind is not Kind.NUMERIC)


def side_by_side(widths: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the columns ``(start, stop)`` of parts side by side.

    Examples
    --------
    >>> side_by_side([2, 3])
    ((0, 2), (2, 5))
    """
    return tuple(pairwise(accumulate(widths, initial=0)))


def _learn(known: np.ndarray, method: str) -> tuple[float, float, float, float]:
    """Return center, scale, lowest and highest value of a column's known cells."""
    if not len(known):
        return 0.0, 1.0, -np.inf, np.inf
    low, high = float(known.min()), float(known.max())
    if method == "none":
        return 0.0, 1.0, low, high
    if low == high:
        return low, 1.0, low, high
    # A power of two brings the column to [−1, 1] without rounding, so that squares cannot overflow.
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])
    unit = np.ldexp(known, -exponent)
    center, scale = float(unit.mean()), float(unit.std())
    if method == "robust":
        first, center, third = (float(q) for q in np.percentile(unit, [25, 50, 75]))
        # A spread so far below the largest value would overflow on the way back.
        scale = third - first if third - first > _NARROW else scale
    scale = float(np.ldexp(scale, exponent))
    return float(np.ldexp(center, exponent)), scale if scale >= _TINY else 1.0, low, high


def _columns(cells: np.ndarray, rows: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each column's known cells among the rows, reading some columns at a time."""
    n, d = cells.shape
    step = max(1, _CELLS_AT_ONCE // max(n, 1))
    for start in range(0, d, step):
        block = np.array(cells[rows, start : start + step].T, dtype=np.float64, order="C")
        for k, column in enumerate(block, start):
            yield k, column[~np.isnan(column)]


def _chunks(n: int, width: int) -> Iterator[slice]:
    step = max(1, _CELLS_AT_ONCE // max(width, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _finite(block: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    """Limit a float64 block to the finite numbers of the type it is stored as; NaN stays."""
    most = float(np.finfo(dtype).max)
    return np.clip(block, -most, most, out=block)


def _recode(
    codes: np.ndarray, offered: tuple[Any, ...], wanted: tuple[Any, ...]
) -> tuple[np.ndarray, int]:
    """Turn positions in `offered` into positions in `wanted`; count the values it lacks."""
    position = {value: k for k, value in enumerate(wanted)}
    table = np.array([position.get(value, np.nan) for value in offered] + [np.nan])
    missing = np.isnan(codes)
    recoded = table[np.where(missing, len(offered), codes).astype(np.int64)]
    return recoded, int(np.isnan(recoded).sum() - missing.sum())


def _require_columns(matrix: np.ndarray, width: int, name: str, what: str) -> None:
    if matrix.shape[1] != width:
        raise DataError(f"{name} must have {width} columns ({what}), got {matrix.shape[1]}")
