"""SQL tables and queries as views: ``URL#table``, ``URL#schema.table`` or ``URL#SELECT …``.

Reading streams chunks into Arrow inside a read-only session; writing is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.registry import suggest
from cofill.views._arrow import is_text
from cofill.views._rules import ColumnRules
from cofill.views._sources import AbstractSourceForm
from cofill.views._sql_connection import DatabaseSource, connect, sqlite_path

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_CHUNK = 10_000  # rows at a time, so that a large table is never held as Python objects
_MOST_DIGITS = 38  # of Arrow's decimal128
_SCALARS = (bool, int, float, Decimal, str)


class SqlForm(AbstractSourceForm):
    """Tables and queries of a database; results on them are written as files or by `write_sql`."""

    schemes = ("postgresql", "postgres", "sqlite")

    def read(self, target: str, rules: ColumnRules) -> pa.Table:
        return read_sql(target)


def read_sql(text: str) -> pa.Table:
    """Read a table or a query's result as an Arrow table, a chunk of rows at a time.

    Whole numbers become ``int64``, floats ``double``, decimals ``decimal128``, truth values
    ``bool``, dates and times their Arrow types, text and UUIDs ``string``; a column without any
    value has Arrow's ``null`` type. The session is read-only in PostgreSQL and SQLite.

    Parameters
    ----------
    text
        ``URL#table``, ``URL#schema.table``, or ``URL#query``: what holds a space is a query.
    """
    source = DatabaseSource.parse(text)
    if not source.target:
        raise SettingError(
            f"{source.label}: this names a database but no table in it; "
            "add #table or '#SELECT …' to the URL"
        )
    with connect(source) as connection:
        _forbid_writing(connection)
        truths: frozenset[str] = frozenset()
        streaming = connection.execution_options(
            stream_results=True, max_row_buffer=_CHUNK, no_parameters=source.is_query
        )
        if source.is_query:
            result = streaming.exec_driver_sql(source.target)
        else:
            from sqlalchemy import literal_column, select, table

            schema, name = source.table
            truths = _require_table(connection, source)
            result = streaming.execute(
                select(literal_column("*")).select_from(table(name, schema=schema))
            )
        if not result.returns_rows:
            raise DataError(f"{source.label}: the query returns no table; give a SELECT")
        names = list(result.keys())
        chunks: list[list[pa.Array]] = [[] for _ in names]
        while rows := result.fetchmany(_CHUNK):
            for k, values in enumerate(zip(*rows, strict=True)):
                chunks[k].append(values_to_arrow(values, f"{source.label}: column {names[k]!r}"))
    columns = []
    for k, name in enumerate(names):
        column = _unified(chunks[k], f"{source.label}: column {name!r}")
        chunks[k] = []
        if name in truths and pa.types.is_integer(column.type):
            column = column.cast(pa.bool_())
        columns.append(column)
    return pa.table(columns, names=names)


def write_sql(tables: Mapping[str, pa.Table], url: str, *, schema: str | None = None) -> None:
    """Write Arrow tables as new tables of a PostgreSQL or SQLite database: all of them or none.

    Columns become ``BIGINT``, ``DOUBLE PRECISION``, ``BOOLEAN``, ``TEXT``, ``NUMERIC``, ``DATE``,
    ``TIME``, ``TIMESTAMP`` or ``INTERVAL``; SQLite, which lacks the latter, gets floats and ISO
    text. Null and NaN become ``NULL``; dictionary columns are written as their values.

    Parameters
    ----------
    tables
        An Arrow table per name of the new table. A name in use already is a `DataError`.
    url
        The database, without a ``#``. An SQLite file is made where there is none.
    schema
        Where the tables are made, if not in the database's default schema.
    """
    source = DatabaseSource.parse(url)
    if source.target:
        raise SettingError(
            f"{source.label}: to write, give the database alone, without anything after '#'"
        )
    is_plain = source.url.startswith("sqlite")
    writable = {
        name: _writable(table, f"{source.label}: table {name!r}", is_plain)
        for name, table in tables.items()
    }
    new_file = sqlite_path(source.url)
    if new_file is not None and new_file.exists():
        new_file = None
    try:
        with connect(source, writes=True) as connection:
            targets = {
                name: _new_table(connection, source, name, table, schema)
                for name, table in writable.items()
            }
            for name, target in targets.items():
                _insert(connection, target, writable[name])
    except BaseException:
        if new_file is not None:
            new_file.unlink(missing_ok=True)
        raise


def check_new_tables(names: Sequence[str], url: str, *, schema: str | None = None) -> None:
    """Raise a `DataError` unless the database is there and has none of these tables yet.

    `write_sql` checks again; asking first saves the work that would be lost.
    """
    source = DatabaseSource.parse(url)
    path = sqlite_path(source.url)
    if path is not None and not path.exists():
        return
    with connect(source) as connection:
        for name in names:
            _require_free(connection, source, name, schema)


def _require_free(
    connection: Connection, source: DatabaseSource, name: str, schema: str | None
) -> None:
    from sqlalchemy import inspect

    if inspect(connection).has_table(name, schema=schema):
        raise DataError(
            f"{source.label}: table {name!r} exists already and is left as it is; "
            "give another name or drop it first"
        )


def _forbid_writing(connection: Connection) -> None:
    statement = {
        "sqlite": "PRAGMA query_only = ON",
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    }.get(connection.dialect.name)
    if statement:
        connection.exec_driver_sql(statement)
        connection.commit()


def _require_table(connection: Connection, source: DatabaseSource) -> frozenset[str]:
    """Check that the table is there; return the truth columns of a database that stores 0 and 1."""
    from sqlalchemy import Boolean, inspect

    inspector = inspect(connection)
    schema, name = source.table
    schemas = inspector.get_schema_names()
    if (schema is None or schema in schemas) and inspector.has_table(name, schema=schema):
        if connection.dialect.name == "sqlite":
            columns = inspector.get_columns(name, schema=schema)
            return frozenset(c["name"] for c in columns if isinstance(c["type"], Boolean))
        return frozenset()
    known = []
    for known_schema in schemas:
        if known_schema in ("information_schema", "pg_catalog"):
            continue
        prefix = "" if known_schema == inspector.default_schema_name else f"{known_schema}."
        names = inspector.get_table_names(known_schema) + inspector.get_view_names(known_schema)
        known += [prefix + table for table in names]
    raise DataError(
        f"{source.label}: there is no such table; {suggest(source.target, sorted(known))}"
    )


def values_to_arrow(values: Sequence[Any], where: str) -> pa.Array:
    """Turn one column of one chunk into Arrow."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int}:
        try:
            return pa.array(values, pa.int64())
        except (OverflowError, pa.ArrowInvalid):
            kinds = {float}
    if kinds == {str}:
        return pa.array(values, pa.string())
    if kinds == {Decimal}:
        try:
            return pa.array(values)
        except pa.ArrowInvalid:  # NaN, or more digits than Arrow has
            pass
    if kinds <= {bool, int, float, Decimal}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if kinds <= {*_SCALARS, UUID}:
        # SQLite lets text stand in a number column; whoever types the column finds the rows.
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    if kinds <= {date, datetime, time, timedelta, bytes}:
        try:
            return pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError):
            pass
    names = ", ".join(sorted(k.__name__ for k in kinds))
    raise DataError(
        f"{where} holds values of type {names}, which cannot be read; cast it in a query"
    )


def _unified(chunks: Sequence[pa.Array], where: str) -> pa.ChunkedArray:
    """Join the chunks of a column: null gives way, whole numbers to floats, numbers to text."""
    if not chunks:
        return pa.chunked_array([], pa.null())
    types = {c.type for c in chunks} - {pa.null()}
    numbers = {pa.bool_(), pa.int64(), pa.float64()}
    if len(types) <= 1:
        joint = next(iter(types), pa.null())
    elif all(pa.types.is_decimal(t) for t in types):
        scale = max(t.scale for t in types)
        digits = max(t.precision - t.scale for t in types) + scale
        joint = pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else pa.float64()
    elif all(t in numbers or pa.types.is_decimal(t) for t in types):
        joint = pa.float64()
    elif types <= numbers | {pa.string()}:
        joint = pa.string()
    else:
        names = ", ".join(sorted(map(str, types)))
        raise DataError(f"{where} changes its type between rows ({names}); cast it in a query")
    return pa.chunked_array([c.cast(joint, safe=False) for c in chunks], joint)


def _writable(table: pa.Table, where: str, is_plain: bool) -> pa.Table:
    """Return the table with only types that are written, NaN as null.

    A plain database has no decimals, dates and times: they become floats and ISO text.
    """
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        is_time = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
        if pa.types.is_integer(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and is_plain):
            numbers = column.cast(pa.float64()).to_numpy()
            column = pa.chunked_array([pa.array(numbers, from_pandas=True)])  # NaN to null
        elif is_text(kind) or pa.types.is_null(kind):
            column = column.cast(pa.string())
        elif is_time:
            if pa.types.is_timestamp(kind):
                column = column.cast(pa.timestamp("us", kind.tz), safe=False)
            if is_plain:
                texts = [None if v is None else str(v) for v in column.to_pylist()]
                column = pa.chunked_array([pa.array(texts, pa.string())])
        elif not (
            pa.types.is_boolean(kind)
            or ((pa.types.is_decimal(kind) or pa.types.is_duration(kind)) and not is_plain)
        ):
            raise DataError(
                f"{where}: column {name!r} of type {kind} cannot be written; convert it"
            )
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _sql_type(kind: pa.DataType) -> Any:
    """Return the column type of a new table."""
    import sqlalchemy as sql

    if pa.types.is_decimal(kind):
        return sql.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sql.DateTime(timezone=kind.tz is not None)
    if pa.types.is_date(kind):
        return sql.Date()
    if pa.types.is_time(kind):
        return sql.Time()
    if pa.types.is_duration(kind):
        return sql.Interval()
    if pa.types.is_boolean(kind):
        return sql.Boolean()
    return {pa.int64(): sql.BigInteger, pa.float64(): sql.Double, pa.string(): sql.Text}[kind]()


def _new_table(
    connection: Connection, source: DatabaseSource, name: str, table: pa.Table, schema: str | None
) -> Table:
    """Create an empty table."""
    from sqlalchemy import Column, MetaData, Table

    longest = connection.dialect.max_identifier_length
    for text in (name, *table.column_names):
        if not text or len(text.encode()) > longest:
            raise DataError(
                f"{source.label}: the name {text!r} must have 1 to {longest} bytes; shorten it"
            )
    _require_free(connection, source, name, schema)
    columns = [Column(f.name, _sql_type(f.type), autoincrement=False) for f in table.schema]
    new_table = Table(name, MetaData(), *columns, schema=schema)
    new_table.create(connection, checkfirst=False)
    return new_table


def _insert(connection: Connection, target: Table, table: pa.Table) -> None:
    batches = (
        zip(*(c.to_pylist() for c in b.columns), strict=True) for b in table.to_batches(_CHUNK)
    )
    if connection.dialect.name == "postgresql":
        from psycopg import sql

        names = [sql.Identifier(c) for c in table.column_names]
        path = [target.name] if target.schema is None else [target.schema, target.name]
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(*path), sql.SQL(", ").join(names)
        )
        driver: Any = connection.connection.driver_connection
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for batch in batches:
                for row in batch:
                    copy.write_row(row)
        return
    preparer = connection.dialect.identifier_preparer
    columns = ", ".join(preparer.quote_identifier(c) for c in table.column_names)
    marks = ", ".join("?" * table.num_columns)
    # Both names are quoted identifiers and the cells are bound.
    insert = f"INSERT INTO {preparer.format_table(target)} ({columns}) VALUES ({marks})"  # noqa: S608
    for batch in batches:
        if rows := list(batch):
            connection.exec_driver_sql(insert, rows)
