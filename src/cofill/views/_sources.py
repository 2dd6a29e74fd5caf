"""Where views are read from and written to: files by their ending, databases by their URL."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.files import draft_of
from cofill.registry import Registry
from cofill.views._formulas import escaped_table, require_formulas
from cofill.views._frames import read_ids, text_to_table, view_from_table
from cofill.views._multiview import MultiView, require_id
from cofill.views._rules import ColumnRules
from cofill.views._source_table import FilledTable
from cofill.views._sql_connection import safe_label
from cofill.views._stack import count_rows, require_apart, stack_tables
from cofill.views._text import TextTable
from cofill.views._view import View

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_URL = re.compile(r"^([a-z][a-z0-9_]*)(\+[a-z0-9_]+)?://")

SOURCES = Registry("cofill.sources", "source")
"""Forms of source: subclasses of `AbstractSourceForm`."""

SOURCES.add(
    "csv", "cofill.views._file_forms:CsvForm", "text files: .csv, .txt, also with .gz or .zst"
)
SOURCES.add("tsv", "cofill.views._file_forms:TsvForm", "text files, written with tabs: .tsv")
SOURCES.add("parquet", "cofill.views._file_forms:ParquetForm", "Parquet files: .parquet, .pq")
SOURCES.add("feather", "cofill.views._file_forms:FeatherForm", "Arrow files: .feather, .arrow")
SOURCES.add("excel", "cofill.views._excel:ExcelForm", "first sheets of Excel files: .xlsx")
SOURCES.add(
    "sql",
    "cofill.views._sql:SqlForm",
    "databases: URL#table, URL#schema.table or 'URL#SELECT …' (PostgreSQL, SQLite and more)",
)


class AbstractSourceForm(ABC):
    """One form of table: which targets it recognises, how they are read and, maybe, written.

    A file's form is known by its ending; that of a URL by its scheme, and every URL whose scheme
    nobody claims is taken for a database.
    """

    endings: ClassVar[tuple[str, ...]] = ()
    """File endings, in lower case, with their dot."""
    schemes: ClassVar[tuple[str, ...]] = ()
    """Schemes of URLs, such as ``"sqlite"``."""
    result_ending: ClassVar[str] = ".parquet"
    """The ending of files in which results are written, where the form cannot be."""
    keeps_text: ClassVar[bool] = False
    """Whether `write` takes a `FilledTable`, to keep the bytes of what was observed."""
    rules: ClassVar[Mapping[str, Any]] = {}
    """Fields of `ColumnRules`: how rows are counted, and whether all ids are text in it."""

    @abstractmethod
    def read(self, target: str, rules: ColumnRules) -> Any:
        """Return the whole table as Arrow; a file is there and is no folder.

        `rules` say how text is written, for forms without types.
        """

    def write(self, table: pa.Table, path: Path) -> None:
        """Write a table to a draft that becomes the file once it is whole."""
        raise SettingError(
            f"{' and '.join(self.endings)} files can be read but not written; choose .parquet"
        )


def is_url(text: str) -> bool:
    """Whether a source or target is a URL, such as a database's, rather than a file.

    Examples
    --------
    >>> is_url("sqlite:///lab.db"), is_url("lab.csv")
    (True, False)
    """
    return bool(_URL.match(text))


@dataclass(frozen=True)
class Source:
    """A place a view is read from: a file, or ``URL#table`` / ``URL#SELECT …``.

    Examples
    --------
    >>> Source("ward/clinic.csv").form
    'csv'
    >>> Source("sqlite:///lab.db#results").form
    'sql'
    """

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", str(self.text))
        self.form  # noqa: B018  an unknown form is refused at once

    @property
    def form(self) -> str:
        """Name of the form in `SOURCES`: ``"csv"``, ``"parquet"``, ``"sql"`` or a plug-in's."""
        return self._recognised[0]

    @cached_property
    def _recognised(self) -> tuple[str, AbstractSourceForm]:
        url, name = _URL.match(self.text), Path(self.text).name.lower()
        for entry in SOURCES:
            if not entry.is_broken:
                form = entry.load()
                if url[1] in form.schemes if url else name.endswith(form.endings):
                    return entry.name, form()
        if url:
            return "sql", SOURCES.load("sql")()
        raise SettingError(
            f"{self.label}: the form of this source is not known; give a .csv or .parquet file, "
            "or a database as URL#table"
        )

    @property
    def label(self) -> str:
        """The source as it may be shown: without a password, without a query's text."""
        return safe_label(self.text) if is_url(self.text) else self.text

    def read(self, rules: ColumnRules | None = None) -> pa.Table | TextTable:
        """Read the whole source: an Arrow table, or a text file with its fields."""
        form, rules = self._recognised[1], rules or ColumnRules()
        if is_url(self.text):
            return form.read(self.text, rules)
        path = Path(self.text)
        if not path.exists():
            raise DataError(f"{self.label}: there is no such file; check the path")
        if path.is_dir():
            raise DataError(f"{self.label} is a folder; give a file")
        try:
            table = form.read(self.text, rules)
        except PermissionError:
            raise DataError(f"{self.label} may not be read; check its permissions") from None
        if rules.is_escaped and isinstance(table, TextTable):
            return replace(table, is_escaped=True)
        return table

    def read_table(self, id: str | None = None) -> pa.Table:  # noqa: A002
        """Read the whole source as an Arrow table; ids of a text file stay text."""
        table = self.read()
        return table if isinstance(table, pa.Table) else text_to_table(table, id)

    @property
    def rules(self) -> dict[str, Any]:
        """How rows of this source are counted, and whether its ids have a type."""
        return dict(self._recognised[1].rules)

    @property
    def result_ending(self) -> str:
        """The ending of files in which results on this source are written: its own if it can."""
        form = self._recognised[1]
        if is_url(self.text) or type(form).write is AbstractSourceForm.write:
            return form.result_ending
        name = Path(self.text).name.lower()
        return max((e for e in form.endings if name.endswith(e)), key=len)


Sources = Mapping[str, "str | Path | Source | Sequence[str | Path | Source]"]


def read_views(
    sources: Sources,
    *,
    id: str | None = None,  # noqa: A002
    **rules: Any,
) -> MultiView:
    """Read one view per source.

    Parameters
    ----------
    sources
        ``{view: source}``; a source is a file (.csv, .tsv, .parquet, .feather, text also with .gz
        or .zst), ``URL#table`` or ``URL#SELECT …``. Several sources of one view have the same
        columns of different people.
    id
        The column that identifies an individual, in every source. A single source needs none: its
        rows are individuals then.
    rules
        Fields of `ColumnRules`: ``kinds``, ``ignore``, ``drop``, ``id_type``, ``na_values``, and
        ``decimal``, ``thousands``, ``delimiter``, ``encoding`` of text files.
    """
    return read_view_parts(sources, id=id, **rules)[0]


def read_view_parts(
    sources: Sources,
    *,
    id: str | None = None,  # noqa: A002
    **rules: Any,
) -> tuple[MultiView, dict[str, tuple[np.ndarray, ...]]]:
    """Read views as `read_views` does, with the ids of each source of views that have several."""
    placed = {
        name: tuple(s if isinstance(s, Source) else Source(str(s)) for s in sources_of(listed))
        for name, listed in sources.items()
    }
    common = ColumnRules(**rules)
    require_id(id, list(placed))
    tables = {name: [part.read(common) for part in parts] for name, parts in placed.items()}
    common.check({name: read[0].column_names for name, read in tables.items()})
    views, ids = [], {}
    for name, parts in placed.items():
        own_rules, labels = replace(common, **parts[0].rules), [part.label for part in parts]
        read, where = tables.pop(name), ", ".join(labels)
        table = stack_tables(name, read, labels) if len(read) > 1 else read[0]
        if len(read) > 1 and id is not None and id in table.column_names:
            sizes = np.cumsum([count_rows(part) for part in read])[:-1]
            ids[name] = tuple(np.split(read_ids(table, id, where, own_rules), sizes))
            require_apart(name, ids[name], labels)
        views.append(view_from_table(name, table, id=id, rules=own_rules, where=where))
    return MultiView(views), ids


def sources_of(listed: Any) -> tuple[Any, ...]:
    """Return the sources of a view: the one there is, or several.

    Examples
    --------
    >>> sources_of("a.csv"), sources_of(["a.csv", "b.csv"])
    (('a.csv',), ('a.csv', 'b.csv'))
    """
    return tuple(listed) if isinstance(listed, list | tuple) else (listed,)


def read_view(
    name: str,
    source: str,
    *,
    id: str | None,  # noqa: A002
    rules: ColumnRules,
    image: tuple[int, ...] | None = None,
    is_only_view: bool = True,
) -> View:
    """Read one view, which may hold images.

    Parameters
    ----------
    name, source, id
        As in `read_views`.
    rules
        What the user said about columns.
    image
        Height and width of the images whose pixels are the columns, row by row; None for a table.
    is_only_view
        Whether the rules are about this view alone: a column that it lacks is then an error.
    """
    table_source = Source(source)
    table = table_source.read(rules)
    if is_only_view:
        rules.check({name: table.column_names})
    if image is not None:  # pixels are numbers, also those that are dark everywhere
        rules = replace(rules, kinds={c: "numeric" for c in table.column_names if c != id})
    rules = replace(rules, **table_source.rules)
    view = view_from_table(name, table, id=id, rules=rules, where=table_source.label)
    return view if image is None else replace(view, image_shape=image)


def is_writable(path: Path) -> bool:
    """Whether `write_table` knows a file's ending."""
    try:
        form = Source(str(path))._recognised[1]
    except SettingError:
        return False
    return not is_url(str(path)) and type(form).write is not AbstractSourceForm.write


def write_table(table: pa.Table | FilledTable, path: Path, formulas: str = "escape") -> None:
    """Write a table in the form of the file's ending; it appears whole or not at all.

    A `FilledTable` that was read from text is written as that text, with only its holes filled.
    Texts of a text file that a spreadsheet would compute get an apostrophe in front, unless
    ``formulas="keep"``.
    """
    require_formulas(formulas)
    form = Source(str(path))._recognised[1]
    if isinstance(table, FilledTable) and not (form.keeps_text and table.has_text):
        table = table.to_arrow()
    if form.keeps_text and formulas == "escape":
        is_filled = isinstance(table, FilledTable)
        table = replace(table, formulas=formulas) if is_filled else escaped_table(table)
    with draft_of(path, sync=False) as draft:
        form.write(table, draft)
        if compression := _COMPRESSIONS.get(path.suffix.lower()):
            plain = draft.read_bytes()
            with pa.output_stream(str(draft), compression=compression) as stream:
                stream.write(plain)
