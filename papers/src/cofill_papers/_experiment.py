"""Running an experiment: repeats in chunks, then what is computed from all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cofill.completion import Progress, silent
from cofill.errors import SettingError
from cofill.metrics import Recorder, ResultRecord
from cofill_papers._attacks import ATTACKS, check_attacks
from cofill_papers._catalogue import AnyExperiment, Experiment, find_experiment
from cofill_papers._comparison import paired_test
from cofill_papers._crs import Notebook, Repeat, run_repeats
from cofill_papers._fed_experiments import FedExperiment, run_fed_experiment
from cofill_papers._join import joined
from cofill_papers._leak_experiments import (
    LeakExperiment,
    run_leak_experiment,
)
from cofill_papers._mean_experiments import MeanExperiment, run_mean_experiment
from cofill_papers._methods import METHODS, chosen, families
from cofill_papers._observations import collect_masks, covered, mean_masks
from cofill_papers._released import cases_of
from cofill_papers._write import check_folder, write_experiment

__all__ = ["largest_difference", "paired_by_view", "run_experiment"]

_WIDE = 100
"""Pooled columns from which a quick run leaves out the methods that take minutes there."""


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
        Whether an earlier record in `out` may be replaced.
    add
        Add the methods to an earlier record in `out`, of the same seeds and settings: a long
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
    told = progress or silent

    if add and (out is None or overwrite):
        raise SettingError("add goes with out, and without overwrite: it keeps the record there")
    path = None if out is None else Path(out) / f"{name}.json"
    earlier = ResultRecord.read(path) if add and path is not None and path.exists() else None
    if earlier is not None:
        _require_new(earlier, methods, repeats)

    def ready() -> None:  # asked when settings and data are known to be good
        if out is not None:
            check_folder(Path(out), name, overwrite=overwrite or add)

    if isinstance(experiment, MeanExperiment):
        simulated = {} if earlier is None else earlier.extra.get("simulated", {})
        record = _run_means(experiment, repeats, quick, methods, simulated, told, ready)
    elif isinstance(experiment, FedExperiment):
        record = _run_rows(experiment, repeats, quick, methods, told, ready)
    elif isinstance(experiment, LeakExperiment):
        record = _run_leaks(experiment, repeats, quick, methods, told, ready)
    else:
        record = _run_views(experiment, repeats, quick, methods, told, ready)
    if out is not None:
        record = record if earlier is None else joined(earlier, record)
        write_experiment(record, experiment, Path(out))
    return record


def _require_new(
    earlier: ResultRecord, methods: Sequence[str] | None, repeats: Sequence[int]
) -> None:
    """Raise before hours are spent on what cannot be added to a record."""
    known = earlier.settings.get("methods", {})
    twice = [m for m in known if methods is None or m in methods]
    if twice:
        raise SettingError(
            f"the record of {earlier.name!r} has the method {twice[0]!r} already; name others in "
            "methods"
        )
    if list(repeats) != earlier.seeds:
        raise SettingError(
            f"the record of {earlier.name!r} has {len(earlier.seeds)} repeats, and {len(repeats)} "
            "were asked for; ask for the same"
        )


def _run_means(
    experiment: MeanExperiment,
    repeats: Sequence[int],
    quick: bool,
    methods: Sequence[str] | None,
    simulated: Mapping[str, Any],
    progress: Progress,
    ready: Callable[[], None],
) -> ResultRecord:
    check_attacks(methods)
    for source in experiment.sources:
        cases_of(source, repeats[:1], (), of_each=1)
    ready()
    chosen_ones = {n: w for n, w in ATTACKS.items() if methods is None or n in methods}
    recorder = _recorder(experiment, repeats, chosen_ones, quick)
    run_mean_experiment(
        experiment, recorder, quick=quick, methods=methods, simulated=simulated, progress=progress
    )
    return recorder.finish()


def _run_rows(
    experiment: FedExperiment,
    repeats: Sequence[int],
    quick: bool,
    methods: Sequence[str] | None,
    progress: Progress,
    ready: Callable[[], None],
) -> ResultRecord:
    wanted = chosen(methods, experiment.methods, experiment.name)
    ready()
    recorder = _recorder(experiment, repeats, {m: experiment.methods[m] for m in wanted}, quick)
    run_fed_experiment(experiment, recorder, quick=quick, methods=wanted, progress=progress)
    return recorder.finish()


def _run_leaks(
    experiment: LeakExperiment,
    repeats: Sequence[int],
    quick: bool,
    methods: Sequence[str] | None,
    progress: Progress,
    ready: Callable[[], None],
) -> ResultRecord:
    wanted = chosen(methods, experiment.methods, experiment.name)
    ready()
    defences = "; ".join(f"{name}: {words}" for name, words in experiment.defences.items())
    recorder = _recorder(
        experiment,
        repeats,
        {m: experiment.methods[m] for m in wanted},
        quick,
        defences=defences,
    )
    run_leak_experiment(experiment, recorder, quick=quick, sources=wanted, progress=progress)
    return recorder.finish()


def _run_views(
    experiment: Experiment,
    repeats: Sequence[int],
    quick: bool,
    methods: Sequence[str] | None,
    progress: Progress,
    ready: Callable[[], None],
) -> ResultRecord:
    wanted = chosen(methods)
    shared = experiment.load(repeats[0])
    ready()
    if quick and methods is None:
        width = sum(view.n_features for view in shared.views.values())
        wanted = tuple(m for m in wanted if m != "iterative" or width <= _WIDE)

    def prepare(seed: int) -> Repeat:
        return experiment.prepare(experiment.load(seed) if experiment.fresh else shared, seed)

    recorder = _recorder(
        experiment,
        repeats,
        {m: METHODS[m] for m in wanted},
        quick,
        architecture=experiment.architecture,
        masks=experiment.masks,
        units="standardised by the training rows",
    )
    notebook = Notebook(recorder)
    run_repeats(
        notebook,
        prepare,
        families(wanted, architecture=experiment.architecture, masks=experiment.masks),
        chunk=experiment.chunk,
        observe=[collect_masks, covered, *experiment.observe],
        progress=progress,
    )
    return _finish(notebook)


def _recorder(
    experiment: AnyExperiment,
    repeats: Sequence[int],
    methods: Mapping[str, str],
    quick: bool,
    **more: str,
) -> Recorder:
    """Return a recorder with the settings that every experiment has, and its own."""
    return Recorder(
        experiment.name,
        seeds=repeats,
        accelerator=_accelerator(),
        settings={
            "experiment": experiment.description,
            "protocol": experiment.protocol,
            "methods": methods,
            **more,
            "quick": quick,
        },
    )


def paired_by_view(record: ResultRecord, one: str, other: str) -> dict[str, Any]:
    """Test, per view and over all, that one method's squared error is less than another's.

    Examples
    --------
    >>> record = ResultRecord("x", seeds=[0, 1, 2], values={
    ...     "mwm/mse/view_a": [1.0, 2.0, 3.0], "equal/mse/view_a": [2.0, 3.1, 4.2]})
    >>> round(paired_by_view(record, "mwm", "equal")["view_a"]["mean_difference"], 3)
    -1.1
    """
    summary = record.summary
    places = [k.split("/")[2] for k in summary if k.startswith(f"{one}/mse/")]
    found = {}
    for where in places:
        if f"{other}/mse/{where}" in summary:
            first, second = (record.per_seed(m, "mse", where) for m in (one, other))
            found[where] = asdict(paired_test(first, second, alternative="less"))
    return found


def largest_difference(record: ResultRecord) -> dict[str, dict[str, Any]]:
    """Return per method the view whose mean Classification Difference is farthest from zero.

    Examples
    --------
    >>> largest_difference(ResultRecord("x", seeds=[0], values={
    ...     "mwm/class_diff/view_a": [0.01], "mwm/class_diff/view_b": [-0.02]}))
    {'mwm': {'value': -0.02, 'where': 'view_b'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in record.summary.items():
        method, metric, where = key.split("/")
        mean = value["mean"]
        if metric != "class_diff" or where == "all" or mean is None:
            continue
        if method not in found or abs(mean) > abs(found[method]["value"]):
            found[method] = {"value": mean, "where": where}
    return found


def _seeds(experiment: AnyExperiment, seeds: int | Sequence[int] | None, quick: bool) -> list[int]:
    if seeds is None:
        seeds = 2 if quick else experiment.repeats
    if isinstance(seeds, int):
        if seeds < 1:
            raise SettingError(f"seeds must be at least 1, got {seeds}")
        return list(range(seeds))
    return list(seeds)


def _finish(notebook: Notebook) -> ResultRecord:
    """Add what is computed from all repeats: mean masks, paired tests, largest differences."""
    recorder, notes = notebook.recorder, notebook.notes
    figures = recorder.finish()
    found = {
        "masks": mean_masks(notebook),
        "paired": _less_than_equal(figures, "mwm"),
        "paired_crossed": _less_than_equal(figures, "crossed"),
        "largest_class_diff": largest_difference(figures),
        **notes,
    }
    for key, value in found.items():
        if value:
            recorder.note(key, value)
    return recorder.finish()


def _less_than_equal(record: ResultRecord, method: str) -> dict[str, Any]:
    """Return the claim that a method errs less than equal weights with its tests, if both ran."""
    tests = paired_by_view(record, method, "equal")
    claim = {"metric": "mse", "method": method, "less_than": "equal", "where": tests}
    return claim if tests else {}


def _accelerator() -> str | None:
    """Return the name of the accelerator that networks train on, None on a CPU."""
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else device.device_kind
