"""`cofill datasets`: which data sets are here, where they lie, and how to get the others."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cofill.cli._examples import examples
from cofill.paths import data_folder

__all__ = ["datasets"]

datasets = typer.Typer(no_args_is_help=True, help="List, find and fetch data sets.")


@datasets.command("list")
@examples("cofill datasets list", "cofill datasets list --json")
def list_datasets(
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the data sets and where each one is."""
    from cofill import views

    entries = views.datasets()
    if as_json:
        typer.echo(json.dumps([asdict(e) for e in entries], indent=2))
        return
    width = max(len(e.name) for e in entries)
    for entry in entries:
        typer.echo(f"{entry.name:<{width}}  {entry.where}")
        typer.echo(f"{'':<{width}}  {entry.description}")


@datasets.command()
@examples("cofill datasets fetch mnist")
def fetch(
    name: Annotated[str, typer.Argument(help="Name of a data set; see `cofill datasets list`.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to put it; the data folder unless told otherwise.")
    ] = None,
) -> None:
    """Download a data set into the data folder and check it."""
    from cofill import views

    typer.echo(f"fetched {views.fetch(name, folder)}")


@datasets.command()
@examples("cofill datasets path")
def path() -> None:
    """Print the data folder ($COFILL_DATA, or the user's cache)."""
    typer.echo(str(data_folder()))
