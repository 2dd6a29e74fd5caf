"""What the user said about a table: its columns, its missing values, how its text is written."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.registry import suggest
from cofill.views._feature import Kind

_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " "}
_USUAL = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)


@storable
@dataclass(frozen=True)
class ColumnRules:
    """What the user said about columns, and how rows of their table are counted in messages.

    `kinds`, `ignore`, `drop` and `na_values` name columns, or ``"view.column"`` to address one view
    only.

    Parameters
    ----------
    kinds
        ``{column: "numeric" | "binary" | "categorical"}``.
    ignore
        Columns that nothing is learned from; they are written as they were read.
    drop
        Columns that are neither learned from nor written.
    na_values
        Values that mean a missing cell, beside the usual ones; ``"column=value"`` for one column.
        ``""`` among them turns the usual ones off, so that only an empty field is missing.
    decimal, thousands, delimiter, encoding
        How numbers and fields of a text file are written; found out where left out.
    is_escaped
        Whether cofill wrote the text files, and made texts plain that start a formula.
    """

    kinds: Mapping[str, str] | None = None
    ignore: Sequence[str] = ()
    id_type: str | None = None
    drop: Sequence[str] = ()
    na_values: Sequence[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    is_escaped: bool = False
    untyped_ids: bool = False
    row: str = "row"
    first_row: int = 1

    def __post_init__(self) -> None:
        if self.id_type not in (None, "text"):
            raise SettingError(f"id_type must be 'text' or None, got {self.id_type!r}")
        for column, kind in (self.kinds or {}).items():
            if kind not in tuple(Kind):
                raise SettingError(
                    f"the kind of column {column!r} must be numeric, binary or categorical, "
                    f"got {kind!r}"
                )
        if self.delimiter in _DELIMITERS:
            object.__setattr__(self, "delimiter", _DELIMITERS[self.delimiter])
        for name in ("decimal", "thousands", "delimiter"):
            mark = getattr(self, name)
            if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\n\r'):
                raise SettingError(f"{name} must be one character, got {mark!r}")
        if self.decimal is not None and self.decimal in (self.thousands, self.delimiter):
            raise SettingError(
                f"decimal must differ from thousands and delimiter, got {self.decimal!r} twice"
            )
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise SettingError(
                    f"encoding must be one that Python knows, such as cp1252 or utf-16, "
                    f"got {self.encoding!r}"
                ) from None

    def kind(self, view: str, column: str) -> Kind | None:
        """Return the kind the user declared, if any."""
        kinds = self.kinds or {}
        declared = kinds.get(f"{view}.{column}", kinds.get(column))
        return None if declared is None else Kind(declared)

    def ignores(self, view: str, column: str) -> bool:
        """Whether nothing is learned from the column."""
        return column in self.ignore or f"{view}.{column}" in self.ignore

    def drops(self, view: str, column: str) -> bool:
        """Whether the column is not written either."""
        return column in self.drop or f"{view}.{column}" in self.drop

    def missing_values(self, view: str, column: str) -> tuple[str, ...]:
        """Return the texts that mean a missing cell of a column."""
        values = ["", *(() if "" in self.na_values else _USUAL)]
        for entry in self.na_values:
            name, equals, value = entry.rpartition("=")
            if not equals or name in (column, f"{view}.{column}"):
                values.append(value)
        return tuple(dict.fromkeys(values))

    def at(self, row: int) -> str:
        """Name a row as the user finds it: ``line 17`` of a CSV file, ``row 16`` of a table."""
        return f"{self.row} {row + self.first_row}"

    def check(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Raise a `SettingError` when a rule names a column that no view has."""
        known = {c for names in columns.values() for c in names}
        known |= {f"{v}.{c}" for v, names in columns.items() for c in names}
        of_values = [
            name for name, equals, _ in (v.rpartition("=") for v in self.na_values) if equals
        ]
        for column in [*self.ignore, *self.drop, *(self.kinds or {}), *of_values]:
            if column not in known:
                raise SettingError(
                    f"no view has a column {column!r}; {suggest(column, sorted(known))}"
                )
