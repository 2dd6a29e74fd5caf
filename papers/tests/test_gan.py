"""Generators that learn to draw rows."""

import jax
import numpy as np
import pytest

from cofill.errors import SettingError
from cofill.nets import MLP
from cofill_papers._gan import GANSettings, draw_rows, fit_generators


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


def test_blur_is_seen_by_the_discriminator_and_the_kept_generator_follows_slowly():
    rows = np.random.default_rng(0).normal(size=(1, 50, 3))
    key = jax.random.key(0)
    start = jax.tree.leaves(MLP((4, 8, 3), key=jax.random.split(key, 3)[0]))[0]

    def weights(**changed):
        settings = GANSettings(noise=4, hidden=(8,), steps=1, batch=16, **changed)
        network, *_ = fit_generators(rows, key[None], settings)
        return np.asarray(jax.tree.leaves(network)[0][0])

    plain = weights()
    assert abs(plain - start).max() > 1e-5
    np.testing.assert_allclose(weights(average=0.75), 0.75 * start + 0.25 * plain, atol=1e-6)
    assert abs(weights(blur=5.0) - plain).max() > 1e-5


@pytest.mark.parametrize("changed", [{"blur": -0.1}, {"average": 1.0}, {"average": -0.5}])
def test_blur_and_average_are_checked(changed):
    with pytest.raises(SettingError, match=f"{next(iter(changed))} must be"):
        GANSettings(**changed)


@pytest.mark.parametrize("name", ["noise", "steps", "batch", "learning_rate"])
def test_settings_are_checked(name):
    with pytest.raises(SettingError, match=f"{name} must be"):
        GANSettings(**{name: 0})
