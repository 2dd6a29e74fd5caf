"""One job from files to files: read views, complete them, say how well, write all or nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cofill.completion._completed import Completed
from cofill.completion._completer import AbstractCompleter, Progress, silent
from cofill.completion._distributions import distributions
from cofill.completion._evaluate import evaluate
from cofill.completion._folder import RECORD_FORMAT, RULES, CompletionFolder
from cofill.completion._intervals import with_intervals
from cofill.completion._registry import METHODS, make
from cofill.errors import DataError, SettingError
from cofill.files import check_new_folder, new_folder
from cofill.metrics import ResultRecord, versions
from cofill.privacy import Ledger
from cofill.views import (
    ORDERS,
    ColumnRules,
    MultiView,
    Source,
    check_new_tables,
    is_url,
    read_views,
    write_sql,
    write_table,
)

TOGETHER, SEPARATE = "pooled", "cooperative"
"""The methods for one owner of all tables, and for sites that keep their rows at home."""

YARDSTICKS = ("mean", "knn", "iterative")


@dataclass(frozen=True)
class CompletionJob:
    """What to complete, how, and where the result goes; checked when made.

    Parameters
    ----------
    sources
        ``{view: source}``: a file, ``URL#table`` or ``URL#SELECT …``.
    id
        The id column, the same in every source; a single source needs none.
    out
        A folder that does not exist yet, or a database URL for new tables
        ``<view>_completed`` and ``<view>_origin``.
    separate
        Whether every view is a site that keeps its rows at home, as organisations must: the method
        is the one of a federation, and what sites send is noted for an audit. Otherwise all tables
        are used together, as one owner may.
    method
        Name of a registered method; ``"auto"`` is the best for the case.
    settings
        Settings of the method.
    evaluate
        Whether to hide known rows and report the error, beside the methods in `compare`.
    compare
        Methods to evaluate beside `method`; ``"auto"`` stands for the usual yardsticks and, for
        several views, the method of the other case: what keeping rows at home costs.
    share, repeats
        Share of each view's rows hidden in an evaluation, and how often it is repeated.
    intervals
        Level of the intervals to add, such as 0.9, or ``None`` for no intervals.
    draws
        How many multiple imputations to write beside the completed tables; 0 for none.
    kinds, ignore, drop, id_type, na_values, decimal, thousands, delimiter, encoding
        How tables are read; see `ColumnRules`.
    order
        ``"source"``: rows as in the source, new people after them; ``"id"``: sorted by id.
    seed
        Start of all randomness.
    """

    sources: Mapping[str, str]
    id: str | None
    out: str
    separate: bool = False
    method: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluate: bool = False
    compare: Sequence[str] = ("auto",)
    share: float = 0.1
    repeats: int = 3
    intervals: float | None = None
    draws: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_type: str | None = None
    na_values: Sequence[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    order: str = "source"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sources:
            raise SettingError("there is no view; give at least one as --view NAME=SOURCE")
        for name in self.sources:
            if not re.fullmatch(r"[\w.-]+", name):
                raise SettingError(
                    f"a view's name becomes a file name and must be letters, digits, '_', '-' or "
                    f"'.', got {name!r}"
                )
        for source in self.sources.values():
            Source(source)
        if self.method == "auto":
            object.__setattr__(self, "method", SEPARATE if self.separate else TOGETHER)
        if tuple(self.compare) == ("auto",):
            beside = (TOGETHER, SEPARATE) if len(self.sources) > 1 else ()
            object.__setattr__(self, "compare", (*beside, *YARDSTICKS))
        for method in (self.method, *(self.compare if self.evaluate else ())):
            METHODS.find(method)
        if self.separate and METHODS.find(self.method).facts.get("pools_rows", True):
            raise SettingError(
                f"separate sites keep their rows at home, and the method {self.method!r} pools "
                f"them; leave the method out or choose {SEPARATE!r}"
            )
        if self.separate and len(self.sources) == 1:
            raise SettingError("a single view has nobody to be separate from; give two at least")
        if "seed" in self.settings:
            raise SettingError("the seed is the job's, for all methods alike; give it as --seed")
        if self.seed < 0:
            raise SettingError(f"seed must be 0 or more, got {self.seed}")
        if self.settings:  # wrong ones are told before anything is read or trained
            make(self.method, **self.settings)
        if self.draws < 0:
            raise SettingError(f"draws must be 0 or more, got {self.draws}")
        if self.draws and METHODS.find(self.method).load().draw is AbstractCompleter.draw:
            raise SettingError(
                f"the method {self.method!r} tells one value a cell and draws none; leave the "
                f"draws out, or choose {TOGETHER!r} or {SEPARATE!r}"
            )
        ColumnRules(**self.rules)
        if self.order not in ORDERS:
            raise SettingError(f"order must be {' or '.join(ORDERS)}, got {self.order!r}")
        if self.repeats < 1:
            raise SettingError(f"repeats must be at least 1, got {self.repeats}")
        if not 0 < self.share < 1:
            raise SettingError(f"share must be between 0 and 1, got {self.share}")
        if self.intervals is not None and not 0 < self.intervals < 1:
            raise SettingError(f"intervals must be between 0 and 1, got {self.intervals}")

    @property
    def rules(self) -> dict[str, Any]:
        """How tables are read, as fields of `ColumnRules`."""
        return {name: getattr(self, name) for name in RULES}

    @property
    def to_database(self) -> bool:
        """Whether the result goes to a database instead of a folder."""
        return is_url(self.out)


@dataclass(frozen=True)
class CompletionResult:
    """What a job made: the completed views, the evaluation when asked, and where they are."""

    completed: Completed
    evaluation: ResultRecord | None
    out: str
    files: tuple[str, ...]
    facts: Mapping[str, Any]


def run_completion(job: CompletionJob, progress: Progress | None = None) -> CompletionResult:
    """Run a job; after an error or an interrupt nothing of it remains on disk.

    A folder also keeps what the sites of the method sent, for an audit.
    """
    report_progress = progress or silent
    if job.to_database:
        check_new_tables(_table_names(job), job.out)
    else:
        check_new_folder(Path(job.out))
    report_progress("read", 0.0)
    views = read_views(job.sources, id=job.id, **job.rules)
    require_shared_individuals(views)
    if job.to_database:
        return _complete(job, views, report_progress, None)
    with new_folder(Path(job.out)) as folder:
        return _complete(job, views, report_progress, CompletionFolder(folder))


def _complete(
    job: CompletionJob,
    views: MultiView,
    report_progress: Progress,
    folder: CompletionFolder | None,
) -> CompletionResult:
    started = time.perf_counter()
    makers = {
        name: _maker(name, job.settings if name == job.method else {})
        for name in dict.fromkeys([job.method, *job.compare] if job.evaluate else [job.method])
    }
    completer = makers[job.method](job.seed)
    own_intervals = job.intervals is not None and "interval" in completer.get_params()
    if own_intervals:
        completer.set_params(interval=job.intervals)
    completer.sent = None if folder is None else folder.sent
    completed = completer.fit_complete(views, progress=report_progress)
    if job.intervals is not None and not own_intervals:
        report_progress("intervals", 0.0)
        completed = with_intervals(
            completed, lambda: makers[job.method](job.seed), level=job.intervals, key=job.seed
        )
    drawn: list[Completed] = []
    if job.draws:
        report_progress("draws", 0.0)
        drawn = completer.draw(views, job.draws, key=job.seed)
    completed = replace(completed, notes=(*views.notes, *completed.notes))
    record = None
    if job.evaluate:
        seeds = range(job.seed, job.seed + job.repeats)
        record = evaluate(
            views, makers, share=job.share, seeds=list(seeds), progress=report_progress
        )
    report_progress("write", 0.0)
    facts = _facts(job, completed, time.perf_counter() - started) | _learned(completer)
    if folder is None:
        files = _write_database(job, completed, drawn)
    else:
        ledger: Ledger | None = getattr(completer, "ledger_", None)
        _write_draws(folder, job, drawn)
        files = _write_folder(folder, job, completed, record, facts, ledger)
    report_progress("write", 1.0)
    return CompletionResult(completed, record, facts["settings"]["out"], files, facts)


def require_shared_individuals(views: MultiView) -> None:
    """Raise a `DataError` unless some individual is in two views (one view alone is fine)."""
    if len(views) > 1 and not any(views.overlaps().values()):
        counts = ", ".join(f"{name} {len(view):,}" for name, view in views.items())
        raise DataError(
            f"no individual is in more than one view (rows: {counts}), so nothing links them; "
            "check that --id names the same ids, written the same way, in every view"
        )


def _maker(name: str, settings: Mapping[str, Any]) -> Callable[[int], AbstractCompleter]:
    def build(seed: int) -> AbstractCompleter:
        completer = make(name, **settings)
        return completer.set_params(seed=seed) if "seed" in completer.get_params() else completer

    return build


def _table_names(job: CompletionJob) -> list[str]:
    kinds = ("completed", "origin", *(f"draw_{k}" for k in range(1, job.draws + 1)))
    return [f"{view}_{what}" for view in job.sources for what in kinds]


def _write_database(
    job: CompletionJob, completed: Completed, drawn: Sequence[Completed]
) -> tuple[str, ...]:
    tables: dict[str, pa.Table] = {}
    for view in job.sources:
        tables[f"{view}_completed"] = completed.table(view, job.order)
        tables[f"{view}_origin"] = completed.origin_table(view, job.order)
        for number, done in enumerate(drawn, start=1):
            tables[f"{view}_draw_{number}"] = done.table(view, job.order)
    write_sql(tables, job.out)
    return tuple(tables)


def _write_draws(folder: CompletionFolder, job: CompletionJob, drawn: Sequence[Completed]) -> None:
    for number, done in enumerate(drawn, start=1):
        for view, source in job.sources.items():
            path = folder.draw(number, view, Source(source).result_ending)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_table(done.filled(view, job.order), path)


def _write_folder(
    folder: CompletionFolder,
    job: CompletionJob,
    completed: Completed,
    record: ResultRecord | None,
    facts: dict[str, Any],
    ledger: Ledger | None,
) -> tuple[str, ...]:
    for view, source in job.sources.items():
        ending = Source(source).result_ending
        write_table(completed.filled(view, job.order), folder.table(view, ending))
        write_table(completed.origin_table(view, job.order), folder.origin(view, ending))
    folder.write_record(facts)
    if record is not None:
        record.write(folder.evaluation)
        write_table(feature_errors(record), folder.feature_errors)
    if ledger is not None:
        ledger.save(folder.ledger)
    return tuple(sorted(path.name for path in folder.path.iterdir()))


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


def _facts(job: CompletionJob, completed: Completed, duration: float) -> dict[str, Any]:
    """Say what was done, in counts: no id, no cell, no password."""
    settings = asdict(job)
    settings["sources"] = {name: Source(s).label for name, s in job.sources.items()}
    if job.to_database:
        settings["out"] = Source(job.out).label
    return {
        "format": RECORD_FORMAT,
        "version": 1,
        "settings": settings,
        "individuals": completed.source.n_individuals,
        "views": {name: _view_facts(job, completed, name) for name in completed.source},
        "distributions": distributions(completed),
        "notes": list(completed.notes),
        "versions": versions(),
        "duration_s": round(duration, 3),
    }


def _view_facts(job: CompletionJob, completed: Completed, name: str) -> dict[str, Any]:
    """Return a view's counts, and what reads its table again: its file, columns to skip."""
    columns = list(completed.filled(name).beside)
    file = None if job.to_database else f"{name}{Source(job.sources[name]).result_ending}"
    return {**completed.counts(name), "file": file, "interval_columns": columns}


def _learned(completer: Any) -> dict[str, Any]:
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
