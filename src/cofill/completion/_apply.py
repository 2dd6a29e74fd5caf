"""One job for people who come later: a saved model, their tables in, the same tables filled out.

Nothing is fitted. Tables are read by what the model remembers of its own: one person may be in
them, views and columns may be missing, columns may stand elsewhere. The result is written as
`run_completion` writes its own, all or nothing, with every observed cell as it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cofill.completion._completed import Completed
from cofill.completion._completer import AbstractCompleter
from cofill.completion._folder import RULES, CompletionFolder
from cofill.completion._job import TOGETHER, require_result, require_sources
from cofill.completion._progress import Progress, silent
from cofill.completion._registry import load_model
from cofill.completion._result import CompletionResult, Target, learned_facts
from cofill.errors import SettingError
from cofill.files import check_new_folder, new_folder
from cofill.views import (
    ColumnRules,
    Kind,
    MultiView,
    Source,
    check_new_tables,
    is_url,
    read_later_views,
)

_READING = ("id_type", "drop", "na_values", "decimal", "thousands", "delimiter", "encoding")


@dataclass(frozen=True)
class ApplyJob:
    """Whom to complete with a saved model, and where the result goes; checked when made.

    Parameters
    ----------
    model
        A folder that `CompletionJob.save` or `AbstractCompleter.save` wrote.
    sources
        ``{view: source}`` for views of the model; a view that is not among them is completed for
        everybody.
    out
        A folder that does not exist yet, or a database URL for new tables.
    id
        The id column, where it has another name than at the fit.
    intervals
        Level of the intervals to add, such as 0.9, or ``None`` for no intervals.
    draws
        How many multiple imputations to write beside the completed tables; 0 for none.
    id_type, drop, na_values, decimal, thousands, delimiter, encoding
        How tables are read, where it differs from the fit; see `ColumnRules`.
    order
        ``"source"``: rows as in the source, new people after them; ``"id"``: sorted by id.
    formulas
        ``"escape"``: texts of text files that a spreadsheet would compute get an apostrophe in
        front; ``"keep"``: they are written as they are.
    seed
        Start of the randomness of draws.
    """

    model: str
    sources: Mapping[str, str]
    out: str
    id: str | None = None
    intervals: float | None = None
    draws: int = 0
    id_type: str | None = None
    drop: Sequence[str] = ()
    na_values: Sequence[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    order: str = "source"
    formulas: str = "escape"
    seed: int = 0

    def __post_init__(self) -> None:
        require_sources(self.sources)
        ColumnRules(**self.reading)
        require_result(self)

    @property
    def reading(self) -> dict[str, Any]:
        """How tables are read, as fields of `ColumnRules`."""
        return {name: getattr(self, name) for name in _READING}


def run_apply(job: ApplyJob, progress: Progress | None = None) -> CompletionResult:
    """Run a job; after an error or an interrupt nothing of it remains on disk."""
    report_progress = progress or silent
    if not is_url(job.out):
        check_new_folder(Path(job.out))
    report_progress("read", 0.0)
    completer = load_model(job.model)
    _require_able(job, completer)
    endings = {
        name: Source(job.sources[name]).result_ending if name in job.sources else schema.ending
        for name, schema in completer.schemas.items()
    }
    target = Target(job.out, endings, job.order, job.formulas)
    if target.is_database:
        check_new_tables(target.table_names(job.draws), job.out)
    views = read_later_views(job.sources, completer.schemas, id=job.id, **job.reading)
    with ExitStack() as folders:
        folder = None
        if not target.is_database:
            folder = CompletionFolder(folders.enter_context(new_folder(Path(job.out))))
        return _apply(job, completer, views, target, folder, report_progress)


def _apply(
    job: ApplyJob,
    completer: AbstractCompleter,
    views: MultiView,
    target: Target,
    folder: CompletionFolder | None,
    report_progress: Progress,
) -> CompletionResult:
    started = time.perf_counter()
    if "interval" in completer.get_params():
        completer.set_params(interval=job.intervals)
    completed = completer.complete(views, progress=report_progress)
    drawn: list[Completed] = []
    if job.draws:
        report_progress("draws", 0.0)
        drawn = completer.draw(views, job.draws, key=job.seed)
    completed = replace(completed, notes=(*views.notes, *completed.notes))
    report_progress("write", 0.0)
    duration = time.perf_counter() - started
    settings = _settings(job, completer, views)
    facts = target.facts(settings, completed, duration) | learned_facts(completer)
    if folder is None:
        files = target.write_database(completed, drawn)
    else:
        ledger = getattr(completer, "ledger_", None)
        files = target.write_folder(folder, completed, drawn, facts, ledger=ledger)
    report_progress("write", 1.0)
    return CompletionResult(completed, None, facts["settings"]["out"], files, facts)


def _require_able(job: ApplyJob, completer: AbstractCompleter) -> None:
    """Refuse what the method of the model cannot tell."""
    others = f"save a model of the method {TOGETHER!r} or 'cooperative'"
    if job.draws and type(completer).draw is AbstractCompleter.draw:
        raise SettingError(
            f"the method {completer.name!r} tells one value a cell and draws none; leave the "
            f"draws out, or {others}"
        )
    if job.intervals is not None and "interval" not in completer.get_params():
        raise SettingError(
            f"the method {completer.name!r} gives intervals only where it is fitted; leave them "
            f"out, or {others}"
        )


def _settings(job: ApplyJob, completer: AbstractCompleter, views: MultiView) -> dict[str, Any]:
    """Return the settings of the record: those of the job, and how its tables are read again."""
    read = next(view.source.rules for view in views.values() if view.source is not None)
    kinds, passed = {}, []
    for name, schema in completer.schemas.items():
        for feature in schema.features:
            # A category of one person is no binary column: all that is coded is categorical.
            kind = Kind.NUMERIC if feature.kind is Kind.NUMERIC else Kind.CATEGORICAL
            kinds[f"{name}.{feature.name}"] = str(kind)
        source = views[name].source if name in views else None
        columns = source.columns if source is not None else ()
        known = {source.id_column if source else None, *(f.name for f in schema.features)}
        passed += [f"{name}.{column}" for column in columns if column not in known]
    id_name = next(view.id_name for view in views.values())
    return {
        **asdict(job),
        **{name: getattr(read, name) for name in RULES},
        "id": id_name or None,
        "method": completer.name,
        "settings": {},
        "kinds": kinds,
        "ignore": passed,
    }
