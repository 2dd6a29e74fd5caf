"""The `cofill` command and how it ends: 0 done, 1 failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer import Option

import cofill
from cofill.cli._attack import attack, list_attacks, mean
from cofill.cli._audit import audit, audit_commands
from cofill.cli._check import check
from cofill.cli._cluster import cluster
from cofill.cli._complete import apply, complete
from cofill.cli._datasets import datasets
from cofill.cli._demo import demo
from cofill.cli._doctor import doctor
from cofill.cli._federation import (
    coordinator,
    federation,
    federation_commands,
    keys,
    run_site,
    site,
)
from cofill.cli._methods import methods
from cofill.cli._options import takes_options
from cofill.cli._plugins import add_plugins, plugins
from cofill.cli._report import report, watch
from cofill.cli._site_policy import site_policy_commands
from cofill.errors import CofillError, InputError
from cofill.paths import keep_compiled_programs

app = typer.Typer(
    name="cofill",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Complete the records that organisations may not show each other, "
        "and measure what the exchange gives away."
    ),
    epilog=(
        "Exit codes: 0 done, 1 failed, 2 the input cannot be used, 130 interrupted. "
        "Shell completion: cofill --install-completion."
    ),
)


def _show_version(value: bool) -> bool:
    if value:
        typer.echo(f"cofill {cofill.__version__}")
        raise typer.Exit
    return value


@app.callback()
def _root(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that stand before a command."""


class _InterruptedError(Exception):
    """Ctrl-C inside a command; the parser would turn KeyboardInterrupt into "Aborted!"."""


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    with_options = takes_options(command)

    @functools.wraps(with_options)
    def run(*args: object, **kwargs: object) -> None:
        try:
            with_options(*args, **kwargs)
        except KeyboardInterrupt:
            raise _InterruptedError from None

    return run


for _command in (
    *(complete, apply, check, cluster, methods, plugins),
    *(demo, doctor, report, watch, coordinator),
):
    app.command()(_guarded(_command))
attack.command()(_guarded(mean))
attack.command("list")(_guarded(list_attacks))
app.add_typer(attack, name="attack")
for _name, _command in audit_commands.items():
    audit.command(_name)(_guarded(_command))
app.add_typer(audit, name="audit")
for _name, _command in federation_commands.items():
    federation.command(_name)(_guarded(_command))
site.callback()(_guarded(run_site))
site.command()(_guarded(keys))
for _name, _command in site_policy_commands.items():
    site.command(_name)(_guarded(_command))
app.add_typer(federation, name="federation")
app.add_typer(site, name="site")
app.add_typer(datasets, name="datasets")
add_plugins(app, _guarded)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; faults become one sentence on standard error."""
    keep_compiled_programs()
    try:
        app(args=arguments, prog_name="cofill")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except _InterruptedError:
        return _end("interrupted; nothing was written", 130)
    except InputError as error:
        return _end(str(error), 2)
    except CofillError as error:
        return _end(str(error), 1)
    except MemoryError:
        return _end("the machine has too little memory for this; use fewer rows or columns", 1)
    return 0


def _end(sentence: str, code: int) -> int:
    typer.echo(f"cofill: {sentence}", err=True)
    return code
