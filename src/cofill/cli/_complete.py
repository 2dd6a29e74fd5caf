"""`cofill complete`: several tables of the same people in, the same tables without holes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofill.cli._examples import examples
from cofill.cli._options import IdType, Ignored, Kinds
from cofill.cli._show import (
    completed_table,
    console,
    evaluation_table,
    pairs,
    progress_line,
    settings_of,
)

if TYPE_CHECKING:
    from cofill.completion import CompletionResult

__all__ = ["complete", "methods", "show_result"]

_EXAMPLES = """
[bold]Examples[/bold]

  cofill complete --view clinic=clinic.csv --view lab=lab.parquet --id person --out completed/

  cofill complete --view a=a.csv --view b=sqlite:///b.db#results --id id --out done/ --evaluate

  cofill complete --view a=a.csv --view b=b.csv --id id --out done/ --method federated --set sites=5
"""


def complete(
    view: Annotated[
        list[str],
        typer.Option(
            help="A view as NAME=SOURCE; give one per table. A source is a .csv or .parquet file, "
            "or a database as URL#table or 'URL#SELECT …'.",
            metavar="NAME=SOURCE",
        ),
    ],
    id_column: Annotated[str, typer.Option("--id", help="The id column, the same in every view.")],
    out: Annotated[
        str, typer.Option(help="A new folder for the result, or a database URL for new tables.")
    ],
    method: Annotated[str, typer.Option(help="How to fill; see `cofill methods`.")] = "cooperative",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the method, such as rounds=20; give one per setting.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Also hide known rows and report the error.")
    ] = False,
    compare: Annotated[
        str, typer.Option(help="Methods to evaluate beside it, separated by commas.")
    ] = "mean,knn,central",
    share: Annotated[float, typer.Option(help="Share of rows hidden by --evaluate.")] = 0.1,
    repeats: Annotated[int, typer.Option(help="How often --evaluate hides other rows.")] = 3,
    intervals: Annotated[
        float | None,
        typer.Option(help="Add columns with intervals of this level, such as 0.9."),
    ] = None,
    kind: Kinds = None,
    ignore: Ignored = None,
    id_type: IdType = None,
    seed: Annotated[int, typer.Option(help="Start of all randomness.")] = 0,
    progress: Annotated[
        Path | None,
        typer.Option(help="Also note progress in this folder, for `cofill watch`.", metavar="DIR"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Fill the missing rows and cells of several tables about the same individuals."""
    from cofill.completion import CompletionJob, run_completion  # scikit-learn is behind it

    job = CompletionJob(
        sources=pairs(view, "--view"),
        id=id_column,
        out=out,
        method=method,
        settings=settings_of(settings),
        evaluate=evaluate,
        compare=tuple(c for c in compare.split(",") if c),
        share=share,
        repeats=repeats,
        intervals=intervals,
        kinds=pairs(kind or [], "--kind"),
        ignore=tuple(ignore or ()),
        id_type=id_type,
        seed=seed,
    )
    with progress_line(quiet or as_json, progress) as report_progress:
        result = run_completion(job, report_progress)
    if as_json:
        typer.echo(json.dumps(_facts(result), indent=2))
    elif not quiet:
        show_result(result)


complete.__doc__ = f"{complete.__doc__}\n{_EXAMPLES}"


@examples("cofill methods", "cofill methods --json")
def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the completion methods."""
    from cofill.completion import methods as registered

    if as_json:
        listed = [
            {"name": m.name, "summary": m.summary, "pools_rows": m.pools_rows} for m in registered()
        ]
        typer.echo(json.dumps(listed, indent=2))
        return
    width = max(len(m.name) for m in registered())
    for m in registered():
        mark = "†" if m.pools_rows else " "
        typer.echo(f"{m.name:<{width}} {mark} {m.summary}")
    typer.echo("† sees all rows in one place: a yardstick, not allowed between organisations")


def show_result(result: CompletionResult) -> None:
    """Print what was filled, how well, and where it is."""
    screen = console()
    screen.print(completed_table(result.completed))
    for note in result.completed.notes:
        screen.print(f"note: {note}")
    if result.evaluation is not None:
        for metric in ("mse", "accuracy"):
            table = evaluation_table(result.evaluation, metric, result.completed.method)
            if table is not None:
                screen.print(table)
    screen.print(f"written to {result.out}: {', '.join(result.files)}", soft_wrap=True)


def _facts(result: CompletionResult) -> dict[str, Any]:
    facts = dict(result.facts)
    facts["files"] = list(result.files)
    if result.evaluation is not None:
        facts["evaluation"] = result.evaluation.summary
    return facts
