"""Classifiers of attacks: perceptrons with one logit, and how they are trained.

`_runs` trains those of all runs together.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from cofill.errors import SettingError
from cofill.nets import MLP, require_above_zero, require_at_least, require_in
from cofill.privacy import require_one_of

ASIDE = 1 << 30  # far from the numbers of passes and steps, which other keys are made with
ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def layer_widths(classifier: str, features: int) -> tuple[int, ...]:
    """Return the units of each layer, inputs first, of a perceptron with one logit.

    It is named ``"linear"``, or by its layers, counting input and output, and the hidden width.

    Examples
    --------
    >>> layer_widths("3lp-300", 784), layer_widths("linear", 784)
    ((784, 300, 1), (784, 1))
    """
    if classifier == "linear":
        return features, 1
    parts = re.fullmatch(r"([3-9])lp-([1-9]\d{0,4})", classifier)
    if parts is None:
        raise SettingError(
            "classifier must be linear, or layers and hidden width such as 3lp-300, got "
            f"{classifier!r}"
        )
    return (features, *[int(parts[2])] * (int(parts[1]) - 2), 1)


class RunInputs(NamedTuple):
    """Key, records and positives of runs; arrays have the axis of runs first, or none in a step."""

    key: Any
    which: Any  # set of records
    positives: Any  # rows known to be positive; a released mean is one row
    prior: Any
    targets: Any = None  # of a supervised run only: +1, −1, and 0 for a record held out


class Step(NamedTuple):
    """Records of one step, their numbers in the set, and the step's key."""

    rows: Float[Array, "batch d"]
    numbers: Int[Array, " batch"]
    key: Array


@dataclass(frozen=True)
class AbstractTraining(ABC):
    """How one run learns: settings that all attacks with a classifier share, and a risk to reduce.

    Subclasses write `risk`, and say where a run ends; they are frozen dataclasses, because compiled
    programs are found again by them.

    The paper states the batch and the dropout, but no optimiser, step, activation or initial
    weights. The defaults, here and in the settings of each attack, were chosen among a few by how
    near they come to the paper's figures on images. Those of `cofill reproduce` were chosen by a
    rule that does not look at accuracies (papers/PROTOCOL.md).

    Parameters
    ----------
    classifier
        ``"linear"``, or layers and hidden width: ``"3lp-300"``, ``"4lp-100"``, …
    batch
        Records a step; all of them if there are fewer.
    optimizer
        ``"sgd"`` or ``"adam"``.
    learning_rate
        Size of its steps.
    weight_decay
        Share of the weights that is added to the gradient.
    activation
        Of hidden layers: ``"tanh"`` or ``"relu"``.
    dropout
        Share of the hidden units switched off in training.
    curve_every
        Steps between two points of the curves, rounded up to whole passes over the records; 0 for
        no curves.
    """

    classifier: str = "linear"
    batch: int = 500
    optimizer: str = "sgd"
    learning_rate: float | int = 1e-3
    weight_decay: float | int = 0.0
    activation: str = "tanh"
    dropout: float | int = 0.2
    curve_every: int = 0

    phases: ClassVar[tuple[str, ...]] = ("train",)

    def __post_init__(self) -> None:
        layer_widths(self.classifier, 1)
        require_at_least(self, batch=1, weight_decay=0, curve_every=0)
        require_one_of("optimizer", self.optimizer, ("sgd", "adam"))
        require_one_of("activation", self.activation, tuple(ACTIVATIONS))
        require_above_zero(self, "learning_rate")
        require_in(self, "[0, 1)", "dropout")

    def network(self, features: int, key: Array) -> MLP:
        """Make a classifier with random weights, uniform up to one over the root of the inputs."""
        widths = layer_widths(self.classifier, features)
        network = MLP(widths, key=key, activation=self.activation, dropout=float(self.dropout))
        keys = jax.random.split(key, len(network.weights))
        weights = tuple(
            jax.random.uniform(layer_key, old.shape, minval=-1, maxval=1) / old.shape[1] ** 0.5
            for layer_key, old in zip(keys, network.weights, strict=True)
        )
        return eqx.tree_at(lambda tree: tree.weights, network, weights)

    @abstractmethod
    def most_steps(self, steps: int) -> int:
        """Return after how many steps every run is over, when a pass takes ``steps`` of them."""

    @abstractmethod
    def risk(self, network: MLP, inputs: RunInputs, observed: Any, step: Step) -> Float[Array, ""]:
        """Return what the step reduces."""

    def first(self) -> PyTree:
        """Return what a run remembers before its first step."""
        return ()

    def observe(
        self, network: MLP, inputs: RunInputs, memory: PyTree, rows: Float[Array, "batch d"]
    ) -> tuple[PyTree, PyTree]:
        """Return the memory after seeing a batch, and what the risk wants to know of it."""
        return memory, ()

    def phase(self, memory: PyTree) -> Int[Array, ""]:
        """Return the number of the phase a run is in; the number of phases when it is over."""
        return jnp.array(0)

    def outcome(self, memory: PyTree) -> str:
        """Return in a word or two how a run went, by what it remembers at its end."""
        return "ok"


def logits(
    network: MLP, rows: Float[Array, "rows d"], key: Array | None = None
) -> Float[Array, " rows"]:
    """Return the classifier's logit for each row; dropout acts only when a key is given.

    One key serves all rows of a layer, which costs far less than a key a row.
    """
    hidden = rows
    for layer, (weights, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        if layer:
            hidden = ACTIVATIONS[network.activation](hidden)
            if key is not None and network.dropout > 0:
                layer_key = jax.random.fold_in(key, layer)
                keep = jax.random.bernoulli(layer_key, 1 - network.dropout, hidden.shape)
                hidden = jnp.where(keep, hidden / (1 - network.dropout), 0.0)
        hidden = hidden @ weights.T + bias
    return hidden[:, 0]
