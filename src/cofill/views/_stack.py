"""Tables of the same columns about different people, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cofill.errors import DataError
from cofill.views._text import TextTable


def stack_tables(
    name: str, tables: Sequence[pa.Table | TextTable], labels: Sequence[str]
) -> pa.Table | TextTable:
    """Return the rows of all tables of a view, or raise a `DataError` for other columns.

    Text files keep their text, so that cells are written as they were.
    """
    first = tables[0]
    for table, label in zip(tables[1:], labels[1:], strict=True):
        is_alike = (
            isinstance(table, TextTable)
            and (table.delimiter, table.encoding) == (first.delimiter, first.encoding)
            if isinstance(first, TextTable)
            else isinstance(table, pa.Table)
        )
        if not is_alike or list(table.column_names) != list(first.column_names):
            raise DataError(
                f"view {name!r}: {label} must have the columns of {labels[0]}, in the same order "
                "and in a file of the same kind, to be a part of the same view"
            )
    if isinstance(first, TextTable):
        texts = [table for table in tables if isinstance(table, TextTable)]
        end = first.line_end
        ended = [t.content if t.content.endswith(end[-1:]) else t.content + end for t in texts]
        rest = [e[t.header_size :] for t, e in zip(texts[1:], ended[1:], strict=True)]
        return replace(first, content=b"".join([ended[0], *rest]))
    return pa.concat_tables(
        [table for table in tables if isinstance(table, pa.Table)], promote_options="permissive"
    )


def count_rows(table: pa.Table | TextTable) -> int:
    """Return how many rows a table has, empty lines of text left out."""
    return len(table.fields().starts) - 1 if isinstance(table, TextTable) else table.num_rows


def require_apart(name: str, parts: Sequence[np.ndarray], labels: Sequence[str]) -> None:
    """Raise a `DataError` if somebody is in two tables of a view."""
    ids, counts = np.unique(np.concatenate([np.unique(part) for part in parts]), return_counts=True)
    if len(ids) and counts.max() > 1:
        raise DataError(
            f"view {name!r}: {int((counts > 1).sum())} people are in more than one of "
            f"{', '.join(labels)}; leave each person's row in one of them"
        )
