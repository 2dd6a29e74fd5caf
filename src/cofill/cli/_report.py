"""`cofill report`: the results in a folder as one page that opens offline."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from cofill.cli._examples import examples
from cofill.errors import SettingError

__all__ = ["report"]


@examples("cofill report demo/ --open", "cofill report results/ --out results.html")
def report(
    folder: Annotated[
        Path, typer.Argument(help="Where results are looked for, there and below.", metavar="DIR")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; DIR/report.html when left out.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "",
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Turn the results in a folder into one HTML file: figures and pictures, nobody's record.

    It reads what `cofill complete`, `cluster`, `reproduce`, `audit`, `attack --json` and
    federations have written, opens no table of rows, and needs no network to be read.
    """
    from cofill.report import write_report

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"--out must be an .html file, got {str(out)!r}")
    target = write_report(folder, out, title=title)
    if as_json:
        size = target.stat().st_size
        typer.echo(json.dumps({"report": str(target.resolve()), "bytes": size}, indent=2))
    elif not quiet:
        typer.echo(f"written to {target.resolve()}")
    if show:
        webbrowser.open(target.resolve().as_uri())
