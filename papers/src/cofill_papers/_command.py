"""`cofill reproduce`: the papers' experiments, with the papers' figures beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cofill.metrics import ResultRecord

__all__ = ["reproduce"]

_EXAMPLES = """
[bold]Examples[/bold]

  cofill reproduce list

  cofill reproduce wdbc --quick --out results/

  cofill reproduce cube --seeds 10 --methods equal,mwm,central --out results/
"""


def reproduce(
    name: Annotated[
        str, typer.Argument(help="Name of an experiment; 'list' lists them.", metavar="NAME")
    ],
    seeds: Annotated[
        int | None, typer.Option(help="How many repeats; the paper's number unless told.")
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
        bool, typer.Option("--overwrite", help="Replace an earlier record of this experiment.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add the methods to the record that is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
) -> None:
    """Run an experiment of the papers and put its figures beside the published ones."""
    if name == "list":
        _list(as_json)
        return
    from cofill.cli import progress_line
    from cofill_papers import run_experiment

    wanted = None if methods is None else [m.strip() for m in methods.split(",") if m.strip()]
    with progress_line(quiet or as_json) as report_progress:
        record = run_experiment(
            name,
            seeds=seeds,
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
