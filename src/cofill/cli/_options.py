"""Options that several commands have, said once."""

from typing import Annotated

import typer

__all__ = ["IdType", "Ignored", "Kinds"]

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
    typer.Option(help="Leave a column out (VIEW.COLUMN for one view).", metavar="COLUMN"),
]
IdType = Annotated[str | None, typer.Option(help="'text' reads ids as text, so that 007 is not 7.")]
