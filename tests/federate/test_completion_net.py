"""The best learner's loss, written out: hidden modalities are asked for, shown ones are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill.federate import Batch, CompletionNet, Shape
from cofill.federate._learner import squared_error

PAIR = Shape(("a", "b"), (2, 3))
KEY = jax.random.key(0)


def batch(shape, present, known=None, seed=0) -> Batch:
    present = np.asarray(present, np.float32)
    known = np.ones((len(present), shape.size)) if known is None else known
    known = (known * present[:, shape.owner]).astype(np.float32)
    cells = np.random.default_rng(seed).normal(size=known.shape).astype(np.float32) * known
    return Batch(*map(jnp.asarray, (cells, known, present, np.ones(len(present), np.float32))))


def test_every_modality_counts_alike_and_unknown_cells_do_not():
    made = jnp.zeros((2, 5))
    known = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 1, 1]], np.float32)
    given = Batch(
        jnp.asarray([[1.0, 2, 3, 3, 9], [3, 9, 0, 3, 3]]) * known,
        jnp.asarray(known),
        jnp.ones((2, 2)),
        jnp.ones(2),
    )
    # a: 1, 4, 9 over three cells; b: 9, 9, 0, 9, 9 over five.
    error = squared_error(made, given, jnp.ones((2, 2)), PAIR)
    assert float(error) == pytest.approx((14 / 3 + 36 / 5) / 2)
    only_b = squared_error(made, given, jnp.asarray([[0.0, 1.0]] * 2), PAIR)
    assert float(only_b) == pytest.approx(36 / 5 / 2)


def test_the_loss_of_pairs_by_hand():
    net = CompletionNet(PAIR, width=4, blocks=1)
    params = jax.jit(net.init)(KEY)
    # The last row has a alone, though it was drawn: it has nothing to be asked for.
    given = batch(PAIR, [[1, 1], [1, 1], [1, 0]])

    @jax.jit
    def both(p):
        ours = net.loss("rounds", p, {"several": given}, KEY)[0]
        x = given.cells
        from_a = net.fill(p, x * jnp.array([1.0, 1, 0, 0, 0]), jnp.array([[1.0, 0]] * 3))
        shown = jnp.array([[0.0, 1], [0, 1], [0, 0]])
        from_b = net.fill(p, x * shown[:, PAIR.owner], shown)
        error_b = ((from_a - x)[:2, 2:] ** 2).mean()
        error_a = ((from_b - x)[:2, :2] ** 2).mean()
        # Each pattern asks for one of two modalities, hence half of it, and there are two patterns.
        return ours, (error_a / 2 + error_b / 2) / 2

    ours, by_hand = map(float, both(params))
    assert ours == pytest.approx(by_hand, rel=1e-5)


def test_the_way_there_and_back_by_hand():
    net = CompletionNet(PAIR, width=4, blocks=0, cycle=0.5)
    params = jax.jit(net.init)(KEY)
    a, b = batch(PAIR, [[1, 0]] * 2), batch(PAIR, [[0, 1]] * 3, seed=1)
    nothing = Batch(*(jnp.zeros_like(part) for part in batch(PAIR, [[1, 1]])))

    @jax.jit
    def both(p):
        batches = {"several": nothing, "only:0": a, "only:1": b}
        ours = net.loss("rounds", p, batches, KEY)[0]
        errors = []
        for given, own, other in ((a, [1.0, 0.0], [0.0, 1.0]), (b, [0.0, 1.0], [1.0, 0.0])):
            n = len(given.cells)
            there = net.fill(p, given.cells, jnp.array([own] * n))
            kept = there * jnp.array(other)[PAIR.owner]
            back = net.fill(p, kept, jnp.array([other] * n))
            mine = np.flatnonzero(np.array(own)[PAIR.owner])
            errors.append(((back - given.cells)[:, mine] ** 2).mean() / 2)
        return ours, 0.5 * (errors[0] + errors[1]) / 2

    ours, by_hand = map(float, both(params))
    assert ours == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(("count", "patterns"), [(2, 2), (3, 6), (4, 14), (5, 12)])
def test_patterns_show_some_and_hide_some(count, patterns):
    net = CompletionNet(Shape(tuple("abcde"[:count]), (1,) * count), width=1, blocks=0)
    ways = net._patterns
    assert len(ways) == patterns
    assert ((ways.sum(axis=1) > 0) & (ways.sum(axis=1) < count)).all()
    for k in range(count):  # everyone is hidden while all others are shown
        assert any((way == 1 - np.eye(count)[k]).all() for way in ways)


def test_bounded_outputs_stay_in_the_range_of_images():
    shape = Shape(("x", "y"), (16, 16), image=(4, 4), bounded=True)
    net = CompletionNet(shape, width=2, blocks=0)
    cells = jnp.asarray(np.random.default_rng(0).uniform(size=(3, 32)), jnp.float32)

    @jax.jit
    def wild(key):
        params = jax.tree.map(lambda leaf: 30 * leaf, net.init(key))
        return net.fill(params, cells, jnp.ones((3, 2))), net._raw(params, cells, jnp.ones((3, 2)))

    made, raw = wild(KEY)
    assert (float(made.min()), float(made.max())) == (0.0, 1.0)
    assert float(jnp.abs(raw).max()) > 2
