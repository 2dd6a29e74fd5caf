"""What other distributions bring by entry points: commands, and entries of cofill's registries.

An entry point of the group `cofill.commands` is a command of that name; it loads a function, or a
Typer application with commands below that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import typer

from cofill.cli._options import LISTED, Listing, examples
from cofill.cli._show import entry_facts, entry_lines
from cofill.errors import SettingError
from cofill.registry import Registry

GROUP = "cofill.commands"

_ELSEWHERE = {"reproduce": "cofill-papers"}
"""Commands that users of cofill expect, with the distribution that brings each."""

REGISTRIES = (
    "cofill.completion:METHODS",
    "cofill.views:SOURCES",
    "cofill.views:DATASETS",
    "cofill.protocol:PROTOCOLS",
    "cofill.federate:STRATEGIES",
    "cofill.federate:LEARNERS",
    "cofill.attack:MEAN_ATTACKS",
    "cofill.audit:AUDITORS",
)
"""Every registry that other packages can add to, as ``module:name``."""

Command = Callable[..., None]


@examples("cofill plugins", "cofill plugins --json")
def plugins(listing: Listing = LISTED) -> None:
    """List what installed packages can add to, and who brought what."""
    registries: list[Registry] = []
    for target in REGISTRIES:
        module, _, name = target.partition(":")
        registries.append(getattr(import_module(module), name))

    def show() -> None:
        for registry in registries:
            typer.echo(f"{registry.noun} ({registry.group})")
            for line in entry_lines(registry):
                typer.echo(f"  {line}")

    listing.print({r.group: [entry_facts(entry) for entry in r] for r in registries}, show)


def add_plugins(
    app: typer.Typer,
    guard: Callable[[Command], Command],
    points: Iterable[EntryPoint] | None = None,
) -> None:
    """Add the commands of entry points to an application; of those installed unless given.

    ``guard`` wraps every function that becomes a command. A command of `_ELSEWHERE` whose
    distribution is not installed is added as one that says so.
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
    lenient = {"allow_extra_args": True, "ignore_unknown_options": True}
    for name, distribution in missing.items():
        add = app.command(name, hidden=True, context_settings=lenient)
        add(guard(_missing(name, distribution)))


def _missing(name: str, distribution: str) -> Command:
    def explain() -> None:
        raise SettingError(
            f"`cofill {name}` comes with the distribution {distribution}, which is not installed "
            f"or cannot be loaded; install it by `pip install {distribution}`"
        )

    explain.__doc__ = f"Say how to install `cofill {name}`."
    return explain
