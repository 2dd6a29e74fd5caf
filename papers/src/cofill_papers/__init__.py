"""The papers' experiments, beside the papers' figures.

::

    _catalogue     which experiments there are
    _experiment    run one
    _crs           the protocol of the Cooperative Reconstruction System
    _methods       what is compared
    _comparison    the papers' classifier, and paired tests over the seeds
    _join          records of one experiment, made in parts, as one
    _observations  masks, noise, digits, subtypes, coverage
    _mean_experiments, _released, _attacks, _mean_pictures
                   the experiments on released means: which, on what, how, and their pictures
    _behaviour, _gan
                   made-up users with the printed statistics; generators that simulate means
    _fed_experiments, _fed_setup, _fed_clusters, _fed_pictures
                   the experiments on rows at many sites, in the same parts
    _leak_experiments, _leak_pictures
                   what codes give away, and what each defence costs
    _write         record, page and pictures of a result
    _pictures      which pictures a record of reconstruction gives
    _command       `cofill reproduce`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofill_papers._behaviour import behaviour
    from cofill_papers._catalogue import Experiment, experiments, find_experiment
    from cofill_papers._comparison import paired_test, paper_forest
    from cofill_papers._experiment import run_experiment
    from cofill_papers._join import joined
    from cofill_papers._write import page, result_tables

__all__ = [
    "Experiment",
    "behaviour",
    "experiments",
    "find_experiment",
    "joined",
    "page",
    "paired_test",
    "paper_forest",
    "result_tables",
    "run_experiment",
]

# Imported when asked for: the command is loaded with every call of `cofill`.
_EXPORTS = {
    "_behaviour": ("behaviour",),
    "_catalogue": ("Experiment", "experiments", "find_experiment"),
    "_comparison": ("paired_test", "paper_forest"),
    "_experiment": ("run_experiment",),
    "_join": ("joined",),
    "_write": ("page", "result_tables"),
}


def __getattr__(name: str) -> Any:
    for module, names in _EXPORTS.items():
        if name in names:
            return getattr(import_module(f"cofill_papers.{module}"), name)
    raise AttributeError(f"module 'cofill_papers' has no attribute {name!r}")
