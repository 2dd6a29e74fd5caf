import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from cofill.nets import (
    MLP,
    DPSettings,
    SquaredError,
    Task,
    TrainSettings,
    recipe,
    split_keys,
    train,
)
from cofill.nets._private import poisson_rows, private_gradient, sample_capacity

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def flat(network):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])


def test_without_noise_or_clipping_it_is_plain_descent():
    tasks = [Task(recipe(MLP, (3, 4, 3)), X[:n], key=KEY) for n in (20, 17)]
    plain = TrainSettings(epochs=3, batch_size=None, optimizer="sgd", learning_rate=0.1)
    private = TrainSettings(**{**vars(plain), "dp": DPSettings(1e6, 0.0)})
    one, other = (train(tasks, SquaredError(), settings) for settings in (plain, private))
    for ours, theirs in zip(other.networks, one.networks, strict=True):
        np.testing.assert_allclose(flat(ours), flat(theirs), atol=1e-6)
    np.testing.assert_allclose(one.train_loss, other.train_loss, rtol=1e-5)


def linear(network, x, y, key):
    return network["w"] @ x.T


def test_one_row_moves_a_step_by_the_clipping_norm_at_most():
    # The gradient of a row is the row itself: norms 1 and 500.
    rows = np.array([[1.0, 0, 0], [300, 400, 0]], np.float32)
    settings = TrainSettings(epochs=1, batch_size=None, optimizer="sgd", learning_rate=1.0,
                             dp=DPSettings(2.0, 0.0))  # fmt: skip
    task = Task({"w": jnp.zeros(3)}, rows, key=KEY)
    moved = -2 * flat(train([task], linear, settings).networks[0])
    np.testing.assert_allclose(moved, [1 + 1.2, 1.6, 0], rtol=1e-5)


def test_noise_has_the_right_spread_and_is_divided_by_the_expected_batch():
    settings = TrainSettings(epochs=1, batch_size=5, optimizer="sgd", learning_rate=1.0,
                             dp=DPSettings(0.5, 3.0))  # fmt: skip
    tasks = [Task({"w": jnp.zeros(500)}, np.zeros((10, 500), np.float32), key=k)
             for k in split_keys(KEY, 4)]  # fmt: skip
    trained = train(tasks, linear, settings)
    noise = np.stack([flat(network) for network in trained.networks])
    # Two steps of noise 3 · 0.5, each divided by five.
    assert noise.std() == pytest.approx(2**0.5 * 1.5 / 5, rel=0.05)
    assert abs(noise.mean()) < 0.05
    assert trained.steps.tolist() == [2] * 4


def test_poisson_samples_have_binomial_sizes_and_fair_rows():
    def draw(key):
        index, drawn = poisson_rows(key, jnp.array(12), jnp.array(0.25), 16, 12)
        return jnp.zeros(16).at[index].add(drawn)

    drawn = np.asarray(jax.vmap(draw)(jax.random.split(KEY, 4000)))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert not drawn[:, 12:].any()
    np.testing.assert_allclose(drawn[:, :12].mean(axis=0), 0.25, atol=0.03)
    assert drawn.sum(axis=1).var() == pytest.approx(12 * 0.25 * 0.75, rel=0.1)


@pytest.mark.parametrize(("rows", "rate"), [(10, 0.5), (500, 32 / 500), (10_000, 0.01), (7, 1.0)])
def test_capacity_is_enough_and_not_wasteful(rows, rate):
    slots = sample_capacity(rows, rate)
    assert slots <= rows
    assert binom.sf(slots, rows, rate) <= 1e-12
    assert slots == rows or binom.sf(slots - 1, rows, rate) > 1e-12


def test_empty_slots_count_for_nothing():
    def slope(row, key):
        return jnp.array(1.0), jnp.full(2, 1.0 + row[0])

    drawn = jnp.array([True, True, False])
    dp = DPSettings(100.0, 0.0)
    loss, gradient = private_gradient(slope, jnp.arange(3), drawn, jnp.array(4.0), dp, KEY)
    assert gradient.tolist() == [0.75, 0.75]
    assert float(loss) == 1.0
