"""`cofill complete` and `cofill apply`: tables of the same people in, without holes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofill.cli import _options as options
from cofill.cli._options import NO_RULES, examples
from cofill.cli._show import (
    EVALUATED,
    completed_table,
    console,
    evaluation_table,
    progress_line,
    say,
)

if TYPE_CHECKING:
    from cofill.completion import CompletionResult


@examples(
    "cofill complete --view people=people.csv --out completed/",
    "cofill complete --view clinic=clinic.csv --view lab=lab.parquet --id person --out completed/",
    "cofill complete --view a=a.csv --view b=sqlite:///b.db#results --id id --out done/ --evaluate",
    "cofill complete --view a=a.csv --view b=b.csv --id id --out done/ --separate",
    "cofill complete --view a=x.csv --view a=y.csv --view b=b.csv --id id --out done/ --separate",
    "cofill complete --view people=people.csv --out completed/ --draws 5",
    "cofill complete --view people=people.csv --out completed/ --save model/",
)
def complete(
    view: options.Views,
    out: options.Out,
    id_column: options.OptionalId = None,
    separate: Annotated[
        bool,
        typer.Option(
            "--separate",
            help="Let every view be a site that keeps its rows at home, as organisations must. A "
            "view given twice, with the same columns of other people, is at two sites.",
        ),
    ] = False,
    method: Annotated[
        str,
        typer.Option(help="How to fill; see `cofill methods`. 'auto' is the best for the case."),
    ] = "auto",
    settings: options.Settings = None,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Also hide known rows and cells; report the error.")
    ] = False,
    compare: Annotated[
        str, typer.Option(help="Methods to evaluate beside it, separated by commas.")
    ] = "auto",
    share: Annotated[float, typer.Option(help="Share of rows and cells hidden to evaluate.")] = 0.1,
    repeats: Annotated[int, typer.Option(help="How often --evaluate hides others.")] = 3,
    intervals: options.Intervals = None,
    draws: options.Draws = 0,
    save: Annotated[
        str | None,
        typer.Option(
            help="Also save what was learned in a new folder, for `cofill apply`; only you can "
            "read it.",
            metavar="DIR",
        ),
    ] = None,
    leave: Annotated[
        bool,
        typer.Option(
            "--leave-unreconstructable",
            help="With --separate: leave features empty that the other views do not tell.",
        ),
    ] = False,
    rules: options.Rules = NO_RULES,
    order: options.Order = "source",
    formulas: options.Formulas = "escape",
    seed: options.Seed = 0,
    progress: Annotated[
        Path | None,
        typer.Option(help="Also note progress in this folder, for `cofill watch`.", metavar="DIR"),
    ] = None,
    output: options.Output = options.SHOWN,
) -> None:
    """Fill the holes of a table, or the missing rows and cells of several about the same people."""
    sources = options.stacked_sources(view)
    from cofill.completion import CompletionJob, run_completion  # scikit-learn is behind it

    job = CompletionJob(
        sources=sources,
        id=id_column,
        out=out,
        separate=separate,
        method=method,
        settings=options.settings_of(settings)
        | ({"on_unreconstructable": "leave"} if leave else {}),
        evaluate=evaluate,
        compare=tuple(name for name in compare.split(",") if name),
        share=share,
        repeats=repeats,
        intervals=intervals,
        draws=draws,
        **rules,
        order=order,
        formulas=formulas,
        seed=seed,
        save=save,
    )
    with progress_line(output.is_silent, progress) as report_progress:
        result = run_completion(job, report_progress)
    output.print(_facts(result), lambda: show_result(result))
    if save is not None and not output.is_silent:
        say(f"model saved to {save}: complete later people with cofill apply {save}")


@examples(
    "cofill apply model/ --view people=new.csv --out completed/",
    "cofill apply model/ --view clinic=new.csv --out completed/ --intervals 0.9",
    "cofill apply model/ --view a=a.csv --view b=sqlite:///b.db#results --out sqlite:///new.db",
)
def apply(
    model: Annotated[
        str, typer.Argument(help="A folder that `cofill complete --save` wrote.", metavar="MODEL")
    ],
    view: options.Views,
    out: options.Out,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The id column, if its name has changed.")
    ] = None,
    intervals: options.Intervals = None,
    draws: options.Draws = 0,
    texts: options.Rules = NO_RULES,
    order: options.Order = "source",
    formulas: options.Formulas = "escape",
    seed: options.Seed = 0,
    output: options.Output = options.SHOWN,
) -> None:
    """Complete people who come later with a saved model; nothing is learned from them.

    Any view may be left out, and any column or cell be missing: it is filled as the model can.
    Options of reading are those of the fit where they are left out.
    """
    sources = options.sources_of(view)
    from cofill.completion import ApplyJob, run_apply  # scikit-learn is behind it

    job = ApplyJob(
        model=model,
        sources=sources,
        out=out,
        id=id_column,
        intervals=intervals,
        draws=draws,
        **texts,
        order=order,
        formulas=formulas,
        seed=seed,
    )
    with progress_line(output.is_silent, None) as report_progress:
        result = run_apply(job, report_progress)
    output.print(_facts(result), lambda: show_result(result))


def show_result(result: CompletionResult) -> None:
    """Print what was filled, how well, and where it is."""
    screen = console()
    screen.print(completed_table(result.completed))
    for note in result.completed.notes:
        screen.print(f"note: {note}")
    if result.evaluation is not None:
        for metric in EVALUATED:
            table = evaluation_table(result.evaluation, metric, result.completed.method)
            if table is not None:
                screen.print(table)
    say(f"written to {result.out}: {', '.join(result.files)}")


def _facts(result: CompletionResult) -> dict[str, Any]:
    facts = {**result.facts, "files": list(result.files)}
    if result.evaluation is not None:
        facts["evaluation"] = result.evaluation.summary
    return facts
