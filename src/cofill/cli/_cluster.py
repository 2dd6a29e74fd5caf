"""`cofill cluster`: completed tables in, everybody's group out, and a map of the groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from cofill.cli._options import IdType
from cofill.cli._show import console, pairs, progress_line, settings_of

if TYPE_CHECKING:
    from cofill.cluster import ClusterResult

__all__ = ["cluster"]

_EXAMPLES = """
[bold]Examples[/bold]

  cofill cluster --view lab=done/lab.csv --view scan=done/scan.csv --id person --k 5 --out groups/

  cofill cluster --view north/lab=n.csv --view south/lab=s.csv --id person --out groups/
"""


def cluster(
    view: Annotated[
        list[str],
        typer.Option(
            help="A view as NAME=SOURCE, or SITE/NAME=SOURCE where several sites work together; "
            "a source is a .csv or .parquet file, or a database as URL#table.",
            metavar="NAME=SOURCE",
        ),
    ],
    id_column: Annotated[str, typer.Option("--id", help="The id column, the same in every view.")],
    out: Annotated[str, typer.Option(help="A new folder for the result.")],
    k: Annotated[
        int | None, typer.Option(help="Number of groups; chosen by stability unless told.")
    ] = None,
    method: Annotated[str, typer.Option(help="'kmeans' or 'deep'.")] = "kmeans",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the method, such as rounds=20; give one per setting.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Say what a column is: COLUMN=numeric, binary or categorical.",
            metavar="COLUMN=KIND",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Leave a column out.", metavar="COLUMN")
    ] = None,
    id_type: IdType = None,
    seed: Annotated[int, typer.Option(help="Start of all randomness.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find groups among completed individuals, at one site or at several that show no row."""
    from cofill.cluster import ClusterJob, run_cluster  # scikit-learn and JAX are behind it

    job = ClusterJob(
        sources=pairs(view, "--view"),
        id=id_column,
        out=out,
        k=k,
        method=method,
        settings=settings_of(settings),
        kinds=pairs(kind or [], "--kind"),
        ignore=tuple(ignore or ()),
        id_type=id_type,
        seed=seed,
    )
    with progress_line(quiet or as_json) as report_progress:
        result = run_cluster(job, report_progress)
    if as_json:
        typer.echo(json.dumps({**result.facts, "files": list(result.files)}, indent=2))
    elif not quiet:
        _show(result)


cluster.__doc__ = f"{cluster.__doc__}\n{_EXAMPLES}"


def _show(result: ClusterResult) -> None:
    facts: Any = result.facts
    table = Table(box=None)
    for name in ("group", "individuals", "share"):
        table.add_column(name, justify="right")
    total = sum(facts["sizes"])
    for number, size in enumerate(facts["sizes"]):
        table.add_row(str(number), f"{size:,}", f"{size / total:.1%}")
    screen = console()
    screen.print(table)
    chosen = facts["choice_of_k"]
    if chosen is not None:
        screen.print(f"{facts['k']} groups, chosen by {chosen['method']}")
    screen.print(f"mean confidence {facts['mean_confidence']:.2f}")
    screen.print(f"written to {result.out}: {', '.join(result.files)}", soft_wrap=True)
