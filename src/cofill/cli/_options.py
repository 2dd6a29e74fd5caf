"""What commands have in common: options, examples in their help, ``NAME=VALUE`` texts."""

from __future__ import annotations

import functools
import inspect
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import typer

from cofill.errors import DataError, SettingError

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]
Seed = Annotated[int, typer.Option(min=0, help="Start of all randomness.")]
OptionalId = Annotated[
    str | None,
    typer.Option("--id", help="The id column, the same in every table; one table needs none."),
]
IdColumn = Annotated[str, typer.Option("--id", help="The id column, the same in every table.")]
IdType = Annotated[str | None, typer.Option(help="'text' reads ids as text, so that 007 is not 7.")]
CompletedFolder = Annotated[
    Path | None,
    typer.Argument(
        help="A folder that `cofill complete` wrote, in place of --view and --id.", metavar="[DIR]"
    ),
]
Views = Annotated[
    list[str],
    typer.Option(
        help="A view as NAME=SOURCE; give one per table. A source is a file (.csv, .tsv, .parquet, "
        ".feather; text also .gz, .zst), or a database as URL#table or 'URL#SELECT …'.",
        metavar="NAME=SOURCE",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        help="Say what a column is: COLUMN=numeric, binary or categorical "
        "(VIEW.COLUMN for one view).",
        metavar="COLUMN=KIND",
    ),
]
Ignored = Annotated[
    list[str] | None,
    typer.Option(
        help="Learn nothing from a column and write it as it is (VIEW.COLUMN for one view).",
        metavar="COLUMN",
    ),
]
Dropped = Annotated[
    list[str] | None, typer.Option(help="Leave a column out of the result too.", metavar="COLUMN")
]
NaValues = Annotated[
    list[str] | None,
    typer.Option(
        help="A value that means missing, such as -999 (COLUMN=VALUE for one column); '' leaves "
        "only empty fields missing, so that NA is Namibia.",
        metavar="VALUE",
    ),
]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of text files.", metavar="MARK")]
Thousands = Annotated[
    str | None, typer.Option(help="Thousands mark of text files.", metavar="MARK")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates fields of text files.", metavar="MARK")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of text files, such as cp1252.", metavar="NAME")
]
Out = Annotated[
    str, typer.Option(help="A new folder for the result, or a database URL for new tables.")
]
Intervals = Annotated[
    float | None, typer.Option(help="Add columns with intervals of this level, such as 0.9.")
]
Draws = Annotated[
    int,
    typer.Option(
        min=0,
        help="Also write so many multiple imputations, such as 5: OUT/draws/1/VIEW.csv, "
        "OUT/draws/2/VIEW.csv, … (tables VIEW_draw_1, … in a database).",
        metavar="N",
    ),
]
Order = Annotated[
    str, typer.Option(help="'source' keeps the order of rows, 'id' sorts them.", metavar="ORDER")
]
Formulas = Annotated[
    str,
    typer.Option(
        help="'escape' puts an apostrophe before texts that a spreadsheet would compute, 'keep' "
        "leaves them as they are.",
        metavar="WHAT",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting of the method, such as rounds=20; give one per setting.",
        metavar="NAME=VALUE",
    ),
]


Rules = Mapping[str, Any]
"""What options on how tables are read come to: fields of a job."""
NO_RULES: Rules = MappingProxyType({})
HEADING = "[bold]Examples[/bold]"
Command = TypeVar("Command", bound=Callable[..., None])


def examples(*lines: str) -> Callable[[Command], Command]:
    """Add command lines to what ``--help`` says of a command.

    Examples
    --------
    >>> @examples("cofill methods --json")
    ... def methods() -> None:
    ...     '''List the completion methods.'''
    >>> print(methods.__doc__)
    List the completion methods.
    <BLANKLINE>
    [bold]Examples[/bold]
    <BLANKLINE>
      cofill methods --json
    """

    def add(command: Command) -> Command:
        words = inspect.cleandoc(command.__doc__ or "")
        command.__doc__ = "\n\n".join((words, HEADING, *(f"  {line}" for line in lines)))
        return command

    return add


@dataclass(frozen=True)
class Listing:
    """How a command prints its result: as JSON if asked, else in words."""

    as_json: AsJson = False
    quiet = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing is shown on the way to the result."""
        return self.quiet or self.as_json

    def print(self, facts: Any, show: Callable[[], None]) -> None:
        """Print what a command made: its facts as JSON, or in words unless it is to be quiet."""
        if self.as_json:
            typer.echo(json.dumps(facts, indent=2))
        elif not self.quiet:
            show()


@dataclass(frozen=True)
class Output(Listing):
    """The same of a command that may also be told to print nothing."""

    quiet: Quiet = False


LISTED, SHOWN = Listing(), Output()


def _texts(
    drop: Dropped = None,
    id_type: IdType = None,
    na_values: NaValues = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> dict[str, Any]:
    """Return what the options say of texts, as fields of a job."""
    marks = {"decimal": decimal, "thousands": thousands, "delimiter": delimiter}
    lists = {"drop": tuple(drop or ()), "na_values": tuple(na_values or ())}
    return {**lists, **marks, "id_type": id_type, "encoding": encoding}


def _rules(kind: Kinds = None, ignore: Ignored = None, texts: Rules = NO_RULES) -> dict[str, Any]:
    """Return what the options say of columns and texts, as fields of a job."""
    return {"kinds": pairs(kind, "--kind"), "ignore": tuple(ignore or ()), **texts}


def takes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes the options of its parameters ``rules``, ``output`` and so on."""
    signature = inspect.signature(command, eval_str=True)
    groups = {n: takes_options(GROUPS[n]) for n in signature.parameters if n in GROUPS}
    if not groups:
        return command
    options = {n: inspect.signature(group, eval_str=True).parameters for n, group in groups.items()}

    @functools.wraps(command)
    def run(*args: Any, **values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{o: values.pop(o) for o in options[name] if o in values})
        return command(*args, **values)

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += options[name].values() if name in options else [parameter]
    # Typer reads both: the signature for defaults, the annotations for types and help.
    run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


GROUPS: Mapping[str, Callable[..., Any]] = {
    "listing": Listing,
    "output": Output,
    "rules": _rules,
    "texts": _texts,
}
"""Parameters of commands that stand for several options, and what makes them of these."""


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Split ``NAME=VALUE`` texts; the value may itself hold an equals sign."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise SettingError(f"{option} must be NAME=VALUE, got {text!r}")
        if name in values:
            raise SettingError(f"{option} names {name!r} twice; give each name once")
        values[name] = value
    return values


def sources_of(texts: Sequence[str] | None) -> dict[str, str]:
    """Split ``NAME=SOURCE`` texts; raise a `DataError` for a file that is not there.

    Looking here, before anything heavy is imported, tells a mistyped path at once.
    """
    sources = pairs(texts, "--view")
    for source in sources.values():
        if "://" not in source and not Path(source).exists():
            raise DataError(f"{source}: there is no such file; check the path")
    return sources


def stacked_sources(texts: Sequence[str] | None) -> dict[str, str | tuple[str, ...]]:
    """Split ``NAME=SOURCE`` texts; several of one name are tables of the same columns."""
    sources: dict[str, tuple[str, ...]] = {}
    for text in texts or ():
        ((name, source),) = sources_of([text]).items()
        if source in sources.get(name, ()):
            raise SettingError(f"--view names {name}={source} twice; give each table once")
        sources[name] = (*sources.get(name, ()), source)
    return {name: parts if parts[1:] else parts[0] for name, parts in sources.items()}


def reading_of(folder: Path | None, views: Sequence[str] | None, **stated: Any) -> dict[str, Any]:
    """Return what tables are read and how: a completed folder's, or those that options name.

    ``stated`` are an id and rules of columns; beside a folder they are added to its own.
    """
    if folder is None:
        return {"sources": pairs(views, "--view"), **stated}
    from cofill.completion import completed_folder

    completed = completed_folder(folder)
    if views:
        raise SettingError(f"give either the folder {folder} or --view, not both")
    if completed is None:
        raise DataError(
            f"{folder} has no completion.json; give a folder that cofill complete wrote"
        )
    reading = completed.reading()
    for name, value in stated.items():
        if isinstance(value, dict):
            reading[name] = {**reading[name], **value}
        elif isinstance(value, tuple):
            reading[name] = (*reading.get(name, ()), *value)
        elif value is not None:
            reading[name] = value
    return reading


def settings_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` texts as settings; a value is JSON, TOML, or else a text.

    Examples
    --------
    >>> settings_of(["sites=10", "strategy=fedprox", 'network={"width": 32}'])
    {'sites': 10, 'strategy': 'fedprox', 'network': {'width': 32}}
    >>> settings_of(["noise={epsilon=1.0,clip=3.0}"])
    {'noise': {'epsilon': 1.0, 'clip': 3.0}}
    """
    return {name: _value(text) for name, text in pairs(texts, "--set").items()}


def _value(text: str) -> Any:
    # JSON alone has null; TOML's tables need no quotes, which a shell would take away.
    for read in (json.loads, lambda text: tomllib.loads(f"value = {text}")["value"]):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def numbers_between_commas(text: str, option: str, kind: type, example: str) -> tuple[Any, ...]:
    """Read numbers between commas, all of a kind (int or float)."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        words = "whole numbers" if kind is int else "shares"
        raise SettingError(
            f"{option} must be {words} between commas, such as {example}, got {text!r}"
        ) from None
