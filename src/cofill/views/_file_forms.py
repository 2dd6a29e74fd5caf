"""CSV and Parquet files as forms of source."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa

from cofill.errors import DataError
from cofill.views._sources import AbstractSourceForm

_DELIMITERS = ",;\t|"
_LARGEST_BLOCK = 2**31 - 1


class CsvForm(AbstractSourceForm):
    """Text with one line per individual; the delimiter is found in the header line."""

    endings = (".csv", ".txt")
    written_delimiter = ","
    result_ending = ".csv"
    # Lines are counted as an editor does, after the header; all ids are text in the file.
    rules = {"row": "line", "first_row": 2, "untyped_ids": True}  # noqa: RUF012

    def read(self, target: str, id_column: str) -> pa.Table:
        """Return the file's table; ids stay text."""
        return _read_csv(Path(target), id_column)

    def write(self, table: pa.Table, path: Path) -> None:
        """Write a file; dictionary columns are written as their values."""
        from pyarrow import csv as arrow_csv

        flat = [
            c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c
            for c in table.columns
        ]
        options = arrow_csv.WriteOptions(delimiter=self.written_delimiter, quoting_style="needed")
        arrow_csv.write_csv(pa.table(flat, names=table.column_names), path, options)


class TsvForm(CsvForm):
    """The same, written with tabs."""

    endings = (".tsv",)
    written_delimiter = "\t"


class ParquetForm(AbstractSourceForm):
    """Columns with their types, as Arrow and pandas write them."""

    endings = (".parquet", ".pq")

    def read(self, target: str, id_column: str) -> pa.Table:
        """Return the file's table."""
        import pyarrow.parquet as pq

        try:
            return pq.read_table(target)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            raise DataError(
                f"{target} is not a readable Parquet file (cut short, damaged or another format); "
                "write it again"
            ) from None

    def write(self, table: pa.Table, path: Path) -> None:
        """Write the file."""
        import pyarrow.parquet as pq

        pq.write_table(table, path)


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
