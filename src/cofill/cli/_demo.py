"""`cofill demo`: three hospitals hold different parts of the same patients; fill their gaps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from cofill.cli._complete import show_result
from cofill.cli._show import console, progress_line
from cofill.errors import DataError

__all__ = ["demo"]

_MARK = ".cofill-demo"
_FORMS = {"mean": "csv", "error": "parquet", "worst": "csv"}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path(
        "demo"
    ),
    missing: Annotated[float, typer.Option(help="Share of rows each hospital lacks.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Start of all randomness.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
) -> None:
    """Complete the tables of three hospitals that know different things of the same patients.

    The patients are the 569 of the Wisconsin breast cancer data. Each hospital measured ten
    features of a biopsy and lacks 30 % of the patients; its table is written as a file, completed
    from the other two, and compared with what scikit-learn's imputers make of it.
    """
    from cofill.completion import CompletionJob, run_completion
    from cofill.views import drop_rows, load, new_folder, to_table, write_table

    if (out / _MARK).exists():
        shutil.rmtree(out)  # an earlier demo; anything else is left alone
    elif out.exists() and any(out.iterdir()):
        raise DataError(f"{out} exists and is no earlier demo; give another --out or remove it")
    patients = load("wdbc").views
    holed, _ = drop_rows(patients, missing, key=seed)
    with new_folder(out) as folder:
        (folder / _MARK).touch()
        hospitals = folder / "hospitals"
        hospitals.mkdir()
        for name, form in _FORMS.items():
            write_table(to_table(holed[name]), hospitals / f"{name}.{form}")
    if not quiet:
        console().print(holed)
    job = CompletionJob(
        sources={n: str(out / "hospitals" / f"{n}.{form}") for n, form in _FORMS.items()},
        id=holed["mean"].id_name,
        out=str(out / "completed"),
        evaluate=True,
        intervals=0.9,
        seed=seed,
    )
    with progress_line(quiet) as tell:
        result = run_completion(job, tell)
    if not quiet:
        show_result(result)
