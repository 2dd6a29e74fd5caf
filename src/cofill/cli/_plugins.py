"""Commands that other distributions bring, by the entry points of the group `cofill.commands`.

An entry point's name is the command's name; it loads a function, or a Typer application with
commands below that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

import typer

from cofill.errors import SettingError

__all__ = ["GROUP", "add_plugins"]

GROUP = "cofill.commands"

_ELSEWHERE = {"reproduce": "cofill-papers"}
"""Commands that users of cofill expect, with the distribution that brings each."""

Command = Callable[..., None]


def add_plugins(
    app: typer.Typer,
    guard: Callable[[Command], Command],
    points: Iterable[EntryPoint] | None = None,
) -> None:
    """Add the commands of entry points to an application.

    A command of `_ELSEWHERE` whose distribution is not installed is added as one that says so.

    Parameters
    ----------
    app
        The application.
    guard
        Wraps every function that becomes a command.
    points
        The entry points; those of the installed distributions when left out.
    """
    missing = dict(_ELSEWHERE)
    for point in entry_points(group=GROUP) if points is None else points:
        try:
            command = point.load()
        except ImportError:
            # A broken installation of one command must not take the others away.
            continue
        missing.pop(point.name, None)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(guard(command))
    for name, distribution in missing.items():
        app.command(
            name,
            hidden=True,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(guard(_missing(name, distribution)))


def _missing(name: str, distribution: str) -> Command:
    def explain() -> None:
        raise SettingError(
            f"`cofill {name}` comes with the distribution {distribution}, which is not installed "
            f"or cannot be loaded; install it by `pip install {distribution}`"
        )

    explain.__doc__ = f"Say how to install `cofill {name}`."
    return explain
