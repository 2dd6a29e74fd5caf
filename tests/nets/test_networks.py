import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill import nets
from cofill.errors import SettingError
from cofill.nets import MLP, Autoencoder, apply_rows
from cofill.nets._networks import flip, product

KEY = jax.random.key(0)


def plain(network, x):
    """The perceptron in NumPy, for ReLU networks with linear outputs."""
    hidden = x
    for layer, (weights, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = hidden @ np.asarray(weights).T + np.asarray(bias)
        if layer < len(network.weights) - 1:
            hidden = np.maximum(hidden, 0)
    return hidden if network.skip is None else hidden + x @ np.asarray(network.skip).T


@pytest.mark.parametrize("widths", [(3, 2), (3, 5, 2), (4, 6, 5, 4)])
@pytest.mark.parametrize("residual", [False, True])
def test_mlp_is_the_perceptron(widths, residual):
    network = MLP(widths, key=KEY, residual=residual)
    x = np.random.default_rng(0).normal(size=(7, widths[0])).astype(np.float32)
    np.testing.assert_allclose(apply_rows(network, x), plain(network, x), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(
        network(jnp.asarray(x[0])), plain(network, x)[0], rtol=2e-5, atol=1e-5
    )


def test_product_and_flip_have_the_gradients_of_matmul():
    w = jax.random.normal(KEY, (3, 4))
    x = jax.random.normal(jax.random.key(1), (4, 5))

    def fast(w, x):
        return (flip(product(w, flip(x.T))) ** 3).sum()

    def slow(w, x):
        return ((w @ x) ** 3).sum()

    for ours, theirs in zip(
        jax.grad(fast, (0, 1))(w, x), jax.grad(slow, (0, 1))(w, x), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    # Reverse over reverse, as a gradient penalty needs.
    twice = [jax.grad(lambda x, f=f: (jax.grad(f, 1)(w, x) ** 2).sum())(x) for f in (fast, slow)]
    np.testing.assert_allclose(*twice, rtol=1e-3, atol=1e-2)


def test_initial_weights_have_the_spread_of_he_and_glorot():
    network = MLP((200, 300, 100), key=KEY)
    assert np.std(network.weights[0]) == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert np.std(network.weights[1]) == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert not np.any(network.biases[0])


def test_dropout_acts_only_with_a_key_and_keeps_the_mean():
    network = MLP((4, 2000, 1), key=KEY, dropout=0.25)
    x = jnp.ones(4)
    sure = float(network(x)[0])
    assert float(network(x)[0]) == sure
    drawn = [float(network(x, key=key)[0]) for key in jax.random.split(KEY, 8)]
    assert len(set(drawn)) == 8
    assert np.mean(drawn) == pytest.approx(sure, abs=0.2)


def test_rows_and_single_examples_agree_with_dropout():
    network = MLP((4, 6, 4), key=KEY, dropout=0.5)
    x = jax.random.normal(KEY, (5, 4))
    keys = jax.random.split(jax.random.key(3), 5)
    one = jax.vmap(lambda row, key: network(row, key=key))(x, keys)
    np.testing.assert_allclose(apply_rows(network, x, key=jax.random.key(3)), one, atol=1e-5)


def test_autoencoder_is_decoder_after_encoder_with_a_rectified_code():
    network = Autoencoder((5, 7, 3), key=KEY)
    x = jax.random.normal(KEY, (5,))
    code = network.encoder(x)
    assert code.shape == (3,)
    assert (code >= 0).all()
    np.testing.assert_allclose(network.decoder(code), network(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"widths": (3,)}, "widths"),
        ({"widths": (3, 0)}, "widths"),
        ({"activation": "step"}, "activation"),
        ({"output": "step"}, "output"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_mlp_names_the_wrong_parameter(changed, word):
    parameters = {"widths": (3, 2)} | changed
    with pytest.raises(SettingError, match=f"^{word} must .* got "):
        MLP(parameters.pop("widths"), key=KEY, **parameters)


def test_public_names_are_there_and_sorted():
    assert sorted(nets.__all__, key=lambda name: (not name.isupper(), name)) == nets.__all__
    assert all(hasattr(nets, name) for name in nets.__all__)
