"""Four chapters, one folder, one report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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
    """A chapter: its folder, its title, what happens in it."""

    folder: str
    title: str
    words: tuple[str, ...]


CHAPTERS = (
    Chapter(
        "completed",
        "Three hospitals",
        (
            "Three hospitals hold different measurements of the same 569 patients, and each lacks "
            "a part of them. Each completes its own table from codes that the others send; no row "
            "leaves its hospital.",
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
    ),
    Chapter(
        "audit",
        "What crossed a border",
        (
            "Everything that the three hospitals sent each other, and that the ten clinics sent "
            "their coordinator, attacked as a receiver could. Codes are turned back into rows; of "
            "a clinic's updates it is asked whose images they were made from.",
        ),
    ),
)


@dataclass(frozen=True, eq=False)
class Demo:
    """The results of the chapters, and the page about all of them."""

    completion: CompletionResult
    clinics: Clinics
    release: Audit
    audit: Audit
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
    audit = _audit_releases(out, images, _span(report_progress, 0.75, 0.97))
    after(4, audit)
    report_progress("writing the report", 0.97)
    story = {
        "title": "What cofill does, in four chapters",
        "subtitle": "Real data, one machine: what was completed, how well, and what leaked.",
        "chapters": [vars(chapter) for chapter in CHAPTERS],
    }
    write_document(out / "story.json", "cofill-story", story)
    return Demo(completion, images, mean, audit, write_report(out))


def _complete_hospitals(
    out: Path, *, missing: float, seed: int, report_progress: Progress
) -> CompletionResult:
    """Write each hospital's table, complete it from the others' codes, compare with imputers.

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
        compare=("mean", "knn", "central"),
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
    codes = audit_run(out / "completed", codes=_ATTACK, progress=_span(report_progress, 0.0, 0.6))
    updates = audit_ledger(
        images.ledger,
        read_evidence([images.sent], row_sites=images.sites),
        title="Ten clinics",
        progress=_span(report_progress, 0.6, 1.0),
    )
    audit = join_audits(
        "Hospitals and clinics",
        [codes, updates],
        settings={**codes.settings, "folder": str(out)},
        duration_s=codes.duration_s + updates.duration_s,
    )
    audit.write(out / "audit")
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
