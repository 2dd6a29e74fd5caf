"""Attacks on what is released: means, codes, completed rows, networks and their updates.

Attacks on the released mean of a class guess who is in it (`AbstractMeanAttack`, by name in
`MEAN_ATTACKS`). ``_spread``, ``_direction`` and ``_mixture`` hold the statistics they stand on,
``_groups`` makes one mean of those of several groups, ``_classifiers``, ``_risks`` and ``_runs``
hold the networks of those that train one, ``_files`` and ``_job`` the way from files to files. All
other attacks return a `Leak`: a figure beside floor, control and ceiling.
"""

from cofill.attack._base import AbstractCalibratedAttack, AbstractMeanAttack, AttackFailed
from cofill.attack._classifiers import AbstractTraining, RunInputs, Step, logits
from cofill.attack._decoders import DecoderSettings, PairCount
from cofill.attack._files import flag_column, number_column
from cofill.attack._floor import (
    KMeansFloor,
    judge_guesses,
    kmeans_accuracy,
)
from cofill.attack._groups import stack_groups
from cofill.attack._growpu import GrowPU, GrowSettings
from cofill.attack._inputs import (
    Noise,
    ReleasedMean,
    as_matrix,
    check_same_people,
    check_varied,
)
from cofill.attack._inversion import infer_attribute, invert_codes
from cofill.attack._job import MeanAttackJob, run_mean_attack, sensitivity
from cofill.attack._leak import (
    Leak,
    bootstrap_people,
    exact_interval,
    percentile_interval,
    share_leak,
)
from cofill.attack._likelihood import Discriminant, Likelihood
from cofill.attack._linkage import LinkageSettings, link_codes
from cofill.attack._membership import (
    Shadows,
    attack_shadows,
    likelihood_ratios,
    membership_leaks,
    train_shadows,
)
from cofill.attack._multiclass import MultiClass
from cofill.attack._prior import ShareEstimate, estimate_share
from cofill.attack._pu import NNPU, UPU, PUSettings
from cofill.attack._registry import MEAN_ATTACKS, make_mean_attack
from cofill.attack._runs import Runs, score_runs, train_classifiers
from cofill.attack._selftraining import SelfTraining
from cofill.attack._update_inversion import (
    LocalRound,
    MatchingSettings,
    first_layer_row,
    invert_updates,
    simulate_update,
)

__all__ = [
    "MEAN_ATTACKS",
    "NNPU",
    "UPU",
    "AbstractCalibratedAttack",
    "AbstractMeanAttack",
    "AbstractTraining",
    "AttackFailed",
    "DecoderSettings",
    "Discriminant",
    "GrowPU",
    "GrowSettings",
    "KMeansFloor",
    "Leak",
    "Likelihood",
    "LinkageSettings",
    "LocalRound",
    "MatchingSettings",
    "MeanAttackJob",
    "MultiClass",
    "Noise",
    "PUSettings",
    "PairCount",
    "ReleasedMean",
    "RunInputs",
    "Runs",
    "SelfTraining",
    "Shadows",
    "ShareEstimate",
    "Step",
    "as_matrix",
    "attack_shadows",
    "bootstrap_people",
    "check_same_people",
    "check_varied",
    "estimate_share",
    "exact_interval",
    "first_layer_row",
    "flag_column",
    "infer_attribute",
    "invert_codes",
    "invert_updates",
    "judge_guesses",
    "kmeans_accuracy",
    "likelihood_ratios",
    "link_codes",
    "logits",
    "make_mean_attack",
    "membership_leaks",
    "number_column",
    "percentile_interval",
    "run_mean_attack",
    "score_runs",
    "sensitivity",
    "share_leak",
    "simulate_update",
    "stack_groups",
    "train_classifiers",
    "train_shadows",
]
