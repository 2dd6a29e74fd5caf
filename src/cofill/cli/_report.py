"""`cofill report`: results as one page that opens offline; `cofill watch`: a run as it goes."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cofill.cli._options import SHOWN, Open, Output, examples
from cofill.errors import SettingError


@examples("cofill report demo/ --open", "cofill report results/ --out results.html")
def report(
    folder: Annotated[
        Path, Argument(help="Where results are looked for, in it and below.", metavar="DIR")
    ],
    out: Annotated[Path | None, Option(help="The file to write, if not DIR/report.html.")] = None,
    title: Annotated[str, Option(help="Heading of the page.")] = "",
    show: Open = False,
    output: Output = SHOWN,
) -> None:
    """Turn the results in a folder into one HTML file: figures and pictures, nobody's record.

    It reads what `cofill complete`, `cluster`, `reproduce`, `audit`, `attack --json` and
    federations have written, opens no table of rows, and needs no network to be read.
    """
    from cofill.report import write_report

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"--out must be an .html file, got {str(out)!r}")
    target = write_report(folder, out, title=title).resolve()
    facts = {"report": str(target), "bytes": target.stat().st_size}
    output.print(facts, lambda: typer.echo(f"written to {target}"))
    if show:
        webbrowser.open(target.as_uri())


@examples("cofill watch trial/ --open", "cofill watch kits/coordinator --host 0.0.0.0 --port 8080")
def watch(
    run: Annotated[
        Path, Argument(help="Folder of a run, of a federation or of a kit.", metavar="RUN")
    ],
    host: Annotated[str, Option(help="Where to listen; others need a token.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Which port; 0 takes a free one.")] = 0,
    show: Open = False,
) -> None:
    """Serve a page that follows a run: sites, steps, losses, releases, budget, faults; no rows.

    It reads the run's folder and changes nothing. Ctrl-C ends it; the run goes on.
    """
    from cofill.report import WatchServer

    with WatchServer(run, host, port) as server:
        typer.echo(f"following {run} at {server.url} (Ctrl-C ends this, not the run)")
        if show:
            webbrowser.open(server.url)
        try:
            server.serve_forever(0.2)
        except KeyboardInterrupt:
            typer.echo("ended")
