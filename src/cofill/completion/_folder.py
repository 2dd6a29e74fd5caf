"""Where a completion keeps its files: its tables, its record, its ledger and what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill.files import read_document, write_json
from cofill.privacy import SentLog

RECORD_FORMAT = "cofill-completion"


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
