"""The papers' experiments, beside the papers' figures.

::

    _base          what every experiment is
    _catalogue     the experiments by name
    _experiment    run one
    _paper         run those of a paper, part by part
    _view_experiments, _crs, _methods, _observations, _view_pictures
                   the experiments on reconstruction: which, the protocol, what is compared, what
                   else is looked at, and their pictures
    _comparison    the papers' classifier, and paired tests over the seeds
    _join          records of one experiment, made in parts, as one
    _mean_experiments, _mean_printed, _released, _attacks, _mean_pictures
                   the experiments on released means: which, the paper's tables, on what, how, and
                   their pictures
    _behaviour, _gan
                   made-up users with the printed statistics; generators that simulate means
    _fed_experiments, _fed_printed, _fed_setup, _fed_clusters, _fed_pictures
                   the experiments on rows at many sites, in the same parts, and the thesis's tables
    _leak_experiments, _leak_pictures
                   what codes give away, and what each defence costs
    _imvc          groups of individuals of whom some lack a view
    _datasets, _fetch
                   the data sets that are read from files, and how to get the files
    _tables        a record as a table, beside the published figures
    _write         record, page and pictures of a result
    _draw          bars, lines, heat maps, images and maps of points, with matplotlib
    _command       `cofill reproduce`
"""

from typing import TYPE_CHECKING

from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill_papers._base import AbstractExperiment
    from cofill_papers._behaviour import behaviour
    from cofill_papers._catalogue import experiments, find_experiment
    from cofill_papers._comparison import paired_test, paper_forest
    from cofill_papers._crs import hidden_rows, split_individuals
    from cofill_papers._experiment import run_experiment
    from cofill_papers._join import joined, without_methods
    from cofill_papers._paper import PAPERS, reproduce_paper
    from cofill_papers._tables import table
    from cofill_papers._write import page

__all__ = [
    "PAPERS",
    "AbstractExperiment",
    "behaviour",
    "experiments",
    "find_experiment",
    "hidden_rows",
    "joined",
    "page",
    "paired_test",
    "paper_forest",
    "reproduce_paper",
    "run_experiment",
    "split_individuals",
    "table",
    "without_methods",
]

# Imported when asked for: the command is loaded with every call of `cofill`.
__getattr__, __dir__ = lazy_names(__name__)
