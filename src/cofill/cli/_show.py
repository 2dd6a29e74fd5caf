"""How the command reads and shows things: pairs of words, a progress line, tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from cofill.errors import CofillError, SettingError

if TYPE_CHECKING:
    from cofill.completion import Completed
    from cofill.metrics import ResultRecord

__all__ = [
    "completed_table",
    "console",
    "evaluation_table",
    "pairs",
    "progress_line",
    "settings_of",
]


def console() -> Console:
    """Return a console on standard output; made when needed, so that redirection is seen."""
    return Console(highlight=False)


@contextmanager
def progress_line(quiet: bool, run: Path | None = None) -> Iterator:
    """Give a function ``tell(what, share)`` that moves a progress bar with the time left.

    What is told also goes to a diary in the folder `run`, for `cofill watch`.
    """
    noting = nullcontext(_nothing) if run is None else _diary(run)
    with noting as note, _bar(quiet, note) as report_progress:
        yield report_progress


@contextmanager
def _diary(run: Path) -> Iterator[Callable[[str, float], None]]:
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
        said = str(error) if isinstance(error, CofillError) else type(error).__name__
        log.note(state="failed", fault=said)
        raise
    log.note(state="finished")


def _nothing(what: str, share: float) -> None:
    """Note nothing."""


@contextmanager
def _bar(quiet: bool, note: Callable[[str, float], None]) -> Iterator:
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet,
    )
    with bar:
        task = bar.add_task("start", total=1.0)
        current = "start"

        def report_progress(what: str, share: float) -> None:
            nonlocal current
            note(what, share)
            if what != current:
                bar.reset(task, description=what)
                current = what
            bar.update(task, description=what, completed=min(max(share, 0.0), 1.0))

        yield report_progress


def completed_table(completed: Completed) -> Table:
    """Show what was filled, per view, in counts."""
    table = Table(title=f"Completed by {completed.method}", title_justify="left")
    for heading in (
        "view",
        "individuals",
        "rows known",
        "rows filled",
        "cells filled",
        "left empty",
    ):
        table.add_column(heading, justify="left" if heading == "view" else "right")
    total = completed.source.n_individuals
    for name in completed.source:
        counts = completed.counts(name)
        shown = ("observed_rows", "reconstructed_rows", "reconstructed_cells", "missing_cells")
        table.add_row(name, f"{total:,}", *(f"{counts[key]:,}" for key in shown))
    return table


_TITLES = {
    "mse": "Error on hidden rows: standardised MSE, lower is better (1 = as good as the mean)",
    "accuracy": "Accuracy of binary and categorical cells on hidden rows, higher is better",
}


def evaluation_table(record: ResultRecord, metric: str, chosen: str) -> Table | None:
    """Show one metric, methods as rows and views as columns; None when it was not measured."""
    from cofill.completion import methods

    cells = {
        tuple(key.split("/")): value
        for key, value in record.summary.items()
        if key.split("/")[1] == metric
    }
    if not cells:
        return None
    pooled = {m.name for m in methods() if m.pools_rows}
    names = list(dict.fromkeys(k[0] for k in cells))
    places = [p for p in dict.fromkeys(k[2] for k in cells) if p != "all"] + ["all"]
    table = Table(
        title=_TITLES.get(metric, metric),
        title_justify="left",
        caption="† sees all rows in one place: a yardstick, not allowed between organisations",
        caption_justify="left",
    )
    table.add_column("method")
    for place in places:
        table.add_column(place, justify="right")
    for name in names:
        values = [cells.get((name, metric, place)) for place in places]
        row = [f"{v['mean']:.3f} ± {v['std']:.3f}" if v else "–" for v in values]
        mark = " †" if name in pooled else ""
        table.add_row(f"{name}{mark}", *row, style="bold" if name == chosen else None)
    return table


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Split ``NAME=VALUE`` texts; the value may itself hold an equals sign."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not (name and found and value):
            raise SettingError(f"{option} must be NAME=VALUE, got {text!r}")
        if name in pairs:
            raise SettingError(f"{option} names {name!r} twice; give each name once")
        pairs[name] = value
    return pairs


def settings_of(texts: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts as settings: numbers, booleans, null and lists as JSON writes them.

    Examples
    --------
    >>> settings_of(["sites=10", "strategy=fedprox", 'network={"width": 32}'])
    {'sites': 10, 'strategy': 'fedprox', 'network': {'width': 32}}
    """
    found: dict[str, Any] = {}
    for name, text in pairs(texts or [], "--set").items():
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found
