import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_squared_error

from cofill.errors import SettingError
from cofill.nets import MLP, Block, CellLoss, SquaredError, apply_rows
from cofill.nets._losses import expectations

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
BLOCKS = (Block("squared", 0, 2), Block("bernoulli", 2, 4), Block("categorical", 4, 7))


def mean(pair):
    return float(pair[0].sum() / pair[1].sum())


def table(rows=30):
    target = np.zeros((rows, 7), np.float32)
    target[:, :2] = RNG.normal(size=(rows, 2))
    target[:, 2:4] = RNG.integers(0, 2, size=(rows, 2))
    target[np.arange(rows), 4 + RNG.integers(0, 3, size=rows)] = 1
    return RNG.normal(size=(rows, 7)).astype(np.float32), target


def test_each_kind_against_scikit_learn():
    outputs, target = table()
    expected = np.asarray(expectations(jnp.asarray(outputs), BLOCKS))

    def ours(block):
        return mean(CellLoss((block,)).score(jnp.asarray(outputs), jnp.asarray(target)))

    assert ours(BLOCKS[0]) == pytest.approx(
        mean_squared_error(target[:, :2], outputs[:, :2]), rel=1e-5
    )
    binary = log_loss(target[:, 2:4].ravel(), expected[:, 2:4].ravel())
    assert ours(BLOCKS[1]) == pytest.approx(binary, rel=1e-5)
    several = log_loss(target[:, 4:].argmax(1), expected[:, 4:])
    assert ours(BLOCKS[2]) == pytest.approx(several, rel=1e-5)


def test_the_mean_is_over_observed_cells_with_weights():
    outputs, target = table()
    target[:10, 0] = np.nan
    target[5:15, 4:7] = np.nan
    blocks = (*BLOCKS[:2], Block("categorical", 4, 7, weight=2.5))
    parts = [CellLoss((b,)).score(jnp.asarray(outputs), jnp.asarray(target)) for b in blocks]
    total = sum(float(part[0].sum()) for part in parts)
    whole = CellLoss(blocks).score(jnp.asarray(outputs), jnp.asarray(target))
    assert float(whole[1].sum()) == 20 + 30 + 60 + 20
    assert mean(whole) == pytest.approx(total / 130, rel=1e-5)
    cells = expectations(jnp.asarray(outputs), BLOCKS)
    assert float(parts[2][0].sum()) == pytest.approx(
        2.5 * log_loss(target[15:, 4:].argmax(1), cells[15:, 4:])
        * 15 + 2.5 * log_loss(
            target[:5, 4:].argmax(1), cells[:5, 4:],
            labels=[0, 1, 2],
        ) * 5, rel=1e-4,
    )  # fmt: skip


@jax.jit
def observed_mean(outputs, target):
    total, count = CellLoss(BLOCKS).score(outputs, target)
    return total.sum() / jnp.maximum(count.sum(), 1)


observed_slope = jax.jit(jax.grad(observed_mean))


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 6)), min_size=1, max_size=20))
def test_missing_cells_have_no_gradient_and_change_nothing(holes):
    outputs, target = table(8)
    for row, column in holes:
        target[row, slice(4, 7) if column >= 4 else column] = np.nan

    def loss(outputs):
        return observed_mean(outputs, target)

    slope = np.asarray(observed_slope(jnp.asarray(outputs), target))
    assert np.isfinite(slope).all()
    assert (slope[np.isnan(target)] == 0).all()
    other = np.where(np.isnan(target), 1e6, outputs).astype(np.float32)
    assert float(loss(jnp.asarray(other))) == pytest.approx(
        float(loss(jnp.asarray(outputs))), rel=1e-6
    )


def test_extreme_logits_stay_finite():
    outputs = jnp.array([[0.0, 0.0, 200.0, -200.0, 300.0, -300.0, 0.0]])
    target = jnp.array([[0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]])
    slope = jax.grad(lambda outputs: CellLoss(BLOCKS).score(outputs, target)[0].sum())(outputs)
    assert np.isfinite(slope).all()
    assert float(CellLoss(BLOCKS).score(outputs, target)[0][0]) == pytest.approx(1000, rel=1e-5)


def test_gradient_of_a_network_against_finite_differences():
    network = MLP((3, 4, 7), key=KEY, activation="tanh")
    x = jnp.asarray(RNG.normal(size=(6, 3)), jnp.float32)
    target = jnp.asarray(table(6)[1])

    def loss(weights):
        moved = MLP((3, 4, 7), key=KEY, activation="tanh")
        object.__setattr__(moved, "weights", (weights, network.weights[1]))
        total, count = CellLoss(BLOCKS)(moved, x, target, None)
        return total.sum() / count.sum()

    loss = jax.jit(loss)
    slope = jax.grad(loss)(network.weights[0])
    for where in [(0, 0), (3, 2), (1, 1)]:
        step = np.zeros(slope.shape, np.float32)
        step[where] = 1e-2
        numeric = (loss(network.weights[0] + step) - loss(network.weights[0] - step)) / 2e-2
        assert float(slope[where]) == pytest.approx(float(numeric), abs=2e-4)


def test_squared_error_is_the_squared_block():
    network = MLP((3, 2), key=KEY)
    x, y = jnp.ones((4, 3)), jnp.array([[1.0, jnp.nan]] * 4)
    same = Block("squared", 0, 2).score(apply_rows(network, x), y)
    np.testing.assert_array_equal(SquaredError()(network, x, y, None), same)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Block("cubic", 0, 1), "kind"),
        (lambda: Block("squared", 2, 2), "start"),
        (lambda: Block("squared", 0, 2, weight=-1.0), "weight"),
        (lambda: CellLoss(()), "blocks"),
    ],
)
def test_wrong_blocks_are_named(make, word):
    with pytest.raises((SettingError, Exception), match=word):
        make()
