"""Files as forms of source: text, Parquet, Feather."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cofill.errors import DataError
from cofill.views._rules import ColumnRules
from cofill.views._source_table import FilledTable
from cofill.views._sources import AbstractSourceForm
from cofill.views._text import TextTable

_COMPRESSIONS = ("", ".gz", ".zst")


class CsvForm(AbstractSourceForm):
    """Text with one line per individual, maybe compressed; the header line tells the delimiter."""

    endings = tuple(e + c for e in (".csv", ".txt") for c in _COMPRESSIONS)
    written_delimiter = ","
    keeps_text = True
    # Lines are counted as an editor does, after the header; all ids are text in the file.
    rules = {"row": "line", "first_row": 2, "untyped_ids": True}  # noqa: RUF012

    def read(self, target: str, rules: ColumnRules) -> TextTable:
        """Return the file's content, with its fields still as they are."""
        try:
            with pa.input_stream(target, compression="detect") as stream:
                raw = stream.read()
        except OSError as error:
            if isinstance(error, PermissionError):
                raise
            raise DataError(
                f"{target} is not a readable compressed file (cut short or damaged); write it again"
            ) from None
        return TextTable.open(raw, target, delimiter=rules.delimiter, encoding=rules.encoding)

    def write(self, table: pa.Table | FilledTable, path: Path) -> None:
        """Write a file; a table read from text keeps its bytes, and dictionaries become values."""
        from pyarrow import csv as arrow_csv

        if isinstance(table, FilledTable):
            with path.open("wb") as file:
                file.writelines(table.to_text())
            return
        flat = [
            c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c
            for c in table.columns
        ]
        options = arrow_csv.WriteOptions(delimiter=self.written_delimiter, quoting_style="needed")
        arrow_csv.write_csv(pa.table(flat, names=table.column_names), path, options)


class TsvForm(CsvForm):
    """The same, written with tabs."""

    endings = tuple(".tsv" + c for c in _COMPRESSIONS)
    written_delimiter = "\t"


class ParquetForm(AbstractSourceForm):
    """Columns with their types, as Arrow and pandas write them."""

    endings = (".parquet", ".pq")
    words = "Parquet"

    def read(self, target: str, rules: ColumnRules) -> pa.Table:
        try:
            return self._load(target)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            raise DataError(
                f"{target} is not a readable {self.words} file (cut short, damaged or another "
                "format); write it again"
            ) from None

    def _load(self, target: str) -> Any:
        import pyarrow.parquet as pq

        return pq.read_table(target)

    def write(self, table: pa.Table, path: Path) -> None:
        import pyarrow.parquet as pq

        pq.write_table(table, path)


class FeatherForm(ParquetForm):
    """Arrow's own format."""

    endings = (".feather", ".arrow")
    words = "Feather"

    def _load(self, target: str) -> Any:
        from pyarrow import feather

        return feather.read_table(target, memory_map=False)

    def write(self, table: pa.Table, path: Path) -> None:
        from pyarrow import feather

        feather.write_feather(table, str(path))
