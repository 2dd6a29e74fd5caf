"""Update inversion: one row in closed form, few rows by matching, nothing under noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill.attack import (
    LocalRound,
    MatchingSettings,
    first_layer_row,
    invert_updates,
    simulate_update,
)
from cofill.errors import DataError, SettingError
from cofill.nets import MLP, Autoencoder, SquaredError

NETWORK = Autoencoder((6, 12), key=jax.random.key(0), activation="tanh")
QUICK = MatchingSettings(starts=4, steps=500)


def rows(trials, sites, n, seed=0):
    return np.random.default_rng(seed).normal(size=(trials, sites, n, 6))


def seen(private, local, network=NETWORK):
    return np.stack([simulate_update(network, trial, local) for trial in private])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_one_row_and_one_step_give_the_row_away(activation):
    network = Autoencoder((6, 12), key=jax.random.key(1), activation=activation)
    private = rows(20, 1, 1)
    changes = seen(private, LocalRound(), network)
    (leak,) = invert_updates(network, changes, private, local=LocalRound())
    assert leak.attack == 1.0
    assert leak.details["median_rmse"] < 1e-4
    assert leak.excludes_floor()
    assert leak.floor == 0.0


def test_few_rows_are_found_by_matching_and_a_sum_over_sites_too():
    for shape in ((4, 1, 3), (4, 3, 1)):
        private = rows(*shape)
        (leak,) = invert_updates(
            NETWORK, seen(private, LocalRound()), private, local=LocalRound(), settings=QUICK
        )
        assert leak.attack > 0.9
        assert leak.control == 0.0
        assert leak.excludes_floor()
        assert leak.sizes == {"trials": 4, "sites": shape[1], "rows": 12}


def test_several_steps_are_simulated():
    private = rows(3, 1, 2)
    local = LocalRound(steps=2, batch=1)
    (leak,) = invert_updates(NETWORK, seen(private, local), private, local=local, settings=QUICK)
    assert leak.attack > 0.8
    assert leak.excludes_floor()
    assert "2 steps" in leak.name


def test_two_steps_are_one_after_the_other():
    import equinox as eqx
    from jax.flatten_util import ravel_pytree

    private = rows(1, 1, 2)[0]
    both_steps = simulate_update(NETWORK, private, LocalRound(steps=2, batch=1))
    first = simulate_update(NETWORK, private[:, :1], LocalRound())
    arrays, rest = eqx.partition(NETWORK, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(arrays)
    between = eqx.combine(unravel(flat + first), rest)
    second = simulate_update(between, private[:, 1:], LocalRound())
    np.testing.assert_allclose(both_steps, first + second, atol=1e-6)
    adam = simulate_update(NETWORK, private, LocalRound(optimizer="adam", learning_rate=0.01))
    assert abs(adam).max() == pytest.approx(0.01, rel=1e-2)


def test_noise_hides_every_row():
    private = rows(10, 1, 1)
    changes = seen(private, LocalRound())
    noise = np.random.default_rng(0).normal(size=changes.shape)
    changes = changes + 100 * np.abs(changes).max() * noise
    (leak,) = invert_updates(NETWORK, changes, private, local=LocalRound())
    assert leak.attack == 0.0
    assert not leak.excludes_floor()
    private = rows(3, 1, 2)
    changes = np.random.default_rng(1).normal(size=(3, changes.shape[1]))
    (leak,) = invert_updates(NETWORK, changes, private, local=LocalRound(), settings=QUICK)
    assert not leak.excludes_floor()


def test_many_summed_rows_hide():
    private = rows(2, 8, 8)
    few = MatchingSettings(starts=2, steps=150)
    (leak,) = invert_updates(
        NETWORK, seen(private, LocalRound()), private, local=LocalRound(), settings=few
    )
    assert leak.attack < 0.2


def test_a_plain_perceptron_gives_its_row_away_too():
    network = MLP((16, 8, 16), key=jax.random.key(0), activation="tanh")
    private = np.random.default_rng(0).random((6, 1, 1, 16))
    changes = seen(private, LocalRound(), network)
    (leak,) = invert_updates(network, changes, private, local=LocalRound())
    assert leak.attack == 1.0
    assert leak.excludes_floor()


def test_a_step_of_plain_descent_is_minus_the_gradient():
    private = rows(1, 1, 3)[0]

    def loss(network):
        total, count = SquaredError()(
            network, jnp.asarray(private[0]), jnp.asarray(private[0]), None
        )
        return total.sum() / count.sum()

    slope = jax.flatten_util.ravel_pytree(jax.grad(loss)(NETWORK))[0]
    change = simulate_update(NETWORK, private, LocalRound(learning_rate=0.5))
    np.testing.assert_allclose(change, -0.5 * slope, atol=1e-6)


def test_an_aggregate_is_the_mean_of_the_sites_changes():
    private = rows(1, 3, 2)[0]
    each = [simulate_update(NETWORK, site_rows[None], LocalRound()) for site_rows in private]
    np.testing.assert_allclose(
        simulate_update(NETWORK, private, LocalRound()), np.mean(each, axis=0), atol=1e-6
    )


def test_a_layer_without_a_change_tells_nothing():
    assert first_layer_row(np.zeros((2, 3)), np.zeros(2)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("private", "changes", "more", "what"),
    [
        (rows(1, 1, 1)[0], np.zeros((1, 162)), {}, "trials × sites"),
        (rows(2, 1, 1), np.zeros((2, 3)), {}, "162 weights"),
        (rows(0, 1, 1), np.zeros((0, 162)), {}, "none of them 0"),
        (rows(2, 1, 1), np.full((2, 162), np.nan), {}, "finite"),
        (rows(2, 1, 1), np.zeros((2, 162)), {"close": 0}, "close"),
        (rows(2, 1, 1), np.zeros((2, 162)), {"public": np.ones((4, 5))}, "6 features"),
    ],
)
def test_bad_input_is_named(private, changes, more, what):
    with pytest.raises((DataError, SettingError), match=what):
        invert_updates(NETWORK, changes, private, local=LocalRound(), **more)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"batch": 0}, {"learning_rate": 0}, {"optimizer": "x"}]
)
def test_a_bad_round_is_named(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        LocalRound(**wrong)
