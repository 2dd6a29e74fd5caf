"""Losses and the risks that positive-unlabelled learning makes small.

Du Su, Hieu Tri Huynh, Ziao Chen, Yi Lu and Wenmiao Lu (KDD 2020), "Re-identification Attack to
Privacy-Preserving Data Analysis with Noisy Sample-Mean", section 4, and Ryuichi Kiryo, Gang Niu,
Marthinus du Plessis and Masashi Sugiyama (NeurIPS 2017) for the non-negative version.

A loss takes decision values *z* = g(x) and a label *y* of +1 or −1. It is *symmetric* if
ℓ(z, 1) + ℓ(z, −1) = 1; only then are the risks below what their names say.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Loss = Callable[[Array, float | int | Array], Array]


def sigmoid_loss(z: Float[Array, "..."], y: float | int | Array) -> Float[Array, "..."]:
    """Return 1 / (1 + exp(yz)): symmetric, between 0 and 1."""
    return jax.nn.sigmoid(-y * z)


def linear_loss(z: Float[Array, "..."], y: float | int | Array) -> Float[Array, "..."]:
    """Return (1 − yz) / 2: symmetric and linear in z, but not bounded below."""
    return (1 - y * z) / 2


def logistic_loss(z: Float[Array, "..."], y: float | int | Array) -> Float[Array, "..."]:
    """Return log(1 + exp(−yz)), the loss of logistic regression; not symmetric."""
    return jax.nn.softplus(-y * z)


LOSSES: dict[str, Loss] = {
    "sigmoid": sigmoid_loss,
    "linear": linear_loss,
    "logistic": logistic_loss,
}
SYMMETRIC = ("sigmoid", "linear")


def pu_risk(
    positive: Float[Array, " p"],
    unlabelled: Float[Array, " u"],
    prior: float | int | Array,
    loss: Loss = sigmoid_loss,
) -> Float[Array, ""]:
    """Return the risk from positives and unlabelled records (Eq. 2), for a symmetric loss.

    With the released mean as the only positive this is R̂_RI. A linear classifier and a linear
    symmetric loss make it the risk of learning with all labels (Theorem 4.1), and so is its
    expectation over zero-mean noise on the mean (Theorem 4.2).
    """
    return 2 * prior * loss(positive, 1).mean() + loss(unlabelled, -1).mean() - prior


def pu_parts(
    positive: Float[Array, " p"],
    unlabelled: Float[Array, " u"],
    prior: float | int | Array,
    loss: Loss = sigmoid_loss,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the parts of the PU risk that estimate the two classes' shares of the risk.

    Their sum is `pu_risk` if the loss is symmetric, and an unbiased estimate for any loss. The
    second part, of the negatives, cannot be below zero in truth; its estimate can.
    """
    of_positives = prior * loss(positive, 1).mean()
    of_negatives = loss(unlabelled, -1).mean() - prior * loss(positive, -1).mean()
    return of_positives, of_negatives


def non_negative_objective(
    positive: Float[Array, " p"],
    unlabelled: Float[Array, " u"],
    prior: float | int | Array,
    loss: Loss = sigmoid_loss,
    *,
    beta: float | int = 0.0,
    gamma: float | int = 1.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the non-negative risk, and the function whose gradient nnPU follows.

    The risk is max(−β, negatives' part) beside the positives' part. Where the negatives' part is
    below −β, nnPU does not stop but walks *up* it, with steps discounted by γ (Algorithm 1 of Kiryo
    et al.).

    Examples
    --------
    >>> z, u = jnp.array([4.0]), jnp.array([-4.0, -4.0])  # all unlabelled ones seem negative
    >>> risk, objective = non_negative_objective(z, u, 0.5)
    >>> round(float(risk), 4), round(float(objective), 4)
    (0.009, 0.473)
    """
    of_positives, of_negatives = pu_parts(positive, unlabelled, prior, loss)
    risk = of_positives + jnp.maximum(of_negatives, -beta)
    below = of_negatives < -beta
    return risk, jnp.where(below, -gamma * of_negatives, of_positives + of_negatives)
