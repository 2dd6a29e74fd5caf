"""One job from files to files: read views, complete them, say how well, write all or nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cofill.completion._completed import Completed
from cofill.completion._completer import AbstractCompleter
from cofill.completion._evaluate import evaluate
from cofill.completion._folder import RULES, CompletionFolder
from cofill.completion._intervals import with_intervals
from cofill.completion._progress import Progress, silent
from cofill.completion._registry import METHODS, make
from cofill.completion._result import CompletionResult, Target, learned_facts
from cofill.completion._saved import write_model
from cofill.errors import DataError, SettingError
from cofill.files import check_new_folder, new_folder
from cofill.privacy import Ledger
from cofill.views import (
    ORDERS,
    ColumnRules,
    MultiView,
    Source,
    check_new_tables,
    is_url,
    read_view_parts,
    require_formulas,
    sources_of,
)

TOGETHER, SEPARATE = "pooled", "private"
"""The methods for one owner of all tables, and for sites that keep their rows at home."""

YARDSTICKS = ("mean", "knn", "iterative")


@dataclass(frozen=True)
class CompletionJob:
    """What to complete, how, and where the result goes; checked when made.

    Parameters
    ----------
    sources
        ``{view: source}``: a file, ``URL#table`` or ``URL#SELECT …``. Several sources of a view
        have the same columns of different people, and are sites of their own where sites are
        separate.
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
    formulas
        ``"escape"``: texts of text files that a spreadsheet would compute get an apostrophe in
        front; ``"keep"``: they are written as they are.
    seed
        Start of all randomness.
    save
        A folder that does not exist yet, for the fitted method: `ApplyJob` completes later people
        with it.
    """

    sources: Mapping[str, str | Sequence[str]]
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
    formulas: str = "escape"
    seed: int = 0
    save: str | None = None

    def __post_init__(self) -> None:
        require_sources(self.sources)
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
        if self.separate and self.method != SEPARATE:
            for name, source in self.sources.items():
                if len(sources_of(source)) > 1:
                    raise SettingError(
                        f"view {name!r} is at several sites, which the method {self.method!r} "
                        f"cannot do; leave the method out or choose {SEPARATE!r}"
                    )
        if "seed" in self.settings:
            raise SettingError("the seed is the job's, for all methods alike; give it as --seed")
        require_result(self)
        if self.settings:  # wrong ones are told before anything is read or trained
            make(self.method, **self.settings)
        if self.draws and METHODS.find(self.method).load().draw is AbstractCompleter.draw:
            raise SettingError(
                f"the method {self.method!r} tells one value a cell and draws none; leave the "
                f"draws out, or choose {TOGETHER!r} or {SEPARATE!r}"
            )
        if self.save is not None:
            self._check_save(self.save)
        ColumnRules(**self.rules)
        if self.repeats < 1:
            raise SettingError(f"repeats must be at least 1, got {self.repeats}")
        if not 0 < self.share < 1:
            raise SettingError(f"share must be between 0 and 1, got {self.share}")

    def _check_save(self, save: str) -> None:
        if not METHODS.find(self.method).facts.get("saves", True):
            saved = ", ".join(m.name for m in METHODS if m.facts.get("saves", True))
            raise SettingError(
                f"the method {self.method!r} cannot be saved; leave --save out, or choose one of "
                f"{saved}"
            )
        if is_url(save):
            raise SettingError(f"a model is saved in a folder, got {Source(save).label!r}")
        folders = [] if self.to_database else [Path(p).resolve() for p in (save, self.out)]
        if folders and (
            folders[0] in (folders[1], *folders[1].parents) or folders[1] in folders[0].parents
        ):
            raise SettingError(
                f"--save {save} and --out {self.out} must be two folders, neither in the other"
            )

    @property
    def rules(self) -> dict[str, Any]:
        """How tables are read, as fields of `ColumnRules`."""
        return {name: getattr(self, name) for name in RULES}

    @property
    def target(self) -> Target:
        """Where the result goes."""
        endings = {n: Source(sources_of(s)[0]).result_ending for n, s in self.sources.items()}
        return Target(self.out, endings, self.order, self.formulas)

    @property
    def to_database(self) -> bool:
        """Whether the result goes to a database instead of a folder."""
        return is_url(self.out)


def run_completion(job: CompletionJob, progress: Progress | None = None) -> CompletionResult:
    """Run a job; after an error or an interrupt nothing of it remains on disk.

    A folder also keeps what the sites of the method sent, for an audit.
    """
    report_progress = progress or silent
    if job.to_database:
        check_new_tables(job.target.table_names(job.draws), job.out)
    else:
        check_new_folder(Path(job.out))
    if job.save is not None:
        check_new_folder(Path(job.save))
    report_progress("read", 0.0)
    views, parts = read_view_parts(job.sources, id=job.id, **job.rules)
    require_shared_individuals(views)
    sites = {
        name: {f"{name}-{number}": ids for number, ids in enumerate(held, start=1)}
        for name, held in parts.items()
        if job.separate
    }
    with ExitStack() as folders:
        model = folder = None
        if job.save is not None:
            model = folders.enter_context(new_folder(Path(job.save), private=True))
        if not job.to_database:
            folder = CompletionFolder(folders.enter_context(new_folder(Path(job.out))))
        return _complete(job, views, sites, report_progress, folder, model)


def _complete(
    job: CompletionJob,
    views: MultiView,
    sites: Mapping[str, Mapping[str, Any]],
    report_progress: Progress,
    folder: CompletionFolder | None,
    model: Path | None,
) -> CompletionResult:
    started = time.perf_counter()
    held = {"sites": sites} if sites else {}
    makers = {
        name: _maker(name, {**job.settings, **held} if name == job.method else {})
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
    duration = time.perf_counter() - started
    facts = job.target.facts(asdict(job), completed, duration) | learned_facts(completer)
    if model is not None:  # first: a database that is written cannot be taken back
        write_model(model, completer)
    if folder is None:
        files = job.target.write_database(completed, drawn)
    else:
        ledger: Ledger | None = getattr(completer, "ledger_", None)
        files = job.target.write_folder(
            folder, completed, drawn, facts, record=record, ledger=ledger
        )
    report_progress("write", 1.0)
    return CompletionResult(completed, record, facts["settings"]["out"], files, facts)


def require_sources(sources: Mapping[str, str | Sequence[str]]) -> None:
    """Raise a `SettingError` unless there are views whose names can be those of files."""
    if not sources:
        raise SettingError("there is no view; give at least one as --view NAME=SOURCE")
    for name, source in sources.items():
        if not re.fullmatch(r"[\w.-]+", name):
            raise SettingError(
                f"a view's name becomes a file name and must be letters, digits, '_', '-' or "
                f"'.', got {name!r}"
            )
        for part in sources_of(source):
            Source(part)


def require_result(job: Any) -> None:
    """Raise a `SettingError` for a seed, draws, intervals or an order that no result can have."""
    for name in ("seed", "draws"):
        if getattr(job, name) < 0:
            raise SettingError(f"{name} must be 0 or more, got {getattr(job, name)}")
    if job.order not in ORDERS:
        raise SettingError(f"order must be {' or '.join(ORDERS)}, got {job.order!r}")
    require_formulas(job.formulas)
    if job.intervals is not None and not 0 < job.intervals < 1:
        raise SettingError(f"intervals must be between 0 and 1, got {job.intervals}")


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
