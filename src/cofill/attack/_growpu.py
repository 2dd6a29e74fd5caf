"""growPU: overfit the mean, grow the few records it resembles into a class, then balance.

Exhibits 1 to 3 of Su, Huynh, Chen, Lu and Lu (KDD 2020). Every run goes through three stages:

- *pre-train*: the mean, with the weight of a whole batch, against a batch of unlabelled records
  taken for negative, until at most π_pre of a batch is still classified positive;
- *growth*: the classifier's own labels of a batch, weighted so that both classes count by their
  prior, until π_grow of a batch is classified positive;
- *fine-tune*: the same for a number of steps, with the class that has too few records favoured.

The exhibits leave open or misprint a few things. This is how they are read here:

- The last stage draws from the unlabelled records; line 25 of Exhibit 1 draws from the batch.
- The share classified positive is that of a batch's unlabelled records. With the copies of the mean
  in it, as line 12 has it, it could not fall below one half. It is read from the next step's batch,
  before that step learns, so that one look at a batch gives both the share and its labels.
- Pre-training goes on while the mean itself is on the negative side: a classifier that happens to
  begin with all records negative has learned nothing yet.
- "while 1" ends after `t_grow` steps; the outcome then is ``"growth limit"``, and fine-tuning
  follows all the same, as it does after the limit of pre-training (``"pre-train limit"``).
- A batch without records of a class leaves that class its mean, or nothing: the count that w_n is
  divided by is taken as at least one.
- "Train" is one step of gradient descent on the weighted logistic loss, scaled as the risk of
  section 5: the classes' mean losses, weighted by their priors. With the sigmoid loss of uPU and
  nnPU a linear classifier ends at eight records in ten, where the paper has more than nine.
- Hidden layers have tanh by default, and steps of 10⁻³: small ones, with which pre-training from an
  exact mean of images ends at its limit. With rectifiers and steps of 10⁻²·⁵ it ends as in Fig. 4.
  Those were chosen by papers/PROTOCOL.md, and `cofill reproduce` takes them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cofill.attack._classifiers import ASIDE, AbstractTraining, RunInputs, Step, logits
from cofill.attack._inputs import Records, ReleasedMean
from cofill.attack._risks import LOSSES
from cofill.attack._runs import AbstractNetworkAttack
from cofill.nets import MLP, require_at_least, require_in
from cofill.privacy import require_one_of

PRE_TRAIN, GROWTH, FINE_TUNE, OVER = range(4)


class Memory(NamedTuple):
    """What a run of growPU remembers."""

    stage: Any
    count: Any  # steps taken in this stage
    lengths: Any  # steps taken in each stage
    limited: Any  # whether pre-training and growth met their limits


def grow_weights(
    positives: Any, negatives: Any, prior: Any, *, tune: Any, alpha: Any, gamma: Any
) -> tuple[Any, Any]:
    """Return the weights w_p and w_n of a batch's records (Exhibit 3, lines 7 to 10).

    ``positives`` and ``negatives`` of the batch are classified so; ``tune`` is whether this is
    fine-tuning, with the tolerance ``alpha`` and the discount ``gamma``.

    Examples
    --------
    >>> w_p, w_n = grow_weights(24, 476, 0.5, tune=False, alpha=0.05, gamma=0.5)
    >>> float(w_p), round(float(w_n), 4)
    (1.0, 0.0525)
    """
    share = positives / (positives + negatives)
    w_n = (1 - prior) * (positives + 1) / (prior * jnp.maximum(negatives, 1))
    few = tune & (share <= prior - alpha)
    many = tune & (share >= prior + alpha)
    return jnp.where(many, gamma, 1.0), jnp.where(few, gamma * w_n, w_n)


@dataclass(frozen=True)
class GrowSettings(AbstractTraining):
    """Settings of growPU; the defaults are those of Table 3 where classes are equally frequent.

    Parameters
    ----------
    pi_pre, pi_grow
        Shares classified positive at which pre-training and growth end; None for 0.1 and 0.9 times
        the prior.
    alpha
        How far the share may be from the prior before fine-tuning favours a class; None for 0.1
        times the prior.
    gamma
        Discount of the other class's weight then.
    t_pre, t_grow, t_tune
        Most steps of pre-training and growth, and the steps of fine-tuning.
    loss
        ``"logistic"``, ``"sigmoid"`` or ``"linear"``.

    Examples
    --------
    >>> GrowSettings(classifier="3lp-300").thresholds(0.5)
    (0.05, 0.45, 0.05)
    """

    pi_pre: float | int | None = None
    pi_grow: float | int | None = None
    alpha: float | int | None = None
    gamma: float | int = 0.5
    t_pre: int = 10_000
    t_grow: int = 10_000
    t_tune: int = 10_000
    loss: str = "logistic"

    phases: ClassVar[tuple[str, ...]] = ("pre-train", "growth", "fine-tune")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_in(self, "[0, 1)", "pi_pre", "pi_grow", "alpha")
        require_in(self, "(0, 1]", "gamma")
        require_at_least(self, t_pre=1, t_grow=1, t_tune=1)
        require_one_of("loss", self.loss, tuple(LOSSES))

    def thresholds(self, prior: Any) -> tuple[Any, Any, Any]:
        """Return the shares that end pre-training and growth, and the tolerance of fine-tuning."""
        chosen = ((self.pi_pre, 0.1), (self.pi_grow, 0.9), (self.alpha, 0.1))
        pre, grow, tolerance = (part * prior if value is None else value for value, part in chosen)
        return pre, grow, tolerance

    def most_steps(self, steps: int) -> int:
        """Return the steps of the longest run, and one in which it ends."""
        return self.t_pre + self.t_grow + self.t_tune + 1

    def first(self) -> Memory:
        """Begin with pre-training."""
        none = jnp.array(0, jnp.int32)
        return Memory(none, none, jnp.zeros(3, jnp.int32), jnp.zeros(2, bool))

    def phase(self, memory: Memory) -> Int[Array, ""]:
        """Return the stage."""
        return memory.stage

    def observe(
        self, network: MLP, inputs: RunInputs, memory: Memory, rows: Float[Array, "batch d"]
    ) -> tuple[Memory, tuple[Array, Array]]:
        """Label the batch by the classifier, and go to the next stage if it is time."""
        mean = logits(network, inputs.positives)[0] > 0
        positive = logits(network, rows) > 0
        share = positive.mean()
        begun = memory.count > 0
        pre, grow, _ = self.thresholds(inputs.prior)
        reached = begun & jnp.stack([mean & (share <= pre), share >= grow])
        limit = memory.count >= jnp.array([self.t_pre, self.t_grow])
        leaves = jnp.concatenate(
            [reached | limit, jnp.array([memory.count >= self.t_tune, False])]
        )[memory.stage]
        current = jnp.arange(2) == memory.stage
        stage = memory.stage + leaves
        new = Memory(
            stage=stage,
            count=jnp.where(leaves, 0, memory.count) + 1,
            lengths=memory.lengths + (jnp.arange(3) == stage),
            limited=memory.limited | (current & limit & ~reached),
        )
        return new, (stage, positive)

    def risk(
        self, network: MLP, inputs: RunInputs, observed: tuple[Array, Array], step: Step
    ) -> Float[Array, ""]:
        """Return the weighted loss of the batch and the mean."""
        stage, positive = observed
        loss = LOSSES[self.loss]
        values = logits(network, step.rows, step.key)
        mean = loss(logits(network, inputs.positives, jax.random.fold_in(step.key, ASIDE))[0], 1)
        count, pre = positive.sum(), stage == PRE_TRAIN
        w_p, w_n = grow_weights(
            count,
            len(positive) - count,
            inputs.prior,
            tune=stage == FINE_TUNE,
            alpha=self.thresholds(inputs.prior)[2],
            gamma=self.gamma,
        )
        each = inputs.prior / (count + 1)
        # Both halves of a pre-training batch weigh the same: b records, and b copies of the mean.
        of_mean = jnp.where(pre, 0.5, each * w_p)
        of_rows = jnp.where(pre, 0.5 / len(positive), each * jnp.where(positive, w_p, w_n))
        labels = jnp.where(positive & ~pre, 1.0, -1.0)
        return of_mean * mean + (of_rows * loss(values, labels)).sum()

    def outcome(self, memory: Memory) -> str:
        """Return the last stage that did not reach its share, if one did not."""
        pre, grow = memory.limited
        return "growth limit" if grow else "pre-train limit" if pre else "ok"


@dataclass(kw_only=True, eq=False, repr=False)
class GrowPU(AbstractNetworkAttack[GrowSettings]):
    """The attack of the paper: pre-train on the mean, grow, fine-tune.

    Attributes
    ----------
    stage_steps_
        Steps that pre-training, growth and fine-tuning took.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> settings = GrowSettings(batch=100, learning_rate=0.1, t_pre=50, t_tune=50)
    >>> attack = GrowPU(settings=settings)
    >>> attack.fit(x, mean=x[positive].mean(axis=0), prior=0.5).outcome_
    'pre-train limit'
    >>> attack.notes_
    ['pre-training took its limit of 50 steps without narrowing down to the share of 0.05']
    """

    name: ClassVar[str] = "growPU"

    settings: GrowSettings = GrowSettings()

    def _fit(self, records: Records, released: ReleasedMean) -> None:
        runs = self._train(self.settings, records, released)
        pre, grow, tune = (int(steps) for steps in runs.memory.lengths[0])
        self.stage_steps_ = pre, grow, tune
        words = ("pre-training", pre, "narrowing down to"), ("growth", grow, "reaching")
        shares = self.settings.thresholds(released.prior)[:2]
        for (stage, steps, verb), limited, share in zip(
            words, runs.memory.limited[0], shares, strict=True
        ):
            if limited:
                self.notes_.append(
                    f"{stage} took its limit of {steps} steps without {verb} the share of {share:g}"
                )
