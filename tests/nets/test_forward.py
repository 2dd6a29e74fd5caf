"""Applying a network without compiling gives what the compiled one gives."""

import jax
import numpy as np
import pytest

from cofill.nets import MLP, apply_rows, forward


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "linear", "gelu"])
@pytest.mark.parametrize("residual", [False, True])
def test_outputs_are_those_of_the_compiled_network(activation, residual):
    network = MLP((3, 5, 2), key=jax.random.key(1), activation=activation, residual=residual)
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(forward(network, rows), apply_rows(network, rows), atol=1e-5)
    assert forward(network, rows[:0]).shape == (0, 2)


def test_the_inputs_are_left_as_they_were():
    network = MLP((3, 3), key=jax.random.key(1), output="relu")
    rows = -np.ones((4, 3), np.float32)
    forward(network, rows)
    assert (rows == -1).all()
