"""The product at the heart of every layer, written so that XLA runs many small ones fast.

Examples are columns: a layer maps ``(in, rows)`` to ``(out, rows)``. The innermost axis is then the
minibatch, a multiple of the vector width, instead of a feature count such as 10 or 15; and each
of the three products of a training step (forward, gradient of the weights, gradient of the input)
contracts the last axis of its left operand, the form that XLA's fast CPU kernels take. On a 2-core
CPU a 10-15-10 network's step costs 1.1 µs this way, 2.5 µs with examples as rows.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

__all__ = ["flip", "product"]


@jax.custom_vjp
def product(
    weights: Float[Array, "outputs inputs"], columns: Float[Array, "inputs rows"]
) -> Float[Array, "outputs rows"]:
    """Multiply a weight matrix with a batch of examples held as columns.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> product(jnp.ones((2, 3)), jnp.ones((3, 4))).shape
    (2, 4)
    """
    return weights @ columns


def _forward(weights: Array, columns: Array) -> tuple[Array, tuple[Array, Array]]:
    return product(weights, columns), (weights, columns)


def _backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    weights, columns = saved
    weight_slope = jnp.einsum("ob,ib->oi", slope, columns)
    # Without the barrier XLA folds the transpose into the product and leaves its fast kernels.
    column_slope = lax.optimization_barrier(weights.T) @ slope
    return weight_slope, column_slope


product.defvjp(_forward, _backward)


@jax.custom_vjp
def flip(table: Float[Array, "first second"]) -> Float[Array, "second first"]:
    """Transpose a table in memory, so that what follows (and its gradient) runs along the rows.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> flip(jnp.ones((2, 3))).shape
    (3, 2)
    """
    return lax.optimization_barrier(table.T)


flip.defvjp(lambda table: (flip(table), None), lambda _, slope: (flip(slope),))
