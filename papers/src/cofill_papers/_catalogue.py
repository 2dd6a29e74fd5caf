"""The experiments by name: on reconstruction, released means, rows at many sites, codes, groups."""

from __future__ import annotations

from cofill.errors import SettingError
from cofill.registry import suggest
from cofill_papers._base import AbstractExperiment
from cofill_papers._fed_experiments import FED_EXPERIMENTS
from cofill_papers._imvc import IMVC_EXPERIMENTS
from cofill_papers._leak_experiments import LEAK_EXPERIMENTS
from cofill_papers._mean_experiments import MEAN_EXPERIMENTS
from cofill_papers._view_experiments import VIEW_EXPERIMENTS

__all__ = ["experiments", "find_experiment"]


def experiments() -> tuple[AbstractExperiment, ...]:
    """Return every experiment: on reconstruction, released means, rows at many sites, codes.

    Examples
    --------
    >>> [e.name for e in experiments()][:6]
    ['cube', 'wdbc', 'mfdd', 'madelon', 'tcga', 'credit']
    >>> [e.name for e in experiments()][6:10]
    ['growpu-mnist', 'growpu-subset', 'growpu-classifiers', 'nnpu-table1']
    >>> [e.name for e in experiments()][10:14]  # doctest: +NORMALIZE_WHITESPACE
    ['growpu-releases', 'growpu-behaviour', 'growpu-behaviour-subset',
     'growpu-behaviour-classifiers']
    >>> [e.name for e in experiments()][14:]
    ['fed-vigan', 'fed-vigan-clusters', 'fed-noniid', 'leak-codes', 'leak-bound', 'imvc']
    """
    return tuple(_EXPERIMENTS.values())


def find_experiment(name: str) -> AbstractExperiment:
    """Return an experiment, or raise a `SettingError` with the nearest name."""
    if name not in _EXPERIMENTS:
        raise SettingError(f"there is no experiment {name!r}; {suggest(name, _EXPERIMENTS)}")
    return _EXPERIMENTS[name]


_EXPERIMENTS: dict[str, AbstractExperiment] = {
    experiment.name: experiment
    for experiment in (
        *VIEW_EXPERIMENTS,
        *MEAN_EXPERIMENTS,
        *FED_EXPERIMENTS,
        *LEAK_EXPERIMENTS,
        *IMVC_EXPERIMENTS,
    )
}
