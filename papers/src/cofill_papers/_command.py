"""`cofill reproduce`: the papers' experiments, with the papers' figures beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cofill.errors import SettingError

if TYPE_CHECKING:
    from cofill.metrics import ResultRecord

__all__ = ["reproduce"]

_EXAMPLES = """
[bold]Examples[/bold]

  cofill reproduce list

  cofill reproduce wdbc --quick --out results/

  cofill reproduce cube --seeds 10 --methods equal,mwm,central --out results/

  cofill reproduce growpu-mnist --seeds 2-4 --methods growpu-3lp --add --out results/

  cofill reproduce growpu --all --out results/
"""


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of an experiment, or with --all of a paper; 'list' lists them.",
            metavar="NAME",
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many repeats, or which (2-4); the paper's number unless told.",
            metavar="COUNT|FIRST-LAST",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two repeats, without the slowest methods.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for record, page and pictures.")] = Path(
        "results"
    ),
    methods: Annotated[
        str | None, typer.Option(help="Methods to compare, separated by commas; all unless told.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an earlier record of this experiment, or with --add its methods.",
        ),
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add methods or repeats to the record that is there.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every experiment of a paper (crs, fed-vigan or growpu), part by part; parts that "
            "the records in the folder have are left out.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
) -> None:
    """Run an experiment of the papers and put its figures beside the published ones."""
    if name == "list":
        _list(as_json)
        return
    from cofill.cli import progress_line
    from cofill_papers import reproduce_paper, run_experiment

    if whole:
        if seeds or methods or overwrite or add or as_json:
            raise SettingError("--all goes with --quick, --out and --quiet only")
        with progress_line(quiet) as report_progress:
            parts = reproduce_paper(name, out=out, quick=quick, progress=report_progress)
        if not quiet:
            typer.echo("\n".join([*parts, f"{out} has every part of {name}"]))
        return
    wanted = None if methods is None else [m.strip() for m in methods.split(",") if m.strip()]
    with progress_line(quiet or as_json) as report_progress:
        record = run_experiment(
            name,
            seeds=None if seeds is None else _repeats(seeds),
            quick=quick,
            out=out,
            methods=wanted,
            overwrite=overwrite,
            add=add,
            progress=report_progress,
        )
    if as_json:
        typer.echo(record.to_json(), nl=False)
    elif not quiet:
        _show(record, out)


reproduce.__doc__ = f"{reproduce.__doc__}\n{_EXAMPLES}"


def _repeats(text: str) -> int | list[int]:
    """Return a number of repeats, or the seeds of a range such as ``2-4``."""
    first, dash, last = text.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise SettingError(f"--seeds must be a number or a range such as 2-4, got {text!r}")
    return list(range(int(first), int(last) + 1)) if dash else int(first)


def _list(as_json: bool) -> None:
    from cofill_papers import experiments

    if as_json:
        listed = [
            {"name": e.name, "description": e.description, "repeats": e.repeats}
            for e in experiments()
        ]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    width = max(len(e.name) for e in experiments())
    for e in experiments():
        typer.echo(f"{e.name:<{width}}  {e.description}; {e.repeats} repeats")


def _show(record: ResultRecord, out: Path) -> None:
    from cofill.cli import console
    from cofill_papers import find_experiment

    for title, table in find_experiment(record.name).result_tables(record).items():
        typer.echo(f"{title}\n\n{table}\n")
    files = sorted(p.name for p in out.glob(f"{record.name}[._]*"))
    console().print(f"written to {out}: {', '.join(files)}", soft_wrap=True, markup=False)
