"""Attacks on what is released: who is positive, from the mean of the positives.

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
    _queries       repeated answers, and a mean for each of several groups
    _files         the files of an attack
    _verdict       accuracies beside floor and ceiling
    _job           from files to files
"""

from cofill.attack._base import (
    AbstractCalibratedAttack,
    AbstractMeanAttack,
    AttackFailed,
    Noise,
)
from cofill.attack._discriminant import Discriminant
from cofill.attack._floor import KMeansFloor, kmeans_accuracy
from cofill.attack._growpu import GrowPU, GrowSettings, train_growpu
from cofill.attack._job import (
    CLASS_ATTACKS,
    MEAN_ATTACKS,
    MeanAttackJob,
    MeanAttackResult,
    run_mean_attack,
)
from cofill.attack._likelihood import Likelihood
from cofill.attack._multiclass import MultiClass
from cofill.attack._oracle import Oracle, OracleSettings, train_supervised
from cofill.attack._prior import Share, share_of
from cofill.attack._pu import NNPU, UPU, PUSettings, train_pu
from cofill.attack._queries import ByGroup, averaged
from cofill.attack._runs import Runs, score_runs
from cofill.attack._selftraining import SelfTraining
from cofill.attack._sensitivity import sensitivity
from cofill.attack._spread import Spread, spread_of, spread_of_pieces

__all__ = [
    "CLASS_ATTACKS",
    "MEAN_ATTACKS",
    "NNPU",
    "UPU",
    "AbstractCalibratedAttack",
    "AbstractMeanAttack",
    "AttackFailed",
    "ByGroup",
    "Discriminant",
    "GrowPU",
    "GrowSettings",
    "KMeansFloor",
    "Likelihood",
    "MeanAttackJob",
    "MeanAttackResult",
    "MultiClass",
    "Noise",
    "Oracle",
    "OracleSettings",
    "PUSettings",
    "Runs",
    "SelfTraining",
    "Share",
    "Spread",
    "averaged",
    "kmeans_accuracy",
    "run_mean_attack",
    "score_runs",
    "sensitivity",
    "share_of",
    "spread_of",
    "spread_of_pieces",
    "train_growpu",
    "train_pu",
    "train_supervised",
]
