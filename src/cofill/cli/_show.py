"""What commands print: progress on standard error; tables, sentences or JSON on standard output."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from cofill.errors import CofillError
from cofill.registry import Entry

if TYPE_CHECKING:
    from cofill.completion import Completed
    from cofill.metrics import ResultRecord

ReportProgress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""

SECONDS_A_LINE = 60.0

POOLED_NOTE = "† uses all rows in one place: for one owner, not between organisations"
COUNTS = {
    "observed_rows": "rows known",
    "reconstructed_rows": "rows filled",
    "reconstructed_cells": "cells filled",
    "missing_cells": "left empty",
}
"""Counts of a completed view, with their headings."""


def console() -> Console:
    """Return a console on standard output; made when needed, so that redirection is seen."""
    return Console(highlight=False)


def say(sentence: str) -> None:
    """Print a sentence as it is, on one line however narrow the screen."""
    console().print(sentence, soft_wrap=True, markup=False)


def make_table(names: Sequence[str], figures: Sequence[str], **options: Any) -> Table:
    """Return an empty table: columns of names to the left, columns of figures to the right."""
    table = Table(*names, title_justify="left", caption_justify="left", **options)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def entry_facts(entry: Entry, *facts: str) -> dict[str, Any]:
    """Return an entry of a registry for JSON, with some of its facts."""
    shown = {"name": entry.name, "summary": entry.summary, "package": entry.package}
    return shown | {fact: entry.facts.get(fact) for fact in facts}


def entry_lines(
    entries: Iterable[Entry], mark: Callable[[Entry], str] | None = None
) -> Iterator[str]:
    """Yield one line per entry of a registry: name, mark, summary, and the package of a plug-in."""
    listed = list(entries)
    width = max(len(entry.name) for entry in listed)
    for entry in listed:
        origin = "" if entry.package == "cofill" else f" (from {entry.package})"
        sign = "" if mark is None else f"{mark(entry)} "
        yield f"{entry.name:<{width}} {sign}{entry.summary}{origin}"


@contextmanager
def progress_line(quiet: bool, run: Path | None = None) -> Iterator[ReportProgress]:
    """Yield a function ``report_progress(what, share)`` that moves a bar with the time left.

    Where standard error is no terminal, it is a line a minute.
    It also writes to the progress file in the folder `run`, for `cofill watch`.
    """
    shown = nullcontext(_ignore) if quiet else _bar() if _has_screen() else _lines(SECONDS_A_LINE)
    with nullcontext(_ignore) if run is None else _progress_file(run) as note, shown as show:

        def report_progress(what: str, share: float) -> None:
            note(what, share)
            show(what, min(max(share, 0.0), 1.0))

        yield report_progress


def _ignore(what: str, share: float) -> None:
    """Show nothing."""


def _has_screen() -> bool:
    return Console(stderr=True).is_terminal


@contextmanager
def _bar() -> Iterator[ReportProgress]:
    """Yield a function that moves a bar on a terminal."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("start", total=1.0)
        current = "start"

        def move(what: str, share: float) -> None:
            nonlocal current
            if what != current:
                # Without it the time left would be guessed from the step before.
                bar.reset(task, description=what)
                current = what
            bar.update(task, completed=share)

        yield move


@contextmanager
def _lines(seconds: float) -> Iterator[ReportProgress]:
    """Yield a function that notes progress, which a thread writes to standard error now and then.

    A log has no place for a bar, and a long step may report nothing for minutes.
    """
    started, ended = time.monotonic(), threading.Event()
    state: dict[str, Any] = {"what": "start", "share": 0.0, "since": started}

    def note(what: str, share: float) -> None:
        state.update(what=what, share=share)
        if what != state.get("step"):
            state.update(step=what, since=time.monotonic())

    def write_lines() -> None:
        while not ended.wait(seconds):
            now, share = time.monotonic(), state["share"]
            left = (now - state["since"]) * (1 - share) / share if share else None
            rest = "" if left is None else f", about {in_words(left)} left in this step"
            typer.echo(
                f"cofill: {state['what']} {share:.0%} after {in_words(now - started)}{rest}",
                err=True,
            )

    thread = threading.Thread(target=write_lines, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        ended.set()
        thread.join()


def in_words(seconds: float) -> str:
    """Return a duration as people say it.

    Examples
    --------
    >>> in_words(4.2), in_words(150.0), in_words(7300.0)
    ('4 s', '2.5 min', '2.0 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _progress_file(run: Path) -> Iterator[ReportProgress]:
    """Note progress in a run's folder, and how it ends."""
    from cofill.report import ProgressLog

    log = ProgressLog(run)
    log.note(state="running")
    try:
        yield log.report_progress
    except KeyboardInterrupt:
        log.note(state="stopped")
        raise
    except BaseException as error:
        # Only cofill's own sentences are known to hold nobody's record.
        fault = str(error) if isinstance(error, CofillError) else type(error).__name__
        log.note(state="failed", fault=fault)
        raise
    log.note(state="finished")


def completed_table(completed: Completed) -> Table:
    """Return what was filled, per view, in counts."""
    headings = ("individuals", *COUNTS.values())
    table = make_table(["view"], headings, title=f"Completed by {completed.method}")
    people = f"{completed.source.n_individuals:,}"
    for name in completed.source:
        counts = completed.counts(name)
        table.add_row(name, people, *(f"{counts[key]:,}" for key in COUNTS))
    return table


EVALUATED = {
    "mse": "Error on hidden rows: standardised MSE, lower is better (1 = as good as the mean)",
    "accuracy": "Accuracy of binary and categorical cells on hidden rows, higher is better",
    "cell_mse": "Error on hidden cells: standardised MSE, lower is better",
    "cell_accuracy": "Accuracy of hidden binary and categorical cells, higher is better",
}
"""What is shown of an evaluation, and under which titles."""


def evaluation_table(record: ResultRecord, metric: str, chosen: str) -> Table | None:
    """Return one metric, methods as rows and views as columns; None when it was not measured."""
    from cofill.report import Figures, pools_rows

    figures = Figures(record)
    views = figures.parts(metric)
    if not views:
        return None
    title = EVALUATED.get(metric, metric)
    table = make_table(["method"], views, title=title, caption=POOLED_NOTE)
    for method in figures.methods(metric):
        row = [figures.of(method, metric, view) for view in views]
        label = f"{method} †" if method in pools_rows() else method
        cells = ["–" if figure is None else str(figure) for figure in row]
        table.add_row(label, *cells, style="bold" if method == chosen else None)
    return table
