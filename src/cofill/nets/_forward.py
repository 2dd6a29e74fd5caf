"""Apply a trained perceptron to rows without compiling anything.

A compiled program serves one number of rows; links and fusions meet another number with every pair
of sites, and would compile longer than they compute.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cofill.nets._networks import ACTIVATIONS, MLP

__all__ = ["forward"]

_PLAIN = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0, out=x),
    "sigmoid": expit,
    "tanh": np.tanh,
}
_ROWS = 65_536


def forward(
    network: MLP, rows: Float[np.ndarray, "rows inputs"]
) -> Float[np.ndarray, "rows outputs"]:
    """Return the network's outputs in float32, equal to those of `apply_rows`.

    Examples
    --------
    >>> import jax
    >>> network = MLP((3, 2), key=jax.random.key(0))
    >>> forward(network, np.ones((5, 3))).shape
    (5, 2)
    """
    weights = [np.asarray(w).T for w in network.weights]
    biases = [np.asarray(b) for b in network.biases]
    skip = None if network.skip is None else np.asarray(network.skip).T
    outputs = np.empty((len(rows), len(biases[-1])), np.float32)
    # OpenBLAS may warn of "invalid value" in its buffers; a real NaN shows in the outputs.
    with np.errstate(invalid="ignore"):
        for start in range(0, len(rows), _ROWS):
            x = rows[start : start + _ROWS].astype(np.float32, copy=False)
            hidden = x
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                hidden = _activate(network.activation, hidden @ w + b)
            total = hidden @ weights[-1] + biases[-1]
            if skip is not None:
                total += x @ skip
            outputs[start : start + _ROWS] = _activate(network.output, total)
    return outputs


def _activate(name: str, x: np.ndarray) -> np.ndarray:
    if name in _PLAIN:
        return _PLAIN[name](x)
    # The rarer ones are taken from JAX, operation by operation.
    return np.asarray(ACTIVATIONS[name](jnp.asarray(x)))
