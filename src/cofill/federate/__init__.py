"""Split by row: sites train one model of all modalities together and complete their individuals."""

from cofill.federate._aggregation import SecureSum
from cofill.federate._completion_net import CompletionNet
from cofill.federate._estimator import FederatedCompletion, fit_sites_many
from cofill.federate._learner import AbstractLearner, Batch, Phase
from cofill.federate._local import LocalSettings
from cofill.federate._pair_scores import PairScores
from cofill.federate._parties import Coordinator, RoundSettings, RowSite, federation_of
from cofill.federate._rounds import round_steps, run_rounds
from cofill.federate._rows import Rows, Shape, rows_of
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
from cofill.federate._vigan import VIGAN, Pix2Pix

__all__ = [
    "STRATEGIES",
    "VIGAN",
    "AbstractLearner",
    "AbstractStrategy",
    "Batch",
    "CompletionNet",
    "Coordinator",
    "FedAdam",
    "FedAvg",
    "FedProx",
    "FedYogi",
    "FederatedCompletion",
    "LocalSettings",
    "PairScores",
    "Phase",
    "Pix2Pix",
    "RoundSettings",
    "RowSite",
    "Rows",
    "Scaffold",
    "SecureSum",
    "Shape",
    "federation_of",
    "fit_sites_many",
    "make_strategy",
    "round_steps",
    "rows_of",
    "run_rounds",
]
