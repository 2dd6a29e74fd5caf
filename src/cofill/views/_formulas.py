"""Texts that a spreadsheet would compute, made plain: whoever opens a result starts no formula.

A field that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end is a formula to a
spreadsheet, which can fetch addresses or run commands; quotes around it change nothing. Such a text
gets an apostrophe in front. Numbers, dates and telephone numbers, which have no letter after their
sign, are left as they are: without a letter nothing is called.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import SettingError
from cofill.views._arrow import is_text

FORMULAS = ("escape", "keep")

# Some spreadsheets read full-width signs like the others.
_SIGNS = "+\\-＋－"
_STARTS = rf"^[=@\t\r\n＝＠{_SIGNS}](?s:.)"  # a mark alone is none
_NUMBER = rf"^[{_SIGNS}](?:[\d\s.,:/%'()+\-]*|[\d.,]+[eE][+\-]?\d+)$"
# What a field's first byte can be, quotes apart: most columns are cleared by it.
FIRST_BYTES = np.zeros(256, dtype=bool)
FIRST_BYTES[list(b"=@\t\r\n+-\xef")] = True


def require_formulas(formulas: str) -> None:
    """Raise a `SettingError` unless a choice about formulas is known."""
    if formulas not in FORMULAS:
        raise SettingError(f"formulas must be 'escape' or 'keep', got {formulas!r}")


def starts_formula(text: str) -> bool:
    """Whether a spreadsheet would compute a field of this text.

    Examples
    --------
    >>> [starts_formula(text) for text in ("=1+1", "-A1", "-1.5", "+49 170 12", "a=b")]
    [True, True, False, False, False]
    """
    return bool(re.search(_STARTS, text)) and not re.search(_NUMBER, text)


def formulas_in(texts: Any) -> Any:
    """Return for each of an Arrow array's texts whether it starts a formula."""
    starts = pc.match_substring_regex(texts, _STARTS)
    return pc.and_not(starts, pc.match_substring_regex(texts, _NUMBER))


def escaped_text(text: str) -> str:
    """Return a text that starts no formula."""
    return "'" + text if starts_formula(text) else text


def unescaped_text(text: str) -> str:
    """Return the text of which `escaped_text` made this one; any other as it is."""
    return text[1:] if text.startswith("'") and starts_formula(text[1:]) else text


def unescaped(texts: Any) -> Any:
    """Return an Arrow array of texts as they were before they were made plain."""
    inner = pc.utf8_slice_codeunits(texts, 1)
    is_marked = pc.and_(pc.starts_with(texts, "'"), formulas_in(inner))
    return pc.if_else(is_marked, inner, texts)


def escaped_field(field: bytes) -> bytes:
    """Return a field of a text file, quotes and all, that starts no formula."""
    quote, text = (b'"', field[1:]) if field.startswith(b'"') else (b"", field)
    plain = text.removesuffix(b'"') if quote else text
    return quote + b"'" + text if starts_formula(plain.decode()) else field


def escaped_table(table: pa.Table) -> pa.Table:
    """Return a table whose texts and names of columns start no formula."""
    columns = []
    for column in table.columns:
        kind = column.type
        values = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
        if is_text(values.type):
            apostrophe = pa.scalar("'", values.type)
            marked = pc.binary_join_element_wise(apostrophe, values, pa.scalar("", values.type))
            values = pc.if_else(formulas_in(values), marked, values)
        columns.append(values)
    return pa.table(columns, names=[escaped_text(name) for name in table.column_names])
