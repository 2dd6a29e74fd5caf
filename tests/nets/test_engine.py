"""The engine by itself: steps against optax, networks that stop, memory, shared batches."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cofill.nets import (
    Batch,
    DPSettings,
    State,
    Trainer,
    advance,
    make_optimizer,
    repeat_passes,
    shuffle_rows,
    start_training,
)

ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(12, 3)), jnp.float32)
KEY = jax.random.key(0)


def loss(weights, memory, rows, key):
    value = ((weights - rows) ** 2).mean()
    return value, (memory + 1, {"loss": value})


def draw(number):
    return Batch(ROWS[number % 4 * 3 + jnp.arange(3)], jax.random.fold_in(KEY, number), 0.1)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (make_optimizer("sgd"), optax.sgd(0.1)),
        (make_optimizer("sgd", momentum=0.9), optax.sgd(0.1, momentum=0.9)),
        (make_optimizer("adam", first_moment=0.5), optax.adam(0.1, b1=0.5)),
        (make_optimizer("adamw", decoupled_decay=0.3), optax.adamw(0.1, weight_decay=0.3)),
        (
            make_optimizer("adam", clip=0.01, decay=0.2),
            optax.chain(
                optax.clip_by_global_norm(0.01), optax.add_decayed_weights(0.2), optax.adam(0.1)
            ),
        ),
    ],
)
def test_steps_are_those_of_optax(ours, theirs):
    start = jnp.ones(3)
    state, figures = advance(Trainer(loss, ours, draw), start_training(ours, start, 0), 6)
    weights, moments, losses = start, theirs.init(start), []
    for number in range(6):
        rows = ROWS[number % 4 * 3 : number % 4 * 3 + 3]
        value, slope = jax.value_and_grad(lambda w, rows=rows: ((w - rows) ** 2).mean())(weights)
        move, moments = theirs.update(slope, moments, weights)
        weights = optax.apply_updates(weights, move)
        losses.append(value)
    np.testing.assert_allclose(state.weights, weights, atol=1e-6)
    np.testing.assert_allclose(figures["loss"], jnp.stack(losses), atol=1e-6)
    assert state.memory == 6


def test_a_network_that_stopped_keeps_weights_and_moments_but_not_its_memory():
    optimizer = make_optimizer("adam")
    start = start_training(optimizer, jnp.ones(3), 0)
    stops = Trainer(loss, optimizer, draw, active=lambda number, memory: memory <= 2)
    stopped, _ = advance(stops, start, 5)
    short, _ = advance(Trainer(loss, optimizer, draw), start, 2)
    jax.tree.map(np.testing.assert_array_equal, stopped._replace(memory=2), short)
    assert stopped.memory == 5


def test_networks_of_a_stack_share_a_batch_that_does_not_depend_on_them():
    gathers = []

    def counted(number):
        batch = draw(number)
        gathers.append(batch.rows.shape)
        return batch

    optimizer = make_optimizer("sgd")
    trainer = Trainer(loss, optimizer, counted)
    starts = jnp.arange(6.0).reshape(2, 3)
    stack = jax.vmap(lambda w: advance(trainer, start_training(optimizer, w, 0), 4)[0])(starts)
    assert set(gathers) == {(3, 3)}  # without the network axis
    alone = advance(trainer, start_training(optimizer, starts[1], 0), 4)[0]
    np.testing.assert_allclose(stack.weights[1], alone.weights, atol=1e-6)


def test_private_steps_clip_rows_and_report_the_drawn_ones():
    drawn = jnp.array([True, False, True])

    def sample(number):
        return Batch(ROWS[:3], KEY, 1.0, drawn)

    trainer = Trainer(
        loss, make_optimizer("sgd"), sample, dp=DPSettings(1e-3, 0.0), expected=jnp.array(2.0)
    )
    start = State(jnp.ones(3), (), 0)
    start = start._replace(moments=trainer.optimizer.init(start.weights))
    state, figures = advance(trainer, start, 1)
    slopes = np.asarray(2 * (1 - ROWS[:3]) / 3)[[0, 2]]
    clipped = 1e-3 * slopes / np.linalg.norm(slopes, axis=1, keepdims=True)
    np.testing.assert_allclose(state.weights, 1 - clipped.sum(axis=0) / 2, atol=1e-6)
    assert figures["rows"].tolist() == [2.0]
    each = np.asarray(((1 - ROWS[:3]) ** 2).mean(axis=1))
    np.testing.assert_allclose(figures["loss"], [each[[0, 2]].mean()], rtol=1e-6)


def test_passes_end_with_the_last_network_or_the_last_number():
    def one_pass(number, state):
        return state + (state < jnp.array([2, 5]))

    def run(last):
        return repeat_passes(
            one_pass, jnp.zeros(2, int), lambda s: s < jnp.array([2, 5]), 0, last
        ).tolist()

    assert run(100) == [2, 5]
    assert run(3) == [2, 3]


@pytest.mark.parametrize(("rows", "size"), [(5, 5), (5, 9), (1, 1), (70_000, 70_001)])
def test_shuffles_hold_every_row_once_and_the_padding_last(rows, size):
    order = np.asarray(shuffle_rows(KEY, rows, size))
    assert sorted(order.tolist()) == list(range(size))
    assert sorted(order[:rows].tolist()) == list(range(rows))
    if rows > 1:
        assert order[:rows].tolist() != list(range(rows))
