"""A form of source: one JSON object per line."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from cofill.errors import DataError
from cofill.views import AbstractSourceForm, ColumnRules


class JsonLinesForm(AbstractSourceForm):
    """Text files with a JSON object per line: .jsonl."""

    endings = (".jsonl",)
    result_ending = ".jsonl"

    def read(self, target: str, rules: ColumnRules) -> pa.Table:
        """Return the file's table; JSON keeps numbers and text apart, also in ids."""
        try:
            return pyarrow.json.read_json(target)
        except pa.ArrowException:
            # Arrow's message quotes the line, and no message may show a person's row.
            raise DataError(f"{target} must have a JSON object per line; write it again") from None

    def write(self, table: pa.Table, path: Path) -> None:
        """Write a line per row."""
        lines = (
            json.dumps(row) + "\n" for batch in table.to_batches() for row in batch.to_pylist()
        )
        path.write_text("".join(lines), encoding="utf-8")
