"""The U-Net: any size and channels, against XLA's convolutions, and what its skips carry."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

from cofill.errors import SettingError
from cofill.nets import UNet

KEY = jax.random.key(0)


def some(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@pytest.mark.parametrize(
    ("size", "levels"), [((3, 3), 0), ((8, 8), 1), ((16, 9), 1), ((17, 21), 2), ((32, 40), 3)]
)
def test_any_size_and_channels_come_out_as_they_went_in(size, levels):
    net = UNet(*size, 5, 2, width=2, blocks=1)
    assert net.levels == levels
    output = jax.eval_shape(net, jax.eval_shape(net.init, KEY), some(2, *size, 5))
    assert output.shape == (2, *size, 2)


def test_without_halving_it_is_a_chain_of_convolutions():
    net = UNet(5, 4, 3, 2, width=4, blocks=1)
    params = jax.jit(net.init)(KEY)
    images, relu = some(2, 5, 4, 3), jax.nn.relu

    def conv(layer, grids):
        kernel = layer["w"].reshape(3, 3, grids.shape[-1], -1)
        axes = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(grids, kernel, (1, 1), "SAME", dimension_numbers=axes)

    hidden, block = conv(params["stem"], images), params["block0"]
    hidden = hidden + relu(conv(block["near"], relu(hidden))) @ block["same"]["w"]
    expected = conv(params["head"], jnp.concatenate([relu(hidden), images], axis=-1))
    np.testing.assert_allclose(jax.jit(net)(params, images), expected, atol=1e-5)


def test_each_skip_carries_detail_past_the_smaller_sizes():
    net = UNet(16, 16, 1, 1, width=3, blocks=1)
    params = jax.jit(net.init)(KEY)
    # Nothing comes back from smaller sizes, and the head sees no input: the skip is the only way.
    for level in (0, 1):
        params[f"level{level}"]["up"] = jax.tree.map(jnp.zeros_like, params[f"level{level}"]["up"])
    head = params["head"]["w"].reshape(9, 4, 1).at[:, 3].set(0.0)
    params["head"]["w"] = head.reshape(36, 1)

    @jax.jit
    def change(pixel):
        return net(params, pixel) - net(params, jnp.zeros_like(pixel))

    moved = np.asarray(change(jnp.zeros((1, 16, 16, 1)).at[0, 8, 8].set(1.0)))[0, ..., 0]
    assert abs(moved[8, 8]) > 1e-4
    # Five layers of 3 × 3 reach five pixels; a smaller size would reach the border.
    assert np.abs(moved[:2]).max() == 0


def test_whole_images_matter_through_the_smallest_size():
    net = UNet(16, 16, 1, 1, width=3, blocks=2)
    params = jax.jit(net.init)(KEY)

    @jax.jit
    def reach(images):
        return jax.grad(lambda x: net(params, x)[0, 0, 0, 0])(images)

    assert float(jnp.abs(reach(some(1, 16, 16, 1))[0, -3:, -3:]).max()) > 0


@pytest.mark.parametrize("size", [(8, 8), (9, 7)])
def test_the_identity_is_learnt_to_the_pixel(size):
    net = UNet(*size, 1, 1, width=4, blocks=1)
    optimizer = optax.adam(1e-2)

    @jax.jit
    def train(key):
        params = net.init(key)

        def step(carry, number):
            params, state = carry
            images = jax.random.uniform(jax.random.fold_in(key, number), (16, *size, 1))
            loss, slope = jax.value_and_grad(lambda p: ((net(p, images) - images) ** 2).mean())(
                params
            )
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(params, change), state), loss

        return lax.scan(step, (params, optimizer.init(params)), jnp.arange(300))[1]

    losses = np.asarray(train(KEY))
    # Independent pixels have a variance of 1/12: whatever was pooled away could not be below it.
    assert losses[-10:].mean() < 0.002


def test_bad_settings_are_named():
    for make, words in (
        (lambda: UNet(8, 8, 2, 1, width=0), "width must be at least 1, got 0"),
        (lambda: UNet(0, 8, 2, 1), "height must be at least 1, got 0"),
        (lambda: UNet(8, 8, 2, 1, blocks=-1), "blocks must be at least 0, got -1"),
    ):
        with pytest.raises(SettingError, match=words):
            make()
