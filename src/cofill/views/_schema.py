"""Columns of a table as a model learned them, by which later tables of these columns are read.

A table that comes after the fit may hold one person, whose cells tell too little of what a column
is: ``1,234`` may be a number of two kinds, ``01/02/2020`` two days, and an empty column anything. A
schema keeps what was known at the fit: kinds, categories, decimals, the styles of texts and of
dates. Nothing is guessed again, and filled cells are written in the column's style, also where the
later table has no known cell in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cofill.codec import storable
from cofill.views._feature import Feature
from cofill.views._rules import ColumnRules
from cofill.views._source_table import SourceTable
from cofill.views._styles import TextStyle
from cofill.views._text import TextTable, unquoted
from cofill.views._view import View


@storable
@dataclass(frozen=True)
class TextForm:
    """How the lines of a text file are written."""

    delimiter: str
    line_end: bytes
    encoding: str


@storable
@dataclass(frozen=True)
class TableSchema:
    """What a model remembers of a view's table; it holds no row and no id.

    Parameters
    ----------
    features
        The columns that are learned from and filled, in the model's order.
    id_name
        The id's column; empty where rows are only numbered.
    passed
        Other columns of the table, which are written as they are.
    styles, spellings
        Of a text file: how each column is written, and each category of its coded columns (None
        for a category that was never written).
    text
        How its lines are written; None for tables with types.
    rules
        What the user said about columns.
    image_shape
        Shape of one row as an image.
    """

    features: tuple[Feature, ...]
    id_name: str = "id"
    passed: tuple[str, ...] = ()
    styles: Mapping[str, TextStyle] = field(default_factory=dict)
    spellings: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    text: TextForm | None = None
    rules: ColumnRules = field(default_factory=ColumnRules)
    image_shape: tuple[int, ...] | None = None

    @classmethod
    def of(cls, view: View) -> TableSchema:
        """Return the schema of a view; one that was read from a table keeps its styles.

        Examples
        --------
        >>> TableSchema.of(View("lab", [1], [[2.0]], ["dose"])).features
        (Feature('dose', numeric),)
        """
        source = view.source
        if source is None:
            return cls(view.features, view.id_name, image_shape=view.image_shape)
        names, data = set(view.feature_names), source.data
        form = None
        if isinstance(data, TextTable):
            form = TextForm(data.delimiter, data.line_end, data.encoding)
        return cls(
            features=view.features,
            id_name=source.id_column or "",
            passed=tuple(c for c in source.columns if c not in {*names, source.id_column}),
            styles={name: style for name, style in source.styles.items() if name in names},
            spellings={
                f.name: _spelled(f, source.spellings[f.name])
                for f in view.features
                if f.name in source.spellings
            },
            text=form,
            rules=source.rules,
            image_shape=view.image_shape,
        )

    @property
    def ending(self) -> str:
        """The ending of a file in which a view is written that has no file of its own."""
        if self.text is None:
            return ".parquet"
        return ".tsv" if self.text.delimiter == "\t" else ".csv"

    def empty_view(self, name: str, ids: np.ndarray, id_name: str | None = None) -> View:
        """Return a view of these columns without rows, for individuals with ids of this type.

        Completed, it is written as the table was that the model learned from.
        """
        id_name = self.id_name if id_name is None else id_name
        cells = np.empty((0, len(self.features)))
        shape = self.image_shape
        view = View(name, ids[:0], cells, self.features, image_shape=shape, id_name=id_name)
        if self.text is None:
            return view
        columns = (*([id_name] if id_name else []), *view.feature_names)
        form = self.text
        empty = TextTable(b"", form.delimiter, form.encoding, name)
        header = form.delimiter.encode().join(empty.field(column) for column in columns)
        source = SourceTable(
            data=TextTable(header + form.line_end, form.delimiter, form.encoding, name),
            row_ids=ids[:0],
            view_ids=view.ids,
            view_cells=view.cells,
            view_features=self.features,
            id_column=id_name or None,
            columns=columns,
            styles=self.styles,
            spellings={f.name: self.spelled(f, empty) for f in self.features},
            rules=self.rules,
        )
        return with_source(view, source)

    def spelled(self, feature: Feature, text: TextTable) -> dict[int, bytes]:
        """Return how each category was written, as fields of another text file."""
        words = self.spellings.get(feature.name, ())
        return {code: text.field(word) for code, word in enumerate(words) if word is not None}


def with_source(view: View, source: SourceTable) -> View:
    """Return the view as one that was read from a table; nobody else holds the view yet."""
    object.__setattr__(view, "source", source)
    return view


def _spelled(feature: Feature, spellings: Mapping[int, bytes]) -> tuple[str | None, ...]:
    return tuple(
        unquoted(spellings[code]).decode() if code in spellings else None
        for code in range(len(feature.categories))
    )
