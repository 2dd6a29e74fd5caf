"""Five chapters, one folder, one report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cofill.attack import DecoderSettings
from cofill.audit import (
    Audit,
    CodeAuditSettings,
    MeanAuditSettings,
    audit_ledger,
    audit_mean,
    audit_run,
    join_audits,
    read_evidence,
)
from cofill.completion import CompletionJob, CompletionResult, Progress, run_completion
from cofill.demo._clinics import Clinics, clinics
from cofill.errors import DataError
from cofill.files import write_document
from cofill.nets import FusionSettings
from cofill.privacy import Box
from cofill.report import write_report
from cofill.views import drop_rows, load, to_table, write_table

_MARK = ".cofill-demo"
_FORMS = {"mean": "csv", "error": "parquet", "worst": "csv"}  # of the hospitals' tables
_GREY = Box(0.0, 16.0)  # grey levels of the scanner, whoever is scanned
# These codes are as wide as the rows: ridge regression undoes them, and networks take longer.
_ATTACK = CodeAuditSettings(
    pairs=(10, 100), decoders=DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()))
)


@dataclass(frozen=True)
class Chapter:
    """A chapter: its folder, its title, what happens in it, whether its releases were sent."""

    folder: str
    title: str
    words: tuple[str, ...]
    sent: bool = True


CHAPTERS = (
    Chapter(
        "completed",
        "Three hospitals",
        (
            "Three hospitals hold different measurements of the same 569 patients, and each lacks "
            "a part of them. Each completes its own table by a computation on secret shares: "
            "numbers split at random, of which nobody has both parts. No row leaves its hospital.",
        ),
    ),
    Chapter(
        "clinics",
        "Ten clinics",
        (
            "Ten clinics hold pairs of images of their own patients, half of them incomplete. They "
            "train one model by exchanging its weights, complete their images, and find groups of "
            "alike patients without showing one.",
        ),
    ),
    Chapter(
        "release",
        "A mean is released",
        (
            "The clinics think of publishing the mean image of one class of their patients. "
            "Whoever has images without the class guesses from it who belongs there, of those who "
            "went into the mean and of others alike: that is inference about a population, and the "
            "verdicts on individuals are about what being in the mean adds.",
            "Noise that is counted for a whole image bounds what the mean says of anybody and "
            "takes the attacker back to what they would guess anyway; noise that is counted for "
            "each pixel alone promises more than it keeps.",
        ),
        sent=False,
    ),
    Chapter(
        "audit",
        "What crossed a border",
        (
            "Everything that the three hospitals sent each other, and that the ten clinics sent "
            "their coordinator, attacked as a receiver could. Beyond the completed cells, which "
            "are what was asked for, nothing about a patient should be seen.",
            "The clinics' sums carry no noise, though: an attack on their common model sometimes "
            "tells a little better than by chance whose images it was trained on, more with some "
            "seeds than with others. Only noise for a stated ε rules that out.",
        ),
    ),
    Chapter(
        "codes",
        "What codes would have told",
        (
            "The same hospitals complete the same tables from codes, as a published method does: "
            "each sends a network's summary of a patient in place of the row. Whoever knows some "
            "patients' rows turns codes back into rows. The picture compares what a receiver "
            "learns of a row (R², 1 is everything) from shares, from the completed cells "
            "themselves, and from codes.",
        ),
        sent=False,
    ),
)


@dataclass(frozen=True, eq=False)
class Demo:
    """The results of the chapters, and the page about all of them."""

    completion: CompletionResult
    clinics: Clinics
    release: Audit
    audit: Audit
    codes: Audit
    report: Path


def run_demo(
    out: Path,
    *,
    missing: float = 0.3,
    seed: int = 0,
    report_progress: Progress,
    after: Callable[[int, Any], None],
) -> Demo:
    """Run all chapters and write their report.

    Parameters
    ----------
    out
        The folder of an earlier demo, which is replaced, or a new one.
    missing
        Share of the patients that each hospital lacks.
    seed
        Start of all randomness.
    report_progress
        Called with what is being done and the share of everything that is done.
    after
        Called with a chapter's number and its result.

    Raises
    ------
    DataError
        If the folder holds something else.
    """
    _prepare_folder(out)
    (out / _MARK).touch()
    completion = _complete_hospitals(
        out, missing=missing, seed=seed, report_progress=_span(report_progress, 0.0, 0.4)
    )
    after(1, completion)
    images = clinics(out, seed=seed, report_progress=_span(report_progress, 0.4, 0.65))
    after(2, images)
    report_progress("attacking a mean", 0.65)
    mean = _attack_release(out, seed=seed)
    after(3, mean)
    audit = _audit_releases(out, images, _span(report_progress, 0.7, 0.85))
    after(4, audit)
    codes = _audit_codes(out, seed=seed, report_progress=_span(report_progress, 0.85, 0.97))
    after(5, codes)
    report_progress("writing the report", 0.97)
    chapters = [dict(vars(chapter)) for chapter in CHAPTERS]
    chapters[-1]["bars"] = contrast(completion, audit, codes)
    chapters[-1]["caption"] = (
        "How much of a patient's row a receiver reads out of what it was sent (R²: 0 is nothing, 1 "
        "is the row). From shares nobody reads anything; a hospital that lacks a patient gets the "
        "completed cells, which it asked for; codes would have shown the rows of all patients."
    )
    story = {
        "title": "What cofill does, in five chapters",
        "subtitle": "Real data, one machine: what was completed, how well, and what leaked.",
        "chapters": chapters,
    }
    write_document(out / "story.json", "cofill-story", story)
    return Demo(completion, images, mean, audit, codes, write_report(out))


def contrast(completion: CompletionResult, audit: Audit, codes: Audit) -> dict[str, Any]:
    """Return bars of what a receiver learns of a hospital's rows: shares, filled cells, codes."""
    errors = {} if completion.evaluation is None else completion.evaluation.summary
    filled = [1 - float(errors[f"private/mse/{name}"]["mean"] or 1.0) for name in _FORMS]
    return {
        "axis": "R² of a row",
        "categories": [f"hospital {name!r}" for name in _FORMS],
        "series": {
            "from shares (by default)": [_most_read(audit, "masked-rows", n) for n in _FORMS],
            "the completed cells themselves": filled,
            "from codes": [_most_read(codes, "codes", n) for n in _FORMS],
        },
        "most": 1.0,
    }


def _most_read(audit: Audit, kind: str, sender: str) -> float:
    """Return the largest R² of a sender's rows that an attack reached, 0 at least."""
    releases = [r for r in audit.releases if (r.kind, r.sender) == (kind, sender)]
    return max(0.0, *(leak.attack for r in releases for leak in r.leaks if leak.figure == "R²"))


def _complete_hospitals(
    out: Path, *, missing: float, seed: int, report_progress: Progress
) -> CompletionResult:
    """Write each hospital's table, complete it on shares, compare with codes and imputers.

    The patients are the 569 of the Wisconsin breast cancer data, a hospital has ten features.
    """
    incomplete, _ = drop_rows(load("wdbc").views, missing, key=seed)
    tables = out / "hospitals"
    tables.mkdir()
    for name, form in _FORMS.items():
        write_table(to_table(incomplete[name]), tables / f"{name}.{form}")
    job = CompletionJob(
        sources={name: str(tables / f"{name}.{form}") for name, form in _FORMS.items()},
        id=incomplete["mean"].id_name,
        out=str(out / "completed"),
        separate=True,
        evaluate=True,
        compare=("cooperative", "mean", "knn"),
        repeats=2,
        intervals=0.9,
        seed=seed,
    )
    return run_completion(job, report_progress)


def _attack_release(out: Path, *, seed: int) -> Audit:
    """Audit the release of a class mean before it happens; writes the folder ``release``.

    The attacker has everybody's image but not the class (odd digits). They attack the plain mean,
    then means with noise: by the sensitivity of a whole record, which is a guarantee, and with the
    paper's noise for each coordinate alone, which is a weaker guarantee than it claims.
    """
    digits = load("digits")
    settings = MeanAuditSettings(
        mechanisms=("gaussian", "laplace per coordinate"),
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        coordinate_epsilons=(0.001, 0.01, 0.1),
        repeats=1,
        draws=20_000,
        seed=seed,
    )
    odd = np.asarray(digits.labels) % 2 == 1
    audit = audit_mean(digits.views["image"].cells, odd, _GREY, settings=settings)
    audit.write(out / "release")
    return audit


def _audit_releases(out: Path, images: Clinics, report_progress: Progress) -> Audit:
    """Audit what hospitals and clinics have sent, as one."""
    shares = audit_run(out / "completed", codes=_ATTACK, progress=_span(report_progress, 0.0, 0.6))
    updates = audit_ledger(
        images.ledger,
        read_evidence([images.sent], row_sites=images.sites, strangers=images.strangers),
        title="Ten clinics",
        progress=_span(report_progress, 0.6, 1.0),
    )
    audit = join_audits(
        "Hospitals and clinics",
        [shares, updates],
        settings={**shares.settings, "folder": str(out)},
        duration_s=shares.duration_s + updates.duration_s,
    )
    audit.write(out / "audit")
    return audit


def _audit_codes(out: Path, *, seed: int, report_progress: Progress) -> Audit:
    """Audit what the hospitals would have sent had they completed their tables from codes."""
    tables = out / "hospitals"
    with TemporaryDirectory(dir=out) as folder:
        job = CompletionJob(
            sources={name: str(tables / f"{name}.{form}") for name, form in _FORMS.items()},
            id="id",
            out=str(Path(folder) / "completed"),
            separate=True,
            method="cooperative",
            seed=seed,
        )
        run_completion(job, _span(report_progress, 0.0, 0.5))
        audit = audit_run(job.out, codes=_ATTACK, progress=_span(report_progress, 0.5, 1.0))
    audit.write(out / "codes")
    return audit


def _prepare_folder(out: Path) -> None:
    """Make the folder empty by removing an earlier demo, and nothing else."""
    if (out / _MARK).exists():
        shutil.rmtree(out)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists and is no earlier demo; give another --out or remove it")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{out} cannot be made ({error.strerror}); give another --out") from None


def _span(report_progress: Progress, start: float, end: float) -> Progress:
    """Return a callback that moves the progress of the demo between two shares."""
    return lambda what, share: report_progress(what, start + (end - start) * share)
