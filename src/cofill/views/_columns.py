"""What a column is: numbers, categories, or something to pass through, and why.

The column's type decides first, then its texts. Digits that behave like a label (zeros in front,
a code's name, one value a person) are categories where there are few and are passed through where
there are many: nothing averages a postcode. What the user declared is always respected.
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

from cofill.errors import DataError
from cofill.views._arrow import is_number_type, is_text
from cofill.views._feature import Feature, Kind
from cofill.views._rules import ColumnRules
from cofill.views._styles import (
    MOST_DECIMALS,
    NumberStyle,
    TextStyle,
    TruthStyle,
    has_leading_zeros,
    has_units,
    is_ambiguous,
    is_beyond_integers,
    is_dates,
    is_number,
    is_truth,
    number_style,
    time_styles,
    unit_style,
)

_MOST_CATEGORIES = 100  # each is a column of every network
_LARGEST_EXACT = 2**53  # whole numbers up to which doubles hold each
_SAMPLE = 1000  # rows looked at first: where a test fails on them, the rest is not read
_LONG_LABEL = 9  # digits of numbers that all have as many and never repeat: accounts, phones
_FEW_ROWS = 20  # fewer rows say nothing about whether values repeat
_LABEL_NAME = re.compile(
    r"(?:^|[^a-z])(zip|plz|post_?code|postal|phone|tel|fax|iban|isbn|ssn|icd|naics|barcode)"
    r"(?:_?codes?)?(?:[^a-z]|$)"
)
_ID_NAME = re.compile(r"(?:^|[^a-z])(id|ids|uuid|key|nr)$")
_BLANKS = {"?", ".", "..", "-", "--", "*", "missing", "unknown", "none", "n.a.", "na", "nil"}
_SENTINELS = [float(sign * int("9" * k)) for k in (2, 3, 4, 5, 6) for sign in (-1, 1)]


@dataclass(frozen=True)
class Column:
    """A column as it was read: its feature and cells, or None where it is passed through."""

    feature: Feature | None
    cells: np.ndarray
    notes: tuple[str, ...] = ()
    style: TextStyle | None = None


@dataclass(frozen=True)
class ColumnReader:
    """How one column of a view is read; `where` names it in messages."""

    view: str
    name: str
    where: str
    rules: ColumnRules

    @property
    def declared(self) -> Kind | None:
        """The kind that the user declared."""
        return self.rules.kind(self.view, self.name)

    def read_texts(self, texts: pa.Array) -> Column:
        """Read a column of a text file, whose type its texts tell."""
        style, values, notes = self.typed(texts)
        if style is None:
            return self._empty()
        column = self.read(pa.chunked_array([values]))
        if isinstance(style, NumberStyle) and column.feature is not None:
            decimals = style.decimals if column.feature.kind is Kind.NUMERIC else None
            column = replace(column, feature=replace(column.feature, decimals=decimals))
        elif column.feature is not None and column.feature.kind is not Kind.NUMERIC:
            notes += self._namibia(texts, values)
        return replace(column, notes=(*notes, *column.notes), style=style)

    def typed(self, texts: pa.Array) -> tuple[TextStyle | None, pa.Array, list[str]]:
        """Return how texts are written, their values with a type, and notes.

        A column without any known text has no style.
        """
        tokens = self.rules.missing_values(self.view, self.name)
        trimmed = pc.utf8_trim_whitespace(texts)
        missing = pc.is_in(trimmed, value_set=pa.array(tokens, texts.type))
        known = texts.filter(pc.invert(missing))
        if not len(known):
            return None, pa.nulls(len(texts)), []
        notes: list[str] = []
        style: TextStyle | None = self._style(known, notes)
        if style is None:  # numbers with other texts among them
            blank = self.blank_token(known)
            if blank is None:
                self._refuse_texts(pc.if_else(missing, None, texts), len(known))
            missing = pc.or_(missing, pc.equal(trimmed, blank))
            style = self._style(texts.filter(pc.invert(missing)), notes) or TextStyle()
            notes.append(f"{self.where}: {blank!r} stands among numbers and was read as missing")
        return style, style.read(pc.if_else(missing, None, texts)), notes

    def read(self, column: pa.ChunkedArray) -> Column:
        """Read a column with a type."""
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        column = self.without_missing(column)
        is_dictionary = pa.types.is_dictionary(column.type)
        type_ = column.type.value_type if is_dictionary else column.type
        if int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0) == len(column):
            return self._empty()
        is_numeric, holds_text = is_number_type(type_), is_text(type_)
        is_time = pa.types.is_date(type_) or pa.types.is_time(type_) or pa.types.is_timestamp(type_)
        is_time = is_time or pa.types.is_duration(type_)
        if not (is_numeric or holds_text or is_time or pa.types.is_boolean(type_)):
            return self._passed(f"is of type {type_}", "")
        declared = self.declared
        if declared is Kind.NUMERIC or (
            declared is None and (is_numeric or is_time) and not is_dictionary
        ):
            if declared is None and pa.types.is_integer(type_) and (reason := self._label(column)):
                return self._labels(column, reason)
            return self._numbers(column, type_)
        if holds_text and not is_dictionary and declared is None:
            self._refuse_texts(column, len(column) - column.null_count, most=0.5)
            return self._labels(column, self._digits(column))
        return self._categories(column)

    # --- texts ----------------------------------------------------------------------------------

    def _style(self, known: pa.Array, notes: list[str]) -> TextStyle | None:
        """Return how known texts are written; None for numbers with other texts among them."""
        rules, declared, sample = self.rules, self.declared, known[:_SAMPLE]
        number = number_style(sample, rules.decimal, rules.thousands)
        if number is not None or declared is Kind.NUMERIC:
            number = number_style(known, rules.decimal, rules.thousands)
        if number is not None:
            is_label = number.decimals == 0 and not number.thousands
            is_label = is_label and (has_leading_zeros(known) or is_beyond_integers(known))
            if is_label and declared is not Kind.NUMERIC:
                return TextStyle()
            if (number.decimal, number.thousands) != (rules.decimal or ".", rules.thousands or ""):
                marks = f"a decimal {_name(number.decimal)}"
                marks += f" and thousands {_name(number.thousands)}" * bool(number.thousands)
                notes.append(f"{self.where}: numbers were read with {marks}")
            return number
        if declared in (None, Kind.NUMERIC) and unit_style(sample, rules.decimal, rules.thousands):
            amount = unit_style(known, rules.decimal, rules.thousands)
            if amount is not None:
                marks = f"the unit {amount.unit!r}, a decimal {_name(amount.decimal)}"
                marks += f" and thousands {_name(amount.thousands)}" * bool(amount.thousands)
                notes.append(f"{self.where}: numbers were read with {marks}")
                return amount
        if declared in (None, Kind.NUMERIC) and (times := time_styles(known)):
            if len({style.template.replace("%d", "%m") for style in times}) < len(times):
                notes.append(
                    f"{self.where}: dates may be day/month or month/day and are passed through; "
                    "write them as year-month-day"
                )
                return TextStyle()
            return times[0]
        if declared is None and is_dates(known):
            notes.append(
                f"{self.where} holds dates in several formats and is read as text; write all of "
                "them as year-month-day"
            )
            return TextStyle()
        if declared is None and has_units(known):
            notes.append(
                f"{self.where} holds numbers with signs, several units or spaces and is read as "
                "text; write plain numbers, or name the thousands mark (--thousands ' ')"
            )
            return TextStyle()
        if is_truth(known):
            return TruthStyle()
        if declared in (Kind.BINARY, Kind.CATEGORICAL):
            return TextStyle()
        if is_ambiguous(known):
            raise DataError(
                f"{self.where} holds numbers whose comma may be a decimal or a thousands mark; "
                "say which (--decimal , or --thousands ,)"
            )
        bad = int(pc.sum(pc.invert(self._is_number(known))).as_py())
        return None if declared is Kind.NUMERIC or bad <= len(known) / 2 else TextStyle()

    def _is_number(self, texts: Any) -> Any:
        return is_number(texts, self.rules.decimal or ".", self.rules.thousands or "")

    def blank_token(self, known: pa.Array) -> str | None:
        """Return the one text among numbers, if it is a usual word for nothing."""
        other = known.filter(pc.invert(self._is_number(known)))
        words = pc.unique(pc.utf8_trim_whitespace(other)).to_pylist()
        return words[0] if len(words) == 1 and words[0].lower() in _BLANKS else None

    def _refuse_texts(self, column: Any, known: int, most: float = 1.0) -> None:
        """Raise where a column is nearly all numbers: it is a number column with a fault in it."""
        bad = pc.fill_null(pc.invert(self._is_number(column)), False).to_numpy(zero_copy_only=False)
        count, first = int(bad.sum()), self.rules.at(int(bad.argmax()))
        if not 0 < count <= known * most:
            return
        if self.declared is Kind.NUMERIC:
            raise DataError(
                f"{self.where} was declared numeric but holds text in {count} of {len(bad)} "
                f"rows (the first is {first}); correct these rows or declare it categorical"
            )
        raise DataError(
            f"{self.where} is numeric but holds text in {count} of {known} rows (the first is "
            f"{first}); correct these rows, name a text that means missing (--na-values), or "
            f"declare the column categorical (--kind {self.name}=categorical)"
        )

    def _namibia(self, texts: Any, values: Any) -> list[str]:
        """Point at ``NA`` among codes of two capital letters: it may be a country."""
        tokens = self.rules.missing_values(self.view, self.name)
        if "NA" not in tokens or "NA" in self.rules.na_values:
            return []
        known = texts.filter(pc.is_valid(values))
        count = int(pc.sum(pc.equal(texts, "NA")).as_py() or 0)
        if not count or not pc.all(pc.match_substring_regex(known, "^[A-Z]{2}$")).as_py():
            return []
        return [f"{self.where}: 'NA' in {count} rows was read as missing; --na-values '' keeps it"]

    # --- types ----------------------------------------------------------------------------------

    def without_missing(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Empty the cells whose value the user named as missing."""
        if not self.rules.na_values:
            return column
        tokens = {t for t in self.rules.missing_values(self.view, self.name) if t}
        tokens &= {v.rpartition("=")[2] for v in self.rules.na_values}
        values = (
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        )
        if is_text(values.type):
            named = pa.array(sorted(tokens), values.type)
        elif is_number_type(values.type):
            values = values.cast(pa.float64(), safe=False)
            named = pa.array([float(t) for t in tokens if _is_float(t)], pa.float64())
        else:
            return column
        gone = pc.is_in(values, value_set=named)
        return pc.if_else(gone, pa.scalar(None, column.type), column) if len(named) else column

    def _label(self, column: pa.ChunkedArray) -> str:
        """Return why whole numbers are labels, or nothing."""
        name = self.name.lower()
        if _LABEL_NAME.search(name):
            return "its name"
        known = column.drop_null()
        if len(known) < _FEW_ROWS or pc.count_distinct(known).as_py() < len(known):
            return ""
        ends = pc.min_max(known).as_py()
        if _ID_NAME.search(name):
            return "its name"
        width = len(str(ends["max"]))
        if ends["min"] > 0 and len(str(ends["min"])) == width and width >= _LONG_LABEL:
            return f"{width} digits that never repeat"
        return "numbers beyond 2^53" if max(-ends["min"], ends["max"]) > _LARGEST_EXACT else ""

    def _digits(self, column: pa.ChunkedArray) -> str:
        """Return why texts of digits are labels, or nothing."""
        if has_leading_zeros(column):
            return "leading zeros"
        return "more digits than a number keeps" if is_beyond_integers(column) else ""

    def _labels(self, column: pa.ChunkedArray, reason: str) -> Column:
        """Read labels: categories where there are few, else passed through."""
        known = len(column) - column.null_count
        different = pc.count_distinct(column).as_py()
        if different > _MOST_CATEGORIES or (different > _FEW_ROWS and different > known / 2):
            what = f"labels ({reason})" if reason else "texts"
            return self._passed(
                f"has {different:,} different {what} in {known:,} rows", "categorical"
            )
        read = self._categories(column)
        if not reason:
            return read
        note = (
            f"{self.where} holds labels ({reason}) and is categorical; --kind {self.name}=numeric"
        )
        return replace(read, notes=(f"{note} says otherwise",))

    def _empty(self) -> Column:
        return self._passed("has no value in any row", "")

    def _passed(self, fact: str, kind: str) -> Column:
        way = f"; --kind {self.name}={kind} fills it" if kind else ""
        note = f"{self.where} {fact} and is passed through, empty for new people{way}"
        return Column(None, np.empty(0), (note,))

    def _numbers(self, column: pa.ChunkedArray, type_: pa.DataType) -> Column:
        values = self.numbers(column)
        feature = Feature(self.name, dtype="double" if is_text(type_) else str(type_))
        if feature.is_temporal:
            return Column(feature, values)
        if (
            self.declared is None
            and not pa.types.is_dictionary(column.type)
            and _is_zero_one(values)
        ):
            return Column(replace(feature, kind=Kind.BINARY, categories=(0, 1)), values)
        decimals = type_.scale if pa.types.is_decimal(type_) else _decimals(values)
        if not feature.is_integer and decimals is not None and 0 <= decimals <= MOST_DECIMALS:
            feature = replace(feature, decimals=decimals)
        return Column(feature, values, self._sentinel(values))

    def numbers(self, column: pa.ChunkedArray) -> np.ndarray:
        """Return a column's cells as floats; times as Arrow's integers of their type."""
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        if is_text(column.type):
            self._refuse_texts(column, len(column) - column.null_count)
            column = pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if pa.types.is_date64(column.type):
            column = column.cast(pa.date32())
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        values = column.to_numpy()
        is_small = values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)
        return values.astype(np.float32 if is_small else np.float64, copy=False)

    def _sentinel(self, values: np.ndarray) -> tuple[str, ...]:
        """Point at -999 and its like where they stand apart from all other values."""
        known = values[~np.isnan(values)]
        for value in {float(known.min()), float(known.max())} & set(_SENTINELS):
            others = known[known != value]
            count = len(known) - len(others)
            if count < 2 or not len(others):
                continue
            low, high = float(others.min()), float(others.max())
            gap = low - value if value < low else value - high
            if (value < 0 <= low) or gap > max(high - low, 1.0):
                return (
                    f"{self.where}: {value:g} in {count:,} rows looks like a missing value; if it "
                    f"is, say --na-values {self.name}={value:g}",
                )
        return ()

    def _categories(self, column: pa.ChunkedArray) -> Column:
        is_dictionary = pa.types.is_dictionary(column.type)
        if pa.types.is_boolean(column.type):
            values: tuple[Any, ...] = (False, True)
        elif is_dictionary:
            if any(c.dictionary.null_count for c in column.chunks):
                column = column.cast(column.type.value_type).dictionary_encode()
            column = column.unify_dictionaries()
            values = tuple(column.chunk(0).dictionary.to_pylist())
        else:
            values = tuple(
                sorted(v for v in pc.unique(column).to_pylist() if v is not None and v == v)
            )
        kind = self.declared or (Kind.BINARY if len(values) == 2 else Kind.CATEGORICAL)
        if kind is Kind.BINARY and len(values) != 2:
            raise DataError(
                f"{self.where} was declared binary and must have two different values, "
                f"got {len(values)}"
            )
        if is_dictionary:
            codes = np.concatenate(
                [c.indices.cast(pa.float64()).to_numpy(zero_copy_only=False) for c in column.chunks]
            )
        else:
            index = pc.index_in(column, value_set=pa.array(values, type=column.type))
            codes = index.cast(pa.float32()).to_numpy()
        dtype = str(column.type.value_type if is_dictionary else column.type)
        is_ordered = is_dictionary and column.type.ordered
        feature = Feature(self.name, kind, values, dtype, is_dictionary, is_ordered)
        small = len(values) < 2**16
        return Column(feature, codes.astype(np.float32 if small else np.float64, copy=False))


def _is_zero_one(values: np.ndarray) -> bool:
    """Whether known cells are zeros and ones, and both occur."""
    head = values[:_SAMPLE]
    if not np.isin(head[~np.isnan(head)], (0, 1)).all():
        return False
    known = values[~np.isnan(values)]
    return bool(np.isin(known, (0, 1)).all() and (known == 0).any() and (known == 1).any())


def _decimals(values: np.ndarray) -> int | None:
    """Return the digits after the point that all known floats have, if few and told by enough."""
    known = values[~np.isnan(values)]
    if len(known) < 5 or np.abs(known).max() > 1e9:
        return None
    for digits in range(5):
        if all(
            (np.round(part.astype(np.float64), digits).astype(part.dtype) == part).all()
            for part in (known[:_SAMPLE], known)
        ):
            return digits
    return None


def _is_float(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _name(mark: str) -> str:
    return {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}.get(mark, repr(mark))
