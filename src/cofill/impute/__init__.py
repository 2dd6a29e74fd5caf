"""The best that can be said of a table's missing cells where all of it may be seen; yardsticks."""

from cofill.impute._central import CentralCompleter
from cofill.impute._completer import PooledCompleter
from cofill.impute._estimator import Imputer
from cofill.impute._joint import JointGaussian
from cofill.impute._mean import MeanCompleter
from cofill.impute._model import EFFORTS, TableModel, fit_table
from cofill.impute._yardsticks import IterativeCompleter, NeighboursCompleter

__all__ = [
    "EFFORTS",
    "CentralCompleter",
    "Imputer",
    "IterativeCompleter",
    "JointGaussian",
    "MeanCompleter",
    "NeighboursCompleter",
    "PooledCompleter",
    "TableModel",
    "fit_table",
]
