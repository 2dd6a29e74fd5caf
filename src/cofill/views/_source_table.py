"""The table a view was read from, and the same table with its holes filled.

A cell that the view still holds as it was read is written as the very Arrow value or the very bytes
of its source. Cells that were filled, changed or hidden since are formatted anew. Rows stand in the
source's order and new people after them.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import SettingError
from cofill.views._arrow import cells_to_arrow, take_rows, time_step, with_values
from cofill.views._feature import Feature, Kind
from cofill.views._formulas import escaped_field, escaped_text, formulas_in, starts_formula
from cofill.views._ids import positions
from cofill.views._rules import ColumnRules
from cofill.views._styles import NumberStyle, TextStyle
from cofill.views._text import Edits, TextTable

if TYPE_CHECKING:
    from cofill.views._view import View

ORDERS = ("source", "id")


@dataclass(frozen=True, eq=False, repr=False)
class SourceTable:
    """Where a view's rows came from; never stored and never sent.

    Parameters
    ----------
    data
        The whole table in its own order: Arrow, or a text file's bytes.
    row_ids
        The id of each row of `data`.
    view_ids, view_cells, view_features
        The view as it was read, shared with it, to know which cells are still as they were.
    id_column
        The id's column; None where rows are only numbered.
    columns
        Columns to write, in their order.
    styles, spellings
        Of a text file: how each column is written, and each code of its coded columns.
    notes
        What was found out about columns, in sentences.
    rules
        What the user said about columns.
    has_blank_rows
        Whether rows without any known cell are written too.
    """

    data: pa.Table | TextTable
    row_ids: np.ndarray
    view_ids: np.ndarray
    view_cells: np.ndarray
    view_features: tuple[Feature, ...]
    id_column: str | None
    columns: tuple[str, ...]
    styles: Mapping[str, TextStyle] = field(default_factory=dict)
    spellings: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rules: ColumnRules = field(default_factory=ColumnRules)
    has_blank_rows: bool = True

    @cached_property
    def read_rows(self) -> np.ndarray:
        """Where each row of `data` stands in the view as it was read, −1 where it is blank."""
        return positions(self.view_ids, self.row_ids)

    @cached_property
    def blank_ids(self) -> np.ndarray:
        """Ids of rows of which no other cell is known, if these are written."""
        if not self.has_blank_rows:
            return self.row_ids[:0]
        return np.sort(self.row_ids[self.read_rows < 0])

    def without_blank_rows(self) -> SourceTable:
        """Return the source of a view over chosen rows."""
        return replace(self, has_blank_rows=False)

    def select(self, features: tuple[str, ...]) -> SourceTable:
        """Return the source of a view with these features: other columns are not written."""
        columns = (self.id_column, *features)
        return replace(self, columns=tuple(c for c in self.columns if c in columns))


@dataclass(frozen=True, eq=False, repr=False)
class FilledTable:
    """A view as a table in its source's form; written by `write_table`.

    Parameters
    ----------
    view
        The view; without a source its rows stand in the order of ids.
    beside
        More columns of numbers, one value per row of the view.
    order
        ``"source"``: rows as in the source, then new people by id; ``"id"``: all by id.
    formulas
        ``"escape"``: fields of text that a spreadsheet would compute are made plain.
    """

    view: View
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)
    order: str = "source"
    formulas: str = "keep"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise SettingError(f"order must be 'source' or 'id', got {self.order!r}")

    @property
    def source(self) -> SourceTable | None:
        """Where the view came from."""
        return self.view.source

    @property
    def has_text(self) -> bool:
        """Whether the source is a text file, whose bytes can be kept."""
        return self.source is not None and isinstance(self.source.data, TextTable)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the source's row and the view's row of each written row, −1 where it has none."""
        view, source = self.view, self.source
        if source is None:
            return np.full(len(view), -1), np.arange(len(view))
        at = view.positions(source.row_ids)
        wanted = at >= 0
        wanted |= source.has_blank_rows & (source.read_rows < 0)
        old = np.flatnonzero(wanted)
        is_new = np.ones(len(view), dtype=bool)
        is_new[at[at >= 0]] = False
        new = np.flatnonzero(is_new)
        source_rows = np.concatenate([old, np.full(len(new), -1)])
        view_rows = np.concatenate([at[old], new])
        if self.order == "id":
            order = np.argsort(self.ids(source_rows, view_rows), kind="stable")
            source_rows, view_rows = source_rows[order], view_rows[order]
        return source_rows, view_rows

    def ids(self, source_rows: np.ndarray, view_rows: np.ndarray) -> np.ndarray:
        """Return the id of each written row."""
        if self.source is None or not len(self.source.row_ids):
            return self.view.ids[view_rows]
        old = self.source.row_ids[source_rows]
        if not (source_rows < 0).any():
            return old
        return np.where(source_rows < 0, self.view.ids[view_rows], old)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with the source's types, in its order, with all its columns."""
        source_rows, view_rows = self.rows()
        columns: dict[str, Any] = {}
        if self.source is None:
            columns = _plain_columns(self.view)
            schema = None
        else:
            data = self._arrow_source()
            features = {f.name: k for k, f in enumerate(self.view.features)}
            taken = take_rows(data, source_rows)
            for name in self.source.columns:
                column = taken.column(name)
                if name == self.source.id_column:
                    column = self._with_new_ids(column, source_rows, view_rows)
                elif name in features:
                    column = self._filled(column, features[name], source_rows, view_rows)
                columns[name] = column
            schema = pa.schema(
                [data.schema.field(n).with_type(c.type) for n, c in columns.items()],
                metadata=data.schema.metadata,
            )
        table = pa.table(columns) if schema is None else pa.table(list(columns.values()), schema)
        for name, values in self.beside.items():
            ends = _at(values.astype(np.float64), view_rows)
            table = table.append_column(name, pa.array(ends, mask=np.isnan(ends)))
        return table

    def to_text(self) -> Iterator[bytes]:
        """Yield the text file's bytes with holes filled, in pieces."""
        assert self.source is not None  # noqa: S101
        assert isinstance(self.source.data, TextTable)  # noqa: S101
        text, fields = self.source.data, self.source.data.fields()
        names = self.source.data.column_names
        source_rows, view_rows = self.rows()
        is_old = source_rows >= 0
        old, old_view = source_rows[is_old], view_rows[is_old]
        new = view_rows[~is_old]
        is_tail = bool(is_old[: len(old)].all())  # new people come after all others
        if not np.array_equal(old, np.arange(len(fields.starts) - 1)):
            text, fields = text.in_order(fields, old)
        edits = Edits(fields, names)
        filled: dict[str, np.ndarray] = {}
        for k, feature in enumerate(self.view.features):
            if feature.name in self.source.columns:
                changed, cells = self._changes(k, old, old_view)
                edits.fill(feature.name, changed, self._field_texts(text, feature, cells[changed]))
                filled[feature.name] = changed
        if self.formulas == "escape":
            self._escape_fields(text, edits, filled)
        edits.keep(self.source.columns)
        new_fields = {c: [b""] * len(new) for c in self.source.columns}
        for k, feature in enumerate(self.view.features):
            if feature.name in new_fields:
                new_fields[feature.name] = self._field_texts(text, feature, self.view.cells[new, k])
        if self.source.id_column is not None:
            ids = self.view.ids[new].tolist()
            new_fields[self.source.id_column] = [self._field(text, str(value)) for value in ids]
        marks = [s.decimal for s in self.source.styles.values() if isinstance(s, NumberStyle)]
        style = NumberStyle("," if "," in marks else ".", decimals=None)
        for name, values in self.beside.items():
            written = _number_fields(text, style, Feature(name), values)
            edits.append(
                text.delimiter.encode(), self._field(text, name), [written[k] for k in old_view]
            )
            new_fields[name] = [written[k] for k in new]
        lines = [
            text.delimiter.encode().join(parts) + text.line_end
            for parts in zip(*new_fields.values(), strict=True)
        ]
        if is_tail:
            return text.edited(*edits.joined(), b"".join(lines))
        # New people stand between others: their lines are inserted before the record they precede.
        before = np.cumsum(is_old)[~is_old] + 1
        ends = np.append(fields.begins, fields.closes[-1])[before]
        edits.insert(ends, lines)
        return text.edited(*edits.joined())

    # --- cells ----------------------------------------------------------------------------------

    def _changes(
        self, k: int, source_rows: np.ndarray, view_rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which source rows' cells of a feature changed since reading, and all its cells."""
        assert self.source is not None  # noqa: S101
        feature = self.view.features[k]
        then = np.full(len(source_rows), np.nan)
        read = [f.name for f in self.source.view_features]
        if feature.name in read:
            at = self.source.read_rows[source_rows]
            then = _at(self.source.view_cells[:, read.index(feature.name)].astype(np.float64), at)
        now = _at(self.view.cells[:, k].astype(np.float64), view_rows)
        is_same = (now == then) | (np.isnan(now) & np.isnan(then))
        return np.flatnonzero(~is_same & (view_rows >= 0)), now

    def _with_new_ids(
        self, column: pa.ChunkedArray, source_rows: np.ndarray, view_rows: np.ndarray
    ) -> pa.ChunkedArray:
        is_new = source_rows < 0
        if not is_new.any():
            return column
        return with_values(
            column, np.flatnonzero(is_new), pa.array(self.view.ids[view_rows[is_new]])
        )

    def _filled(
        self, column: pa.ChunkedArray, k: int, source_rows: np.ndarray, view_rows: np.ndarray
    ) -> pa.ChunkedArray:
        old = np.flatnonzero(source_rows >= 0)
        changed, cells = self._changes(k, source_rows[old], view_rows[old])
        new = np.flatnonzero(source_rows < 0)
        if not len(changed) and not len(new):
            return column
        at = np.concatenate([old[changed], new])
        cells = np.concatenate([cells[changed], self.view.cells[view_rows[new], k]])
        step = time_step(column) if self.view.features[k].is_temporal else 1
        values = cells_to_arrow(self.view.features[k], cells, column.type, step)
        return with_values(column, at, values)

    def _arrow_source(self) -> pa.Table:
        """Return the source as Arrow; a text file's columns with the types they were read with."""
        assert self.source is not None  # noqa: S101
        data = self.source.data
        if isinstance(data, pa.Table):
            return data
        fields, columns = data.fields(), {}
        kinds = {f.name: f for f in self.source.view_features}
        for k, name in enumerate(data.column_names):
            texts = data.column(fields, k)
            if name == self.source.id_column and self.source.row_ids.dtype.kind == "i":
                columns[name] = texts.cast(pa.int64())
            elif name in kinds:
                at = self.source.read_rows
                index = [f.name for f in self.source.view_features].index(name)
                known = ~np.isnan(_at(self.source.view_cells[:, index].astype(np.float64), at))
                known_texts = pc.if_else(pa.array(known), texts, None)
                columns[name] = self.source.styles[name].read(known_texts)
            else:
                columns[name] = texts.cast(pa.string())
        return pa.table(columns)

    def _escape_fields(
        self, text: TextTable, edits: Edits, filled: Mapping[str, np.ndarray]
    ) -> None:
        """Make fields that stay as they were read, and the names of columns, start no formula."""
        assert self.source is not None  # noqa: S101
        numbers = {f.name for f in self.source.view_features if f.kind is Kind.NUMERIC}
        for k, name in enumerate(text.column_names):
            if name not in self.source.columns:
                continue
            if starts_formula(name):
                edits.fill(name, np.array([-1]), [self._field(text, name)])
            if name in numbers or not text.may_start_formula(edits.fields, k):
                continue
            is_formula = formulas_in(text.column(edits.fields, k)).to_numpy(zero_copy_only=False)
            is_formula[filled.get(name, [])] = False
            rows = np.flatnonzero(is_formula)
            raw = [text.raw(edits.fields, row, k) for row in rows.tolist()]
            edits.fill(name, rows, [escaped_field(field) for field in raw])

    def _field(self, text: TextTable, value: str) -> bytes:
        """Return a text as a field of the file."""
        return text.field(escaped_text(value) if self.formulas == "escape" else value)

    def _field_texts(self, text: TextTable, feature: Feature, cells: np.ndarray) -> list[bytes]:
        """Return cells as fields in the column's own style."""
        assert self.source is not None  # noqa: S101
        style = self.source.styles.get(feature.name, TextStyle())
        if feature.kind is Kind.NUMERIC:
            return _number_fields(text, style, feature, cells)
        spelled = dict(self.source.spellings.get(feature.name, {}))
        codes = np.where(np.isnan(cells), -1, cells).astype(int)
        for code in np.unique(codes[codes >= 0]).tolist():
            if code not in spelled:
                spelled[code] = text.field(style.write(feature, np.array([float(code)]))[0])
            if self.formulas == "escape":
                spelled[code] = escaped_field(spelled[code])
        spelled[-1] = b""
        return [spelled[code] for code in codes.tolist()]


def _at(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return values at rows; NaN for −1."""
    if not len(values):
        return np.full(len(rows), np.nan)
    return np.where(rows < 0, np.nan, values[rows])


def _plain_columns(view: View) -> dict[str, pa.Array]:
    arrays = [cells_to_arrow(f, view.cells[:, k]) for k, f in enumerate(view.features)]
    columns = list(zip(view.feature_names, arrays, strict=True))
    if view.id_name:
        columns.insert(view.id_position, (view.id_name, pa.array(view.ids)))
    return dict(columns)


def _number_fields(
    text: TextTable, style: TextStyle, feature: Feature, cells: np.ndarray
) -> list[bytes]:
    missing = np.isnan(cells)
    written = style.write(feature, np.where(missing, 0.0, cells.astype(np.float64)))
    needs_quotes = text.delimiter in "".join(written)
    encoded = [text.field(t) if needs_quotes else t.encode() for t in written]
    return [b"" if gap else t for t, gap in zip(encoded, missing.tolist(), strict=True)]
