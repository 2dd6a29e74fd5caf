"""Attacks on released means by name, which other packages extend by an entry point."""

from functools import partial
from typing import Any

from cofill.attack._base import AbstractMeanAttack
from cofill.attack._floor import KMeansFloor
from cofill.attack._growpu import GrowPU
from cofill.attack._likelihood import Discriminant, Likelihood
from cofill.attack._multiclass import MultiClass
from cofill.attack._pu import NNPU, UPU
from cofill.attack._selftraining import SelfTraining
from cofill.errors import SettingError
from cofill.registry import Registry

MEAN_ATTACKS = Registry("cofill.attacks", "attack", facts=("several",))
"""Attacks on the mean of one class: subclasses of `AbstractMeanAttack`.

The fact ``several`` of an entry makes the same attack on the means of several classes.
"""

MEAN_ATTACKS.add(
    "best",
    SelfTraining,
    "likelihood, then self-training with a leave-one-out kernel regression",
    several=MultiClass,
)
MEAN_ATTACKS.add(
    "likelihood",
    Likelihood,
    "logistic regression, of whose likelihood the mean is the only label",
    several=partial(MultiClass, rounds=0),
)
MEAN_ATTACKS.add(
    "discriminant",
    Discriminant,
    "closed form: Fisher's direction from the mean and the covariance of all",
)
MEAN_ATTACKS.add("growpu", GrowPU, "the attack of the paper: pre-train, grow, fine-tune")
MEAN_ATTACKS.add("nnpu", NNPU, "uPU with a risk that is kept from falling below zero")
MEAN_ATTACKS.add("upu", UPU, "positive-unlabelled learning with the mean as the only positive")
MEAN_ATTACKS.add("kmeans", KMeansFloor, "two clusters, the one nearer to the mean: the floor")


def make_mean_attack(name: str, *, seed: int = 0) -> AbstractMeanAttack:
    """Return an attack on one mean, with its default settings and the seed where it takes one.

    Examples
    --------
    >>> make_mean_attack("best", seed=3)
    SelfTraining(seed=3)
    """
    attack = MEAN_ATTACKS.load(name)()
    return attack.set_params(seed=seed) if "seed" in attack.get_params() else attack


def make_class_attack(name: str, *, seed: int = 0) -> Any:
    """Return an attack on the means of several classes."""
    make = MEAN_ATTACKS.find(name).facts.get("several")
    if make is None:
        able = [entry.name for entry in MEAN_ATTACKS if "several" in entry.facts]
        raise SettingError(
            f"the means of several classes are attacked by {' or '.join(able)}, got --method {name}"
        )
    return make(seed=seed)
