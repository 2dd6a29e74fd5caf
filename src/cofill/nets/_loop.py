"""The training loop, for one network, and its batching over many.

`_epoch` reads as the training of a single network; `run_block` maps it over a stack of them and
repeats it as one compiled program until all have stopped or a number of epochs has passed. Each
network keeps its own epoch, so that one that diverged starts again while the others go on.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from cofill.nets._flat import Form
from cofill.nets._losses import BatchLoss, Loss
from cofill.nets._private import poisson_rows, private_gradient
from cofill.nets._settings import TrainSettings, optimizer_of, schedule_at

__all__ = ["Material", "Plan", "State", "first_states", "row_loss", "run_block"]

SMALLER_STEP = 0.1
STEP_STREAM = 1 << 30  # far from the numbers of rows, which the order's random bits are drawn from
PACKED = 1 << 16  # more rows would leave fewer than 15 random bits beside the row number


@dataclass(frozen=True)
class Plan:
    """What is fixed when the program is compiled."""

    form: Form
    loss: Loss
    settings: TrainSettings
    batch: int  # rows a step
    steps: int  # steps an epoch of the network that has most
    ragged: bool  # whether some network has fewer
    validated: bool


class Material(NamedTuple):
    """What one network is trained on, or a stack of them with the network axis first.

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
    weights: Any
    kept_inputs: PyTree  # validation rows
    kept_targets: PyTree
    kept_weights: Any


class State(NamedTuple):
    """Where one network's training stands."""

    theta: Float[Array, " size"]
    optimizer: PyTree
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


def _first_state(plan: Plan, material: Material) -> State:
    """Return the state before the first epoch."""
    theta, none = material.start, jnp.array(0, jnp.int32)
    unknown = jnp.full(plan.settings.epochs, jnp.nan, theta.dtype)
    return State(
        theta=theta,
        optimizer=optimizer_of(plan.settings).init(theta),
        best_theta=theta,
        best_loss=jnp.array(jnp.inf, theta.dtype),
        stale=none,
        epoch=none,
        attempt=none,
        steps=none,
        active=jnp.array(True),
        failed=jnp.array(False),
        train_loss=unknown,
        validation_loss=unknown,
    )


@partial(jax.jit, static_argnames="plan")
def first_states(plan: Plan, material: Material) -> State:
    """Return the states of a stack of networks before the first epoch."""
    return jax.vmap(partial(_first_state, plan))(material)


@partial(jax.jit, static_argnames="plan")
def run_block(plan: Plan, material: Material, state: State, epochs: Array) -> State:
    """Train a stack of networks for some epochs, or until all have stopped.

    Parameters
    ----------
    plan, material
        What to do, and the stack's data with the network axis first.
    state
        What the last block, or `first_states`, returned.
    epochs
        Most epochs of this block.
    """

    def unfinished(carry: tuple[Array, State]) -> Array:
        return (carry[0] < epochs) & carry[1].active.any()

    def advance(carry: tuple[Array, State]) -> tuple[Array, State]:
        return carry[0] + 1, jax.vmap(partial(_epoch, plan))(material, carry[1])

    return lax.while_loop(unfinished, advance, (jnp.array(0), state))[1]


def row_loss(
    loss: Loss,
    network: PyTree,
    inputs: PyTree,
    targets: PyTree,
    weights: Float[Array, " rows"],
    key: Array | None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the weighted loss of a batch and what it counts as in a mean over batches."""
    if isinstance(loss, BatchLoss):
        return loss.function(network, inputs, targets, weights, key), weights.sum()
    scored = loss(network, inputs, targets, key)
    total, count = scored if isinstance(scored, tuple) else (scored, jnp.ones_like(weights))
    whole = (weights * count).sum()
    return (weights * total).sum() / jnp.where(whole > 0, whole, 1.0), whole


def _epoch(plan: Plan, material: Material, state: State) -> State:
    settings = plan.settings
    # Few derivations of keys: each one is a generator for XLA to compile, at 0.1 s and more.
    key = jax.random.fold_in(material.key, state.attempt * settings.epochs + state.epoch)
    theta, optimizer, loss = _pass(plan, material, state, key)
    healthy = jnp.isfinite(loss) & jnp.isfinite(theta).all()
    kept = jnp.array(jnp.nan)
    if plan.validated:
        targets = _or(material.kept_targets, material.kept_inputs)
        kept, _ = row_loss(
            plan.loss,
            plan.form.build(theta),
            material.kept_inputs,
            targets,
            material.kept_weights,
            None,
        )
        healthy &= jnp.isfinite(kept)
    watched = kept if plan.validated else loss
    better = watched < state.best_loss
    stale = jnp.where(better, 0, state.stale + 1)
    over = state.epoch + 1 >= settings.epochs
    if settings.patience:
        over |= stale >= settings.patience
    again = ~healthy & (state.attempt < settings.restarts)
    new = State(
        theta=theta,
        optimizer=optimizer,
        best_theta=jnp.where(better, theta, state.best_theta),
        best_loss=jnp.where(better, watched, state.best_loss),
        stale=stale,
        epoch=state.epoch + 1,
        attempt=state.attempt,
        steps=state.steps + material.steps,
        active=healthy & ~over,
        failed=~healthy,
        train_loss=state.train_loss.at[state.epoch].set(loss),
        validation_loss=state.validation_loss.at[state.epoch].set(kept),
    )
    fresh = _first_state(plan, material)._replace(attempt=state.attempt + 1, steps=new.steps)
    new = jax.tree.map(partial(jnp.where, again), fresh, new)
    return jax.tree.map(partial(jnp.where, state.active), new, state)


def _pass(
    plan: Plan, material: Material, state: State, key: Array
) -> tuple[Float[Array, " size"], PyTree, Float[Array, ""]]:
    # One pass over the training rows: new parameters, new optimiser state, mean loss.
    settings = plan.settings
    optimizer = optimizer_of(settings)
    order = None
    if settings.dp is None:
        order = shuffled(key, material.rows, plan.steps * plan.batch)
    rate = material.learning_rate * SMALLER_STEP**state.attempt

    def step(number: Array, carry: tuple[Array, PyTree, Array, Array]) -> tuple[Any, ...]:
        theta, memory, total, count = carry
        step_key = jax.random.fold_in(key, STEP_STREAM + number)
        loss, part, slope = _slope(plan, material, theta, order, number, step_key)
        update, new_memory = optimizer.update(slope, memory, theta)
        move: Any = update
        if settings.optimizer == "adamw":
            move = move + material.weight_decay * theta
        so_far = state.epoch * material.steps + number
        now = rate * schedule_at(settings, so_far, settings.epochs * material.steps)
        new = theta - now * move, new_memory, total + part * loss, count + part
        if not plan.ragged:
            return new
        return jax.tree.map(partial(jnp.where, number < material.steps), new, carry)

    zero = jnp.array(0.0)
    theta, memory, total, count = lax.fori_loop(
        0, plan.steps, step, (state.theta, state.optimizer, zero, zero)
    )
    return theta, memory, total / jnp.where(count > 0, count, 1.0)


def _slope(
    plan: Plan, material: Material, theta: Array, order: Array | None, number: Array, key: Array
) -> tuple[Array, Array, Array]:
    # A step's loss, what it counts in the epoch's mean, and its gradient.
    def objective(theta: Array, index: Array, weights: Array, key: Array) -> tuple[Array, Array]:
        take = partial(_take, index)
        inputs = jax.tree.map(take, material.inputs)
        targets = _or(jax.tree.map(take, material.targets), inputs)
        return row_loss(plan.loss, plan.form.build(theta), inputs, targets, weights, key)

    slope = jax.value_and_grad(objective, has_aux=True)
    dp = plan.settings.dp
    if dp is None:
        assert order is not None  # noqa: S101  (only private steps go without an order)
        index = lax.dynamic_slice_in_dim(order, number * plan.batch, plan.batch)
        (loss, part), gradient = slope(theta, index, _take(index, material.weights), key)
        return loss, part, gradient

    def slope_of_row(row: Array, row_key: Array) -> tuple[Array, Array]:
        (loss, _), gradient = slope(theta, row[None], jnp.ones(1), row_key)
        return loss, gradient

    expected = jnp.minimum(plan.settings.batch_size or material.rows, material.rows)
    draw_key, use_key = jax.random.split(key)
    size = material.weights.shape[0]
    index, taken = poisson_rows(draw_key, material.rows, expected / material.rows, size, plan.batch)
    loss, gradient = private_gradient(
        slope_of_row, index, taken, expected.astype(theta.dtype), dp, use_key
    )
    return loss, taken.sum().astype(theta.dtype), gradient


def shuffled(key: Array, rows: Int[Array, ""] | int, size: int) -> Int[Array, " size"]:
    """Return the first rows' numbers in random order, then the padding's."""
    place = jnp.arange(size, dtype=jnp.uint32)
    if size > PACKED:
        mixed = jnp.where(place < rows, jax.random.bits(key, (size,)) >> 1, jnp.uint32(1 << 31))
        return jnp.argsort(mixed).astype(jnp.int32)
    # Random upper bits and the row number in the lower ones sort as one array, four times faster
    # than a sort that carries the numbers along. The top bit keeps the padding last.
    low = jnp.uint32((1 << max(1, (size - 1).bit_length())) - 1)
    mixed = ((jax.random.bits(key, (size,)) >> 1) & ~low) | place
    mixed = mixed | jnp.where(place < rows, jnp.uint32(0), jnp.uint32(1 << 31))
    return (jnp.sort(mixed) & low).astype(jnp.int32)


def _take(index: Array, rows: Array) -> Array:
    return rows.at[index].get(mode="promise_in_bounds")


def _or(targets: PyTree, inputs: PyTree) -> PyTree:
    return inputs if targets is None else targets
