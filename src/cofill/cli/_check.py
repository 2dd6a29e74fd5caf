"""`cofill check`: what `cofill complete` would read, fill and take, before it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cofill.cli import _options as options
from cofill.cli._options import NO_RULES, examples, reads_tables
from cofill.cli._show import console, in_words, make_table, print_result, say

_MOST_PATTERNS = 12


@examples(
    "cofill check --view people=people.csv",
    "cofill check --view clinic=clinic.csv --view lab=lab.parquet --id person --json",
)
@reads_tables
def check(
    view: options.Views,
    id_column: options.OptionalId = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="As for `cofill complete`: views are sites.")
    ] = False,
    method: Annotated[str, typer.Option(help="How to fill; see `cofill methods`.")] = "auto",
    settings: options.Settings = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Run the method on 300 people to tell how long it takes."),
    ] = False,
    rules: options.Rules = NO_RULES,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Say what `cofill complete` would do with the same options; nothing is written.

    Shows what each column was taken for, values that look wrong, who is in which table, what will
    be filled, by which method and why, and roughly how long it takes.
    """
    sources = options.sources_of(view)
    from cofill.completion import CompletionJob, check_tables

    job = CompletionJob(
        sources=sources,
        id=id_column,
        out="",
        separate=separate,
        method=method,
        settings=options.settings_of(settings),
        **rules,
        seed=seed,
    )
    facts = check_tables(job, measure=measure)
    print_result(lambda: facts, lambda: _show(facts), as_json=as_json)


def _show(facts: Mapping[str, Any]) -> None:
    for name, view in facts["views"].items():
        table = make_table(
            ["column", "taken for"], ["empty"], title=f"{name}: {view['rows']:,} rows"
        )
        for column, about in view["columns"].items():
            table.add_row(column, about["kind"], f"{about['missing']:,}")
        for column in view["passed_through"]:
            table.add_row(column, "passed through", "–")
        console().print(table)
    if len(facts["views"]) > 1:
        say(f"Who is where, of {facts['individuals']:,} people:")
        for line in picture(facts):
            say(line)
    for name, view in facts["views"].items():
        say(
            f"{name}: {view['cells_to_fill']:,} cells will be filled, "
            f"{view['rows_to_fill']:,} whole rows among them"
        )
    say(f"method: {facts['method']['name']}, because {facts['method']['why']}")
    for note in facts["notes"]:
        say(f"note: {note}")
    say(_expectation(facts["expected"]))


def picture(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each pattern of presence: a square where a person is in a view.

    Examples
    --------
    >>> facts = {"views": {"lab": 0, "ward": 0}, "individuals": 4}
    >>> facts["patterns"] = [{"views": ["lab"], "individuals": 3}]
    >>> list(picture(facts))
    ['  lab  ward', '  ■    ·     3 (75.0%) ███████████████']
    """
    names = list(facts["views"])
    yield "  " + "  ".join(names)
    for pattern in facts["patterns"][:_MOST_PATTERNS]:
        marks = "  ".join(("■" if n in pattern["views"] else "·").ljust(len(n)) for n in names)
        share = pattern["individuals"] / facts["individuals"]
        yield f"  {marks}  {pattern['individuals']:,} ({share:.1%}) {'█' * round(20 * share)}"
    if facts["patterns"][_MOST_PATTERNS:]:
        yield f"  … and {len(facts['patterns']) - _MOST_PATTERNS} rarer patterns"


def _expectation(expected: Mapping[str, Any]) -> str:
    memory = f"expected memory: roughly {expected['memory_bytes'] / 2**30:.1f} GiB"
    if expected["seconds"] is None:
        return f"{memory}; expected time: not measured, which --measure does on a few people"
    return (
        f"{memory}; expected time: roughly {in_words(expected['seconds'])}, reckoned in proportion "
        f"from {expected['sample']} people on {expected['cores']} cores"
    )
