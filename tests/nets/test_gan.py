"""Generators that learn to draw rows."""

import jax
import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.nets import GANSettings, draw_rows, fit_generators


def test_generators_draw_rows_with_the_mean_and_range_of_theirs():
    rng = np.random.default_rng(0)
    centres = np.array([[5.0, -3.0, 1.0], [-1.0, 2.0, 0.0]])
    rows = centres[:, None] + rng.normal(size=(2, 400, 3)) * [0.5, 1.0, 0.0]
    settings = GANSettings(noise=8, hidden=(32, 32), steps=1500, learning_rate=1e-3)
    keys = jax.random.split(jax.random.key(0), 2)
    made = draw_rows(fit_generators(rows, keys, settings), 500, keys, settings)
    assert made.shape == (2, 500, 3)
    np.testing.assert_allclose(made.mean(axis=1), rows.mean(axis=1), atol=0.5)
    assert (made >= rows.min(axis=1, keepdims=True) - 1.01).all()
    assert (made[..., :2].std(axis=1) > 0.1).all()


def test_blur_is_what_the_discriminator_sees_and_not_what_is_drawn():
    rows = np.random.default_rng(0).normal(size=(1, 50, 3))
    keys = jax.random.split(jax.random.key(0), 1)

    def drawn(blur):
        settings = GANSettings(noise=4, hidden=(8,), steps=20, batch=16, blur=blur)
        return draw_rows(fit_generators(rows, keys, settings), 40, keys, settings)

    sharp, blurred = drawn(0.0), drawn(5.0)
    assert abs(sharp - blurred).max() > 1e-4
    assert (blurred <= rows.max(axis=1) + 1e-6).all()


def test_the_generator_that_is_kept_may_follow_slowly():
    rows = np.random.default_rng(0).normal(size=(1, 50, 3))
    keys = jax.random.split(jax.random.key(0), 1)

    def first_weights(steps, average=0.0):
        settings = GANSettings(
            noise=4, hidden=(8,), steps=steps, batch=16, learning_rate=0.01, average=average
        )
        network, *_ = fit_generators(rows, keys, settings)
        return np.asarray(jax.tree.leaves(network)[0])

    one, two = first_weights(1), first_weights(2)
    start = 2 * first_weights(1, 0.5) - one
    np.testing.assert_allclose(first_weights(2, 0.5), start / 4 + one / 4 + two / 2, atol=1e-6)
    assert abs(two - start).max() > 1e-3


@pytest.mark.parametrize("changed", [{"blur": -0.1}, {"average": 1.0}, {"average": -0.5}])
def test_blur_and_average_are_checked(changed):
    with pytest.raises(SettingError, match=f"{next(iter(changed))} must be"):
        GANSettings(**changed)


@pytest.mark.parametrize("name", ["noise", "steps", "batch", "learning_rate"])
def test_settings_are_checked(name):
    with pytest.raises(SettingError, match=f"{name} must be"):
        GANSettings(**{name: 0})
