"""Advance a training state by steps: the one loop in which every network of cofill learns.

A `Trainer` says how one network learns. Its sampler gives the batch, key and step size of each
step, its loss scores the batch, and an optax transformation turns the gradient (the clipped and
noised one of DP-SGD where rows are private) into a move. `advance` runs steps as one scan;
`repeat_passes` repeats passes over the rows until every network of a stack has stopped. Networks,
sites, restarts and seeds are batched by a `jax.vmap` around `advance`: what the mapped axis does
not reach, such as a batch that several networks share, is still computed once. Callers bring losses
and samplers as plain functions; `descend` alone serves methods that alternate between networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from cofill.nets._private import private_gradient
from cofill.nets._settings import DPSettings

PACKED_ROWS = 1 << 16  # more rows would leave fewer than 15 random bits beside the row number

Optimizer = optax.GradientTransformation
Loss = Callable[[PyTree, PyTree, PyTree, Any], tuple[Array, tuple[PyTree, Any]]]


class State(NamedTuple):
    """Where the training of one network stands, or of a stack with the network axis first.

    ``moments`` is the optimiser's state, ``memory`` what the loss hands on from step to step.
    """

    weights: PyTree
    moments: PyTree
    memory: PyTree = ()


class Batch(NamedTuple):
    """What one step learns from.

    ``rows`` is a pytree of arrays with the rows first, ``rate`` the size of the step. In a private
    step ``drawn`` says which of the rows the Poisson sample holds; the others are padding.
    """

    rows: PyTree
    key: Any
    rate: Any = 1.0
    drawn: Bool[Array, " rows"] | None = None


@dataclass(frozen=True, eq=False)
class Trainer:
    """How one network learns.

    Parameters
    ----------
    loss
        ``loss(weights, memory, rows, key)`` returns the batch's loss, and the pair of the new
        memory and of figures to report.
    optimizer, draw
        Such as `make_optimizer` returns; ``draw(number)`` returns the `Batch` of a step.
    active
        ``active(number, memory)`` tells whether weights and moments still change, given the memory
        after the step; None for always. The memory changes in any case.
    dp, expected
        Differentially private steps (weights must then be one vector), and how many rows such a
        step expects to draw. The figures are then the drawn rows' mean loss and number.
    """

    loss: Loss
    optimizer: Optimizer
    draw: Callable[[Array], Batch]
    active: Callable[[Array, PyTree], Array] | None = None
    dp: DPSettings | None = None
    expected: Any = None


def advance(trainer: Trainer, state: State, steps: Int[Array, ""] | int) -> tuple[State, Any]:
    """Return the state after so many steps, and each step's figures stacked.

    Examples
    --------
    >>> def loss(weights, memory, rows, key):
    ...     return ((weights - rows) ** 2).sum(), (memory, {})
    >>> def draw(number):
    ...     return Batch(jnp.array([3.0]), jax.random.key(number), rate=0.5)
    >>> trainer = Trainer(loss, make_optimizer("sgd"), draw)
    >>> advance(trainer, start_training(trainer.optimizer, jnp.zeros(1)), 2)[0].weights
    Array([3.], dtype=float32)
    """

    def step(state: State, number: Array) -> tuple[State, Any]:
        batch = trainer.draw(number)
        gradient, memory, figures = _gradient(trainer, state, batch)
        new = descend(trainer.optimizer, state, gradient, batch.rate)._replace(memory=memory)
        if trainer.active is not None:
            # Computed and then undone: networks of a stack run one program, and cannot skip a step.
            stopped = state._replace(memory=memory)
            new = jax.tree.map(partial(jnp.where, trainer.active(number, memory)), new, stopped)
        return new, figures

    return lax.scan(step, state, jnp.arange(steps))


def start_training(optimizer: Optimizer, weights: PyTree, memory: PyTree = ()) -> State:
    """Return the state before the first step."""
    return State(weights, optimizer.init(weights), memory)


def descend(optimizer: Optimizer, state: State, gradient: PyTree, rate: Any) -> State:
    """Return the state after one move against the gradient."""
    move, moments = optimizer.update(gradient, state.moments, state.weights)
    # The rate is applied here, so that networks with other rates share the optimiser's program.
    weights = jax.tree.map(lambda old, change: old - rate * change, state.weights, move)
    return State(weights, moments, state.memory)


def _gradient(trainer: Trainer, state: State, batch: Batch) -> tuple[PyTree, PyTree, Any]:
    def objective(weights: PyTree, rows: PyTree, key: Any) -> tuple[Array, tuple[PyTree, Any]]:
        return trainer.loss(weights, state.memory, rows, key)

    slope = jax.value_and_grad(objective, has_aux=True)
    if trainer.dp is None:
        (_, (memory, figures)), gradient = slope(state.weights, batch.rows, batch.key)
        return gradient, memory, figures

    def row_slope(row: PyTree, key: Array) -> tuple[Array, Array]:
        (value, _), gradient = slope(state.weights, row, key)
        return value, gradient

    assert batch.drawn is not None  # noqa: S101  (samplers of private steps set it)
    loss, gradient = private_gradient(
        row_slope, batch.rows, batch.drawn, trainer.expected, trainer.dp, batch.key
    )
    figures = {"loss": loss, "rows": batch.drawn.sum().astype(loss.dtype)}
    return gradient, state.memory, figures


def repeat_passes(
    one_pass: Callable[[Array, PyTree], PyTree],
    state: PyTree,
    unfinished: Callable[[PyTree], Bool[Array, "..."]],
    first: Any,
    last: Any,
) -> PyTree:
    """Return a stack's state after passes ``first`` to ``last - 1``, or once none is unfinished.

    ``one_pass(number, state)`` returns the state after a pass of every network;
    ``unfinished(state)`` tells of each network whether it still learns.
    """

    def goes_on(carry: tuple[Array, PyTree]) -> Array:
        return (carry[0] < last) & unfinished(carry[1]).any()

    def go_on(carry: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        return carry[0] + 1, one_pass(*carry)

    return lax.while_loop(goes_on, go_on, (jnp.asarray(first), state))[1]


def make_optimizer(
    name: str,
    *,
    clip: float | None = None,
    decay: float = 0.0,
    momentum: float = 0.0,
    first_moment: float = 0.9,
    second_moment: float = 0.999,
    decoupled_decay: Any = None,
) -> Optimizer:
    """Return an optimiser of unit step size and without sign; `descend` scales its moves.

    Parameters
    ----------
    name
        ``"sgd"``, or ``"adam"`` (``"adamw"`` is Adam too: its decay is `decoupled_decay`).
    clip
        Largest norm of the gradient; None for no limit.
    decay, decoupled_decay
        Share of the weights added to the gradient, or to the move; the latter may be an array that
        differs between networks.
    momentum, first_moment, second_moment
        Of sgd, and Adam's β₁ and β₂.
    """
    chain: list[Optimizer] = []
    if clip is not None:
        chain.append(optax.clip_by_global_norm(clip))
    if decay:
        chain.append(optax.add_decayed_weights(decay))
    if name != "sgd":
        chain.append(optax.scale_by_adam(b1=first_moment, b2=second_moment))
    elif momentum:
        chain.append(optax.trace(decay=momentum))
    # Behind Adam, whose moments would scale the decay of each weight by its gradients.
    if decoupled_decay is not None:
        chain.append(optax.add_decayed_weights(decoupled_decay))
    return optax.chain(*chain) if chain else optax.identity()


def shuffle_rows(key: Array, rows: Int[Array, ""] | int, size: int) -> Int[Array, " size"]:
    """Return the first rows' numbers in random order, then the padding's."""
    number = jnp.arange(size, dtype=jnp.uint32)
    if size > PACKED_ROWS:
        mixed = jnp.where(number < rows, jax.random.bits(key, (size,)) >> 1, jnp.uint32(1 << 31))
        return jnp.argsort(mixed).astype(jnp.int32)
    # Random upper bits and the row number in the lower ones sort as one array, four times faster
    # than a sort that carries the numbers along. The top bit keeps the padding last.
    low = jnp.uint32((1 << max(1, (size - 1).bit_length())) - 1)
    mixed = ((jax.random.bits(key, (size,)) >> 1) & ~low) | number
    mixed = mixed | jnp.where(number < rows, jnp.uint32(0), jnp.uint32(1 << 31))
    return (jnp.sort(mixed) & low).astype(jnp.int32)
