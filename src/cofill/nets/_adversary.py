"""An encoder trained against a decoder that plays the attacker, by one loss.

One network computes a code, a *helper* predicts from the code what it is meant to carry, and an
*opponent* tries to predict from it what it should not carry. The opponent's gradient is reversed
before it reaches the encoder (Ganin & Lempitsky 2015), so that minimising one loss trains all
three: helper and opponent as well as they can, the encoder for the helper, against the opponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cofill.nets._networks import MLP, AbstractNetwork, PRNGKey


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def reverse_gradient(values: Array, strength: float) -> Array:
    """Return values as they are; their gradient comes back times −strength.

    Examples
    --------
    >>> float(jax.grad(lambda x: reverse_gradient(x, 2.0) ** 2)(jnp.array(3.0)))
    -12.0
    """
    return values


reverse_gradient.defvjp(
    lambda values, _: (values, None), lambda strength, _, slope: (-strength * slope,)
)


class OpposedEncoder(AbstractNetwork):
    """An encoder, its helper and its opponent; outputs are the helper's, then the opponent's.

    Parameters
    ----------
    widths
        Units of the encoder, inputs first and code last.
    outputs
        How many columns the helper and the opponent predict.
    strength
        What a unit of the opponent's success costs against a unit of the helper's loss.
    hidden
        Units of the opponent's hidden layer; the helper is linear.
    key
        Random key of the initial weights.

    Examples
    --------
    >>> network = OpposedEncoder((10, 3), (2, 10), strength=0.5, key=jax.random.key(0))
    >>> network(jnp.ones(10)).shape, network.encoder(jnp.ones(10)).shape
    ((12,), (3,))
    """

    encoder: MLP
    helper: MLP
    opponent: MLP
    strength: float = eqx.field(static=True)

    def __init__(
        self,
        widths: Sequence[int],
        outputs: tuple[int, int],
        *,
        strength: float | int,
        key: PRNGKey,
        hidden: int = 64,
    ) -> None:
        encoder_key, helper_key, opponent_key = jax.random.split(key, 3)
        code = widths[-1]
        self.encoder = MLP(widths, key=encoder_key, activation="tanh", output="tanh")
        self.helper = MLP((code, outputs[0]), key=helper_key)
        self.opponent = MLP((code, hidden, outputs[1]), key=opponent_key, residual=True)
        self.strength = float(strength)

    def columns(
        self, x: Float[Array, "inputs rows"], *, keys: Array | None = None
    ) -> Float[Array, "outputs rows"]:
        code = self.encoder.columns(x)
        against = self.opponent.columns(reverse_gradient(code, self.strength))
        return jnp.concatenate([self.helper.columns(code), against])
