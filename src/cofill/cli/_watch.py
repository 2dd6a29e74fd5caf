"""`cofill watch`: a local page that follows a run."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from cofill.cli._examples import examples
from cofill.cli._options import Open


@examples("cofill watch trial/ --open", "cofill watch kits/coordinator --host 0.0.0.0 --port 8080")
def watch(
    run: Annotated[
        Path, typer.Argument(help="Folder of a run, of a federation or of a kit.", metavar="RUN")
    ],
    host: Annotated[
        str, typer.Option(help="Where to listen; others need the token that is printed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Which port; 0 takes a free one.")] = 0,
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
