"""Where a completion keeps its files: its tables, its record, its ledger and what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill.files import read_document, write_json
from cofill.privacy import SentLog
from cofill.views import Source, read_views, to_table

RECORD_FORMAT = "cofill-completion"
RULES = (
    *("kinds", "ignore", "id_type", "drop", "na_values"),
    *("decimal", "thousands", "delimiter", "encoding"),
)
"""Fields of `ColumnRules` that a job states."""


def completed_folder(path: str | Path) -> CompletionFolder | None:
    """Return the folder if `cofill complete` has written it, or None."""
    folder = CompletionFolder(Path(path))
    return folder if "://" not in str(path) and folder.record.is_file() else None


def read_records(source: str, id: str | None = None) -> tuple[Any, str | None]:  # noqa: A002
    """Return an Arrow table with one row a person, and its id column.

    The source is a table, or a folder that `cofill complete` wrote, whose tables are joined without
    the ends of intervals.
    """
    folder = completed_folder(source)
    if folder is None:
        return Source(source).read_table(id), id
    reading = folder.reading()
    tables = [to_table(view) for view in read_views(**reading).values()]
    joined = tables[0]
    for table in tables[1:]:
        joined = joined.join(table, reading["id"], join_type="inner")
    return joined.sort_by(reading["id"]) if tables[1:] else joined, reading["id"]


@dataclass(frozen=True)
class CompletionFolder:
    """The folder that `cofill complete` writes; this class owns the names of its files."""

    path: Path

    def table(self, view: str, ending: str) -> Path:
        """Return where a view's completed table is."""
        return self.path / f"{view}{ending}"

    def origin(self, view: str, ending: str) -> Path:
        """Return where the origins of a view's cells are."""
        return self.path / f"{view}_origin{ending}"

    def draw(self, number: int, view: str, ending: str) -> Path:
        """Return where a view's table in one of several draws is; they are counted from 1."""
        return self.path / "draws" / str(number) / f"{view}{ending}"

    @property
    def record(self) -> Path:
        """What was done: settings, counts, distributions; no id and no cell."""
        return self.path / "completion.json"

    def write_record(self, facts: Mapping[str, Any]) -> None:
        """Write what was done, with its format and version."""
        write_json(self.record, facts, sync=False)

    def read_record(self) -> dict[str, Any]:
        """Return what was done; raise a `StoreError` for a file that is no such record."""
        return read_document(self.record, RECORD_FORMAT)

    def reading(self) -> dict[str, Any]:
        """Return how the completed tables are read again: ``sources``, ``id`` and rules of columns.

        Ends of intervals are no features, and what was ignored before is ignored again.
        """
        facts = self.read_record()
        rules = {name: facts["settings"][name] for name in RULES if name != "drop"}
        rules["ignore"] = list(rules["ignore"])
        for view, about in facts["views"].items():
            rules["ignore"] += (f"{view}.{column}" for column in about["interval_columns"])
        rules["is_escaped"] = facts["settings"]["formulas"] == "escape"
        sources = {view: str(self.path / about["file"]) for view, about in facts["views"].items()}
        return {"sources": sources, "id": facts["settings"]["id"], **rules}

    @property
    def evaluation(self) -> Path:
        """The result record of an evaluation."""
        return self.path / "evaluation.json"

    @property
    def feature_errors(self) -> Path:
        """The errors of an evaluation for each feature."""
        return self.path / "evaluation_features.csv"

    @property
    def ledger(self) -> Path:
        """The ledger of the sites' releases, where the method has sites."""
        return self.path / "ledger.jsonl"

    @property
    def sent(self) -> SentLog:
        """The sites' releases themselves, for their owner only."""
        return SentLog(self.path / "sent")
