"""Tables as files: CSV or Parquet, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cofill.files import draft_of

__all__ = ["write_table"]


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as CSV or Parquet, by the file's ending; it appears whole or not at all."""
    form = path.suffix.lower()
    with draft_of(path, sync=False) as draft:
        if form in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            pq.write_table(table, draft)
            return
        from pyarrow import csv as arrow_csv

        flat = [
            c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c
            for c in table.columns
        ]
        options = arrow_csv.WriteOptions(
            delimiter="\t" if form == ".tsv" else ",", quoting_style="needed"
        )
        arrow_csv.write_csv(pa.table(flat, names=table.column_names), draft, options)
