"""Where views are read from: CSV and Parquet files, and SQL tables or queries behind a URL."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.views._frames import ColumnRules, view_from_table
from cofill.views._multiview import MultiView
from cofill.views._sql import read_sql
from cofill.views._sql_connection import safe_label

__all__ = ["Source", "is_database", "read_views"]

_CSV, _PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
_URL = re.compile(r"^[a-z][a-z0-9+_]*://")
_DELIMITERS = ",;\t|"
_LARGEST_BLOCK = 2**31 - 1


def is_database(text: str) -> bool:
    """Whether a source or target is a database's URL rather than a file.

    Examples
    --------
    >>> is_database("sqlite:///lab.db"), is_database("lab.csv")
    (True, False)
    """
    return bool(_URL.match(text))


@dataclass(frozen=True)
class Source:
    """A place a view is read from: a CSV or Parquet file, or ``URL#table`` / ``URL#SELECT …``.

    Examples
    --------
    >>> Source("ward/clinic.csv").form
    'csv'
    >>> Source("sqlite:///lab.db#results").form
    'sql'
    """

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", str(self.text))
        self.form  # noqa: B018  an unknown form is refused at once

    @property
    def form(self) -> str:
        """``"csv"``, ``"parquet"`` or ``"sql"``."""
        if is_database(self.text):
            return "sql"
        suffix = Path(self.text).suffix.lower()
        if suffix in _CSV:
            return "csv"
        if suffix in _PARQUET:
            return "parquet"
        raise SettingError(
            f"{self.label}: the form of this source is not known; give a .csv or .parquet file, "
            "or a database as URL#table"
        )

    @property
    def label(self) -> str:
        """The source as it may be shown: without a password, without a query's text."""
        if not is_database(self.text):
            return self.text
        return safe_label(self.text)

    def read(self, id: str) -> pa.Table:  # noqa: A002
        """Read the whole source as an Arrow table; ids of a CSV file stay text."""
        if self.form == "sql":
            return read_sql(self.text)
        path = Path(self.text)
        if not path.exists():
            raise DataError(f"{self.label}: there is no such file; check the path")
        if path.is_dir():
            raise DataError(f"{self.label} is a folder; give a file")
        try:
            return _read_csv(path, id) if self.form == "csv" else _read_parquet(path)
        except PermissionError:
            raise DataError(f"{self.label} may not be read; check its permissions") from None

    @property
    def rules(self) -> dict[str, Any]:
        """How rows of this source are counted, and whether its ids have a type."""
        if self.form == "csv":
            return {"row": "line", "first_row": 2, "untyped_ids": True}
        return {"row": "row", "first_row": 1, "untyped_ids": False}


def read_views(
    sources: Mapping[str, str | Path | Source],
    *,
    id: str,  # noqa: A002
    kinds: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    id_type: str | None = None,
) -> MultiView:
    """Read one view per source.

    Parameters
    ----------
    sources
        ``{view: source}``; a source is a CSV or Parquet file, ``URL#table`` or ``URL#SELECT …``.
    id
        The column that identifies an individual, in every source.
    kinds, ignore, id_type
        See `MultiView.from_frames`.
    """
    placed = {n: s if isinstance(s, Source) else Source(str(s)) for n, s in sources.items()}
    common = ColumnRules(kinds=kinds, ignore=ignore, id_type=id_type)
    tables = {name: source.read(id) for name, source in placed.items()}
    common.check({name: table.column_names for name, table in tables.items()})
    views = []
    for name, source in placed.items():
        rules = replace(common, **source.rules)
        views.append(
            view_from_table(name, tables.pop(name), id=id, rules=rules, where=source.label)
        )
    return MultiView(views)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise DataError(
            f"{path} is not a readable Parquet file (cut short, damaged or another format); "
            "write it again"
        ) from None


def _read_csv(path: Path, id_column: str) -> pa.Table:
    from pyarrow import csv as arrow_csv

    size = path.stat().st_size
    if size == 0:
        raise DataError(f"{path} is empty; give it a header line and rows")
    try:
        table = arrow_csv.read_csv(
            path,
            # One block: a column's type is decided by all its rows, not by the first megabyte.
            read_options=arrow_csv.ReadOptions(block_size=min(size + 1, _LARGEST_BLOCK)),
            parse_options=arrow_csv.ParseOptions(
                delimiter=_delimiter(path), newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={id_column: pa.string()}, strings_can_be_null=True
            ),
        )
    except pa.ArrowException:
        # Arrow's own message quotes the row; ours says where to look.
        raise DataError(_csv_fault(path)) from None
    try:
        table.column_names  # noqa: B018  a header that is not UTF-8 fails here
    except UnicodeDecodeError:
        raise DataError(_csv_fault(path)) from None
    if any(pa.types.is_binary(t) for t in table.schema.types):  # Arrow's reading of non-UTF-8 text
        raise DataError(_csv_fault(path))
    if _has_open_quote(path):
        raise DataError(
            f"{path}: a quote is opened but not closed, so that lines run together; "
            "check the file's quotes"
        )
    return table


def _has_open_quote(path: Path) -> bool:
    """Whether the file ends inside quotes: Arrow takes the rest of the file for one cell then."""
    with path.open("rb") as file:
        quotes = 0
        while block := file.read(2**20):
            quotes += block.count(b'"')
    if quotes % 2 == 0:
        return False
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            for _ in csv.reader(file, delimiter=_delimiter(path), strict=True):
                pass
        except csv.Error as error:
            return "unexpected end of data" in str(error)
    return False


def _delimiter(path: Path) -> str:
    with path.open("rb") as file:
        header = file.readline()
    return max(_DELIMITERS, key=lambda d: header.count(d.encode()))


def _csv_fault(path: Path) -> str:
    """Find the first line that cannot be read and say what is wrong with it, not what is in it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return f"{path}: line {number} is not UTF-8 text; save the file with UTF-8 encoding"
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=_delimiter(path))
        try:
            width = len(next(rows, []))
            any_row = False
            for row in rows:
                any_row = any_row or bool(row)
                if row and len(row) != width:
                    return (
                        f"{path}: line {rows.line_num} has {len(row)} fields, the header has "
                        f"{width}; quote fields that hold the delimiter, or complete the line"
                    )
        except csv.Error:
            return f"{path}: line {rows.line_num} cannot be read as CSV; check its quotes"
    if not any_row:
        return f"{path} has no rows; give it a header line and at least one individual"
    return f"{path} cannot be read as CSV; check its delimiter and quotes"
