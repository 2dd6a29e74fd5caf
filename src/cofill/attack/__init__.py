"""Attacks on what is released: means, codes, completed rows, networks and their updates.

Attacks on a released mean of a class, which guess who is in the class::

    _inputs             records, the mean and its noise, checked
    _base               the interface of attacks
    _spread             mean and covariance of records
    _direction          Fisher's direction from the mean, and calibrated probabilities
    _mixture            two normal distributions on that line
    _prior              the share of positives, where it is not known
    _expected_accuracy  what an attack may expect of itself
    _discriminant       the closed-form discriminant
    _likelihood         logistic regression from the mean
    _kernel             leave-one-out kernel regression and rounds of self-training
    _selftraining       likelihood, then self-training: the strongest
    _multinomial        logistic regression from the means of several classes
    _multiclass         the attack on them
    _risks              losses and risks of positive-unlabelled learning
    _classifiers        networks of attacks
    _runs               the loop that trains the classifiers of all runs together
    _pu                 uPU and nnPU
    _growpu             growPU, the attack of the paper
    _floor, _oracle     K-means and accuracies beside floor and ceiling; supervised learning
    _sensitivity        what a wrong share does
    _registry           attacks by name
    _files, _job        from files to files

Attacks on codes, completed rows, networks and their updates, which return a `Leak`::

    _leak               a figure beside floor, control and ceiling
    _people             matrices with one row a person, checked
    _intervals          exact and bootstrap intervals over people
    _decoders           decoders for many amounts of knowledge, as one batch
    _inversion          the row behind a code
    _attribute          one private fact, from codes or completed rows
    _membership         who a network was trained on, by losses
    _shadows            shadow networks, as one batch
    _update_inversion   the rows behind a weight change
    _gradient_matching  rows that explain a weight change
    _linkage            codes of the same person at two sites
    _matching           who is who in two clouds
"""

from cofill.attack._attribute import infer_attribute
from cofill.attack._base import AbstractCalibratedAttack, AbstractMeanAttack, AttackFailed
from cofill.attack._decoders import DecoderSettings, PairCount
from cofill.attack._discriminant import Discriminant
from cofill.attack._files import flag_column, number_column
from cofill.attack._floor import KMeansFloor, judge_guesses, kmeans_accuracy
from cofill.attack._gradient_matching import MatchingSettings
from cofill.attack._growpu import GrowPU, GrowSettings, train_growpu
from cofill.attack._inputs import Noise, ReleasedMean
from cofill.attack._intervals import bootstrap_people, exact_interval, percentile_interval
from cofill.attack._inversion import invert_codes
from cofill.attack._job import MeanAttackJob, MeanAttackResult, run_mean_attack
from cofill.attack._leak import Leak, share_leak
from cofill.attack._likelihood import Likelihood
from cofill.attack._linkage import LinkageSettings, link_codes
from cofill.attack._membership import attack_membership, likelihood_ratios, membership_leaks
from cofill.attack._multiclass import MultiClass
from cofill.attack._oracle import OracleSettings, train_supervised
from cofill.attack._people import as_matrix, check_same_people, check_varied
from cofill.attack._prior import ShareEstimate, estimate_share
from cofill.attack._pu import NNPU, UPU, PUSettings, train_pu
from cofill.attack._registry import MEAN_ATTACKS, make_mean_attack
from cofill.attack._runs import Runs, score_runs
from cofill.attack._selftraining import SelfTraining
from cofill.attack._sensitivity import sensitivity
from cofill.attack._shadows import Shadows, attack_training, train_shadows
from cofill.attack._update_inversion import (
    LocalRound,
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
    "MeanAttackResult",
    "MultiClass",
    "Noise",
    "OracleSettings",
    "PUSettings",
    "PairCount",
    "ReleasedMean",
    "Runs",
    "SelfTraining",
    "Shadows",
    "ShareEstimate",
    "as_matrix",
    "attack_membership",
    "attack_training",
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
    "make_mean_attack",
    "membership_leaks",
    "number_column",
    "percentile_interval",
    "run_mean_attack",
    "score_runs",
    "sensitivity",
    "share_leak",
    "simulate_update",
    "train_growpu",
    "train_pu",
    "train_shadows",
    "train_supervised",
]
