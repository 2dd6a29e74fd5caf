"""Search for the rows whose training explains an observed change of the weights.

Zhu, Liu and Han 2019 ("Deep leakage from gradients") match gradients by their squared distance,
Geiping et al. 2020 ("Inverting gradients") by the angle between them. Here the whole local
training is differentiated, so that several steps and a sum over sites are matched in the same way.
All starts of all observed changes are optimised as one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.nets import Batch, Trainer, advance, make_optimizer, start_training


@dataclass(frozen=True)
class MatchingSettings:
    """Settings of the search.

    Parameters
    ----------
    starts
        Random rows to begin with; those that match best in the end are kept.
    steps
        Of Adam.
    learning_rate
        The largest; it falls to zero along a cosine.
    objective
        ``"cosine"`` (the angle between changes) or ``"euclidean"`` (their distance).
    seed
        Of the starts.

    Examples
    --------
    >>> MatchingSettings(starts=4).objective
    'euclidean'
    """

    starts: int = 8
    steps: int = 1500
    learning_rate: float | int = 0.05
    objective: str = "euclidean"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("starts", "steps"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.learning_rate < np.inf:
            raise SettingError(f"learning_rate must be above 0, got {self.learning_rate}")
        if self.objective not in ("cosine", "euclidean"):
            raise SettingError(f"objective must be cosine or euclidean, got {self.objective!r}")


def match_changes(
    simulate: Callable[[Array, Any], Array],
    known: Any,
    changes: Float[np.ndarray, "trials size"],
    starts: Float[np.ndarray, "trials starts ..."],
    settings: MatchingSettings,
) -> tuple[Float[np.ndarray, "trials ..."], Float[np.ndarray, " trials"]]:
    """Return the rows that explain each change best, and how much is left unexplained.

    Parameters
    ----------
    simulate
        ``simulate(rows, known)`` returns the change that training on rows makes. A frozen, hashable
        callable is compiled once.
    known
        What the simulation needs besides, such as the weights before.
    changes
        As observed, one a trial.
    starts
        Rows to start from.
    settings
        How to search.

    Examples
    --------
    >>> def scaled_sum(rows, factor):
    ...     return factor * rows.sum(axis=0)
    >>> rows = np.array([[1.0, -2.0]])
    >>> quick = MatchingSettings(starts=1, steps=200, objective="euclidean")
    >>> starts = np.zeros((1, 1, 1, 2))
    >>> guess, cost = match_changes(scaled_sum, jnp.array(2.0), 2 * rows, starts, quick)
    >>> guess.round(2).tolist(), bool(cost[0] < 1e-3)
    ([[[1.0, -2.0]]], True)
    """
    candidates, costs = _search(
        simulate,
        known,
        jnp.asarray(changes, jnp.float32),
        jnp.asarray(starts, jnp.float32),
        settings.objective,
        settings.steps,
        float(settings.learning_rate),
    )
    costs = np.where(np.isfinite(costs), costs, np.inf)
    best = costs.argmin(axis=1)
    chosen = np.arange(len(best))
    rows = np.asarray(candidates, np.float64)[chosen, best]
    return np.where(np.isfinite(rows), rows, 0.0), costs[chosen, best].astype(np.float64)


def _distance(objective: str, simulated: Array, change: Array) -> Array:
    size = jnp.maximum((change**2).sum(), 1e-30)
    if objective == "euclidean":
        return ((simulated - change) ** 2).sum() / size
    sizes = jnp.sqrt(jnp.maximum((simulated**2).sum(), 1e-30) * size)
    return 1 - (simulated * change).sum() / sizes


@partial(jax.jit, static_argnums=(0, 4, 5, 6))
def _search(
    simulate: Callable[[Array, Any], Array],
    known: Any,
    changes: Array,
    starts: Array,
    objective: str,
    steps: int,
    learning_rate: float,
) -> tuple[Array, Array]:
    """Return the rows found from each start of each trial, and their costs."""
    # Every gradient has length one: how steep the cost is says nothing of how far to go.
    optimizer = optax.chain(optax.stateless(_unit_length), make_optimizer("adam"))
    rate = optax.cosine_decay_schedule(learning_rate, steps)

    def search(change: Array, start: Array) -> tuple[Array, Array]:
        def cost(rows: Array) -> Array:
            return _distance(objective, simulate(rows, known), change)

        def loss(rows: Array, memory: Any, batch: Any, key: Any) -> tuple[Array, Any]:
            return cost(rows), (memory, None)

        trainer = Trainer(loss, optimizer, lambda number: Batch(None, None, rate(number)))
        rows = advance(trainer, start_training(optimizer, start), steps)[0].weights
        return rows, cost(rows)

    return jax.vmap(jax.vmap(search, in_axes=(None, 0)))(changes, starts)


def _unit_length(gradient: Any, _: Any) -> Any:
    return gradient / jnp.maximum(jnp.sqrt((gradient**2).sum()), 1e-30)
