"""The ceiling: the same classifiers, taught with the labels that an attacker lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold

from cofill.attack._base import check_enough, check_records
from cofill.attack._classifiers import Training, logits, require
from cofill.attack._risks import logistic_loss
from cofill.attack._runs import AbstractRule, Progress, RunInputs, Runs, gather_inputs, train_runs
from cofill.errors import DataError
from cofill.nets import MLP, forward

__all__ = ["Oracle", "OracleSettings", "train_supervised"]

Fitted = TypeVar("Fitted", bound="Oracle")


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
        given: RunInputs,
        seen: tuple[()],
        rows: Float[Array, "batch d"],
        index: Int[Array, " batch"],
        key: Array,
    ) -> Float[Array, ""]:
        """Return the mean logistic loss of the records that are not held out."""
        targets = given.targets[index]
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
    records
        Sets of records.
    which
        Each run's set.
    labels
        Who is positive in each set.
    keys
        Each run's random key.
    settings
        How to train.
    held_out
        Records a run does not learn from.
    progress
        Called between blocks of steps.

    Examples
    --------
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
    given = gather_inputs(chosen, unused, 0.5, keys, sets=len(records))
    targets = np.where(labels[chosen], 1.0, -1.0).astype(np.float32)
    if held_out is not None:
        targets = np.where(held_out, np.float32(0), targets)
    rule = SupervisedRule(settings or OracleSettings())
    return train_runs(
        rule, records, given._replace(targets=targets), labels=labels, progress=progress
    )


class Oracle(BaseEstimator):
    """A classifier taught with all labels: no attack without labels should do better.

    Parameters
    ----------
    folds
        Each record is scored by a classifier that was not taught its label, as an attacker's is not
        either; 0 to score the records that were learned from. The folds' classifiers train
        together.
    classifier, epochs, batch, learning_rate, weight_decay, activation, dropout
        As in `OracleSettings`.
    seed
        Of everything random.

    Attributes
    ----------
    scores_, labels_
        For the records of `fit_labelled`: probability of the positive class, and whether it is
        above one half.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = np.arange(400) < 200
    >>> x = rng.normal(size=(400, 2)) + np.where(positive, 2, -2)[:, None]
    >>> oracle = Oracle(epochs=50, batch=100, learning_rate=0.1).fit_labelled(x, positive)
    >>> bool((oracle.labels_ == positive).mean() > 0.95)
    True
    """

    n_features_in_: int
    network_: MLP
    scores_: Float[np.ndarray, " records"]
    labels_: Bool[np.ndarray, " records"]

    def __init__(
        self,
        *,
        folds: int = 5,
        classifier: str = "linear",
        epochs: int = 50,
        batch: int = 500,
        learning_rate: float | int = 1e-3,
        weight_decay: float | int = 0.0,
        activation: str = "tanh",
        dropout: float | int = 0.2,
        seed: int = 0,
    ) -> None:
        self.folds = folds
        self.classifier = classifier
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.activation = activation
        self.dropout = dropout
        self.seed = seed

    def settings(self) -> OracleSettings:
        """Return the settings of the training, checked."""
        apart = ("folds", "seed")
        return OracleSettings(**{k: v for k, v in self.get_params().items() if k not in apart})

    def fit_labelled(self: Fitted, records: Any, labels: Any) -> Fitted:
        """Learn from records and their labels, True for positive."""
        rows = check_records(records)
        check_enough(rows)
        truth = np.asarray(labels)
        if truth.shape != (len(rows),) or truth.dtype != np.bool_:
            raise DataError(
                f"labels must be one truth value for each of the {len(rows)} records, got the "
                f"shape {truth.shape} of type {truth.dtype}"
            )
        require("folds", self.folds, "0, or 2 and more", self.folds == 0 or self.folds >= 2)
        least = int(min(truth.sum(), (~truth).sum()))
        if least < max(1, self.folds):
            raise DataError(
                f"labels must hold at least {max(1, self.folds)} records of each class, got "
                f"{least} of the rarer one; take fewer folds"
            )
        held = np.zeros((self.folds + 1, len(rows)), bool)
        if self.folds:
            splits = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed)
            for fold, (_, test) in enumerate(splits.split(rows, truth), start=1):
                held[fold, test] = True
        keys = jax.random.split(jax.random.key(self.seed), len(held))
        runs = train_supervised(
            rows[None], np.zeros(len(held), int), truth[None], keys, self.settings(), held_out=held
        )
        self.network_, self.n_features_in_ = runs.network(0), rows.shape[1]
        self.scores_ = (
            np.where(held, runs.scores, 0.0).sum(axis=0) if self.folds else runs.scores[0]
        )
        self.labels_ = self.scores_ > 0.5
        return self

    def predict(self, records: Any) -> Bool[np.ndarray, " records"]:
        """Return whether each record is taken for positive, by the classifier taught with all."""
        return self.predict_proba(records) > 0.5

    def predict_proba(self, records: Any) -> Float[np.ndarray, " records"]:
        """Return the probability that each record is positive."""
        if not hasattr(self, "network_"):
            raise NotFittedError("the oracle has learned nothing yet; call fit_labelled first")
        rows = check_records(records)
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"records must have the {self.n_features_in_} columns they had at fit, got "
                f"{rows.shape[1]}; give the same columns in the same order"
            )
        return expit(forward(self.network_, rows)[:, 0].astype(np.float64))
