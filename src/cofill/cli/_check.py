"""`cofill check`: what `cofill complete` would read, fill and take, before it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cofill.cli import _options as options
from cofill.cli._options import NO_RULES, examples
from cofill.cli._show import console, in_words, make_table, say

_MOST_PATTERNS = 12


@examples(
    "cofill check --view people=people.csv",
    "cofill check --view clinic=clinic.csv --view lab=lab.parquet --id person --json",
)
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
        typer.Option(
            "--measure", help="Run the method on 300 people to tell better how long it takes."
        ),
    ] = False,
    rules: options.Rules = NO_RULES,
    seed: options.Seed = 0,
    listing: options.Listing = options.LISTED,
) -> None:
    """Say what `cofill complete` would do with the same options; nothing is written.

    Shows what each column was taken for, values that look wrong, who is in which table, what will
    be filled, by which method and why, and roughly how long it takes.
    """
    sources = options.stacked_sources(view)
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
    listing.print(facts, lambda: _show(facts))


def _show(facts: Mapping[str, Any]) -> None:
    for name, view in facts["views"].items():
        empty = view["empty_rows"]
        title = f"{name}: {_count(view['rows'], 'row')}" + f", {empty:,} without a value" * (
            empty > 0
        )
        table = make_table(["column", "taken for", "known"], ["empty"], title=title)
        for column, about in view["columns"].items():
            missing = about["missing"] + empty
            table.add_row(column, about["kind"], _bar(missing, view["rows"]), f"{missing:,}")
        for column in view["passed_through"]:
            table.add_row(column, "passed through", "", "–")
        console().print(table)
    if len(facts["views"]) > 1:
        say(f"Who is where, of {facts['individuals']:,} people:")
        for line in picture(facts):
            say(line)
    for name, view in facts["views"].items():
        say(
            f"{name}: {_count(view['cells_to_fill'], 'cell')} will be filled, "
            f"{_count(view['rows_to_fill'], 'whole row')} among them"
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


def _bar(missing: int, rows: int) -> str:
    """Return ten squares, as many full as tenths of the rows are known; no hole looks like none."""
    full = 10 * (rows - missing) // max(rows, 1)
    return "█" * full + "░" * (10 - full)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _expectation(expected: Mapping[str, Any]) -> str:
    need, has = expected["memory_bytes"], expected["machine_bytes"]
    memory = f"expected memory: roughly {need / 2**30:.1f} GiB"
    if need > has:
        memory += f", and this machine has {has / 2**30:.1f} GiB: give it fewer people or columns"
    if expected["seconds"] is None:
        return f"{memory}; expected time: not known for this method; --measure tries a few people"
    seconds, factor = expected["seconds"], expected["factor"]
    if expected["by"] == "sample":
        return (
            f"{memory}; expected time: roughly {in_words(seconds)}, reckoned in proportion "
            f"from {expected['sample']} people on {expected['cores']} cores"
        )
    if seconds * factor < 1:
        return f"{memory}; expected time: less than a second"
    beyond = ", larger than those it was measured on" if expected["beyond_measured"] else ""
    ends = f"{in_words(seconds / factor)} to {in_words(seconds * factor)}"
    return (
        f"{memory}; expected time: roughly {in_words(seconds)} on one core ({ends}), by the size "
        f"of the tables{beyond}; --measure tries a few people"
    )
