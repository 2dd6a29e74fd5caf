"""`cofill demo`: what cofill does, as one story on embedded data, ending in a report."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from cofill.cli._complete import show_result
from cofill.cli._options import SHOWN, Open, Output, Seed, examples
from cofill.cli._show import console, progress_line, say

if TYPE_CHECKING:
    from cofill.audit import Audit
    from cofill.demo import Clinics, Demo


@examples("cofill demo --open", "cofill demo --out trial --seed 1")
def demo(
    out: Annotated[Path, Option(help="Folder for everything the demo writes.")] = Path("demo"),
    missing: Annotated[float, Option(help="Share of rows each hospital lacks.")] = 0.3,
    seed: Seed = 0,
    show: Open = False,
    output: Output = SHOWN,
) -> None:
    """Tell in about a minute what was completed, how well, for whom, and what leaked.

    Three hospitals complete the tables of patients they share; ten clinics complete images of
    patients they do not share, and group them; a mean is released, which is attacked and
    then protected; and everything that crossed a border is audited. Ends with a report.
    """
    from cofill.demo import CHAPTERS, run_demo

    screen = console()
    printers = {1: show_result, 2: _show_clinics, 3: _show_release, 4: _show_audit, 5: _show_audit}

    def after(number: int, result: Any) -> None:
        if not output.is_silent:
            screen.rule(f"{number}. {CHAPTERS[number - 1].title}", align="left")
            printers[number](result)

    with progress_line(output.is_silent) as report_progress:
        results = run_demo(
            out, missing=missing, seed=seed, report_progress=report_progress, after=after
        )
    report = results.report.resolve()

    def show_end() -> None:
        screen.rule()
        say(
            "worst verdict about a person, beyond the completed cells themselves: "
            f"{results.audit.verdict}; with codes it would have been {results.codes.verdict}"
        )
        say(f"report: {report}")

    output.print(_facts(results), show_end)
    if show:
        webbrowser.open(report.as_uri())


def _facts(results: Demo) -> dict[str, Any]:
    """Return what was reached, in figures."""
    evaluation = results.completion.evaluation
    errors = {} if evaluation is None else evaluation.summary
    return {
        "report": str(results.report.resolve()),
        "completion": {key: value["mean"] for key, value in errors.items() if "/mse/" in key},
        "clinics": {key: value["mean"] for key, value in results.clinics.record.summary.items()},
        "verdicts": {
            "release": results.release.verdict,
            "audit": results.audit.verdict,
            "codes": results.codes.verdict,
        },
    }


def _show_clinics(clinics: Clinics) -> None:
    psnr = {m: clinics.record.summary[f"{m}/psnr/all"]["mean"] for m in ("federated", "mean")}
    say(
        f"missing images made to {psnr['federated']:.1f} dB on images that no clinic has (the mean "
        f"image: {psnr['mean']:.1f} dB)"
    )
    say(
        f"{clinics.groups.facts['k']} groups of completed patients; {clinics.purity:.0%} are in a "
        "group of mostly their own digit"
    )


def _show_release(audit: Audit) -> None:
    for release in audit.releases:
        leak = next(leak for leak in release.leaks if leak.scope == "population")
        claim = "" if release.claim is None else f" (claimed: ε = {release.claim.epsilon:.2g})"
        say(
            f"{release.what}{claim}: the class of {leak.attack:.0%} is guessed; without the mean "
            f"{leak.control or leak.floor:.0%}"
        )


def _show_audit(audit: Audit) -> None:
    senders_by_verdict: dict[tuple[str, str], list[str]] = {}
    for release in audit.releases:
        key = (release.what, release.individual)
        senders_by_verdict.setdefault(key, []).append(release.sender)
    for (what, verdict), senders in senders_by_verdict.items():
        who = ", ".join(senders) if len(senders) < 4 else f"{senders[0]} to {senders[-1]}"
        say(f"{who}: {what}: {verdict}")
