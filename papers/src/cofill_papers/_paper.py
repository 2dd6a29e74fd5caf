"""Every experiment of a paper, part by part, into records that keep what was made before."""

from __future__ import annotations

from pathlib import Path

from cofill.completion import Progress, silent
from cofill.errors import SettingError
from cofill.metrics import ResultRecord
from cofill.registry import suggest
from cofill_papers._catalogue import find_experiment
from cofill_papers._experiment import missing_seeds, run_experiment

__all__ = ["PAPERS", "reproduce_paper"]

PAPERS = {
    "crs": ("cube", "wdbc", "mfdd", "madelon"),
    "fed-vigan": ("fed-vigan", "fed-vigan-clusters"),
    "growpu": (
        "growpu-mnist",
        "growpu-subset",
        "growpu-classifiers",
        "nnpu-table1",
        "growpu-releases",
        "growpu-behaviour",
        "growpu-behaviour-subset",
        "growpu-behaviour-classifiers",
    ),
}
"""The experiments of each paper."""


def reproduce_paper(
    paper: str, *, out: str | Path, quick: bool = False, progress: Progress | None = None
) -> list[str]:
    """Run what the records in a folder lack of a paper; return a line on each part that was run.

    A part is an experiment, or one method of it where methods take long. Each is written when it
    is done, so that a call that was cut off is taken up by the same call.

    Parameters
    ----------
    paper
        ``"crs"``, ``"fed-vigan"`` or ``"growpu"``.
    out
        Folder of the records.
    quick
        Few repeats and steps, as in `run_experiment`.
    progress
        Called with what is being done and the share done.
    """
    if paper not in PAPERS:
        raise SettingError(f"there is no paper {paper!r}; {suggest(paper, PAPERS)}")
    report = progress or silent
    lines = []
    for number, name in enumerate(PAPERS[paper]):
        for method, repeats in find_experiment(name).parts(quick=quick):
            missing = _missing(Path(out) / f"{name}.json", method, repeats)
            if not missing:
                continue
            what = name if method is None else f"{name}: {method}"
            record = run_experiment(
                name,
                seeds=missing,
                quick=quick,
                out=out,
                methods=None if method is None else [method],
                add=True,
                progress=lambda words, share, where=name, k=number: report(
                    f"{where}: {words}", (k + share) / len(PAPERS[paper])
                ),
            )
            lines.append(f"{what}, {len(missing)} repeats: {record.duration_s:.0f} s")
    return lines


def _missing(path: Path, method: str | None, repeats: int) -> list[int]:
    """Return the seeds that a record lacks; a record of an undivided experiment is whole."""
    if not path.exists():
        return list(range(repeats))
    return [] if method is None else missing_seeds(ResultRecord.read(path), method, range(repeats))
