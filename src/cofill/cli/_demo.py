"""`cofill demo`: what cofill does, as one story on embedded data, ending in a report."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cofill.cli._complete import show_result
from cofill.cli._examples import examples
from cofill.cli._show import console, progress_line

if TYPE_CHECKING:
    from cofill.audit import Audit
    from cofill.demo import Clinics, Demo

__all__ = ["demo"]


@examples("cofill demo --open", "cofill demo --out trial --seed 1")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path(
        "demo"
    ),
    missing: Annotated[float, typer.Option(help="Share of rows each hospital lacks.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Start of all randomness.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Tell in about a minute what was completed, how well, for whom, and what leaked.

    Three hospitals complete the tables of patients they share; ten clinics complete images of
    patients they do not share, and group them; a mean is released, which is attacked and
    then protected; and everything that crossed a border is audited. Ends with a report.
    """
    from cofill.demo import CHAPTERS, run_demo

    screen = console()
    tellers = {1: show_result, 2: _show_clinics, 3: _show_release, 4: _show_audit}

    def after(number: int, result: Any) -> None:
        if not (quiet or as_json):
            screen.rule(f"{number}. {CHAPTERS[number - 1].title}", align="left")
            tellers[number](result)

    with progress_line(quiet or as_json) as report_progress:
        made = run_demo(
            out, missing=missing, seed=seed, report_progress=report_progress, after=after
        )
    if as_json:
        typer.echo(json.dumps(_facts(made), indent=2))
    elif not quiet:
        screen.rule()
        screen.print(f"report: {made.report.resolve()}", soft_wrap=True)
    if show:
        webbrowser.open(made.report.resolve().as_uri())


def _facts(made: Demo) -> dict[str, Any]:
    """Return what was reached, in figures."""
    errors = {} if made.completion.evaluation is None else made.completion.evaluation.summary
    return {
        "report": str(made.report.resolve()),
        "completion": {key: value["mean"] for key, value in errors.items() if "/mse/" in key},
        "clinics": {key: value["mean"] for key, value in made.clinics.record.summary.items()},
        "verdicts": {"release": made.release.verdict, "audit": made.audit.verdict},
    }


def _show_clinics(result: Clinics) -> None:
    screen = console()
    found = {key: value["mean"] for key, value in result.record.summary.items()}
    screen.print(
        f"missing images made to {found['federated/psnr/all']:.1f} dB on images that no clinic has "
        f"(the mean image: {found['mean/psnr/all']:.1f} dB)"
    )
    screen.print(
        f"{result.groups.facts['k']} groups of completed patients; {result.purity:.0%} are in a "
        "group of mostly their own digit"
    )


def _show_release(audit: Audit) -> None:
    screen = console()
    for release in audit.releases:
        others = next(leak for leak in release.leaks if leak.scope == "population")
        promised = "" if release.claim is None else f" (claimed: ε = {release.claim.epsilon:.2g})"
        screen.print(
            f"{release.what}{promised}: the class of {others.attack:.0%} is guessed; without the "
            f"mean {others.control or others.floor:.0%}"
        )


def _show_audit(audit: Audit) -> None:
    screen = console()
    alike: dict[tuple[str, str], list[str]] = {}
    for release in audit.releases:
        alike.setdefault((release.what, release.individual), []).append(release.sender)
    for (what, verdict), senders in alike.items():
        who = ", ".join(senders) if len(senders) < 4 else f"{senders[0]} to {senders[-1]}"
        screen.print(f"{who}: {what}: {verdict}", soft_wrap=True)
