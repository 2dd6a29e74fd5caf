"""The best that can be said of a table's missing cells where all of it may be seen; yardsticks.

Estimators are imported when they are used: a site of a protocol does without scikit-learn.
"""

from typing import TYPE_CHECKING

from cofill.impute._correction import CORRECTIONS, Correction, fit_correction
from cofill.impute._gaussian import STRENGTHS, TELLING, Gaussian, Moments, inflation
from cofill.impute._held_out import ErrorSums
from cofill.impute._joint import JointGaussian
from cofill.impute._model import EFFORTS, TableModel, fit_table
from cofill.impute._practice import FilledPractice, Seen, practise_on_learned
from cofill.impute._table import Encoding
from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.impute._central import CentralCompleter
    from cofill.impute._completer import PooledCompleter
    from cofill.impute._estimator import Imputer
    from cofill.impute._mean import MeanCompleter
    from cofill.impute._yardsticks import IterativeCompleter, NeighboursCompleter

__all__ = [
    "CORRECTIONS",
    "EFFORTS",
    "STRENGTHS",
    "TELLING",
    "CentralCompleter",
    "Correction",
    "Encoding",
    "ErrorSums",
    "FilledPractice",
    "Gaussian",
    "Imputer",
    "IterativeCompleter",
    "JointGaussian",
    "MeanCompleter",
    "Moments",
    "NeighboursCompleter",
    "PooledCompleter",
    "Seen",
    "TableModel",
    "fit_correction",
    "fit_table",
    "inflation",
    "practise_on_learned",
]

__getattr__, __dir__ = lazy_names(__name__)
