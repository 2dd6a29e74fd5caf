"""The attack by positive-unlabelled learning: uPU and nnPU, with the mean as the only positive.

uPU makes the unbiased risk small (Marthinus du Plessis, Gang Niu and Masashi Sugiyama, 2014), nnPU
its non-negative version (Kiryo et al., 2017). With rows instead of a mean both are what they were
made for: learning from a few labelled positives.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack._classifiers import Training, logits, require
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._risks import LOSSES, SYMMETRIC, non_negative_objective, pu_risk
from cofill.attack._runs import (
    ASIDE,
    AbstractNetworkAttack,
    AbstractRule,
    Progress,
    RunInputs,
    Runs,
    Step,
    gather_inputs,
    train_runs,
)
from cofill.nets import MLP


@dataclass(frozen=True)
class PUSettings(Training):
    """Settings of uPU and nnPU.

    Hidden layers have rectifiers, as in the networks nnPU was published with.

    Parameters
    ----------
    epochs
        Passes over the records.
    non_negative
        Whether the negatives' part of the risk is kept from falling below zero: nnPU, else uPU.
    loss
        ``"sigmoid"`` or ``"linear"``; it must be symmetric.
    beta, gamma
        Of nnPU: how far below zero the negatives' part may fall, and the discount of the steps that
        lead it up again.
    """

    activation: str = "relu"
    epochs: int = 1_000
    non_negative: bool = True
    loss: str = "sigmoid"
    beta: float | int = 0.0
    gamma: float | int = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("epochs", self.epochs, "1 or more", self.epochs >= 1)
        require("loss", repr(self.loss), f"one of {', '.join(SYMMETRIC)}", self.loss in SYMMETRIC)
        require("beta", self.beta, "0 or more", 0 <= self.beta < np.inf)
        require("gamma", self.gamma, "at least 0 and at most 1", 0 <= self.gamma <= 1)


@dataclass(frozen=True)
class PURule(AbstractRule[PUSettings]):
    """How a run of uPU or nnPU learns: all known positives, or a batch of them, in every step."""

    training: PUSettings

    def loss(
        self, network: MLP, inputs: RunInputs, observed: tuple[()], step: Step
    ) -> Float[Array, ""]:
        """Return the risk, or the function whose gradient nnPU follows."""
        settings, known = self.training, inputs.positives
        loss = LOSSES[settings.loss]
        aside, rows = jax.random.fold_in(step.key, ASIDE), step.rows
        if len(known) > len(rows):
            known = jax.random.choice(aside, known, (len(rows),), replace=False)
        positive, unlabelled = logits(network, known, aside), logits(network, rows, step.key)
        if not settings.non_negative:
            return pu_risk(positive, unlabelled, inputs.prior, loss)
        return non_negative_objective(
            positive, unlabelled, inputs.prior, loss, beta=settings.beta, gamma=settings.gamma
        )[1]


def train_pu(
    records: Float[np.ndarray | Array, "sets n d"],
    which: Any,
    positives: Float[np.ndarray | Array, "runs p d"],
    prior: Any,
    keys: Any,
    settings: PUSettings | None = None,
    *,
    labels: Bool[np.ndarray, "sets n"] | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Train uPU or nnPU in all runs at once.

    Parameters
    ----------
    positives
        Each run's known positives; a released mean is one row.
    records, which, prior, keys, labels, progress
        As in `train_growpu`.
    settings
        How to train.
    """
    inputs = gather_inputs(which, positives, prior, keys, sets=len(records))
    rule = PURule(settings or PUSettings())
    return train_runs(rule, records, inputs, labels=labels, progress=progress)


@dataclass(kw_only=True, eq=False, repr=False)
class AbstractPU(AbstractNetworkAttack):
    """What uPU and nnPU have in common as attacks."""

    classifier: str = "linear"
    epochs: int = 1_000
    batch: int = 500
    optimizer: str = "sgd"
    learning_rate: float | int = 1e-3
    weight_decay: float | int = 0.0
    activation: str = "relu"
    dropout: float | int = 0.2
    loss: str = "sigmoid"
    seed: int = 0

    def settings(self) -> PUSettings:
        """Return the settings of the training, checked."""
        return self._settings(PUSettings)

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        positives, prior = released.mean[None, None], released.prior
        self._keep(train_pu(records[None], [0], positives, prior, self._keys(), self.settings()))


@dataclass(kw_only=True, eq=False, repr=False)
class UPU(AbstractPU):
    """Unbiased positive-unlabelled learning with the released mean as the only positive.

    A flexible classifier ends with all records negative and only the mean positive: that is the
    smallest risk, and the attack then fails with `AttackFailed`.

    Parameters
    ----------
    classifier, epochs, batch, optimizer, learning_rate, weight_decay, activation, dropout, loss
        As in `PUSettings`. Columns should be of similar size; the paper's lie between −1 and 1.
    seed
        Of everything random.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> attack = UPU(epochs=50, batch=100, learning_rate=0.1)
    >>> attack.fit(x, mean=x[positive].mean(axis=0), prior=0.5).outcome_
    'ok'
    """

    name: ClassVar[str] = "uPU"

    def settings(self) -> PUSettings:
        """Return the settings of the training, checked."""
        return self._settings(PUSettings, non_negative=False)


@dataclass(kw_only=True, eq=False, repr=False)
class NNPU(AbstractPU):
    """Non-negative positive-unlabelled learning with the released mean as the only positive.

    Parameters
    ----------
    classifier, epochs, batch, optimizer, learning_rate, weight_decay, activation, dropout, loss
        As in `PUSettings`, like `beta` and `gamma`. Columns should be of similar size; the paper's
        lie between −1 and 1.
    seed
        Of everything random.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> attack = NNPU(epochs=50, batch=100, learning_rate=0.1)
    >>> attack.fit(x, mean=x[positive].mean(axis=0), prior=0.5).predict(np.array([[3.0, 3.0]]))
    array([ True])
    """

    name: ClassVar[str] = "nnPU"

    beta: float | int = 0.0
    gamma: float | int = 1.0
