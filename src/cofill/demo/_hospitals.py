"""First chapter: three hospitals hold different parts of the same patients and fill their gaps."""

from __future__ import annotations

from pathlib import Path

from cofill.completion import CompletionJob, CompletionResult, Progress, run_completion
from cofill.views import drop_rows, load, to_table, write_table

_FORMS = {"mean": "csv", "error": "parquet", "worst": "csv"}


def hospitals(
    out: Path, *, missing: float, seed: int, report_progress: Progress
) -> CompletionResult:
    """Write each hospital's table, complete it from the others' codes, compare with imputers.

    The patients are the 569 of the Wisconsin breast cancer data, a hospital has ten features.
    """
    incomplete, _ = drop_rows(load("wdbc").views, missing, key=seed)
    tables = out / "hospitals"
    tables.mkdir()
    for name, form in _FORMS.items():
        write_table(to_table(incomplete[name]), tables / f"{name}.{form}")
    job = CompletionJob(
        sources={name: str(tables / f"{name}.{form}") for name, form in _FORMS.items()},
        id=incomplete["mean"].id_name,
        out=str(out / "completed"),
        evaluate=True,
        intervals=0.9,
        seed=seed,
    )
    return run_completion(job, report_progress)
