"""Shadow networks: the same training with and without each person, all as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack._leak import Leak
from cofill.attack._membership import check_method, membership_leaks, score_losses
from cofill.attack._people import as_matrix, check_varied
from cofill.errors import DataError, SettingError
from cofill.nets import SquaredError, Task, TrainSettings, split_keys, train


@dataclass(frozen=True, eq=False)
class Shadows:
    """Everybody's loss under every network, and which networks were trained on whom."""

    losses: Float[np.ndarray, "networks people"]
    inside: Bool[np.ndarray, "networks people"]


def train_shadows(
    rows: Any,
    network: Any,
    training: TrainSettings,
    *,
    count: int = 32,
    loss: Any = None,
    key: Array,
) -> Shadows:
    """Train networks on random halves of the people; everybody is in half of the networks.

    Parameters
    ----------
    rows
        One a person; networks learn to make them again.
    network
        A `cofill.nets.recipe`, such as of an `Autoencoder`.
    training
        As the network attacked was trained.
    count
        Of networks, even.
    loss
        The squared error when left out.
    key
        Of weights, halves and orders.

    Examples
    --------
    >>> from cofill.nets import Autoencoder, recipe
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> network = recipe(Autoencoder, (3, 2))
    >>> shadows = train_shadows(
    ...     x, network, TrainSettings(epochs=2), count=4, key=jax.random.key(0)
    ... )
    >>> shadows.losses.shape, shadows.inside.sum(axis=0).tolist() == [2] * 20
    ((4, 20), True)
    """
    x = as_matrix("rows", rows, least=4).astype(np.float32)
    check_varied("rows", x)
    if count < 2 or count % 2:
        raise SettingError(f"count of shadow networks must be even and 2 or more, got {count}")
    loss = SquaredError() if loss is None else loss
    halves, start = jax.random.split(key)
    seed = np.asarray(jax.random.key_data(halves)).tolist()
    rng = np.random.default_rng(seed)
    # Pairs of networks share the people between them, so that all training sets are of one size.
    inside = np.zeros((count, len(x)), bool)
    for pair in range(count // 2):
        inside[2 * pair, rng.permutation(len(x))[: len(x) // 2]] = True
        inside[2 * pair + 1] = ~inside[2 * pair]
    tasks = [
        Task(network, x[chosen], key=task_key)
        for chosen, task_key in zip(inside, split_keys(start, count), strict=True)
    ]
    trained = train(tasks, loss, training)
    losses = np.stack([_losses(shadow, x, loss) for shadow in trained.networks])
    if not np.isfinite(losses).all():
        raise DataError("losses under shadow networks must be finite; scale the rows first")
    return Shadows(losses, inside)


def attack_training(
    rows: Any,
    network: Any,
    training: TrainSettings,
    *,
    method: str = "online",
    networks: int = 64,
    attacked: int = 8,
    rates: Sequence[float] = (0.001, 0.01),
    loss: Any = None,
    key: Array,
) -> tuple[Leak, ...]:
    """Attack a way of training: some of the shadow networks are attacked by all the others.

    This measures what such a network gives away on average over training sets. For one finished
    network, use `train_shadows` and `attack_membership`.

    Parameters
    ----------
    rows, network, training, loss, key
        As in `train_shadows`.
    method
        As in `attack_membership`.
    networks
        Trained in all.
    attacked
        Of them; more make the figure sharper at low false positive rates.
    rates
        False positive rates.
    """
    check_method(method)
    if not 1 <= attacked <= networks:
        raise SettingError(f"attacked must be from 1 to networks ({networks}), got {attacked}")
    shadows = train_shadows(rows, network, training, count=networks, loss=loss, key=key)
    scored = [
        score_losses(
            shadows.losses[target],
            np.delete(shadows.losses, target, axis=0),
            np.delete(shadows.inside, target, axis=0),
            method,
        )
        for target in range(attacked)
    ]
    scores, controls = (np.stack(parts) for parts in zip(*scored, strict=True))
    return membership_leaks(
        scores, shadows.inside[:attacked], control=controls, method=method, rates=rates
    )


def _losses(network: Any, rows: np.ndarray, loss: Any) -> Float[np.ndarray, " people"]:
    values = loss(network, jnp.asarray(rows), jnp.asarray(rows), None)
    if isinstance(values, tuple):
        total, count = values
        values = total / jnp.maximum(count, 1)
    return np.asarray(values, np.float64)
