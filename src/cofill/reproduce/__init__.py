"""The papers' experiments, beside the papers' figures.

::

    _catalogue     which experiments there are
    _experiment    run one
    _crs           the protocol of the Cooperative Reconstruction System
    _methods       what is compared
    _observations  masks, noise, digits, subtypes
    _write         record, page and pictures of a result
    _pictures      which pictures a record gives
    _charts        how they are drawn
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
