"""`cofill datasets`: which data sets are installed, where, and how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cofill.cli._options import LISTED, Listing, examples, takes_options
from cofill.paths import data_folder

datasets = typer.Typer(no_args_is_help=True, help="List, find and fetch data sets.")


@datasets.command("list")
@takes_options
@examples("cofill datasets list", "cofill datasets list --json")
def list_datasets(listing: Listing = LISTED) -> None:
    """List the data sets and where each one is."""
    from cofill import views

    entries = views.datasets()

    def show() -> None:
        width = max(len(e.name) for e in entries)
        for entry in entries:
            typer.echo(f"{entry.name:<{width}}  {entry.where}")
            typer.echo(f"{'':<{width}}  {entry.description}")
        if hint := views.papers_hint():
            typer.echo(hint)

    keys = ("name", "description", "individuals", "views", "where")
    listing.print([{key: getattr(e, key) for key in keys} for e in entries], show)


@datasets.command()
@examples("cofill datasets fetch mnist")
def fetch(
    name: Annotated[str, Argument(help="Name of a data set; see `cofill datasets list`.")],
    folder: Annotated[Path | None, Option(help="Where to put it, if not the data folder.")] = None,
) -> None:
    """Download a data set into the data folder and check it."""
    from cofill import views

    typer.echo(f"fetched {views.fetch(name, folder)}")


@datasets.command()
@examples("cofill datasets path")
def path() -> None:
    """Print the data folder ($COFILL_DATA, or the user's cache)."""
    typer.echo(str(data_folder()))
