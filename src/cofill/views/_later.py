"""Later tables: columns that a model knows, read as it learned them, whatever else is there.

A column may stand elsewhere, be empty or be missing altogether; other columns are written as they
are. A category that the model never saw becomes a category of the view, so that it is written back
untouched; `conform` hides it from the model.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import DataError, SettingError
from cofill.registry import suggest
from cofill.views._arrow import arrow_type, is_number_type, is_text
from cofill.views._columns import Column, ColumnReader
from cofill.views._conform import with_categories
from cofill.views._feature import Feature, Kind
from cofill.views._frames import check_columns, read_ids
from cofill.views._ids import require_unique
from cofill.views._multiview import MultiView, require_id
from cofill.views._rules import ColumnRules
from cofill.views._schema import TableSchema, with_source
from cofill.views._source_table import SourceTable
from cofill.views._sources import Source
from cofill.views._styles import (
    NumberStyle,
    TextStyle,
    TimeStyle,
    is_number,
    number_style,
    plain_numbers,
    time_styles,
)
from cofill.views._text import TextTable
from cofill.views._view import View

_STATED = ("id_type", "na_values", "decimal", "thousands", "delimiter", "encoding", "drop")


def read_later_views(
    sources: Mapping[str, str | Path],
    schemas: Mapping[str, TableSchema],
    *,
    id: str | None = None,  # noqa: A002
    **rules: Any,
) -> MultiView:
    """Read later tables of views that a model knows.

    Parameters
    ----------
    sources
        ``{view: source}``, as in `read_views`; views may be left out.
    schemas
        What the model remembers of each view.
    id
        The id column, where it has another name than at the fit.
    rules
        ``id_type``, ``drop``, ``na_values``, ``decimal``, ``thousands``, ``delimiter`` and
        ``encoding``, where they are others than at the fit.
    """
    for name in sources:
        if name not in schemas:
            raise SettingError(f"the model has no view {name!r}; {suggest(name, schemas)}")
    unknown = set(rules) - set(_STATED)
    if unknown:
        raise SettingError(f"later tables have no rule {min(unknown)!r}; the model knows columns")
    id = next((s.id_name for s in schemas.values()), "") if id is None else id  # noqa: A001
    require_id(id or None, list(schemas))
    views = []
    for name, text in sources.items():
        source, schema = Source(str(text)), schemas[name]
        stated = {key: value for key, value in rules.items() if value not in (None, (), [])}
        kept = {f.name: getattr(schema.rules, f.name) for f in fields(schema.rules)}
        table_rules = ColumnRules(**{**kept, **stated, **source.rules})
        table = source.read(table_rules)
        views.append(
            read_later(name, table, schema, id=id or None, rules=table_rules, where=source.label)
        )
    people = MultiView(views)
    if not people.n_individuals:
        raise DataError("no table has a row; give at least one individual")
    return people


def read_later(
    name: str,
    table: pa.Table | TextTable,
    schema: TableSchema,
    *,
    id: str | None,  # noqa: A002
    rules: ColumnRules,
    where: str,
) -> View:
    """Return a later table as a view with the model's columns, in the model's order."""
    columns = list(table.column_names)
    check_columns(columns, id, where)
    known = [f.name for f in schema.features]
    if not set(known) & set(columns):
        raise DataError(
            f"{where} has none of the {len(known)} columns that the model learned of view "
            f"{name!r}; {suggest(known[0], [c for c in columns if c != id])}"
        )
    if dropped := [c for c in known if rules.drops(name, c)]:
        raise SettingError(f"column {dropped[0]!r} is filled by the model; it cannot be dropped")
    missing = [c for c in known if c not in columns]
    notes = [*_missing_note(where, missing), *_extra_note(where, columns, schema, id, rules, name)]
    features: dict[str, Feature] = {}
    styles: dict[str, TextStyle] = {}
    if isinstance(table, TextTable):
        table = table.with_columns(missing) if missing else table
        lines = table.fields()
        n = len(lines.starts) - 1
        ids = np.arange(n) if id is None else read_ids(table, id, where, rules, lines)
    else:
        lines, n = None, table.num_rows
        for column in missing:
            table = table.append_column(column, pa.nulls(n, _type_of(schema, column)))
        ids = np.arange(n) if id is None else read_ids(table, id, where, rules)
    require_unique(ids, where, rules.first_row, rules.row)
    cells = np.full((n, len(known)), np.nan)
    for k, feature in enumerate(schema.features):
        at = table.column_names.index(feature.name)
        reader = ColumnReader(name, feature.name, f"{where}: column {feature.name!r}", rules)
        later = LaterColumn(reader, feature, schema.styles.get(feature.name))
        if isinstance(table, TextTable) and lines is not None:
            column = later.read_texts(table.column(lines, at))
            styles[feature.name] = column.style or TextStyle()
        else:
            arrow: Any = table
            column = later.read(arrow.column(at))
            if np.isnan(column.cells).all():  # pandas has no better type for it than null
                empty = pa.nulls(n, _type_of(schema, feature.name))
                table = arrow.set_column(at, feature.name, empty)
        features[feature.name] = column.feature or feature
        cells[:, k] = column.cells
        notes += column.notes
    before = set(columns[: columns.index(id)]) if id is not None else set()
    view = View(
        name,
        ids,
        cells,
        list(features.values()),
        image_shape=schema.image_shape,
        id_name=id or "",
        id_position=sum(c in before for c in known),
    )
    source = SourceTable(
        data=table,
        row_ids=ids,
        view_ids=view.ids,
        view_cells=view.cells,
        view_features=view.features,
        id_column=id,
        columns=tuple(c for c in table.column_names if not rules.drops(name, c)),
        styles=styles,
        spellings={} if lines is None else _spellings(table, lines, schema, view.features, cells),
        notes=tuple(notes),
        rules=rules,
    )
    return with_source(view, source)


@dataclass(frozen=True)
class LaterColumn:
    """A column of a later table and what the model knows of it."""

    reader: ColumnReader
    feature: Feature
    style: TextStyle | None = None

    def read_texts(self, texts: pa.Array) -> Column:
        """Read a column of a text file in the style of the fit, or in another that fits."""
        tokens = self.reader.rules.missing_values(self.reader.view, self.reader.name)
        missing = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array(tokens, texts.type))
        known = pc.if_else(missing, None, texts)
        if self.feature.kind is not Kind.NUMERIC:
            return self._categories(known)
        if self.feature.is_temporal:
            return self._times(known)
        if isinstance(self.style, NumberStyle):
            known = self.style.without_unit(known)
        style, notes = self._number_style(known.drop_null())
        numbers = is_number(known, style.decimal, style.thousands)
        marks = {"decimal": style.decimal, "thousands": style.thousands or None}
        reader = replace(self.reader, rules=replace(self.reader.rules, **marks))
        if not pc.all(numbers).as_py() and known.null_count < len(known):
            blank = reader.blank_token(known.drop_null())
            if blank is None:
                raise self._wrong_cells(numbers, "text", "numbers")
            notes = (*notes, f"{reader.where}: {blank!r} was read as missing")
            known = pc.if_else(pc.equal(pc.utf8_trim_whitespace(known), blank), None, known)
        values = plain_numbers(known, style.decimal, style.thousands).cast(pa.float64())
        cells = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
        return Column(self.feature, cells, notes, style)

    def read(self, column: pa.ChunkedArray) -> Column:
        """Read a column with a type."""
        feature = self.feature
        column = self.reader.without_missing(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pc.all(pc.is_null(column, nan_is_null=True)).as_py():
            return Column(feature, np.full(len(column), np.nan))
        type_ = column.type
        if feature.kind is not Kind.NUMERIC:
            return self._categories(column)
        if pa.types.is_temporal(type_) or feature.is_temporal:
            if str(type_) != feature.dtype:
                raise self._wrong_type(f"cells of type {type_}", f"type {feature.dtype}")
        elif is_text(type_):
            numbers = is_number(column)
            if not pc.all(numbers).as_py():
                raise self._wrong_cells(numbers, "text", "numbers")
        elif not (is_number_type(type_) or pa.types.is_boolean(type_)):
            raise self._wrong_type(f"cells of type {type_}", "numbers")
        return Column(feature, self.reader.numbers(column))

    # --- numbers and times ----------------------------------------------------------------------

    def _number_style(self, known: pa.Array) -> tuple[NumberStyle, tuple[str, ...]]:
        """Return how numbers are written: by the style of the fit with this table's marks."""
        rules, style = self.reader.rules, self.style
        learned = (
            style
            if isinstance(style, NumberStyle)
            else NumberStyle(decimals=0 if self.feature.is_integer else self.feature.decimals)
        )
        if not len(known):
            return learned, ()
        marks = learned.decimal, learned.thousands
        is_stated = rules.decimal is not None or rules.thousands is not None
        if not is_stated and pc.all(is_number(known, *marks)).as_py():
            return learned, ()
        other = number_style(known, rules.decimal, rules.thousands)
        if other is None or (other.decimal, other.thousands) == marks:
            return learned, ()
        note = f"{self.reader.where}: numbers were read with the decimal mark {other.decimal!r}"
        return replace(learned, decimal=other.decimal, thousands=other.thousands), (note,)

    def _times(self, known: pa.Array) -> Column:
        """Read dates and times in the format of the fit, or in one that can be no other."""
        texts = known.drop_null()
        styles: list[TextStyle] = [self.style] if isinstance(self.style, TimeStyle) else []
        if len(texts):
            styles += [s for s in time_styles(texts) if str(s.type) == self.feature.dtype]
        elif not styles:
            styles = [_time_style(self.feature, self.reader.where)]
        if not isinstance(self.style, TimeStyle) and len(styles) > 1:
            styles = []  # day and month may be swapped
        for style in styles:
            try:
                values = style.read(known)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
            if values.null_count == known.null_count:
                cells = self.reader.numbers(pa.chunked_array([values]))
                return Column(self.feature, cells, style=style)
        template = getattr(self.style, "template", self.feature.dtype)
        raise self._wrong_type("cells that are no times of one form", f"times as {template}")

    # --- categories -----------------------------------------------------------------------------

    def _categories(self, column: Any) -> Column:
        """Return codes; values that the model never saw become categories after its own."""
        values = pc.unique(column.drop_null())
        words = values.to_pylist()
        if is_text(values.type):
            words = [self._value(word) for word in words]
        try:
            feature, codes = with_categories(self.feature, words, self.reader.where)
        except DataError:
            expected = _kind_of(self.feature.categories[0])
            fits = pa.array([w is not None and _kind_of(w) == expected for w in words])
            index = pc.index_in(column, value_set=values)
            fits = fits.take(_plain(index))
            raise self._wrong_cells(fits, "cells of another kind", expected) from None
        lookup = np.array([*codes, np.nan], dtype=np.float64)
        index = pc.fill_null(pc.index_in(column, value_set=values), len(words))
        style = self.style or TextStyle()
        return Column(feature, lookup[_plain(index).to_numpy(zero_copy_only=False)], style=style)

    def _value(self, text: str) -> Any:
        """Return a text as a value of the kind that categories are of, or as it is."""
        first = self.feature.categories[0]
        if isinstance(first, bool):
            return {"true": True, "false": False}.get(text.strip().lower(), text)
        if isinstance(first, int | float):
            style = self.style if isinstance(self.style, NumberStyle) else NumberStyle()
            texts = pa.array([text])
            if pc.all(is_number(texts, style.decimal, style.thousands)).as_py():
                plain = plain_numbers(texts, style.decimal, style.thousands)
                number = plain.cast(pa.float64())[0].as_py()
                return int(number) if number.is_integer() else number
        return text

    def _wrong_type(self, received: str, expected: str) -> DataError:
        return DataError(
            f"{self.reader.where} holds {received}, and the model learned {expected}; store the "
            "column as at the fit or leave it out"
        )

    def _wrong_cells(self, fits: Any, received: str, expected: str) -> DataError:
        bad = ~np.asarray(pc.fill_null(fits, True).to_numpy(zero_copy_only=False), dtype=bool)
        first = self.reader.rules.at(int(bad.argmax()))
        return DataError(
            f"{self.reader.where} holds {received} in {int(bad.sum())} of {len(bad)} rows (the "
            f"first is {first}), and the model learned {expected}; correct these rows or leave "
            "them empty"
        )


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "truth values"
    if isinstance(value, int | float):
        return "numbers"
    return "texts" if isinstance(value, str) else f"values of type {type(value).__name__}"


def _plain(index: Any) -> Any:
    return index.combine_chunks() if isinstance(index, pa.ChunkedArray) else index


def _time_style(feature: Feature, where: str) -> TimeStyle:
    """Return how times are written as text that the model learned from a table with types."""
    date, clock = "%Y-%m-%d", "%H:%M:%S"
    for style in (
        TimeStyle(date),
        *(TimeStyle(t, digits=d) for t in (f"{date} {clock}", clock) for d in (0, 3, 6)),
    ):
        if str(style.type) == feature.dtype:
            return style
    raise DataError(
        f"{where} is of type {feature.dtype}, which text files do not have; give the table as a "
        ".parquet file"
    )


def _type_of(schema: TableSchema, column: str) -> pa.DataType:
    feature = next(f for f in schema.features if f.name == column)
    values = arrow_type(feature.dtype)
    return pa.dictionary(pa.int32(), values, feature.ordered) if feature.dictionary else values


def _spellings(
    table: Any, lines: Any, schema: TableSchema, features: Sequence[Feature], cells: np.ndarray
) -> dict[str, dict[int, bytes]]:
    """Return how categories are written: as first in this table, else as in that of the fit."""
    spellings = {}
    for k, feature in enumerate(features):
        if feature.kind is not Kind.NUMERIC:
            at = table.column_names.index(feature.name)
            codes, first = np.unique(cells[:, k], return_index=True)
            spellings[feature.name] = schema.spelled(feature, table) | {
                int(code): table.raw(lines, int(row), at)
                for code, row in zip(codes.tolist(), first.tolist(), strict=True)
                if code == code
            }
    return spellings


def _missing_note(where: str, missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    columns = "column" if len(missing) == 1 else "columns"
    return [f"{where} has no {columns} {_listed(missing)}; filled for everybody, at the end"]


def _extra_note(
    where: str,
    columns: Sequence[str],
    schema: TableSchema,
    id: str | None,  # noqa: A002
    rules: ColumnRules,
    view: str,
) -> list[str]:
    known = {id, *schema.passed, *(f.name for f in schema.features)}
    extra = [c for c in columns if c not in known and not rules.drops(view, c)]
    if not extra:
        return []
    return [f"{where}: the model does not know {_listed(extra)}; passed through"]


def _listed(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
