"""A result on disk: the record, a Markdown page with the paper's figures beside ours, pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError
from cofill.metrics import ResultRecord
from cofill_papers._base import AbstractExperiment

__all__ = ["check_folder", "page", "write_experiment"]


def check_folder(out: Path, name: str, *, overwrite: bool = False) -> None:
    """Make the folder; raise unless the experiment's files may be written there."""
    record = out / f"{name}.json"
    if record.exists() and not overwrite:
        raise SettingError(
            f"{record} exists already and is left as it is; give another --out or --overwrite"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the folder {out} cannot be made ({error.strerror}); give another --out"
        ) from None
    if not os.access(out, os.W_OK):
        raise DataError(f"the folder {out} may not be written to; give another --out")


def write_experiment(record: ResultRecord, experiment: AbstractExperiment, out: Path) -> list[str]:
    """Write record, page and pictures; return the names of the files, the record last."""
    pictures = {**experiment.draw_record(record), **experiment.draw_data()}
    drawn = {f"{record.name}_{part}.svg": svg for part, svg in pictures.items()}
    files = {**drawn, f"{record.name}.md": page(record, experiment, list(drawn))}
    stale = set(out.glob(f"{record.name}_*.svg")) - {out / f for f in drawn}
    try:
        for path in stale:  # of an earlier run with other methods
            path.unlink()
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror}); give another --out") from None
    record.write(out / f"{record.name}.json")
    return [*files, f"{record.name}.json"]


def page(record: ResultRecord, experiment: AbstractExperiment, files: list[str]) -> str:
    """Write the Markdown page of a record."""
    seeds = len(record.seeds)
    lines = [
        f"# {record.name}: {experiment.description}",
        "",
        f"{experiment.protocol[0].upper()}{experiment.protocol[1:]}. {seeds} "
        f"repeat{'s' * (seeds != 1)} (the full experiment has {experiment.repeats}), "
        f"{record.duration_s:.0f} s. Figures are mean ± standard deviation over the repeats.",
        "",
    ]
    methods: Mapping[str, str] = record.settings.get("methods", {})
    lines += [f"- `{name}`: {words}" for name, words in methods.items()]
    for title, result_table in experiment.result_tables(record).items():
        lines += ["", f"## {title}", "", result_table.markdown()]
    for note in ("paired", "paired_crossed"):
        lines += _paired(record.extra.get(note, {}))
    lines += [line for file in files for line in ("", f"![{Path(file).stem}]({file})")]
    return "\n".join(lines) + "\n"


def _paired(claim: Mapping[str, Any]) -> list[str]:
    """Return the lines on a paired claim, none where there is none."""
    if not claim:
        return []
    return [
        "",
        f"## Is the error of `{claim['method']}` less than that of `{claim['less_than']}`?",
        "",
        "| where | mean difference | p (Student) | p (Wilcoxon) |",
        "| --- | --: | --: | --: |",
        *(
            f"| {where} | {t['mean_difference']:.4f} | {_p(t['t_p'])} | {_p(t['wilcoxon_p'])} |"
            for where, t in claim["where"].items()
        ),
    ]


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
