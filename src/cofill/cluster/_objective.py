"""The loss of deep clustering: information maximisation with consistent groups.

The mutual information of row and group, ``H(groups) − H(group | row)``, is high when groups are of
even size and rows surely belong to one; a row and its partner (a warp, a neighbour) must get the
same group (Hu et al. 2017, IMSAT, Eq. 7)::

    loss = KL(p(row) ‖ p(partner)) − λ · (μ · H(mean p) − mean H(p(row)))

The mean p is that of *all* sites' rows. A site knows only its rows; it takes the common shares that
the coordinator sent and adds by how much its batch differs from its shares of the last round. Where
sites are alike that is the batch's mean; where they are not, a site that holds few groups is not
pushed to invent the missing ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from cofill.nets import require_above_zero

_LEAST = 1e-4  # share below which a group counts as empty: keeps the logarithm in bounds


@dataclass(frozen=True)
class ObjectiveSettings:
    """The weights of the terms.

    Parameters
    ----------
    information
        λ, of the mutual information against the consistency; None for 0.1 with images, whose warps
        are weak partners, and 0.5 with other rows.
    evenness
        μ, of the entropy of the groups' sizes within the mutual information.
    """

    information: float | int | None = None
    evenness: float | int = 4.0

    def __post_init__(self) -> None:
        require_above_zero(self, "information", "evenness")

    @property
    def weight(self) -> float:
        """λ, once it is settled."""
        return 0.1 if self.information is None else float(self.information)


class Terms(NamedTuple):
    """The parts of the objective on one batch, of one head or of all of them."""

    inconsistency: Array
    doubt: Array  # mean entropy of a row's groups
    shares: Array  # mean probability of each group


def entropy(shares: Float[Array, "... k"]) -> Float[Array, ...]:
    """Return the entropy of probabilities, in nats."""
    return -(shares * jnp.log(jnp.maximum(shares, 1e-30))).sum(axis=-1) + 0.0


def head_terms(logits: Float[Array, "n k"], partner: Float[Array, "n k"]) -> Terms:
    """Return the parts of the objective from the logits of rows and of their partners."""
    log = jax.nn.log_softmax(logits)
    sure = jnp.exp(log)
    doubt = -(sure * log).sum(axis=1).mean()
    fixed, fixed_log = lax.stop_gradient(sure), lax.stop_gradient(log)
    apart = (fixed * (fixed_log - jax.nn.log_softmax(partner))).sum(axis=1).mean()
    return Terms(apart, doubt, sure.mean(axis=0))


def objective(
    terms: Terms,
    common: Float[Array, " k"],
    shares: Float[Array, " k"],
    settings: ObjectiveSettings,
) -> Float[Array, ""]:
    """Return the loss of one head, from common shares and the site's shares of the last round."""
    everywhere = jnp.maximum(common + terms.shares - shares, _LEAST)
    everywhere = everywhere / everywhere.sum()
    information = settings.evenness * entropy(everywhere) - terms.doubt
    return terms.inconsistency - settings.weight * information
