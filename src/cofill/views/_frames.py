"""Tables to views and back: a view keeps the table it was read from, and becomes it again.

Arrow is the hub: whatever narwhals reads becomes an Arrow table, and a view becomes an Arrow table
with the user's column types before it becomes a pandas or polars frame or a file.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import DataError, SettingError
from cofill.registry import suggest
from cofill.views._arrow import is_text
from cofill.views._columns import Column, ColumnReader
from cofill.views._feature import Kind
from cofill.views._ids import as_ids, require_unique
from cofill.views._rules import ColumnRules
from cofill.views._schema import with_source
from cofill.views._source_table import FilledTable, SourceTable
from cofill.views._styles import NUMBER, TextStyle
from cofill.views._text import Fields, TextTable
from cofill.views._view import View

_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"
_LARGEST_EXACT = 2**53  # whole numbers up to which doubles hold each
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


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


def text_to_table(text: TextTable, id: str | None) -> pa.Table:  # noqa: A002
    """Return a text file as an Arrow table with the types that its texts tell; ids stay text."""
    check_columns(text.column_names, None, text.where)
    fields, columns = text.fields(), {}
    for k, name in enumerate(text.column_names):
        texts = text.column(fields, k)
        if name == id:
            columns[name] = texts.cast(pa.string())
        else:
            reader = ColumnReader("", name, f"{text.where}: column {name!r}", ColumnRules())
            columns[name] = reader.typed(texts)[1]
    return pa.table(columns)


def view_from_table(
    name: str,
    table: pa.Table | TextTable,
    *,
    id: str | None,  # noqa: A002
    rules: ColumnRules,
    where: str | None = None,
) -> View:
    """Build a view from an Arrow table or a text file; `where` names it in messages.

    Without an `id` rows are individuals, numbered from 0 in the table's order.
    """
    where = where or f"view {name!r}"
    is_text = isinstance(table, TextTable)
    columns = list(table.column_names)
    check_columns(columns, id, where)
    fields = table.fields() if is_text else None
    n = table.num_rows if fields is None else len(fields.starts) - 1
    if n == 0:
        raise DataError(f"{where} has no rows; give it at least one individual or leave it out")
    if id is None:
        ids = np.arange(n)
    else:
        ids = read_ids(table, id, where, rules, fields)
        require_unique(ids, where, rules.first_row, rules.row)
    # What pandas adds for an index without a name, such as a filtered frame's, is no feature.
    wanted = [
        c
        for c in columns
        if c != id
        and not (rules.ignores(name, c) or rules.drops(name, c) or _PANDAS_INDEX.fullmatch(c))
    ]
    if "" in wanted:
        raise DataError(
            f"{where}: column {columns.index('') + 1} has no name; name it in the header or "
            "remove it (pandas writes one unless told index=False)"
        )
    if not wanted:
        raise DataError(f"{where} has no columns beside the id; give it at least one feature")
    read: dict[str, Column] = {}
    notes: list[str] = []
    for c in wanted:
        reader = ColumnReader(name, c, f"{where}: column {c!r}", rules)
        if isinstance(table, TextTable) and fields is not None:
            column = reader.read_texts(table.column(fields, columns.index(c)))
        else:
            arrow: Any = table
            column = reader.read(arrow.column(c))
        notes += column.notes
        if column.feature is not None:
            read[c] = column
    if not read:
        raise DataError(
            f"{where} has no column that can be filled: each is empty, free text or labels; give "
            "it numbers or categories, or declare a column's kind (--kind)"
        )
    styles = {c: column.style or TextStyle() for c, column in read.items()} if is_text else {}
    spellings: dict[str, dict[int, bytes]] = {}
    if fields is not None:
        for c, column in read.items():
            if column.feature is not None and column.feature.kind is not Kind.NUMERIC:
                codes, rows = np.unique(column.cells, return_index=True)
                spellings[c] = {
                    int(code): table.raw(fields, int(row), columns.index(c))
                    for code, row in zip(codes.tolist(), rows.tolist(), strict=True)
                    if code == code
                }
    is_narrow = all(c.cells.dtype.itemsize <= 4 for c in read.values())
    cells = np.empty((n, len(read)), dtype=np.float32 if is_narrow else np.float64)
    features = []
    for k, c in enumerate(list(read)):
        column = read.pop(c)  # a million rows twice is enough
        cells[:, k] = column.cells
        features.append(column.feature)
    before = set(columns[: columns.index(id)]) if id is not None else set()
    id_position = sum(f.name in before for f in features)
    view = View(name, ids, cells, features, id_name=id or "", id_position=id_position)
    source = SourceTable(
        data=table,
        row_ids=ids,
        view_ids=view.ids,
        view_cells=view.cells,
        view_features=view.features,
        id_column=id,
        columns=tuple(c for c in columns if not rules.drops(name, c)),
        styles=styles,
        spellings=spellings,
        notes=tuple(notes),
        rules=rules,
    )
    return with_source(view, source)


def check_columns(columns: list[str], id: str | None, where: str) -> None:  # noqa: A002
    """Raise a `DataError` for a column that occurs twice, or an id column that is not there."""
    if len(set(columns)) != len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise DataError(f"{where}: column {twice!r} occurs more than once; rename one of them")
    if id in columns:
        return
    # Without an id to look for, columns may be called 0, 1, 2, but hardly 5.1.
    if any(NUMBER.match(c) and (id is not None or "." in c) for c in columns):
        lack = "" if id is None else f" has no id column {id!r} and"
        raise DataError(
            f"{where}{lack or ':'} its first line looks like a person's row; give it a header line"
        )
    if id is not None:
        way = suggest(id, columns)
        if len(columns) == 1:  # the header line as a whole
            way += "; if something else separates fields, say what (--delimiter space)"
        raise DataError(f"{where} has no id column {id!r}; {way}")


def read_ids(
    table: pa.Table | TextTable,
    id: str,  # noqa: A002
    where: str,
    rules: ColumnRules,
    fields: Fields | None = None,
) -> np.ndarray:
    """Return the ids of a table's rows, in its order; raise a `DataError` where one is missing.

    `fields` of a text file are looked for unless they are at hand.
    """
    if isinstance(table, TextTable):
        k = table.column_names.index(id)
        column = pa.chunked_array([table.column(fields or table.fields(), k)])
    else:
        column = table.column(id)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    text = is_text(column.type)
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


def to_table(view: View, order: str = "source") -> pa.Table:
    """Return a view as an Arrow table with the user's column types, names and order of rows.

    Examples
    --------
    >>> from cofill.views import Feature
    >>> view = View("lab", [2, 1], [[1.0, 0.0], [2.0, 1.0]],
    ...             ["age", Feature("sex", Kind.BINARY, ("f", "m"), dtype="string")],
    ...             id_name="person")
    >>> to_table(view).to_pydict()
    {'person': [1, 2], 'age': [2.0, 1.0], 'sex': ['m', 'f']}
    """
    return FilledTable(view, order=order).to_arrow()


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
