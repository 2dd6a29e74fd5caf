"""Tables to views and back: column types decide the kinds of cells, and are restored in the end.

Arrow is the hub: whatever narwhals reads becomes an Arrow table, and a view becomes an Arrow table
with the user's column types before it becomes a pandas or polars frame or a file.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import DataError, SettingError
from cofill.registry import suggest
from cofill.views._feature import Feature, Kind
from cofill.views._ids import as_ids, require_unique
from cofill.views._view import View

_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"
_NUMBER = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
_MOST_CATEGORIES = 100
_LARGEST_EXACT = 2**53
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class ColumnRules:
    """What the user said about columns, and how rows of their table are counted in messages.

    `kinds` and `ignore` name columns, or ``"view.column"`` to address one view only.
    """

    kinds: Mapping[str, str] | None = None
    ignore: Sequence[str] = ()
    id_type: str | None = None
    untyped_ids: bool = False
    row: str = "row"
    first_row: int = 1

    def __post_init__(self) -> None:
        if self.id_type not in (None, "text"):
            raise SettingError(f"id_type must be 'text' or None, got {self.id_type!r}")
        for column, kind in (self.kinds or {}).items():
            if kind not in tuple(Kind):
                raise SettingError(
                    f"the kind of column {column!r} must be numeric, binary or categorical, "
                    f"got {kind!r}"
                )

    def kind(self, view: str, column: str) -> Kind | None:
        """Return the kind the user declared, if any."""
        kinds = self.kinds or {}
        declared = kinds.get(f"{view}.{column}", kinds.get(column))
        return None if declared is None else Kind(declared)

    def ignores(self, view: str, column: str) -> bool:
        """Whether the user wants the column left out."""
        return column in self.ignore or f"{view}.{column}" in self.ignore

    def at(self, row: int) -> str:
        """Name a row as the user finds it: ``line 17`` of a CSV file, ``row 16`` of a table."""
        return f"{self.row} {row + self.first_row}"

    def check(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Raise a `SettingError` when a rule names a column that no view has."""
        known = {c for names in columns.values() for c in names}
        known |= {f"{v}.{c}" for v, names in columns.items() for c in names}
        for column in [*self.ignore, *(self.kinds or {})]:
            if column not in known:
                raise SettingError(
                    f"no view has a column {column!r}; {suggest(column, sorted(known))}"
                )


def frame_to_table(frame: Any, name: str) -> pa.Table:
    """Turn a data frame of any library that narwhals knows into an Arrow table."""
    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise DataError(
            f"view {name!r} must be a data frame (pandas, polars, pyarrow), "
            f"got {type(frame).__name__}; use MultiView.from_arrays for arrays"
        ) from None
    eager = wrapped.collect("pyarrow") if isinstance(wrapped, nw.LazyFrame) else wrapped
    return eager.to_arrow()


def view_from_table(
    name: str,
    table: pa.Table,
    *,
    id: str,  # noqa: A002
    rules: ColumnRules,
    where: str | None = None,
) -> View:
    """Build a view from an Arrow table; `where` names it in messages."""
    where = where or f"view {name!r}"
    # What pandas adds for an index without a name, such as a filtered frame's, is no feature.
    columns = [c for c in table.column_names if not _PANDAS_INDEX.fullmatch(c)]
    if len(set(columns)) != len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise DataError(f"{where}: column {twice!r} occurs more than once; rename one of them")
    if id not in columns and any(_NUMBER.match(c) for c in columns):
        raise DataError(
            f"{where} has no id column {id!r} and its first line looks like a person's row; "
            "give it a header line"
        )
    if id not in columns:
        raise DataError(f"{where} has no id column {id!r}; {suggest(id, columns)}")
    if table.num_rows == 0:
        raise DataError(f"{where} has no rows; give it at least one individual or leave it out")
    ids = read_ids(table.column(id), where, rules)
    require_unique(ids, where, rules.first_row, rules.row)
    wanted = [c for c in columns if c != id and not rules.ignores(name, c)]
    if "" in wanted:
        raise DataError(
            f"{where}: column {columns.index('') + 1} has no name; name it in the header or "
            "remove it (pandas writes one unless told index=False)"
        )
    if not wanted:
        raise DataError(f"{where} has no columns beside the id; give it at least one feature")
    read = [
        _read_column(table.column(c), c, f"{where}: column {c!r}", rules.kind(name, c), rules)
        for c in wanted
    ]
    narrow = all(values.dtype.itemsize <= 4 for _, values in read)
    cells = np.empty((table.num_rows, len(wanted)), dtype=np.float32 if narrow else np.float64)
    features = []
    for k in range(len(wanted)):
        feature, values = read[k]
        cells[:, k] = values
        features.append(feature)
        read[k] = (feature, values[:0])  # a million rows twice is enough
    before = set(columns[: columns.index(id)])
    return View(
        name, ids, cells, features, id_name=id, id_position=sum(c in before for c in wanted)
    )


def read_ids(column: pa.ChunkedArray, where: str, rules: ColumnRules) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    missing = pc.is_null(column, nan_is_null=True)
    if text:
        missing = pc.or_(missing, pc.equal(pc.fill_null(pc.utf8_trim_whitespace(column), ""), ""))
    absent = int(pc.sum(missing).as_py() or 0)
    if absent:
        first = int(np.flatnonzero(missing.to_numpy())[0])
        raise DataError(
            f"{where}: {absent} rows have no id (the first is {rules.at(first)}); "
            "give every row an id or remove it"
        )
    if pa.types.is_floating(column.type):
        values = column.to_numpy()
        if (values != np.floor(values)).any():
            raise DataError(f"{where}: ids must be whole numbers or text, got fractions")
        if (np.abs(values) > _LARGEST_EXACT).any():
            raise DataError(
                f"{where}: ids are floats beyond 2^53, which are not exact; "
                "store them as integers or text"
            )
        column = pc.cast(column, pa.int64())
    if text and rules.untyped_ids and rules.id_type != "text":
        whole = pc.match_substring_regex(column, _WHOLE_NUMBER)
        if pc.all(whole).as_py():
            column = pc.cast(column, pa.int64())
    if rules.id_type == "text":
        column = pc.cast(column, pa.string())
    return as_ids(column.to_numpy(), where)


def _read_column(
    column: pa.ChunkedArray, name: str, where: str, declared: Kind | None, rules: ColumnRules
) -> tuple[Feature, np.ndarray]:
    """Return the column's feature and its cells as floats."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    dictionary = pa.types.is_dictionary(column.type)
    type_ = column.type.value_type if dictionary else column.type
    if int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0) == len(column):
        raise DataError(
            f"{where} has no value in any row; fill it or leave it out (--ignore {name})"
        )
    numeric = (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    if not (numeric or text or pa.types.is_boolean(type_)):
        raise DataError(
            f"{where} is of type {type_}, which cannot be completed; "
            f"turn it into a number or a category, or leave it out (--ignore {name})"
        )
    if declared is Kind.NUMERIC or (declared is None and numeric and not dictionary):
        values = _numbers(column, where, rules)
        if declared is None and _is_zero_one(values):
            return Feature(name, Kind.BINARY, (0, 1), dtype=_number_type(type_)), values
        return Feature(name, Kind.NUMERIC, dtype="double" if text else _number_type(type_)), values
    if text and not dictionary and declared is None:
        _reject_text_among_numbers(column, where, name, rules)
        _reject_free_text(column, where, name)
    return _categories(column, name, where, declared, str(type_), dictionary)


def _number_type(type_: pa.DataType) -> str:
    return "double" if pa.types.is_decimal(type_) else str(type_)


def _numbers(column: pa.ChunkedArray, where: str, rules: ColumnRules) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        bad = _not_a_number(column)
        if bad.any():
            raise DataError(
                f"{where} was declared numeric but holds text in {int(bad.sum())} of {len(bad)} "
                f"rows (the first is {rules.at(int(bad.argmax()))}); correct these rows or "
                "declare it categorical"
            )
        column = pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if pa.types.is_integer(column.type):
        extremes = pc.min_max(column).as_py()
        if max(abs(extremes["min"]), abs(extremes["max"])) > _LARGEST_EXACT:
            raise DataError(
                f"{where} holds whole numbers beyond 2^53, which have no exact float; "
                "leave it out or store it as a category"
            )
    values = column.to_numpy()
    small = values.dtype.itemsize <= 4 if values.dtype.kind == "f" else values.dtype.itemsize <= 2
    return values.astype(np.float32 if small else np.float64, copy=False)


def _is_zero_one(values: np.ndarray) -> bool:
    """Whether known cells are zeros and ones, and both occur."""
    head = values[:1000]
    if not np.isin(head[~np.isnan(head)], (0, 1)).all():
        return False
    known = values[~np.isnan(values)]
    return bool(np.isin(known, (0, 1)).all() and (known == 0).any() and (known == 1).any())


def _not_a_number(column: pa.ChunkedArray) -> np.ndarray:
    """Which known texts do not read as a number."""
    trimmed = pc.utf8_trim_whitespace(column)
    number = pc.match_substring_regex(trimmed, _NUMBER.pattern)
    return pc.fill_null(pc.invert(number), False).to_numpy()


def _reject_text_among_numbers(
    column: pa.ChunkedArray, where: str, name: str, rules: ColumnRules
) -> None:
    """Raise where a column is nearly all numbers: it is a number column with a fault in it."""
    bad = _not_a_number(column)
    known = len(column) - column.null_count
    if known and 0 < bad.sum() <= known / 2:
        raise DataError(
            f"{where} is numeric but holds text in {int(bad.sum())} of {known} rows (the first is "
            f"{rules.at(int(bad.argmax()))}); correct these rows, or declare the column "
            f"categorical (--kind {name}=categorical)"
        )


def _reject_free_text(column: pa.ChunkedArray, where: str, name: str) -> None:
    different = pc.count_distinct(column).as_py()
    known = len(column) - column.null_count
    if different > _MOST_CATEGORIES or (different > 20 and different > known / 2):
        raise DataError(
            f"{where} has {different} different texts in {known} rows and looks like free text or "
            f"another id; leave it out (--ignore {name}) or declare it categorical "
            f"(--kind {name}=categorical)"
        )


def _categories(
    column: pa.ChunkedArray,
    name: str,
    where: str,
    declared: Kind | None,
    dtype: str,
    dictionary: bool,
) -> tuple[Feature, np.ndarray]:
    if pa.types.is_boolean(column.type):
        values = (False, True)
    elif dictionary:
        if any(c.dictionary.null_count for c in column.chunks):
            column = column.cast(column.type.value_type).dictionary_encode()
        column = column.unify_dictionaries()
        values = tuple(column.chunk(0).dictionary.to_pylist())
    else:
        values = tuple(sorted(v for v in pc.unique(column).to_pylist() if v is not None and v == v))
    kind = declared or (Kind.BINARY if len(values) == 2 else Kind.CATEGORICAL)
    if kind is Kind.BINARY and len(values) != 2:
        raise DataError(
            f"{where} was declared binary and must have two different values, got {len(values)}"
        )
    if dictionary:
        codes = np.concatenate(
            [c.indices.cast(pa.float64()).to_numpy(zero_copy_only=False) for c in column.chunks]
        )
    else:
        index = pc.index_in(column, value_set=pa.array(values, type=column.type))
        codes = index.cast(pa.float32()).to_numpy()
    small = len(values) < 2**16
    return (
        Feature(name, kind, values, dtype=dtype, dictionary=dictionary),
        codes.astype(np.float32 if small else np.float64, copy=False),
    )


def to_table(view: View) -> pa.Table:
    """Return a view as an Arrow table with the user's column types, names and order.

    Examples
    --------
    >>> view = View("lab", [2, 1], [[1.0, 0.0], [2.0, 1.0]],
    ...             ["age", Feature("sex", Kind.BINARY, ("f", "m"), dtype="string")],
    ...             id_name="person")
    >>> to_table(view).to_pydict()
    {'person': [1, 2], 'age': [2.0, 1.0], 'sex': ['m', 'f']}
    """
    arrays = [_column_array(f, view.cells[:, k]) for k, f in enumerate(view.features)]
    names = list(view.feature_names)
    arrays.insert(view.id_position, pa.array(view.ids))
    names.insert(view.id_position, view.id_name)
    return pa.table(arrays, names=names)


def to_frame(table: pa.Table, backend: str | None = None) -> Any:
    """Turn an Arrow table into a pandas (the default where installed), polars or pyarrow frame."""
    if backend is None:
        from importlib.util import find_spec

        backend = "pandas" if find_spec("pandas") else "pyarrow"
    if backend == "pyarrow":
        return table
    if backend == "pandas":
        return table.to_pandas()
    if backend == "polars":
        import polars as pl

        return pl.from_arrow(table)
    raise SettingError(f"backend must be 'pandas', 'polars' or 'pyarrow', got {backend!r}")


def _column_array(feature: Feature, cells: np.ndarray) -> pa.Array:
    unknown = np.isnan(cells)
    if feature.kind is Kind.NUMERIC:
        if feature.is_integer:
            whole = np.where(unknown, 0, np.rint(cells)).astype(np.int64)
            return pa.array(whole, mask=unknown).cast(pa.type_for_alias(feature.dtype))
        return pa.array(cells, mask=unknown).cast(pa.type_for_alias(feature.dtype), safe=False)
    values = pa.array(feature.categories)
    codes = pa.array(np.where(unknown, 0, cells).astype(np.int32), mask=unknown)
    if feature.dictionary:
        return pa.DictionaryArray.from_arrays(codes, values)
    return values.take(codes).cast(pa.type_for_alias(feature.dtype))
