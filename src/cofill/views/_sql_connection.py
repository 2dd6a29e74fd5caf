"""Connections to databases: URLs that hide their passwords, engines, and faults in plain words.

A message names the dialect, host, database and table, never a password, a query's text or a row:
what a database says about a fault is passed on only where it speaks of names and syntax.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofill.errors import DataError, SettingError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_PATIENCE = 10  # seconds until a host that does not answer is given up
_NEEDS_EXTRA = "reading databases needs the extra 'sql': pip install 'cofill[sql]'"
_URL = re.compile(
    r"""(?P<dialect>[a-z][a-z0-9_]*)(?P<driver>\+[a-z0-9_]+)?://
        ((?P<user>[^@:/\s]*)(:[^@\s]*)?@)?    # a password may hold a '#', so it is matched first
        (?P<location>[^?\#]*)(\?[^\#]*)?
        (?P<end>\#(?P<target>.*))?$""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class DatabaseSource:
    """A database, what is asked of it, and how both may be shown.

    Parameters
    ----------
    url
        What SQLAlchemy connects to, with the password.
    database
        The same as it may be shown.
    target
        What follows the ``#``: a table, ``schema.table`` or a query, empty for none.
    """

    url: str
    database: str
    target: str

    @classmethod
    def parse(cls, text: str) -> DatabaseSource:
        """Return the parts of ``URL#target``, or raise a `SettingError` that shows no password."""
        source = _split_url(text)
        if source is None:
            raise SettingError(
                f"{safe_label(text)}: this database URL cannot be read; write "
                "dialect://user:password@host:port/database#table and special characters of the "
                "password as %40 for @, %23 for #"
            )
        return source

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


def _split_url(text: str) -> DatabaseSource | None:
    """Return None where the URL is such that a piece of a password could pass for a host."""
    match = _URL.match(text.strip())
    if match is None:
        return None
    user, location = match["user"], match["location"]
    host, _, _ = location.partition("/")
    if "@" in (host if user is None else location) or re.search(r":(?!\d*$)(?![^\[]*\])", host):
        return None
    database = f"{match['dialect']}://{f'{user}@' if user else ''}{location}"
    end = len(match[0]) if match["end"] is None else match.start("end")
    return DatabaseSource(match[0][:end], database, (match["target"] or "").strip())


def safe_label(text: str) -> str:
    """Return what may be shown of a source: no password, no text of a query.

    Examples
    --------
    >>> safe_label("postgresql://ada:secret@db.example/ward#public.lab")
    'postgresql://ada@db.example/ward#public.lab'
    >>> safe_label("postgresql://ada:secret@db.example/ward#SELECT * FROM lab WHERE id = 7")
    'postgresql://ada@db.example/ward#(query)'
    """
    source = _split_url(text)
    return source.label if source else f"{text.partition(':')[0]}://…"


def _engine(source: DatabaseSource, *, may_create: bool) -> Engine:
    try:
        from sqlalchemy import create_engine, event, make_url
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
        from sqlalchemy.pool import NullPool
    except ImportError:
        raise SettingError(_NEEDS_EXTRA) from None
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
            raise SettingError(_NEEDS_EXTRA) from None
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
    return engine


def sqlite_path(url: str) -> Path | None:
    """Return the file behind an SQLite URL; None for another dialect or no plain file."""
    match = re.match(r"sqlite(\+[a-z0-9_]+)?:///([^?]*)", url)
    if not match or match[2] in ("", ":memory:") or match[2].startswith("file:"):
        return None
    return Path(match[2])


def _check_sqlite_file(source: DatabaseSource, *, may_create: bool) -> None:
    path = sqlite_path(source.url)
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
def connect(source: DatabaseSource, *, writes: bool = False) -> Iterator[Connection]:
    """Give a connection; committed at the end when it `writes`, else rolled back.

    An SQLite file is made only for writing. Whatever the driver raises becomes one sentence.
    """
    engine = _engine(source, may_create=writes)
    from sqlalchemy.exc import SAWarning, SQLAlchemyError

    driver_error = engine.dialect.loaded_dbapi.Error
    try:
        connection = engine.connect()
    except (SQLAlchemyError, driver_error) as error:
        engine.dispose()
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
        engine.dispose()


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
    # Drivers put hosts and parameters before the server's line, so the reason is the last part.
    reason = str(getattr(error, "orig", None) or error).rpartition("FATAL:")[2].lower()
    return next((ours for theirs, ours in _REFUSALS.items() if theirs in reason), "check the URL")


def _fault(error: Exception) -> str:
    """Return the database's reason where it is about names or syntax, else only its kind."""
    cause: Any = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None)
    diagnosis = getattr(getattr(cause, "diag", None), "message_primary", None)
    if type(cause).__module__ == "sqlite3":
        reason = str(cause)
    elif state and state[:2] in ("25", "3D", "3F", "42") and diagnosis:
        reason = diagnosis
    else:
        reason = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(cause).__name__).lower()
    reason = re.sub(r"'[^'\"]*['\"]?", "'…'", reason.splitlines()[0])
    return f"{reason.rstrip('.')[:200]}; check the table or the query"
