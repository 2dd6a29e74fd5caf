"""The methods people use now, as yardsticks: what a new method has to beat, and the ceiling."""

from cofill.baselines._central import CentralCompleter
from cofill.baselines._imputers import IterativeCompleter, NeighboursCompleter
from cofill.baselines._mean import MeanCompleter

__all__ = ["CentralCompleter", "IterativeCompleter", "MeanCompleter", "NeighboursCompleter"]
