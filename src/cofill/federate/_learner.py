"""The interface of networks that sites train together and that complete rows.

A *learner* makes parameters, says in which *phases* it trains on which rows, gives the loss of a
batch, and completes rows. Local training, averaging, checkpoints and the network know nothing else
about a model. A game between two networks is one loss too: where each player's loss holds the
other player fixed (`jax.lax.stop_gradient`), the gradient of their sum moves both at once. A
learner whose players move one after another says so by its *turns*.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from cofill.completion import Progress, silent
from cofill.errors import DataError
from cofill.federate._common_model import AbstractCommonModel, Phase, Vectors
from cofill.federate._rows import Rows, Shape, encode_rows
from cofill.impute import Correction
from cofill.nets import round_up
from cofill.views import MultiView, Scaler

Params = Any
Loss = tuple[Float[Array, ""], dict[str, Float[Array, ""]]]
# Of one call, more of which would need more memory and be no quicker: a network of convolutions
# holds hundreds of numbers for each pixel.
_MOST_ROWS, _MOST_CELLS = 2048, 2**19


class Batch(NamedTuple):
    """Some rows of a site; ``weight`` is 1 for a row and 0 for padding."""

    cells: Float[Array, "n size"]
    known: Float[Array, "n size"]
    present: Float[Array, "n count"]
    weight: Float[Array, " n"]


class AbstractLearner(AbstractCommonModel):
    """A network that completes rows. Concrete ones are frozen dataclasses, hence hashable."""

    pretraining: ClassVar[tuple[str, ...]] = ()
    """Names of all phases but the last, known before there is a shape."""

    training: ClassVar[Mapping[str, Any]] = {"batch": 32, "learning_rate": 1e-3}
    """Fields of `LocalSettings` that suit the model."""

    @classmethod
    def image_training(cls, sites: int) -> Mapping[str, Any]:  # noqa: ARG003  for subclasses
        """Return fields of `LocalSettings` that suit the model on images, at so many sites."""
        return cls.training

    @property
    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """Phases in order: all but the last pre-train at each site, the last one is for rounds."""

    def turns(self, phase: str) -> tuple[tuple[str, ...], ...]:
        """Return which parameters, by name, each turn of a step moves; none if all move at once."""
        return ()

    @abstractmethod
    def init(self, key: Array) -> Params:
        """Return new parameters."""

    @abstractmethod
    def loss(self, phase: str, params: Params, batches: Mapping[str, Batch], key: Array) -> Loss:
        """Return the loss of a step's batches, one of each stream, and figures to report."""

    @abstractmethod
    def fill(
        self, params: Params, cells: Float[Array, "n size"], present: Float[Array, "n count"]
    ) -> Float[Array, "n size"]:
        """Return whole rows, made from the modalities that are present; the others hold zero."""

    def complete(
        self, weights: Float[np.ndarray, " P"], rows: Rows, *, part: str = "fill"
    ) -> Float[np.ndarray, "n size"]:
        """Return every row as the model predicts it, observed cells included.

        `part` names another method with `fill`'s signature, for what a part of the model predicts.
        """
        if not len(rows):
            return rows.cells
        parts, theta = [], jax.device_put(weights)
        # Few compiled shapes, whatever numbers of rows are asked for.
        most = min(_MOST_ROWS, max(_MOST_CELLS // self.shape.size, 1))
        size = min(round_up(len(rows)), most)
        for start in range(0, len(rows), size):
            tables = [table[start : start + size] for table in (rows.cells, rows.present)]
            padding = ((0, size - len(tables[0])), (0, 0))
            padded = (np.pad(table, padding) for table in tables)
            parts.append(np.asarray(_fill(self, part, theta, *padded))[: len(tables[0])])
        return np.concatenate(parts)

    def figures(self, phase: Phase) -> tuple[str, ...]:
        return _figure_names(self, phase)

    def start(self, seed: int = 0) -> Float[np.ndarray, " P"]:
        """Return new parameters as one vector."""
        return initial_weights(self, jax.random.key(seed))

    def after_round(
        self, coordinator: Any, mean: Vectors, sites: int
    ) -> tuple[Mapping[str, np.ndarray], Float[np.ndarray, " P"]]:
        """Return the strategy's state and the weights after it has applied a mean update."""
        before, number, state = coordinator.weights, coordinator.round, coordinator.state
        mean = {name: vector.astype(before.dtype) for name, vector in mean.items()}
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            if number:
                apply, share = coordinator.strategy.apply, sites / len(coordinator.names)
                state, weights = apply(dict(state), before, mean, share)
            else:  # what pre-training made is averaged (Eq. 2.1), whatever the strategy
                weights = before + mean["change"]
        if not np.isfinite(weights).all():
            raise DataError(
                f"round {number}: the sites' updates are so large that the mean model is not "
                "finite; train with a smaller learning_rate or a clip"
            )
        return state, weights.astype(before.dtype)

    def learned_cells(self, rows: Rows) -> Float[np.ndarray, "people size"]:
        """Return the rows in the first stream of a round's training."""
        phase = self.phases[-1]
        return rows.cells[phase.rows(rows)[phase.streams[0]]]

    def after_update(
        self, weights: Float[np.ndarray, " P"], change: Float[np.ndarray, " P"]
    ) -> Float[np.ndarray, " P"]:
        """Return the weights that one site trained."""
        return weights + change

    def log_losses(
        self, models: Sequence[Float[np.ndarray, " _"]], cells: Float[np.ndarray, "people size"]
    ) -> Float[np.ndarray, "models people"]:
        each: list[Any] = [_each_loss(self, jnp.asarray(w), jnp.asarray(cells)) for w in models]
        losses = np.asarray(each, np.float64)
        return np.log(losses) if losses.min() > 0 else losses  # a game's losses can be negative

    def complete_views(
        self,
        scalers: Mapping[str, Scaler],
        weights: Float[np.ndarray, " P"],
        views: MultiView,
        correction: Correction | None = None,
        progress: Progress = silent,
    ) -> dict[str, Float[np.ndarray, "n features"]]:
        """Return the cells of everybody who lacks some, per view and in the user's units.

        Each modality is predicted from the others, by the common model on the scales that it was
        trained on; rows without a missing cell hold NaN.
        """
        predictions = {}
        rows = encode_rows(views, scalers, self.shape)
        for k, (name, columns) in enumerate(self.shape.slices.items()):
            progress(f"completing {name}", k / len(views))
            incomplete = np.asarray(~rows.known[:, columns].all(axis=1))
            cells = np.full((views.n_individuals, len(views[name].features)), np.nan)
            if incomplete.any():
                present = rows.present[incomplete].copy()
                present[:, k] = False
                known = rows.known[incomplete] & present[:, self.shape.owner]
                shown = np.where(known, rows.cells[incomplete], 0).astype(np.float32)
                filled = self.complete(weights, Rows(shown, known, present))[:, columns]
                # Nothing but this modality is known of some: they get what is usual at the site, or
                # where that is not known zeros, the mean of numbers.
                has_others = present.any(axis=1, keepdims=True)
                filled = np.where(has_others, filled, 0.0).astype(np.float64)
                decoded, typical = scalers[name].decode(filled, clip=True), views[name].typical()
                cells[incomplete] = np.where(~has_others & ~np.isnan(typical), typical, decoded)
            predictions[name] = cells
        return predictions

    def error(self, weights: Float[np.ndarray, " P"], rows: Rows) -> float:
        """Return the mean squared error of each modality as the others predict it."""
        errors = []
        for k, columns in enumerate(self.shape.slices.values()):
            present = rows.present & (np.arange(self.shape.count) != k)
            shown = Rows(rows.cells, rows.known, present)
            filled = self.complete(weights, shown)[:, columns].astype(np.float64)
            scored = rows.known[:, columns] & present.any(axis=1)[:, None]
            squares = (filled - rows.cells[:, columns]) ** 2
            errors.append(squares[scored].mean() if scored.any() else np.nan)
        return float(np.nanmean(errors)) if np.isfinite(errors).any() else math.nan


@lru_cache(maxsize=32)
def make_unravel(learner: AbstractLearner) -> Any:
    """Return the function from one vector of weights to a learner's parameters."""
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    # Not `nets.form_of`: its slices compile to another program, and results move.
    return ravel_pytree(zeros)[1]


@lru_cache(maxsize=32)
def _figure_names(learner: AbstractLearner, phase: Phase) -> tuple[str, ...]:
    """Return the names of the figures that training of a phase reports."""
    shape = learner.shape

    def figures() -> dict[str, Array]:
        sizes = ((1, shape.size), (1, shape.size), (1, shape.count), (1,))
        row = Batch(*(jnp.zeros(size, jnp.float32) for size in sizes))
        params = learner.init(jax.random.key(0))
        batches = dict.fromkeys(phase.streams, row)
        return learner.loss(phase.name, params, batches, jax.random.key(0))[1]

    judged = ("held_out",) if learner.held_out and phase == learner.phases[-1] else ()
    return ("loss", *jax.eval_shape(figures), *judged)


def initial_weights(learner: AbstractLearner, key: Array) -> Float[np.ndarray, " P"]:
    """Return a learner's new parameters as one vector."""
    return np.asarray(_initial(learner, key))


@jax.jit(static_argnums=0)
def _initial(learner: AbstractLearner, key: Array) -> Array:
    return ravel_pytree(learner.init(key))[0]


@jax.jit(static_argnums=(0, 1))
def _fill(
    learner: AbstractLearner, part: str, weights: Array, cells: Array, present: Array
) -> Array:
    flags = present.astype(cells.dtype)
    shown = cells * flags[:, learner.shape.owner]  # zero where a modality is missing
    return getattr(learner, part)(make_unravel(learner)(weights), shown, flags)


@jax.jit(static_argnums=(0,))
def _each_loss(learner: AbstractLearner, weights: Array, cells: Array) -> Array:
    params, phase, shape = make_unravel(learner)(weights), learner.phases[-1], learner.shape

    def loss(row: Array) -> Array:
        def batch(share: float) -> Batch:
            shown = row[None] * share
            present = jnp.full((1, shape.count), share)
            return Batch(shown, jnp.full_like(shown, share), present, jnp.full(1, share))

        # Only the first stream holds the person; a phase may draw from several at once.
        batches = {stream: batch(float(stream == phase.streams[0])) for stream in phase.streams}
        return learner.loss(phase.name, params, batches, jax.random.key(0))[0]

    return jax.vmap(loss)(cells)


def squared_error(
    predicted: Float[Array, "n size"], batch: Batch, scored: Float[Array, "n count"], shape: Shape
) -> Float[Array, ""]:
    """Return the mean over modalities of the mean squared error of the known cells to score.

    Every modality counts alike, whatever its width.
    """
    weight = batch.known * scored[:, shape.owner] * batch.weight[:, None]
    squares = weight * (predicted - batch.cells) ** 2
    errors = [
        squares[:, columns].sum() / jnp.maximum(weight[:, columns].sum(), 1.0)
        for columns in shape.slices.values()
    ]
    return jnp.stack(errors).mean()
