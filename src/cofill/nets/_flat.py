"""A network as one vector of parameters and a hashable description of the rest.

The optimiser then works on one array a network, which XLA turns into a few long loops instead of
a few short ones a layer (5.8 against 6.9 µs a step of a 10-15-10 network); best parameters
and restarts become single selections.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from cofill.errors import SettingError


@dataclass(frozen=True)
class Form:
    """Everything about a network but its parameters: structure, static parts and shapes."""

    structure: Any
    static: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    def build(self, theta: Float[Array | np.ndarray, " size"]) -> PyTree:
        """Return the network whose parameters are theta."""
        ends = list(accumulate((math.prod(shape) for shape in self.shapes), initial=0))
        parameters = (
            theta[start:stop].reshape(shape)
            for shape, (start, stop) in zip(self.shapes, pairwise(ends), strict=True)
        )
        leaves = [next(parameters) if part is _PARAMETER else part for part in self.static]
        return jax.tree.unflatten(self.structure, leaves)


_PARAMETER = object()  # stands for a parameter among a network's leaves


def form_of(network: PyTree) -> Form:
    """Return everything about a network but its parameters.

    Examples
    --------
    >>> from cofill.nets import MLP
    >>> form_of(MLP((10, 15, 10), key=jax.random.key(0))).size
    325
    """
    leaves, structure = jax.tree.flatten(network)
    arrays = [leaf for leaf in leaves if hasattr(leaf, "shape")]
    for leaf in arrays:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise SettingError(
                "network must hold its arrays as floating-point parameters and everything else as "
                f"static fields, got an array of type {leaf.dtype}."
            )
    static = tuple(_PARAMETER if hasattr(leaf, "shape") else leaf for leaf in leaves)
    return Form(structure, static, tuple(tuple(leaf.shape) for leaf in arrays))


def flatten_network(network: PyTree) -> Float[Array, " size"]:
    """Return the parameters of a network as one vector."""
    leaves = [leaf for leaf in jax.tree.leaves(network) if hasattr(leaf, "shape")]
    return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
