"""Epochs of many networks at once: passes over rows, early stopping, restarts with smaller steps.

`_epoch` reads as the training of a single network; `run_block` maps it over a stack of them and
repeats it as one compiled program until all have stopped or a number of epochs has passed. Each
network counts its own epochs, so that one that diverged starts again while the others go on.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from cofill.nets._engine import (
    Batch,
    State,
    Trainer,
    advance,
    make_optimizer,
    repeat_passes,
    shuffle_rows,
    start_training,
)
from cofill.nets._flat import Form
from cofill.nets._losses import Loss
from cofill.nets._private import poisson_rows
from cofill.nets._settings import TrainSettings, schedule_at

SMALLER_STEP = 0.1  # times the step size of the attempt that diverged
STEP_STREAM = 1 << 30  # far from the numbers of rows, which the order's random bits are drawn from


@dataclass(frozen=True)
class Program:
    """What is fixed when the training of a group of tasks is compiled."""

    form: Form
    loss: Loss
    settings: TrainSettings
    batch: int  # rows a step
    steps: int  # steps an epoch of the network that has most
    ragged: bool  # whether some network has fewer
    validated: bool


class TaskData(NamedTuple):
    """Rows and parameters of one task, or of a stack of them with the task axis first.

    Arrays are NumPy's on the host and JAX's in the program; targets None stands for the inputs.
    """

    key: Any
    start: Any  # initial parameters
    learning_rate: Any
    weight_decay: Any  # decoupled (adamw)
    rows: Any  # training rows without padding
    steps: Any  # steps an epoch
    inputs: PyTree
    targets: PyTree
    weights: Any  # 1 for a row, 0 for padding
    validation_inputs: PyTree
    validation_targets: PyTree
    validation_weights: Any


class TaskState(NamedTuple):
    """Where the training of one task stands."""

    network: State
    best_theta: Float[Array, " size"]
    best_loss: Float[Array, ""]
    stale: Int[Array, ""]  # epochs since the best
    epoch: Int[Array, ""]
    attempt: Int[Array, ""]
    steps: Int[Array, ""]  # over all attempts
    active: Bool[Array, ""]
    failed: Bool[Array, ""]
    train_loss: Float[Array, " epochs"]
    validation_loss: Float[Array, " epochs"]


def _optimizer(settings: TrainSettings, data: TaskData) -> optax.GradientTransformation:
    decoupled = settings.optimizer == "adamw"
    return make_optimizer(
        settings.optimizer,
        clip=settings.gradient_clip,
        decay=0.0 if decoupled else settings.weight_decay,
        decoupled_decay=data.weight_decay if decoupled else None,
    )


def _start(program: Program, data: TaskData) -> TaskState:
    theta, zero = data.start, jnp.array(0, jnp.int32)
    unknown = jnp.full(program.settings.epochs, jnp.nan, theta.dtype)
    return TaskState(
        network=start_training(_optimizer(program.settings, data), theta),
        best_theta=theta,
        best_loss=jnp.array(jnp.inf, theta.dtype),
        **dict.fromkeys(("stale", "epoch", "attempt", "steps"), zero),
        active=jnp.array(True),
        failed=jnp.array(False),
        train_loss=unknown,
        validation_loss=unknown,
    )


@partial(jax.jit, static_argnames="program")
def start_tasks(program: Program, data: TaskData) -> TaskState:
    """Return the states of a stack of tasks before the first epoch."""
    return jax.vmap(partial(_start, program))(data)


@partial(jax.jit, static_argnames="program")
def run_block(program: Program, data: TaskData, state: TaskState, epochs: Array) -> TaskState:
    """Return the states of a stack of tasks after some epochs, or once all have stopped."""

    def one_epoch(number: Array, state: TaskState) -> TaskState:
        return jax.vmap(partial(_epoch, program))(data, state)

    return repeat_passes(one_epoch, state, lambda state: state.active, 0, epochs)


def score_batch(
    loss: Loss,
    network: PyTree,
    inputs: PyTree,
    targets: PyTree,
    weights: Float[Array, " rows"],
    key: Array | None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the weighted loss of a batch, and its weight in a mean over batches.

    Targets None stands for the inputs.
    """
    targets = inputs if targets is None else targets
    scored = loss(network, inputs, targets, key)
    total, count = scored if isinstance(scored, tuple) else (scored, jnp.ones_like(weights))
    weight = (weights * count).sum()
    return (weights * total).sum() / jnp.where(weight > 0, weight, 1.0), weight


def _epoch(program: Program, data: TaskData, state: TaskState) -> TaskState:
    settings = program.settings
    # Few derivations of keys: each one is a generator for XLA to compile, at 0.1 s and more.
    key = jax.random.fold_in(data.key, state.attempt * settings.epochs + state.epoch)
    network, loss = _pass(program, data, state, key)
    theta = network.weights
    healthy = jnp.isfinite(loss) & jnp.isfinite(theta).all()
    validation = jnp.array(jnp.nan)
    if program.validated:
        rows = data.validation_inputs, data.validation_targets, data.validation_weights
        validation, _ = score_batch(program.loss, program.form.build(theta), *rows, None)
        healthy &= jnp.isfinite(validation)
    watched = validation if program.validated else loss
    better = watched < state.best_loss
    stale = jnp.where(better, 0, state.stale + 1)
    over = state.epoch + 1 >= settings.epochs
    if settings.patience:
        over |= stale >= settings.patience
    new = TaskState(
        network=network,
        best_theta=jnp.where(better, theta, state.best_theta),
        best_loss=jnp.where(better, watched, state.best_loss),
        stale=stale,
        epoch=state.epoch + 1,
        attempt=state.attempt,
        steps=state.steps + data.steps,
        active=healthy & ~over,
        failed=~healthy,
        train_loss=state.train_loss.at[state.epoch].set(loss),
        validation_loss=state.validation_loss.at[state.epoch].set(validation),
    )
    restarts = ~healthy & (state.attempt < settings.restarts)
    fresh = _start(program, data)._replace(attempt=state.attempt + 1, steps=new.steps)
    new = jax.tree.map(partial(jnp.where, restarts), fresh, new)
    return jax.tree.map(partial(jnp.where, state.active), new, state)


def _pass(
    program: Program, data: TaskData, state: TaskState, key: Array
) -> tuple[State, Float[Array, ""]]:
    """Return the network after one pass over the training rows, and its mean loss meanwhile."""
    settings = program.settings
    private = settings.dp is not None
    order = None if private else shuffle_rows(key, data.rows, program.steps * program.batch)
    expected = jnp.minimum(settings.batch_size or data.rows, data.rows)
    largest = data.learning_rate * SMALLER_STEP**state.attempt

    def draw(number: Array) -> Batch:
        step_key = jax.random.fold_in(key, STEP_STREAM + number)
        done = state.epoch * data.steps + number
        rate = largest * schedule_at(settings, done, settings.epochs * data.steps)
        drawn = None
        if order is None:
            draw_key, step_key = jax.random.split(step_key)
            share, size = expected / data.rows, data.weights.shape[0]
            index, drawn = poisson_rows(draw_key, data.rows, share, size, program.batch)
        else:
            index = lax.dynamic_slice_in_dim(order, number * program.batch, program.batch)
        rows = (data.inputs, data.targets, data.weights)
        rows = jax.tree.map(lambda column: column.at[index].get(mode="promise_in_bounds"), rows)
        return Batch(rows, step_key, rate, drawn)

    def loss(theta: Array, memory: PyTree, rows: PyTree, key: Array) -> tuple[Array, Any]:
        inputs, targets, weights = rows
        network = program.form.build(theta)
        value, weight = score_batch(program.loss, network, inputs, targets, weights, key)
        return value, (memory, {"loss": value, "rows": weight})

    trainer = Trainer(
        loss,
        _optimizer(settings, data),
        draw,
        active=(lambda number, _: number < data.steps) if program.ragged else None,
        dp=settings.dp,
        expected=expected.astype(data.start.dtype),
    )
    network, figures = advance(trainer, state.network, program.steps)
    # Steps beyond a network's own count for nothing, whatever their loss.
    weight = jnp.where(jnp.arange(program.steps) < data.steps, figures["rows"], 0.0)
    total = jnp.where(weight > 0, weight * figures["loss"], 0.0).sum()
    return network, total / jnp.where(weight.sum() > 0, weight.sum(), 1.0)
