"""What a site trains: one interface for every model that completes rows.

A *learner* makes parameters, says in which *phases* it trains on which rows, gives the loss of a
batch, and completes rows. Local training, averaging, checkpoints and the network know nothing else
about a model. A game between two networks is one loss too: where each player's own loss holds the
other player fixed (`jax.lax.stop_gradient`), the gradient of their sum moves both at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from cofill.federate._rows import Rows, Shape
from cofill.nets import round_up

__all__ = [
    "AbstractLearner",
    "Batch",
    "Phase",
    "figures_of",
    "squared_error",
    "unravel_of",
    "weights_of",
]

Params = Any
_AT_ONCE = 2048


class Batch(NamedTuple):
    """Some rows of a site.

    ``cells`` and ``known`` are rows × columns, ``present`` rows × modalities; ``weight`` is 1 for
    a row and 0 for a place that no row took.
    """

    cells: Float[Array, "n size"]
    known: Float[Array, "n size"]
    present: Float[Array, "n count"]
    weight: Float[Array, " n"]


@dataclass(frozen=True)
class Phase:
    """One kind of training.

    Parameters
    ----------
    name
        Of the phase; `AbstractLearner.loss` is told it.
    streams
        Which rows a step draws, by names: ``"complete"`` (every modality), ``"several"`` (two or
        more), or ``"only:k"`` (modality number k and no other).
    """

    name: str
    streams: tuple[str, ...]

    def rows(self, rows: Rows) -> dict[str, np.ndarray]:
        """Return the positions of each stream's rows."""
        return {stream: _positions(stream, rows) for stream in self.streams}

    def taught_by(self, rows: Rows) -> np.ndarray:
        """Return the positions of the rows that any stream draws."""
        return np.unique(np.concatenate(list(self.rows(rows).values())))


def _positions(stream: str, rows: Rows) -> np.ndarray:
    if stream == "complete":
        return rows.complete
    if stream == "several":
        return rows.several
    return rows.only(int(stream.partition(":")[2]))


class AbstractLearner(ABC):
    """A model that completes rows. Concrete learners are frozen dataclasses, hence hashable."""

    shape: Shape

    @property
    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """Phases in order: all but the last pre-train at each site, the last one makes rounds."""

    @abstractmethod
    def init(self, key: Array) -> Params:
        """Return new parameters."""

    @abstractmethod
    def loss(
        self, phase: str, params: Params, batches: Mapping[str, Batch], key: Array
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Return the loss of a step's batches, one of each stream, and figures to report."""

    @abstractmethod
    def fill(
        self, params: Params, cells: Float[Array, "n size"], present: Float[Array, "n count"]
    ) -> Float[Array, "n size"]:
        """Return whole rows, made from the modalities that are present; the others hold zero."""

    def complete(
        self, weights: Float[np.ndarray, " P"], rows: Rows, *, part: str = "fill"
    ) -> Float[np.ndarray, "n size"]:
        """Return what the model makes of every row, observed parts included.

        `part` names another method of `fill`'s kind: what a part of the model makes.
        """
        if not len(rows):
            return rows.cells
        made = []
        # Few compiled shapes, whatever numbers of rows are asked for.
        size = min(round_up(len(rows)), _AT_ONCE)
        for start in range(0, len(rows), size):
            cells, present = (a[start : start + size] for a in (rows.cells, rows.present))
            short = ((0, size - len(cells)), (0, 0))
            filled = _fill(
                self,
                part,
                jnp.asarray(weights),
                jnp.asarray(np.pad(cells, short)),
                jnp.asarray(np.pad(present, short)),
            )
            made.append(np.asarray(filled)[: len(cells)])
        return np.concatenate(made)


@lru_cache(maxsize=32)
def unravel_of(learner: AbstractLearner) -> Any:
    """Return the function from one vector of weights to a learner's parameters."""
    like = jax.eval_shape(learner.init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    return ravel_pytree(zeros)[1]


@lru_cache(maxsize=32)
def figures_of(learner: AbstractLearner, phase: Phase) -> tuple[str, ...]:
    """Return the names of the figures that training of a phase tells."""
    shape, kind = learner.shape, jnp.float32

    def zeros(*sizes: int) -> Array:
        return jnp.zeros(sizes, kind)

    def figures() -> dict[str, Array]:
        row = Batch(zeros(1, shape.size), zeros(1, shape.size), zeros(1, shape.count), zeros(1))
        params = learner.init(jax.random.key(0))
        batches = dict.fromkeys(phase.streams, row)
        return learner.loss(phase.name, params, batches, jax.random.key(0))[1]

    return ("loss", *jax.eval_shape(figures))


def weights_of(learner: AbstractLearner, key: Array) -> Float[np.ndarray, " P"]:
    """Return a learner's new parameters as one vector."""
    return np.asarray(ravel_pytree(learner.init(key))[0])


@jax.jit(static_argnums=(0, 1))
def _fill(
    learner: AbstractLearner,
    part: str,
    weights: Array,
    cells: Array,
    present: Bool[Array, "n count"],
) -> Array:
    there = present.astype(cells.dtype)
    filled = getattr(learner, part)
    return filled(unravel_of(learner)(weights), _shown(learner.shape, cells, there), there)


def _shown(shape: Shape, cells: Array, present: Array) -> Array:
    """Return rows in which modalities that are not shown hold zero."""
    return cells * present[:, shape.owner]


def squared_error(
    made: Float[Array, "n size"], batch: Batch, asked: Float[Array, "n count"], shape: Shape
) -> Float[Array, ""]:
    """Return the mean over modalities of the mean squared error of the known cells asked for.

    Every modality counts alike, whatever its width.
    """
    weight = batch.known * asked[:, shape.owner] * batch.weight[:, None]
    squares = weight * (made - batch.cells) ** 2
    errors = [
        squares[:, columns].sum() / jnp.maximum(weight[:, columns].sum(), 1.0)
        for columns in shape.slices.values()
    ]
    return jnp.stack(errors).mean()
