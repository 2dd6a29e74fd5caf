"""SQL tables and queries as views: ``URL#table``, ``URL#schema.table`` or ``URL#SELECT …``.

Reading streams chunks into Arrow inside a read-only session; writing is one transaction. A message
names the dialect, host, database and table, never a password, a query's text or a row: what a
database says about a fault is passed on only where it speaks of names and syntax.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from cofill.errors import DataError, SettingError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

__all__ = ["check_new_tables", "read_sql", "safe_label", "write_sql"]

_CHUNK = 10_000
_PATIENCE = 10  # seconds until a host that does not answer is given up
_SCALARS = (bool, int, float, Decimal, str)
_URL = re.compile(
    r"""(?P<dialect>[a-z][a-z0-9_]*)(?P<driver>\+[a-z0-9_]+)?://
        ((?P<user>[^@:/\s]*)(:[^@\s]*)?@)?    # a password may hold a '#', so it is matched first
        (?P<place>[^?\#]*)(\?[^\#]*)?
        (?P<end>\#(?P<target>.*))?$""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class _Source:
    """A source taken apart: the database, what is asked of it, and how both may be shown."""

    url: str
    database: str
    target: str

    @property
    def is_query(self) -> bool:
        return bool(re.search(r"\s", self.target))

    @property
    def table(self) -> tuple[str | None, str]:
        schema, _, name = self.target.rpartition(".")
        return schema or None, name

    @property
    def label(self) -> str:
        shown = "(query)" if self.is_query else self.target
        return f"{self.database}#{shown}" if shown else self.database


def _take_apart(text: str) -> _Source | None:
    """Return None where the URL is such that a piece of a password could pass for a host."""
    found = _URL.match(text.strip())
    if found is None:
        return None
    user, place = found["user"], found["place"]
    host, _, _ = place.partition("/")
    if "@" in (host if user is None else place) or re.search(r":(?!\d*$)(?![^\[]*\])", host):
        return None
    database = f"{found['dialect']}://{f'{user}@' if user else ''}{place}"
    end = len(found[0]) if found["end"] is None else found.start("end")
    return _Source(found[0][:end], database, (found["target"] or "").strip())


def safe_label(text: str) -> str:
    """Return what may be shown of a source: no password, no text of a query.

    Examples
    --------
    >>> safe_label("postgresql://ada:secret@db.example/ward#public.lab")
    'postgresql://ada@db.example/ward#public.lab'
    >>> safe_label("postgresql://ada:secret@db.example/ward#SELECT * FROM lab WHERE id = 7")
    'postgresql://ada@db.example/ward#(query)'
    """
    source = _take_apart(text)
    return source.label if source else f"{text.partition(':')[0]}://…"


def read_sql(text: str) -> pa.Table:
    """Read a table or a query's result as an Arrow table, a chunk of rows at a time.

    Whole numbers become ``int64``, floats and decimals ``double``, truth values ``bool``, text and
    UUIDs ``string``; a column without any value has Arrow's ``null`` type. The session is read-only
    in PostgreSQL and SQLite.

    Parameters
    ----------
    text
        ``URL#table``, ``URL#schema.table``, or ``URL#query``: what holds a space is a query.
    """
    source = _parse(text)
    if not source.target:
        raise SettingError(
            f"{source.label}: this names a database but no table in it; "
            "add #table or '#SELECT …' to the URL"
        )
    with _engine(source) as engine, _connection(engine, source) as connection:
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
                chunks[k].append(_to_arrow(values, f"{source.label}: column {names[k]!r}"))
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

    Columns become ``BIGINT``, ``DOUBLE PRECISION``, ``BOOLEAN`` or ``TEXT``; null and NaN become
    ``NULL``; dictionary columns are written as their values.

    Parameters
    ----------
    tables
        An Arrow table per name of the new table. A name in use already is a `DataError`.
    url
        The database, without a ``#``. An SQLite file is made where there is none.
    schema
        Where the tables are made, if not in the database's default schema.
    """
    source = _parse(url)
    if source.target:
        raise SettingError(
            f"{source.label}: to write, give the database alone, without anything after '#'"
        )
    plain = {
        name: _writable(table, f"{source.label}: table {name!r}") for name, table in tables.items()
    }
    new_file = _sqlite_path(source.url)
    if new_file is not None and new_file.exists():
        new_file = None
    try:
        with (
            _engine(source, may_create=True) as engine,
            _connection(engine, source, writes=True) as connection,
        ):
            made = [
                (_new_table(connection, source, name, table, schema), table)
                for name, table in plain.items()
            ]
            for target, table in made:
                _insert(connection, target, table)
    except BaseException:
        if new_file is not None:
            new_file.unlink(missing_ok=True)
        raise


def check_new_tables(names: Sequence[str], url: str, *, schema: str | None = None) -> None:
    """Raise a `DataError` unless the database is there and has none of these tables yet.

    `write_sql` checks again; asking first saves the work that would be lost.
    """
    source = _parse(url)
    path = _sqlite_path(source.url)
    if path is not None and not path.exists():
        return
    with _engine(source) as engine, _connection(engine, source) as connection:
        for name in names:
            _require_free(connection, source, name, schema)


def _require_free(connection: Connection, source: _Source, name: str, schema: str | None) -> None:
    from sqlalchemy import inspect

    if inspect(connection).has_table(name, schema=schema):
        raise DataError(
            f"{source.label}: table {name!r} exists already and is left as it is; "
            "give another name or drop it first"
        )


def _parse(text: str) -> _Source:
    source = _take_apart(text)
    if source is None:
        raise SettingError(
            f"{safe_label(text)}: this database URL cannot be read; write "
            "dialect://user:password@host:port/database#table and special characters of the "
            "password as %40 for @, %23 for #"
        )
    return source


@contextmanager
def _engine(source: _Source, *, may_create: bool = False) -> Iterator[Engine]:
    try:
        from sqlalchemy import create_engine, event, make_url
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
        from sqlalchemy.pool import NullPool
    except ImportError:
        raise SettingError(_needs_extra()) from None
    database = source.database
    dialect = database.partition(":")[0]
    try:
        url = make_url(source.url)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        options = {}
        if url.drivername == "postgresql+psycopg" and "connect_timeout" not in url.query:
            options["connect_timeout"] = _PATIENCE
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=options)
    except (NoSuchModuleError, ArgumentError, ValueError):
        raise SettingError(
            f"{database}: databases of the kind {dialect!r} are not known or the URL is "
            "incomplete; use postgresql:// or sqlite:///"
        ) from None
    except ModuleNotFoundError as error:
        if dialect.startswith("postgres"):
            raise SettingError(_needs_extra()) from None
        raise SettingError(
            f"{database}: reading {dialect} databases needs the Python package {error.name!r}; "
            "install it"
        ) from None
    if may_create and engine.dialect.name not in ("postgresql", "sqlite"):
        raise SettingError(
            f"{database}: tables can be written to PostgreSQL and SQLite, which can undo a write "
            f"as a whole, got {dialect}; write files instead"
        )
    if engine.dialect.name == "sqlite":
        _check_sqlite_file(source, may_create=may_create)
        # Python's sqlite3 begins no transaction before CREATE TABLE; SQLAlchemy shall.
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    try:
        yield engine
    finally:
        engine.dispose()


def _needs_extra() -> str:
    return "reading databases needs the extra 'sql': pip install 'cofill[sql]'"


def _sqlite_path(url: str) -> Path | None:
    """Return the file behind an SQLite URL; None for another dialect or no plain file."""
    found = re.match(r"sqlite(\+[a-z0-9_]+)?:///([^?]*)", url)
    if not found or found[2] in ("", ":memory:") or found[2].startswith("file:"):
        return None
    return Path(found[2])


def _check_sqlite_file(source: _Source, *, may_create: bool) -> None:
    path = _sqlite_path(source.url)
    if path is None:
        if "file:" in source.url:
            return
        raise SettingError(f"{source.label}: name the database's file, as in sqlite:///lab.db")
    if path.is_dir():
        raise DataError(f"{source.label}: the database is a folder; give a file")
    if may_create and not path.parent.is_dir():
        raise DataError(f"{source.label}: there is no folder for this file; make it first")
    # SQLite would make an empty database and then miss the table.
    if not may_create and not path.exists():
        raise DataError(f"{source.label}: there is no such database file; check the path")


@contextmanager
def _connection(engine: Engine, source: _Source, *, writes: bool = False) -> Iterator[Connection]:
    """Give a connection; committed at the end when it `writes`, else rolled back."""
    from sqlalchemy.exc import SAWarning, SQLAlchemyError

    driver_error = engine.dialect.loaded_dbapi.Error
    try:
        connection = engine.connect()
    except (SQLAlchemyError, driver_error) as error:
        raise DataError(
            f"{source.label}: cannot connect to the database: {_connection_fault(error)}"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # column types that we do not use
            yield connection
        if writes:
            connection.commit()
    except (SQLAlchemyError, driver_error) as error:
        what = "the tables were not written" if writes else "this could not be read"
        raise DataError(f"{source.label}: {what}, the database says: {_fault(error)}") from None
    finally:
        connection.close()


def _forbid_writing(connection: Connection) -> None:
    statement = {
        "sqlite": "PRAGMA query_only = ON",
        "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    }.get(connection.dialect.name)
    if statement:
        connection.exec_driver_sql(statement)
        connection.commit()


def _require_table(connection: Connection, source: _Source) -> frozenset[str]:
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
    for one in schemas:
        if one in ("information_schema", "pg_catalog"):
            continue
        prefix = "" if one == inspector.default_schema_name else f"{one}."
        tables = [*inspector.get_table_names(schema=one), *inspector.get_view_names(schema=one)]
        known += [prefix + t for t in tables]
    raise DataError(f"{source.label}: there is no such table{_closest(source.target, known)}")


def _closest(wanted: str, known: Sequence[str]) -> str:
    if not known:
        return "; the database has none"
    by_lower = {k.lower(): k for k in known} | {k.lower().rpartition(".")[2]: k for k in known}
    last = wanted.lower().rpartition(".")[2]
    for text in (wanted.lower(), last):
        if close := get_close_matches(text, by_lower, n=1):
            return f"; did you mean {by_lower[close[0]]!r}?"
    some = ", ".join(repr(k) for k in sorted(known)[:8])
    return f"; there is {some}{', …' if len(known) > 8 else ''}"


def _to_arrow(values: Sequence[Any], where: str) -> pa.Array:
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
    elif types <= numbers:
        joint = pa.float64()
    elif types <= numbers | {pa.string()}:
        joint = pa.string()
    else:
        names = ", ".join(sorted(map(str, types)))
        raise DataError(f"{where} changes its type between rows ({names}); cast it in a query")
    return pa.chunked_array([c.cast(joint, safe=False) for c in chunks], joint)


def _writable(table: pa.Table, where: str) -> pa.Table:
    """Return the table with only the four types that are written, NaN as null."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        if pa.types.is_integer(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            numbers = column.cast(pa.float64()).to_numpy()
            column = pa.chunked_array([pa.array(numbers, from_pandas=True)])  # NaN to null
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
            column = column.cast(pa.string())
        elif not pa.types.is_boolean(kind):
            raise DataError(
                f"{where}: column {name!r} of type {kind} cannot be written; convert it"
            )
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _new_table(
    connection: Connection, source: _Source, name: str, table: pa.Table, schema: str | None
) -> Table:
    """Create an empty table."""
    from sqlalchemy import BigInteger, Boolean, Column, Double, MetaData, Table, Text

    longest = connection.dialect.max_identifier_length
    for text in (name, *table.column_names):
        if not text or len(text.encode()) > longest:
            raise DataError(
                f"{source.label}: the name {text!r} must have 1 to {longest} bytes; shorten it"
            )
    _require_free(connection, source, name, schema)
    of = {pa.int64(): BigInteger, pa.float64(): Double, pa.bool_(): Boolean, pa.string(): Text}
    columns = [Column(f.name, of[f.type](), autoincrement=False) for f in table.schema]
    made = Table(name, MetaData(), *columns, schema=schema)
    made.create(connection, checkfirst=False)
    return made


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


_REFUSALS = {
    "password": "the user or the password was refused; check both",
    "no pg_hba.conf": "the server does not let this user in from here; ask its administrator",
    "role": "the user is not known there; check the user",
    "database": "there is no such database; check its name",
    "resolve": "the host is not known; check its name",
    "translate host": "the host is not known; check its name",
    "refused": "nothing answers at this host and port; check both and that the server runs",
    "no such file": "there is no server at this socket; check the host",
    "timeout": f"no answer within {_PATIENCE} seconds; check host, port and firewall",
    "unable to open": "the file may not be opened; check its permissions",
}


def _connection_fault(error: Exception) -> str:
    """Say in our own words why there is no connection: a driver's may quote the whole URL."""
    # Drivers wrap the server's line in places and parameters; the reason is in the last part.
    said = str(getattr(error, "orig", None) or error).rpartition("FATAL:")[2].lower()
    return next((ours for theirs, ours in _REFUSALS.items() if theirs in said), "check the URL")


def _fault(error: Exception) -> str:
    """Return the database's reason where it is about names or syntax, else only its kind."""
    said: Any = getattr(error, "orig", None) or error
    state = getattr(said, "sqlstate", None)
    diagnosis = getattr(getattr(said, "diag", None), "message_primary", None)
    if type(said).__module__ == "sqlite3":
        reason = str(said)
    elif state and state[:2] in ("25", "3D", "3F", "42") and diagnosis:
        reason = diagnosis
    else:
        reason = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(said).__name__).lower()
    reason = re.sub(r"'[^'\"]*['\"]?", "'…'", reason.splitlines()[0])
    return f"{reason.rstrip('.')[:200]}; check the table or the query"
