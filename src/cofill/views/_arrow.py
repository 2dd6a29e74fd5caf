"""Cells as Arrow arrays of the user's types, and columns with some of their values replaced."""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.views._feature import Feature, Kind
from cofill.views._styles import NumberStyle

_STEPS = (86_400, 3_600, 60, 1)  # days, hours, minutes, seconds


def is_text(type_: pa.DataType) -> bool:
    """Whether cells of a type are texts, long ones too."""
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def is_number_type(type_: pa.DataType) -> bool:
    """Whether cells of a type are numbers: whole ones, floats or decimals."""
    is_real = pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return is_real or pa.types.is_integer(type_)


def cells_to_arrow(
    feature: Feature, cells: np.ndarray, type_: pa.DataType | None = None, step: int = 1
) -> pa.Array:
    """Return cells as an Arrow array of a type, the feature's own unless stated."""
    is_dictionary = feature.dictionary if type_ is None else pa.types.is_dictionary(type_)
    if type_ is None:
        value_type = arrow_type(feature.dtype)
        type_ = (
            pa.dictionary(pa.int32(), value_type, feature.ordered) if is_dictionary else value_type
        )
    else:
        value_type = type_.value_type if is_dictionary else type_
    missing = np.isnan(cells)
    if feature.kind is Kind.NUMERIC:
        values = _numbers_to_arrow(feature, cells, missing, value_type, step)
        return values.dictionary_encode() if is_dictionary else values
    codes = pa.array(np.where(missing, 0, cells).astype(np.int32), mask=missing)
    categories = pa.array(feature.categories)
    if categories.type != value_type:
        categories = _cast(categories, value_type)
    if is_dictionary:
        return pa.DictionaryArray.from_arrays(
            codes, categories, ordered=bool(type_ is not None and type_.ordered)
        )
    return categories.take(codes)


def _numbers_to_arrow(
    feature: Feature, cells: np.ndarray, missing: np.ndarray, type_: pa.DataType, step: int
) -> pa.Array:
    cells = np.where(missing, 0.0, feature.rounded(cells.astype(np.float64)))
    if (
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    ):
        style = NumberStyle(decimals=feature.decimals)
        return pc.if_else(pa.array(missing), None, pa.array(style.write(feature, cells))).cast(
            type_
        )
    if pa.types.is_temporal(type_) or pa.types.is_integer(type_):
        cells = np.rint(cells / step) * step
        whole = pa.array(_whole(cells), mask=missing)
        if pa.types.is_temporal(type_) and (type_.bit_width == 32 or pa.types.is_date64(type_)):
            whole = whole.cast(pa.int32())
        return (
            whole.cast(pa.date32()).cast(type_) if pa.types.is_date64(type_) else whole.cast(type_)
        )
    if pa.types.is_boolean(type_):
        return pa.array(cells >= 0.5, mask=missing)
    return pa.array(cells, mask=missing).cast(type_, safe=False)


def _whole(cells: np.ndarray) -> np.ndarray:
    """Return whole numbers; those too large for 64 bits become the largest that floats have."""
    most = float(2**63 - 1024)
    return np.rint(np.clip(cells, -most, most)).astype(np.int64)


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of this name, such as ``"decimal128(9, 2)"``.

    Examples
    --------
    >>> arrow_type("timestamp[us, tz=UTC]")
    TimestampType(timestamp[us, tz=UTC])
    """
    if match := re.fullmatch(r"decimal(\d+)\((\d+), (-?\d+)\)", name):
        return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
    if match := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", name):
        return pa.timestamp(match[1], match[2])
    return pa.type_for_alias(name)


def with_values(column: pa.ChunkedArray, rows: np.ndarray, values: pa.Array) -> pa.ChunkedArray:
    """Return a column with other values in some rows, and the same type."""
    type_ = column.type
    is_dictionary = pa.types.is_dictionary(type_)
    if is_dictionary:
        plain = column.cast(type_.value_type)
        values = _cast(values, type_.value_type)
    else:
        plain, values = column, _cast(values, type_)
    index = np.arange(len(plain))
    index[rows] = len(plain) + np.arange(len(rows))
    joined = pa.chunked_array(
        [*plain.chunks, *([values] if isinstance(values, pa.Array) else values.chunks)]
    )
    result = joined.take(pa.array(index))
    return _as_dictionary(column, result) if is_dictionary else result


def _as_dictionary(column: pa.ChunkedArray, plain: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode values with a column's own dictionary, longer where new values need it."""
    unified = column.unify_dictionaries()
    known = (
        unified.chunk(0).dictionary if unified.num_chunks else pa.array([], column.type.value_type)
    )
    extra = pc.unique(plain.filter(pc.invert(pc.is_in(plain, value_set=known))).drop_null())
    dictionary = pa.concat_arrays([known, extra]) if len(extra) else known
    codes = pc.index_in(plain, value_set=dictionary).combine_chunks()
    codes = codes.cast(column.type.index_type)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(codes, dictionary, ordered=column.type.ordered)]
    )


def _cast(values: Any, type_: pa.DataType) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values if values.type == type_ else values.cast(type_, safe=False)


def take_rows(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return these rows of a table; null for −1."""
    if len(rows) == table.num_rows and np.array_equal(rows, np.arange(len(rows))):
        return table
    return table.take(pa.array(np.where(rows < 0, 0, rows), mask=rows < 0))


def time_step(column: pa.ChunkedArray) -> int:
    """Return the largest of day, hour, minute, second that all times are multiples of."""
    type_ = column.type
    if pa.types.is_date(type_) or column.null_count == len(column):
        return 1
    values = column.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).drop_null().to_numpy()
    unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
    return next((s * unit for s in _STEPS if not (values % (s * unit)).any()), 1)
