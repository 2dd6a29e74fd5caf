"""Split by row: sites train one model of all modalities together and complete their individuals.

The estimators are imported when they are used: a site of a protocol does without scikit-learn.
"""

from typing import TYPE_CHECKING

from cofill.federate._aggregation import SecureSum
from cofill.federate._common_model import AbstractCommonModel, Phase
from cofill.federate._completion_net import CompletionNet
from cofill.federate._design import LEARNERS, Design, RoundSettings
from cofill.federate._learner import AbstractLearner, Batch, initial_weights, make_unravel
from cofill.federate._local import LocalSettings, LocalWork, plan_batches, train_sites
from cofill.federate._noisy_table import NoisyTable
from cofill.federate._parties import RowSite
from cofill.federate._protocol import FederatedProtocol
from cofill.federate._robust import RobustMean
from cofill.federate._rows import Rows, Shape
from cofill.federate._strategies import (
    STRATEGIES,
    AbstractStrategy,
    FedAdam,
    FedAvg,
    FedProx,
    FedYogi,
    Scaffold,
    make_strategy,
)
from cofill.federate._summed_table import SummedTable
from cofill.federate._vigan import VIGAN, Pix2Pix
from cofill.lazy import lazy_names

if TYPE_CHECKING:
    from cofill.federate._estimator import FederatedCompletion, fit_sites_many
    from cofill.federate._pair_scores import PairScores

__all__ = [
    "LEARNERS",
    "STRATEGIES",
    "VIGAN",
    "AbstractCommonModel",
    "AbstractLearner",
    "AbstractStrategy",
    "Batch",
    "CompletionNet",
    "Design",
    "FedAdam",
    "FedAvg",
    "FedProx",
    "FedYogi",
    "FederatedCompletion",
    "FederatedProtocol",
    "LocalSettings",
    "LocalWork",
    "NoisyTable",
    "PairScores",
    "Phase",
    "Pix2Pix",
    "RobustMean",
    "RoundSettings",
    "RowSite",
    "Rows",
    "Scaffold",
    "SecureSum",
    "Shape",
    "SummedTable",
    "fit_sites_many",
    "initial_weights",
    "make_strategy",
    "make_unravel",
    "plan_batches",
    "train_sites",
]

__getattr__, __dir__ = lazy_names(__name__)
