"""The ceiling: the same classifiers, taught with the labels that an attacker lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cofill.attack._classifiers import Training, logits, require
from cofill.attack._risks import logistic_loss
from cofill.attack._runs import AbstractRule, Progress, RunInputs, Runs, gather_inputs, train_runs
from cofill.nets import MLP


@dataclass(frozen=True)
class OracleSettings(Training):
    """Settings of supervised training, by Adam on the logistic loss.

    Parameters
    ----------
    epochs
        Passes over the records.
    """

    optimizer: str = "adam"
    epochs: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        require("epochs", self.epochs, "1 or more", self.epochs >= 1)


@dataclass(frozen=True)
class SupervisedRule(AbstractRule[OracleSettings]):
    """How a run learns from labels."""

    training: OracleSettings

    def most_steps(self, steps: int) -> int:
        """Return the steps of all passes."""
        return self.training.epochs * steps

    def loss(
        self,
        network: MLP,
        inputs: RunInputs,
        observed: tuple[()],
        rows: Float[Array, "batch d"],
        index: Int[Array, " batch"],
        key: Array,
    ) -> Float[Array, ""]:
        """Return the mean logistic loss of the records that are not held out."""
        targets = inputs.targets[index]
        taught = jnp.abs(targets)
        losses = logistic_loss(logits(network, rows, key), targets)
        return (taught * losses).sum() / jnp.maximum(taught.sum(), 1.0)


def train_supervised(
    records: Float[np.ndarray | Array, "sets n d"],
    which: Any,
    labels: Bool[np.ndarray, "sets n"],
    keys: Any,
    settings: OracleSettings | None = None,
    *,
    held_out: Bool[np.ndarray, "runs n"] | None = None,
    progress: Progress | None = None,
) -> Runs:
    """Train classifiers with labels in all runs at once.

    Parameters
    ----------
    records, which, keys, progress
        As in `train_growpu`.
    labels
        Who is positive in each set.
    settings
        How to train.
    held_out
        Records a run does not learn from.

    Examples
    --------
    >>> import jax
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> settings = OracleSettings(epochs=50, batch=100, learning_rate=0.1)
    >>> runs = train_supervised(x[None], [0], positive[None], jax.random.key(0)[None], settings)
    >>> bool((runs.labels[0] == positive).mean() > 0.95)
    True
    """
    chosen = np.asarray(which, np.int32)
    unused = np.zeros((len(chosen), 1, records.shape[2]))
    inputs = gather_inputs(chosen, unused, 0.5, keys, sets=len(records))
    targets = np.where(labels[chosen], 1.0, -1.0).astype(np.float32)
    if held_out is not None:
        targets = np.where(held_out, np.float32(0), targets)
    rule = SupervisedRule(settings or OracleSettings())
    return train_runs(
        rule, records, inputs._replace(targets=targets), labels=labels, progress=progress
    )
