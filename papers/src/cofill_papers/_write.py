"""A result on disk: the record, a Markdown page with the paper's figures beside ours, pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.errors import DataError, SettingError
from cofill.metrics import ResultRecord, ResultTable, table
from cofill_papers._catalogue import AnyExperiment, Experiment

__all__ = ["check_folder", "page", "result_tables", "write_experiment"]


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


def write_experiment(record: ResultRecord, experiment: AnyExperiment, out: Path) -> list[str]:
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


def result_tables(record: ResultRecord, experiment: AnyExperiment) -> dict[str, ResultTable]:
    """Return the tables of a record by title, the paper's figures beside ours."""
    ours = {key.split("/")[0] for key in record.values}
    known = {key.split("/")[1] for key in record.values}
    # A figure of a method that was not run has nothing to stand beside.
    published = {k: v for k, v in experiment.published.items() if k.split("/")[0] in ours}
    made = {}
    for title, metrics in experiment.tables.items():
        shown = [m for m in metrics if m in known]
        if shown:
            made[title] = table(record, shown, published)
    largest = record.extra.get("largest_class_diff")
    if largest and isinstance(experiment, Experiment):
        made["Largest absolute Classification Difference of a view, in points"] = _largest(
            largest, experiment
        )
    return made


def page(record: ResultRecord, experiment: AnyExperiment, files: list[str]) -> str:
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
    for title, made in result_tables(record, experiment).items():
        lines += ["", f"## {title}", "", made.markdown()]
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


def _largest(largest: Mapping[str, Mapping[str, float | str]], exp: Experiment) -> ResultTable:
    rows, cells = [], []
    beside = exp.largest_published is not None
    for method, found in largest.items():
        points = 100 * float(found["value"])
        paper = 100 * exp.largest_published if exp.largest_published and method == "mwm" else None
        row = {"method": method, "where": found["where"], "points": points}
        rows.append({**row, "points_published": paper} if beside else row)
        line = [method, str(found["where"]), f"{points:+.1f}".replace("-", "−")]
        cells.append([*line, "–" if paper is None else f"{paper:.1f}"] if beside else line)
    header = ["method", "where", "points", *(["points (paper)"] * beside)]
    return ResultTable(rows, header, cells)


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
