"""Run one experiment, alone or to add methods to a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cofill.completion import Progress, silent
from cofill.errors import SettingError
from cofill.metrics import Recorder, ResultRecord
from cofill_papers._base import AbstractExperiment
from cofill_papers._catalogue import find_experiment
from cofill_papers._join import joined
from cofill_papers._write import check_folder, write_experiment

__all__ = ["missing_seeds", "run_experiment"]


def run_experiment(
    name: str,
    *,
    seeds: int | Sequence[int] | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    methods: Sequence[str] | None = None,
    overwrite: bool = False,
    add: bool = False,
    progress: Progress | None = None,
) -> ResultRecord:
    """Run an experiment and return its record.

    Parameters
    ----------
    name
        One of `experiments`.
    seeds
        How many repeats (seeds from 0), or the seeds; the paper's number when left out.
    quick
        Two repeats unless `seeds` says otherwise, and no iterative imputer on wide data.
    out
        Folder for the record, the Markdown page and the pictures; nothing is written without it.
    methods
        Which methods to compare; all when left out.
    overwrite
        Whether an earlier record in `out` may be replaced; with `add`, its figures of `methods`.
    add
        Add the methods or seeds to an earlier record in `out`, of the same settings: a long
        experiment can be made in parts.
    progress
        Called with what is being done and the share done.

    Examples
    --------
    >>> record = run_experiment("wdbc", seeds=1, methods=["mean"])
    >>> 0.5 < record.summary["mean/mse/all"]["mean"] < 2
    True
    """
    experiment = find_experiment(name)
    repeats = _seeds(experiment, seeds, quick)
    if add and (out is None or (overwrite and methods is None)):
        raise SettingError("add goes with out, and with overwrite only where methods are named")
    path = None if out is None else Path(out) / f"{name}.json"
    earlier = ResultRecord.read(path) if add and path is not None and path.exists() else None
    planned = experiment.plan(methods, repeats, quick=quick)
    if earlier is not None and not overwrite:
        _require_new(earlier, planned, repeats)
    if out is not None:  # made when settings and data are known to be good
        check_folder(Path(out), name, overwrite=overwrite or add)
    recorder = Recorder(
        name,
        seeds=repeats,
        accelerator=_accelerator(),
        settings={
            "experiment": experiment.description,
            "protocol": experiment.protocol,
            "methods": planned,
            **experiment.details,
            "quick": quick,
        },
    )
    experiment.run(
        recorder, list(planned), quick=quick, earlier=earlier, progress=progress or silent
    )
    record = recorder.finish()
    if out is not None:
        record = record if earlier is None else joined(earlier, record, anew=overwrite)
        write_experiment(record, experiment, Path(out))
    return record


def _require_new(earlier: ResultRecord, planned: Iterable[str], repeats: Sequence[int]) -> None:
    """Raise before hours are spent on what cannot be added to a record."""
    twice = [m for m in planned if missing_seeds(earlier, m, repeats) != list(repeats)]
    if twice:
        raise SettingError(
            f"the record of {earlier.name!r} has the method {twice[0]!r} already; name others in "
            "methods, or other seeds"
        )


def missing_seeds(record: ResultRecord, method: str, seeds: Iterable[int]) -> list[int]:
    """Return those of the seeds for which a record has no figure of a method."""
    known = {
        seed
        for key, series in record.values.items()
        if key.split("/")[0] == method
        for seed, value in zip(record.seeds, series, strict=True)
        if value is not None
    }
    return [seed for seed in seeds if seed not in known]


def _seeds(
    experiment: AbstractExperiment, seeds: int | Sequence[int] | None, quick: bool
) -> list[int]:
    if seeds is None:
        seeds = 2 if quick else experiment.repeats
    if isinstance(seeds, int):
        if seeds < 1:
            raise SettingError(f"seeds must be at least 1, got {seeds}")
        return list(range(seeds))
    return list(seeds)


def _accelerator() -> str | None:
    """Return the name of the accelerator that networks train on, None on a CPU."""
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else device.device_kind
