"""The attack by positive-unlabelled learning: uPU and nnPU, with the mean as the only positive.

uPU makes the unbiased risk small (Marthinus du Plessis, Gang Niu and Masashi Sugiyama, 2014), nnPU
its non-negative version (Kiryo et al., 2017). With rows instead of a mean both are what they were
made for: learning from a few labelled positives.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
from jaxtyping import Array, Float

from cofill.attack._classifiers import ASIDE, AbstractTraining, RunInputs, Step, logits
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._risks import LOSSES, SYMMETRIC, non_negative_objective, pu_risk
from cofill.attack._runs import AbstractNetworkAttack
from cofill.nets import MLP, require_at_least, require_in
from cofill.privacy import require_one_of


@dataclass(frozen=True)
class PUSettings(AbstractTraining):
    """Settings of uPU and nnPU: all known positives, or a batch of them, in every step.

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
        require_at_least(self, epochs=1, beta=0)
        require_one_of("loss", self.loss, SYMMETRIC)
        require_in(self, "[0, 1]", "gamma")

    def most_steps(self, steps: int) -> int:
        """Return the steps of all epochs."""
        return self.epochs * steps

    def risk(
        self, network: MLP, inputs: RunInputs, observed: tuple[()], step: Step
    ) -> Float[Array, ""]:
        """Return the risk, or the function whose gradient nnPU follows."""
        known, rows, loss = inputs.positives, step.rows, LOSSES[self.loss]
        aside = jax.random.fold_in(step.key, ASIDE)
        if len(known) > len(rows):
            known = jax.random.choice(aside, known, (len(rows),), replace=False)
        positive, unlabelled = logits(network, known, aside), logits(network, rows, step.key)
        if not self.non_negative:
            return pu_risk(positive, unlabelled, inputs.prior, loss)
        return non_negative_objective(
            positive, unlabelled, inputs.prior, loss, beta=self.beta, gamma=self.gamma
        )[1]


@dataclass(kw_only=True, eq=False, repr=False)
class NNPU(AbstractNetworkAttack[PUSettings]):
    """Non-negative positive-unlabelled learning with the released mean as the only positive.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> attack = NNPU(settings=PUSettings(epochs=50, batch=100, learning_rate=0.1))
    >>> attack.fit(x, mean=x[positive].mean(axis=0), prior=0.5).predict(np.array([[3.0, 3.0]]))
    array([ True])
    """

    name: ClassVar[str] = "nnPU"

    settings: PUSettings = PUSettings()


class UPU(NNPU):
    """Unbiased positive-unlabelled learning with the released mean as the only positive.

    A flexible classifier ends with all records negative and only the mean positive: that is the
    smallest risk, and the attack then fails with `AttackFailed`.
    """

    name: ClassVar[str] = "uPU"

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        # Whatever the settings say: with the non-negative risk it would be nnPU under another name.
        self._train(replace(self.settings, non_negative=False), records, released)
