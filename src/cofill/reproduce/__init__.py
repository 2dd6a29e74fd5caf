"""The papers' experiments, beside the papers' figures.

::

    _catalogue     which experiments there are
    _experiment    run one
    _crs           the protocol of the Cooperative Reconstruction System
    _methods       what is compared
    _observations  masks, noise, digits, subtypes, coverage
    _mean_experiments, _released, _attacks, _mean_pictures
                   the experiments on released means: which, on what, how, and their pictures
    _fed_experiments, _fed_setup, _fed_judge, _fed_clusters, _fed_pictures
                   the experiments on rows at many sites, in the same parts
    _leak_experiments, _leak_pictures
                   what codes give away, and what each defence costs
    _write         record, page and pictures of a result
    _pictures      which pictures a record of reconstruction gives
"""

from cofill.reproduce._catalogue import Experiment, experiments, find_experiment
from cofill.reproduce._experiment import run_experiment
from cofill.reproduce._pictures import pictures
from cofill.reproduce._write import page, result_tables

__all__ = [
    "Experiment",
    "experiments",
    "find_experiment",
    "page",
    "pictures",
    "result_tables",
    "run_experiment",
]
