"""Attacks on what is released: means, codes, completed rows, networks and their updates.

::

    _base          the interface of attacks, noise, checks
    _risks         losses and the risks of positive-unlabelled learning
    _classifiers   networks of attacks
    _runs          the loop that trains the classifiers of all runs together
    _pu            uPU and nnPU
    _growpu        growPU, the attack of the paper
    _floor         K-means
    _oracle        supervised learning: the ceiling
    _spread        mean and covariance of records, dense, sparse or in pieces
    _discriminant  Fisher's discriminant from the mean, in closed form
    _likelihood    logistic regression from the mean
    _kernel        leave-one-out kernel regression
    _selftraining  likelihood, then self-training: the strongest
    _mixture       two normal distributions on the discriminant's line
    _prior         the share of positives, where it is not known
    _sureness      what an attack may claim, where the mean is a poor witness
    _sensitivity   what a wrong share does
    _multinomial   logistic regression from the means of several classes
    _multiclass    the attack on them
    _files         the files of an attack
    _verdict       accuracies beside floor and ceiling
    _job           from files to files

    _leak               what the attacks below return: a figure beside floor, control and ceiling
    _inversion          the row behind a code
    _attribute          one private fact, from codes or completed rows
    _membership         who a network was trained on, by losses
    _update_inversion   the rows behind a weight change
    _linkage            codes of the same person at two sites

    _people             matrices with one row a person, checked
    _intervals          the bootstrap over people
    _image_leaks        PSNR and SSIM
    _decoders           decoders for many amounts of knowledge, as one batch
    _alignment          laying one cloud over another without pairs
    _matching           who is who in two clouds
    _shadows            shadow networks, as one batch
    _gradient_matching  rows that explain a weight change
"""

from cofill.attack._attribute import infer_attribute
from cofill.attack._base import (
    AbstractCalibratedAttack,
    AbstractMeanAttack,
    AttackFailed,
    Noise,
)
from cofill.attack._decoders import DecoderSettings, PairCount
from cofill.attack._discriminant import Discriminant
from cofill.attack._files import flag_column, number_column
from cofill.attack._floor import KMeansFloor, kmeans_accuracy
from cofill.attack._gradient_matching import MatchingSettings
from cofill.attack._growpu import GrowPU, GrowSettings, train_growpu
from cofill.attack._intervals import bootstrap_people, percentile_interval
from cofill.attack._inversion import invert_codes
from cofill.attack._job import (
    CLASS_ATTACKS,
    MEAN_ATTACKS,
    MeanAttackJob,
    MeanAttackResult,
    run_mean_attack,
)
from cofill.attack._leak import Leak, share_leak
from cofill.attack._likelihood import Likelihood
from cofill.attack._linkage import LinkageSettings, link_codes
from cofill.attack._membership import attack_membership, likelihood_ratios, membership_leaks
from cofill.attack._multiclass import MultiClass
from cofill.attack._oracle import Oracle, OracleSettings, train_supervised
from cofill.attack._people import as_matrix, check_same_people, check_varied
from cofill.attack._prior import ShareEstimate, estimate_share
from cofill.attack._pu import NNPU, UPU, PUSettings, train_pu
from cofill.attack._runs import Runs, score_runs
from cofill.attack._selftraining import SelfTraining
from cofill.attack._sensitivity import sensitivity
from cofill.attack._shadows import Shadows, attack_training, train_shadows
from cofill.attack._spread import Spread, spread_of, spread_of_pieces
from cofill.attack._update_inversion import (
    LocalRound,
    first_layer_row,
    invert_updates,
    simulate_update,
)
from cofill.attack._verdict import exact_interval, judge_guesses

__all__ = [
    "CLASS_ATTACKS",
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
    "Oracle",
    "OracleSettings",
    "PUSettings",
    "PairCount",
    "Runs",
    "SelfTraining",
    "Shadows",
    "ShareEstimate",
    "Spread",
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
    "membership_leaks",
    "number_column",
    "percentile_interval",
    "run_mean_attack",
    "score_runs",
    "sensitivity",
    "share_leak",
    "simulate_update",
    "spread_of",
    "spread_of_pieces",
    "train_growpu",
    "train_pu",
    "train_shadows",
    "train_supervised",
]
