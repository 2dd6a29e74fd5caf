"""What a job leaves: completed tables, their origins, draws and a record, in a folder or database.

`cofill complete` and `cofill apply` write by these functions, so that their results are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import pyarrow as pa

from cofill.completion._completed import Completed
from cofill.completion._distributions import distributions
from cofill.completion._folder import RECORD_FORMAT, CompletionFolder
from cofill.metrics import ResultRecord, versions
from cofill.privacy import Ledger
from cofill.views import Source, is_url, sources_of, write_sql, write_table


@dataclass(frozen=True)
class CompletionResult:
    """What a job made: the completed views, the evaluation when asked, and where they are."""

    completed: Completed
    evaluation: ResultRecord | None
    out: str
    files: tuple[str, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """Where a result goes and how its rows stand.

    Parameters
    ----------
    out
        A folder that does not exist yet, or a database URL.
    endings
        ``{view: ending}`` of the files of a folder.
    order
        Order of rows, as in `FilledTable`.
    formulas
        What becomes of texts that a spreadsheet would compute, as in `write_table`.
    """

    out: str
    endings: Mapping[str, str]
    order: str = "source"
    formulas: str = "escape"

    @property
    def is_database(self) -> bool:
        """Whether the result goes to a database instead of a folder."""
        return is_url(self.out)

    def table_names(self, draws: int) -> list[str]:
        """Return the tables that a database gets."""
        kinds = ("completed", "origin", *(f"draw_{k}" for k in range(1, draws + 1)))
        return [f"{view}_{what}" for view in self.endings for what in kinds]

    def write_database(self, completed: Completed, drawn: Sequence[Completed]) -> tuple[str, ...]:
        """Write all tables or none; return their names."""
        tables: dict[str, pa.Table] = {}
        for view in self.endings:
            tables[f"{view}_completed"] = completed.table(view, self.order)
            tables[f"{view}_origin"] = completed.origin_table(view, self.order)
            for number, done in enumerate(drawn, start=1):
                tables[f"{view}_draw_{number}"] = done.table(view, self.order)
        write_sql(tables, self.out)
        return tuple(tables)

    def write_folder(
        self,
        folder: CompletionFolder,
        completed: Completed,
        drawn: Sequence[Completed],
        facts: Mapping[str, Any],
        *,
        record: ResultRecord | None = None,
        ledger: Ledger | None = None,
    ) -> tuple[str, ...]:
        """Write a folder's files; return their names."""
        for number, done in enumerate(drawn, start=1):
            for view, ending in self.endings.items():
                path = folder.draw(number, view, ending)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_table(done.filled(view, self.order), path, self.formulas)
        for view, ending in self.endings.items():
            filled, origin = completed.filled(view, self.order), folder.origin(view, ending)
            write_table(filled, folder.table(view, ending), self.formulas)
            write_table(completed.origin_table(view, self.order), origin, self.formulas)
        folder.write_record(facts)
        if record is not None:
            record.write(folder.evaluation)
            write_table(feature_errors(record), folder.feature_errors)
        if ledger is not None:
            ledger.save(folder.ledger)
        return tuple(sorted(path.name for path in folder.path.iterdir()))

    def facts(
        self, settings: dict[str, Any], completed: Completed, duration: float
    ) -> dict[str, Any]:
        """Say what was done, in counts: no id, no cell, no password."""
        labels = {
            name: [Source(part).label for part in sources_of(source)]
            for name, source in settings["sources"].items()
        }
        sources = {name: parts if parts[1:] else parts[0] for name, parts in labels.items()}
        settings = {**settings, "sources": sources}
        if self.is_database:
            settings["out"] = Source(self.out).label
        return {
            "format": RECORD_FORMAT,
            "version": 1,
            "settings": settings,
            "individuals": completed.source.n_individuals,
            "views": {name: self._view_facts(completed, name) for name in completed.source},
            "distributions": distributions(completed),
            "notes": list(completed.notes),
            "versions": versions(),
            "duration_s": round(duration, 3),
        }

    def _view_facts(self, completed: Completed, name: str) -> dict[str, Any]:
        """Return a view's counts, and what reads its table again: its file, columns to skip."""
        columns = list(completed.filled(name).beside)
        file = None if self.is_database else f"{name}{self.endings[name]}"
        return {**completed.counts(name), "file": file, "interval_columns": columns}


def feature_errors(record: ResultRecord) -> pa.Table:
    """Return errors per feature: one row a feature and metric, one column a method."""
    features = record.extra["features"]
    names = list(dict.fromkeys(key.split("/")[0] for key in features))
    rows: dict[tuple[str, str, str], dict[str, float | None]] = {}
    for key, views in features.items():
        method, metric = key.split("/")
        for view, values in views.items():
            for feature, value in values.items():
                rows.setdefault((view, feature, metric), {})[method] = value
    columns: dict[str, list[Any]] = {
        "view": [r[0] for r in rows],
        "feature": [r[1] for r in rows],
        "metric": [r[2] for r in rows],
    }
    return pa.table(columns | {n: [values.get(n) for values in rows.values()] for n in names})


def learned_facts(completer: Any) -> dict[str, Any]:
    """Return what a method says of itself: masks of views, or the losses of rounds."""
    facts: dict[str, Any] = {}
    if hasattr(completer, "masks_"):
        masks: dict[str, dict[str, dict[str, float]]] = {}
        for view, source, feature, weight in nw.from_native(completer.masks_).rows():
            masks.setdefault(view, {}).setdefault(source, {})[feature] = round(weight, 6)
        facts["masks"] = masks
    if hasattr(completer, "curve_"):
        facts["curve"] = completer.curve_
    return facts
