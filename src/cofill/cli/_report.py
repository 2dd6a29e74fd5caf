"""`cofill report`: the results in a folder as one page that opens offline."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from cofill.cli._examples import examples
from cofill.cli._options import AsJson, Open, Quiet
from cofill.cli._show import print_result
from cofill.errors import SettingError


@examples("cofill report demo/ --open", "cofill report results/ --out results.html")
def report(
    folder: Annotated[
        Path, typer.Argument(help="Where results are looked for, in it and below.", metavar="DIR")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; DIR/report.html when left out.")
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "",
    show: Open = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Turn the results in a folder into one HTML file: figures and pictures, nobody's record.

    It reads what `cofill complete`, `cluster`, `reproduce`, `audit`, `attack --json` and
    federations have written, opens no table of rows, and needs no network to be read.
    """
    from cofill.report import write_report

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"--out must be an .html file, got {str(out)!r}")
    target = write_report(folder, out, title=title).resolve()
    print_result(
        lambda: {"report": str(target), "bytes": target.stat().st_size},
        lambda: typer.echo(f"written to {target}"),
        as_json=as_json,
        quiet=quiet,
    )
    if show:
        webbrowser.open(target.as_uri())
