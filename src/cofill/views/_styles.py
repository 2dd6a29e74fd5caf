"""How the cells of a text column are written: numbers, truth values, dates and times, or text.

A style is found from a column's texts, reads them into an Arrow array with a type, and writes
filled cells the way the column's own are: decimals, thousands, padding, the order of a date.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.codec import storable
from cofill.views._feature import Feature, Kind

NUMBER = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
MOST_DECIMALS = 15  # significant digits that every double keeps
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")
_TIMES = ("%H:%M:%S", "%H:%M")
_PARTS = {"%Y": "{Y:04d}", "%m": "{m:02d}", "%d": "{d:02d}", "%H": "{H:02d}", "%M": "{M:02d}"}
_PARTS |= {"%S": "{S:02d}"}
_SAMPLE = 1000  # texts tried first: a format that fails on them is not tried on the rest
_DATE = r"^\s*([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4})\s*$"
_GROUPED = r"[+-]?(0|[1-9][0-9]*)([.,' ][0-9]+)*"  # a phone number starts with a zero
_UNITS = r"%|€|\$|£|¥|EUR|USD|CHF|GBP|kg|g|mg|cm|mm|m|km|ml|l|h|min|s"
_DRESSED = rf"^\s*((€|\$|£|¥)\s*)?{_GROUPED}\s*({_UNITS})?\s*$"
_WITH_UNIT = re.compile(rf"\s*((?:€|\$|£|¥)\s*)?([+-]?[0-9][0-9.,' ]*?)(\s*(?:{_UNITS}))?\s*")


@storable
@dataclass(frozen=True)
class TextStyle:
    """Texts as they are."""

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the cells; texts stay texts."""
        return texts.cast(pa.string())

    def write(self, feature: Feature, cells: np.ndarray) -> list[str]:
        """Return filled cells as texts."""
        if feature.kind is Kind.NUMERIC:
            return NumberStyle(decimals=feature.decimals).write(feature, cells)
        return [str(feature.categories[k]) for k in cells.astype(int).tolist()]


@storable
@dataclass(frozen=True)
class TruthStyle(TextStyle):
    """``true`` and ``false`` in any spelling."""

    def read(self, texts: pa.Array) -> pa.Array:
        return pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(texts)), "true")

    def write(self, feature: Feature, cells: np.ndarray) -> list[str]:
        """Return truth values in lower case."""
        return [text.lower() for text in super().write(feature, cells)]


@storable
@dataclass(frozen=True)
class NumberStyle(TextStyle):
    """Numbers with their decimal mark, thousands mark and digits.

    Parameters
    ----------
    decimal, thousands
        The marks; no thousands mark is an empty text.
    decimals
        Most digits after the decimal mark, None where some have an exponent or too many.
    is_fixed
        Whether all have that many, so that ``1.50`` is not written as ``1.5``.
    width
        Digits of numbers that are padded with zeros, else 0.
    before, after
        The unit around each number, with its spaces: ``€`` or `` kg``.
    """

    decimal: str = "."
    thousands: str = ""
    decimals: int | None = 0
    is_fixed: bool = False
    width: int = 0
    before: str = ""
    after: str = ""

    @property
    def unit(self) -> str:
        """What stands around each number, without its spaces."""
        return (self.before + self.after).strip()

    def without_unit(self, texts: Any) -> Any:
        """Return texts without the unit, where they have it."""
        if not self.unit:
            return texts
        bare = pc.utf8_trim_whitespace(texts)
        bare = pc.replace_substring_regex(bare, f"^{re.escape(self.before)}", "")
        return pc.replace_substring_regex(bare, f"{re.escape(self.after)}$", "")

    def read(self, texts: pa.Array) -> pa.Array:
        """Return ``int64`` where all are whole and small enough, else ``double``."""
        plain = plain_numbers(self.without_unit(texts), self.decimal, self.thousands)
        if self.decimals == 0:
            try:
                return plain.cast(pa.int64())
            except pa.ArrowInvalid:
                pass
        return plain.cast(pa.float64())

    def write(self, feature: Feature, cells: np.ndarray) -> list[str]:
        """Return numbers with the column's digits and marks."""
        if feature.kind is not Kind.NUMERIC:  # zeros and ones, declared categories
            return super().write(feature, cells)
        decimals = 0 if feature.is_integer else self.decimals
        mark = "," if self.thousands else ""
        if decimals is None:
            texts = [repr(v).removesuffix(".0") for v in cells.tolist()]
        else:
            form = f"{{:{mark}.{decimals}f}}".format
            texts = [form(v) for v in cells.tolist()]
            if decimals and not self.is_fixed:
                texts = [t.rstrip("0").rstrip(".") for t in texts]
        if self.width:
            texts = [t.zfill(self.width) for t in texts]
        if (self.decimal, self.thousands) not in ((".", ""), (".", ",")):
            marks = str.maketrans({".": self.decimal, ",": self.thousands})
            texts = [t.translate(marks) for t in texts]
        return [f"{self.before}{t}{self.after}" for t in texts] if self.unit else texts


@storable
@dataclass(frozen=True)
class TimeStyle(TextStyle):
    """Dates, times, or both, in one format.

    `template` is in the words of ``strptime``; `is_padded` says whether days have two digits;
    `digits` counts those of fractions of a second.
    """

    template: str = "%Y-%m-%d"
    is_padded: bool = True
    digits: int = 0

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the cells."""
        if "%H" not in self.template:
            return pa.date32()
        unit = "s" if not self.digits else "ms" if self.digits <= 3 else "us"
        if "%Y" not in self.template:
            return pa.time32(unit) if unit != "us" else pa.time64(unit)
        return pa.timestamp(unit, "UTC" if self.template.endswith("Z") else None)

    def read(self, texts: pa.Array) -> pa.Array:
        """Return dates, times or timestamps; what is none becomes null."""
        texts = pc.utf8_trim_whitespace(texts)
        whole = texts
        if self.digits:
            tail = self.digits + 1 + self.template.endswith("Z")
            whole = pc.utf8_slice_codeunits(texts, 0, -tail)
        is_time = "%Y" not in self.template
        template = self.template.removesuffix("Z") if self.digits else self.template
        if is_time:
            whole = pc.binary_join_element_wise("1970-01-01", whole.cast(pa.string()), " ")
            template = f"%Y-%m-%d {template}"
        times = pc.strptime(whole, format=template, unit="us", error_is_null=True)
        if self.digits:
            end = -1 if self.template.endswith("Z") else None
            start = -(self.digits - (end or 0))
            part = pc.utf8_slice_codeunits(texts, start, **({} if end is None else {"stop": end}))
            micro = pc.multiply(part.cast(pa.int64()), 10 ** (6 - self.digits))
            times = pc.add(times, micro.cast(pa.duration("us")))
        if is_time:
            times = times.cast(pa.time64("us"))
        return (
            times.cast(self.type)
            if not self.template.endswith("Z")
            else (pc.assume_timezone(times.cast(pa.timestamp(self.type.unit)), "UTC"))
        )

    def write(self, feature: Feature, cells: np.ndarray) -> list[str]:
        if feature.kind is not Kind.NUMERIC:
            return super().write(feature, cells)
        per_second = {"s": 1, "ms": 10**3, "us": 10**6}
        whole = np.rint(cells).astype(np.int64)
        fraction = np.zeros_like(whole)
        if self.type == pa.date32():
            whole = whole * 86_400
        else:
            unit = per_second[self.type.unit]
            whole, fraction = np.divmod(whole, unit)
            fraction = fraction * 10**6 // unit // 10 ** (6 - self.digits)
        moments = whole.astype("datetime64[s]").astype(object)
        pattern = self.template
        for part, form in _PARTS.items():
            short = form.replace(":02d", "")
            pattern = pattern.replace(part, form if self.is_padded or part in "%H%M%S" else short)
        if self.digits:
            pattern = (
                pattern.removesuffix("Z") + f".{{f:0{self.digits}d}}" + "Z" * pattern.endswith("Z")
            )
        return [
            pattern.format(Y=t.year, m=t.month, d=t.day, H=t.hour, M=t.minute, S=t.second, f=f)
            for t, f in zip(moments.tolist(), fraction.tolist(), strict=True)
        ]


def plain_numbers(texts: Any, decimal: str = ".", thousands: str = "") -> Any:
    """Return texts of numbers as a computer writes them: a point, no other mark, no padding."""
    plain = pc.utf8_trim_whitespace(texts)
    if thousands:
        plain = pc.replace_substring(plain, thousands, "")
    if decimal != ".":
        plain = pc.replace_substring(plain, decimal, ".")
    return pc.replace_substring_regex(plain, r"^\+", "")


def is_number(texts: Any, decimal: str = ".", thousands: str = "") -> Any:
    """Return which texts are numbers; null where there is none."""
    if not thousands and decimal == ".":
        return pc.match_substring_regex(pc.utf8_trim_whitespace(texts), NUMBER.pattern)
    group, point = re.escape(thousands), re.escape(decimal)
    whole = rf"[0-9]{{1,3}}({group}[0-9]{{3}})+|[0-9]+" if thousands else "[0-9]+"
    pattern = rf"^[+-]?({whole})({point}[0-9]*)?([eE][+-]?[0-9]+)?$"
    return pc.match_substring_regex(pc.utf8_trim_whitespace(texts), pattern)


def number_style(known: pa.Array, decimal: str | None, thousands: str | None) -> NumberStyle | None:
    """Return how numbers are written, or None where some known text is no number.

    A comma is taken for a decimal or thousands mark only where it can be nothing else.
    """
    if decimal is None and thousands is None:
        marks = [(".", "")]
        if pc.any(pc.match_substring(known, ",")).as_py():
            if _any(known, r"^[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]+$|,[0-9]{3},[0-9]{3}"):
                marks = [(".", ",")]
            elif _any(known, r",([0-9]{1,2}|[0-9]{4,})$|^[+-]?0,|[0-9]{4},|\.[0-9]{3},"):
                marks = [(",", "."), (",", "")]
    else:
        decimal = decimal or ("." if thousands != "." else ",")
        marks = [(decimal, thousands or "")]
    for point, group in marks:
        if pc.all(is_number(known, point, group)).as_py():
            group = group if group and pc.any(pc.match_substring(known, group)).as_py() else ""
            return _with_digits(pc.utf8_trim_whitespace(known), point, group)
    return None


def unit_style(known: pa.Array, decimal: str | None, thousands: str | None) -> NumberStyle | None:
    """Return how numbers are written that all have the same unit, or None."""
    first = _WITH_UNIT.fullmatch(known[0].as_py())
    if first is None or not (first[1] or first[3]):
        return None
    dressed = NumberStyle(before=first[1] or "", after=first[3] or "")
    bare, trimmed = dressed.without_unit(known), pc.utf8_trim_whitespace(known)
    shorter = pc.subtract(pc.utf8_length(trimmed), pc.utf8_length(bare))
    if not pc.all(pc.equal(shorter, len(dressed.before + dressed.after))).as_py():
        return None
    style = number_style(bare, decimal, thousands)
    return style and replace(style, before=dressed.before, after=dressed.after)


def is_ambiguous(known: pa.Array) -> bool:
    """Whether commas may be decimal or thousands marks: all texts look like ``1,234``."""
    return bool(
        pc.all(pc.match_substring_regex(known, r"^\s*[+-]?[0-9]{1,3}(,[0-9]{3})?\s*$")).as_py()
    )


def _with_digits(known: pa.Array, point: str, group: str) -> NumberStyle:
    at = pc.find_substring(known, point)
    length = pc.utf8_length(known)
    after = pc.if_else(pc.equal(at, -1), 0, pc.subtract(pc.subtract(length, at), 1))
    decimals: int | None = pc.max(after).as_py()
    is_fixed = bool(decimals) and pc.min(after).as_py() == decimals
    if (decimals or 0) > MOST_DECIMALS or _any(known, "[eE]"):
        decimals = None
    is_padded = decimals == 0 and has_leading_zeros(known)
    is_even = pc.min(length).as_py() == pc.max(length).as_py()
    width = pc.max(length).as_py() if is_padded and is_even else 0
    return NumberStyle(point, group, decimals, is_fixed, width)


def has_leading_zeros(known: pa.Array | pa.ChunkedArray) -> bool:
    """Whether digits start with a zero that a number would not have, as in ``007``."""
    return _any(known, r"^[+-]?0[0-9]+$")


def is_beyond_integers(known: pa.Array | pa.ChunkedArray) -> bool:
    """Whether all are digits, and some too many for 64 bits: accounts and keys, no amounts."""
    return bool(pc.all(pc.match_substring_regex(known, r"^\s*[0-9]+\s*$")).as_py()) and _any(
        known, r"[0-9]{19}"
    )


def is_dates(known: pa.Array) -> bool:
    """Whether every text is a date of some format, whichever."""
    return bool(pc.all(pc.match_substring_regex(known, _DATE)).as_py())


def has_units(known: pa.Array) -> bool:
    """Whether every text is a number that may have a unit, a sign or spaces, and most have.

    Where all have the same one, `unit_style` reads them.
    """
    if not pc.all(pc.match_substring_regex(known, _DRESSED)).as_py():
        return False
    plain = pc.match_substring_regex(known, r"^\s*[+-]?[0-9.,]+\s*$")
    return int(pc.sum(plain).as_py() or 0) < len(known) / 2


def time_styles(known: pa.Array) -> list[TimeStyle]:
    """Return the formats that all known texts are in: two where day and month may be swapped."""
    known = pc.utf8_trim_whitespace(known)
    first = known[0].as_py()
    match = re.fullmatch(
        r"([0-9]+[-/.][0-9]+[-/.][0-9]+)?([T ])?"
        r"([0-9]{1,2}:[0-9]{2}(:[0-9]{2})?(\.[0-9]{1,6})?)?(Z)?",
        first,
    )
    if not match or not (match[1] or match[3]) or bool(match[2]) != bool(match[1] and match[3]):
        return []
    time = "" if not match[3] else _TIMES[0] if match[4] else _TIMES[1]
    digits = len(match[5]) - 1 if match[5] else 0
    styles = []
    for date in _DATES if match[1] else ("",):
        template = date + (match[2] or "") + time + (match[6] or "")
        for is_padded in (True, False):
            style = TimeStyle(template, is_padded, digits)
            if _fits(style, known[:_SAMPLE]) and _fits(style, known):
                styles.append(style)
                break
    return styles


def _fits(style: TimeStyle, known: pa.Array) -> bool:
    """Whether the style reads and writes each text as it is."""
    try:
        cells = style.read(known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    if cells.null_count:
        return False
    values = cells.cast(pa.int32() if style.type.bit_width == 32 else pa.int64()).to_numpy()
    feature = Feature("t", dtype=str(style.type))
    different, where = np.unique(values, return_inverse=True)
    texts = pa.array(style.write(feature, different.astype(np.float64)), pa.large_string())
    return bool(
        pc.all(pc.equal(texts.take(pa.array(where)), known.cast(pa.large_string()))).as_py()
    )


def is_truth(known: pa.Array) -> bool:
    """Whether all texts are ``true`` or ``false`` in some spelling."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(known))
    return bool(pc.all(pc.is_in(words, value_set=pa.array(["true", "false"], words.type))).as_py())


def _any(texts: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
