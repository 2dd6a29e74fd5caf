"""Text tables as bytes: where each field lies, and the same bytes with other fields.

Fields are found by NumPy in blocks: a delimiter or line end counts where the number of quotes
before it is even. Nothing is parsed twice and nothing is normalised, so that what is not edited is
written back byte for byte: quotes, padding, line ends, byte order mark.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import DataError
from cofill.views._formulas import FIRST_BYTES, unescaped, unescaped_text

_MARK = "\ufeff".encode()
_DELIMITERS = ",;\t|"
_BLOCK = 2**20  # bytes at a time, so that their masks stay in a processor's cache
_QUOTE, _RETURN = ord('"'), ord("\r")
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_EDITS_AT_ONCE = 2**19  # bounds the memory of the pieces between them


@dataclass(frozen=True, eq=False)
class Fields:
    """Where the fields of a table's records lie: `starts` and `ends` are records × columns.

    The first record is the header. `begins` and `closes` are the records' ends, the latter after
    the line end.
    """

    starts: np.ndarray
    ends: np.ndarray
    begins: np.ndarray
    closes: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class TextTable:
    """A text file's content, in UTF-8, and how it is delimited; made by `TextTable.open`.

    With ``is_escaped`` texts that start a formula were made plain when it was written, and are read
    as they were before.
    """

    content: bytes
    delimiter: str
    encoding: str
    where: str
    is_escaped: bool = False

    @classmethod
    def open(
        cls, raw: bytes, where: str, *, delimiter: str | None = None, encoding: str | None = None
    ) -> TextTable:
        """Read a file's bytes; raise a `DataError` that points at the first line with a fault."""
        if not raw:
            raise DataError(f"{where} is empty; give it a header line and rows")
        encoding = codecs.lookup(encoding or _WIDE.get(raw[:2], "utf-8")).name
        encoding = {"utf-8-sig": "utf-8", "utf-16": _WIDE.get(raw[:2], encoding)}.get(
            encoding, encoding
        )
        content = _as_utf8(raw, encoding, where)
        return cls(content, delimiter or _delimiter(content), encoding, where)

    @cached_property
    def column_names(self) -> list[str]:
        """The header's fields."""
        fields = self._header
        names = [self.content[s:e] for s, e in zip(fields.starts[0], fields.ends[0], strict=True)]
        texts = [unquoted(n).decode() for n in names]
        return [unescaped_text(text) for text in texts] if self.is_escaped else texts

    @cached_property
    def _header(self) -> Fields:
        # The header alone is a table without rows.
        return replace(self, content=self.content[: self.header_size]).fields()

    @cached_property
    def header_size(self) -> int:
        """How many bytes there are up to the first row; a quoted line end makes it two lines."""
        at = self._begin
        while True:
            at = self.content.find(self.line_end[-1:], at)
            head = self.content if at < 0 else self.content[: at + 1]
            if at < 0 or (head.count(b'"') % 2 == 0 and head[self._begin :].strip(b"\r\n")):
                return len(head)
            at += 1

    @property
    def _begin(self) -> int:
        return len(_MARK) if self.content.startswith(_MARK) else 0

    @cached_property
    def line_end(self) -> bytes:
        """The bytes that end a line."""
        at = self.content.find(b"\n")
        if at < 0:
            return b"\r" if b"\r" in self.content else b"\n"
        return b"\r\n" if at and self.content[at - 1] == _RETURN else b"\n"

    def fields(self) -> Fields:
        """Find all fields; empty lines are no records."""
        data = np.frombuffer(self.content, np.uint8)
        newline = self.line_end[-1]
        at = self._separators(data, newline)
        is_line_end = np.append(data[at] == newline, True)
        at = np.append(at, len(data))
        if len(at) > 1 and at[-2] == len(data) - 1 and is_line_end[-2]:
            at, is_line_end = at[:-1], is_line_end[:-1]  # the last line has its end
        starts = np.concatenate([[self._begin], at[:-1] + 1])
        ends = at.copy()
        if newline != _RETURN:
            ends -= is_line_end & (ends > starts) & (data[ends - 1] == _RETURN)
        last = np.flatnonzero(is_line_end)
        counts = np.diff(last, prepend=-1)
        is_blank = (counts == 1) & (starts[last] == ends[last])
        if is_blank.all():
            raise DataError(
                f"{self.where} has no rows; give it a header line and at least one individual"
            )
        width = int(counts[~is_blank][0])
        ragged = ~is_blank & (counts != width)
        if ragged.any():
            k = int(ragged.argmax())
            line = 1 + self.content.count(bytes([newline]), 0, int(starts[last[k] - counts[k] + 1]))
            raise DataError(
                f"{self.where}: line {line} has {counts[k]} fields, the header has {width}; "
                "quote fields that hold the delimiter, or complete the line"
            )
        keep = np.repeat(~is_blank, counts)
        first = last - counts + 1
        return Fields(
            starts[keep].reshape(-1, width),
            ends[keep].reshape(-1, width),
            starts[first[~is_blank]],
            np.minimum(at[last[~is_blank]] + 1, len(data)),
        )

    def _separators(self, data: np.ndarray, newline: int) -> np.ndarray:
        """Return the positions of delimiters and line ends outside quotes."""
        delimiter = ord(self.delimiter)
        if b'"' in self.content and not self._has_plain_quotes(data, delimiter, newline):
            return self._separators_one_by_one(newline)
        positions, before = [], 0
        for start in range(0, len(data), _BLOCK):
            block = data[start : start + _BLOCK]
            marks = (block == delimiter) | (block == newline)
            quotes = block == _QUOTE
            if before or quotes.any():
                inside = (np.cumsum(quotes, dtype=np.int32) + before) & 1
                marks &= inside == 0
                before = int(inside[-1])
            positions.append(np.flatnonzero(marks) + start)
        return np.concatenate(positions)

    def _has_plain_quotes(self, data: np.ndarray, delimiter: int, newline: int) -> bool:
        """Whether quotes only stand around fields, or doubled inside: then their parity tells."""
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes) % 2:
            return False
        is_edge = np.zeros(256, dtype=bool)
        is_edge[[delimiter, newline, _QUOTE, _RETURN]] = True
        opens, closes = quotes[::2], quotes[1::2] + 1
        is_opened = is_edge[data[opens - 1]] | (opens == self._begin)
        is_closed = is_edge[data[np.minimum(closes, len(data) - 1)]] | (closes == len(data))
        return bool(is_opened.all() and is_closed.all())

    def _separators_one_by_one(self, newline: int) -> np.ndarray:
        """Do the same for text with quotes inside unquoted fields, such as inches: slowly."""
        stops = re.escape(self.delimiter.encode()) + (b"\r" if newline == _RETURN else b"\n")
        field = re.compile(rb'("(?:[^"]|"")*+")?[^%s]*+' % stops)
        at, positions = self._begin, []
        while at <= len(self.content):
            match = field.match(self.content, at)
            if match is None or (match[1] is None and self.content[at : at + 1] == b'"'):
                raise DataError(
                    f"{self.where}: a quote is opened but not closed, so that lines run together; "
                    "check the file's quotes"
                )
            if match.end() < len(self.content):
                positions.append(match.end())
            at = match.end() + 1
        return np.array(positions, dtype=np.int64)

    def column(self, fields: Fields, k: int) -> pa.Array:
        """Return the texts of one column's fields, without their quotes."""
        data = np.frombuffer(self.content, np.uint8)
        starts, ends = fields.starts[1:, k], fields.ends[1:, k]
        is_quoted = np.zeros(len(starts), dtype=bool)
        if b'"' in self.content and len(starts):
            inner = np.minimum(starts, len(data) - 1)
            is_quoted = (ends - starts > 1) & (data[inner] == _QUOTE) & (data[ends - 1] == _QUOTE)
            starts, ends = starts + is_quoted, ends - is_quoted
        offsets = np.concatenate([[0], np.cumsum(ends - starts)])
        letters = data[np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])]
        buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(letters)]
        texts = pa.LargeStringArray.from_buffers(len(starts), buffers[1], buffers[2])
        if is_quoted.any():
            texts = pc.if_else(pa.array(is_quoted), pc.replace_substring(texts, '""', '"'), texts)
        return unescaped(texts) if self.is_escaped else texts

    def may_start_formula(self, fields: Fields, k: int) -> bool:
        """Whether some field of a column begins with a byte with which formulas begin."""
        data = np.append(np.frombuffer(self.content, np.uint8), 0)  # a last field may be empty
        starts = fields.starts[1:, k]
        first = np.where(data[starts] == _QUOTE, data[np.minimum(starts + 1, len(data) - 1)], 0)
        return bool((FIRST_BYTES[data[starts]] | FIRST_BYTES[first]).any())

    def raw(self, fields: Fields, row: int, k: int) -> bytes:
        """Return a field as it stands in the file, quotes and all."""
        return self.content[fields.starts[row + 1, k] : fields.ends[row + 1, k]]

    def edited(
        self, starts: np.ndarray, ends: np.ndarray, texts: Sequence[bytes], more: bytes = b""
    ) -> Iterator[bytes]:
        """Yield the content with spans replaced by texts, and more at its end, in pieces.

        Of spans that start together, those of no length are inserted in the order given.
        """
        order = np.argsort(starts, kind="stable")
        written = 0
        for part in range(0, len(order), _EDITS_AT_ONCE):
            chosen = order[part : part + _EDITS_AT_ONCE]
            pieces = []
            for k, start, end in zip(
                chosen.tolist(), starts[chosen].tolist(), ends[chosen].tolist(), strict=True
            ):
                pieces += (self.content[written:start], texts[k])
                written = end
            yield self._encoded(b"".join(pieces))
        rest = self.content[written:]
        if not more:
            yield self._encoded(rest)
        elif rest.endswith(self.line_end[-1:]) or (not rest and not written):
            yield self._encoded(rest + more)
        else:  # the last line has no end: the new last line has none either
            yield self._encoded(rest + self.line_end + more.removesuffix(self.line_end))

    def in_order(self, fields: Fields, rows: np.ndarray) -> tuple[TextTable, Fields]:
        """Return the table with only these rows, in this order, and where its fields lie then."""
        records = np.concatenate([[0], np.asarray(rows, dtype=np.int64) + 1])
        begins, closes = fields.begins[records], fields.closes[records]
        closed = self.content.endswith(self.line_end[-1:])
        content = self.content if closed else self.content + self.line_end
        if not closed:
            closes = np.where(closes == len(self.content), len(content), closes)
        pieces = [content[: begins[0]]]
        pieces += [content[b:c] for b, c in zip(begins.tolist(), closes.tolist(), strict=True)]
        new_begins = len(pieces[0]) + np.cumsum(np.append(0, closes - begins))
        shift = new_begins[:-1] - begins
        table = TextTable(b"".join(pieces), self.delimiter, self.encoding, self.where)
        moved = Fields(
            fields.starts[records] + shift[:, None],
            fields.ends[records] + shift[:, None],
            new_begins[:-1],
            new_begins[1:],
        )
        return table, moved

    def with_columns(self, names: Sequence[str]) -> TextTable:
        """Return the table with more columns at its end, empty in every row."""
        fields = self.fields()
        edits = Edits(fields, self.column_names)
        for name in names:
            texts = [b""] * (len(fields.starts) - 1)
            edits.append(self.delimiter.encode(), self.field(name), texts)
        plain = replace(self, encoding="utf-8")  # as the content is kept
        return replace(self, content=b"".join(plain.edited(*edits.joined())))

    def field(self, text: str) -> bytes:
        """Return a text as a field: quoted where it has to be."""
        if any(mark in text for mark in (self.delimiter, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        return text.encode()

    def _encoded(self, content: bytes) -> bytes:
        return content if self.encoding == "utf-8" else content.decode().encode(self.encoding)


class Edits:
    """Spans of a text and what they become.

    At the same place, as at an empty field, the order counts: fill, then drop, then append.
    """

    def __init__(self, fields: Fields, names: list[str]) -> None:
        self.fields, self.at = fields, {name: k for k, name in enumerate(names)}
        self.starts: list[np.ndarray] = []
        self.ends: list[np.ndarray] = []
        self.texts: list[bytes] = []

    def _add(self, starts: np.ndarray, ends: np.ndarray, texts: list[bytes]) -> None:
        self.starts.append(starts)
        self.ends.append(ends)
        self.texts += texts * len(starts) if len(texts) == 1 else texts

    def fill(self, name: str, rows: np.ndarray, texts: list[bytes]) -> None:
        """Replace a column's fields in these rows."""
        k = self.at[name]
        if len(rows):
            self._add(self.fields.starts[rows + 1, k], self.fields.ends[rows + 1, k], texts)

    def keep(self, columns: tuple[str, ...]) -> None:
        """Delete all other columns."""
        fields, is_kept = self.fields, [name in columns for name in self.at]
        last = max(k for k, written in enumerate(is_kept) if written)
        for k in range(last):
            if not is_kept[k]:
                self._add(fields.starts[:, k], fields.starts[:, k + 1], [b""])
        if last + 1 < len(is_kept):
            self._add(fields.ends[:, last], fields.ends[:, -1], [b""])

    def append(self, delimiter: bytes, name: bytes, texts: list[bytes]) -> None:
        """Add a field at each record's end."""
        ends = self.fields.ends[:, -1]
        self._add(ends, ends, [delimiter + t for t in (name, *texts)])

    def insert(self, at: np.ndarray, texts: list[bytes]) -> None:
        """Add texts at positions."""
        self._add(at, at, texts)

    def joined(self) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
        """Return all starts, ends and texts."""
        none = np.zeros(0, dtype=np.int64)
        return np.concatenate([none, *self.starts]), np.concatenate([none, *self.ends]), self.texts


def unquoted(field: bytes) -> bytes:
    """Return a field's text without its quotes."""
    if len(field) > 1 and field[:1] == field[-1:] == b'"':
        return field[1:-1].replace(b'""', b'"')
    return field


def _as_utf8(raw: bytes, encoding: str, where: str) -> bytes:
    try:
        if encoding == "utf-8":
            if not raw.isascii():
                raw.decode()
            return raw
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        name = "UTF-8" if encoding == "utf-8" else encoding
        raise DataError(
            f"{where}: line {line} is not {name} text; save the file with UTF-8 encoding or name "
            "its own (--encoding cp1252)"
        ) from None
    if text.encode(encoding) != raw:
        raise DataError(
            f"{where} cannot be written back in {encoding} as it is; save it with UTF-8 encoding"
        )
    return text.encode()


def _delimiter(content: bytes) -> str:
    header = content.lstrip(b"\r\n").split(b"\n", 1)[0].split(b"\r", 1)[0]
    bare = re.sub(rb'"[^"]*"', b"", header)
    return max(_DELIMITERS, key=lambda d: bare.count(d.encode()))
