"""Rows whose training would have changed the weights in the way that was seen.

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
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError

__all__ = ["MatchingSettings", "match_changes"]


@dataclass(frozen=True)
class MatchingSettings:
    """How rows are searched for.

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
    given: Any,
    changes: Float[np.ndarray, "trials size"],
    starts: Float[np.ndarray, "trials starts ..."],
    settings: MatchingSettings,
) -> tuple[Float[np.ndarray, "trials ..."], Float[np.ndarray, " trials"]]:
    """Return the rows that explain each change best, and how much is left unexplained.

    Parameters
    ----------
    simulate
        ``simulate(rows, given)`` returns the change that training on rows makes. A frozen, hashable
        callable is compiled once.
    given
        What the simulation needs besides, such as the weights before.
    changes
        As observed, one a trial.
    starts
        Rows to start from.
    settings
        How to search.

    Examples
    --------
    >>> def twice(rows, given):
    ...     return given * rows.sum(axis=0)
    >>> rows = np.array([[1.0, -2.0]])
    >>> quick = MatchingSettings(starts=1, steps=200, objective="euclidean")
    >>> found, left = match_changes(twice, jnp.array(2.0), 2 * rows, np.zeros((1, 1, 1, 2)), quick)
    >>> found.round(2).tolist(), bool(left[0] < 1e-3)
    ([[[1.0, -2.0]]], True)
    """
    every, costs = _searched(
        simulate,
        given,
        jnp.asarray(changes, jnp.float32),
        jnp.asarray(starts, jnp.float32),
        settings.objective,
        settings.steps,
        float(settings.learning_rate),
    )
    costs = np.where(np.isfinite(costs), costs, np.inf)
    best = costs.argmin(axis=1)
    chosen = np.arange(len(best))
    rows = np.asarray(every, np.float64)[chosen, best]
    return np.where(np.isfinite(rows), rows, 0.0), costs[chosen, best].astype(np.float64)


def _distance(objective: str, made: Array, seen: Array) -> Array:
    if objective == "euclidean":
        return ((made - seen) ** 2).sum() / jnp.maximum((seen**2).sum(), 1e-30)
    sizes = jnp.sqrt(jnp.maximum((made**2).sum(), 1e-30) * jnp.maximum((seen**2).sum(), 1e-30))
    return 1 - (made * seen).sum() / sizes


@partial(jax.jit, static_argnums=(0, 4, 5, 6))
def _searched(
    simulate: Callable[[Array, Any], Array],
    given: Any,
    changes: Array,
    starts: Array,
    objective: str,
    steps: int,
    rate: float,
) -> tuple[Array, Array]:
    moves = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def one(seen: Array, start: Array) -> tuple[Array, Array]:
        def cost(rows: Array) -> Array:
            return _distance(objective, simulate(rows, given), seen)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            rows, moments = carry
            slope = jax.grad(cost)(rows)
            # Of a size of its own: how steep the cost is says nothing of how far to go.
            slope = slope / jnp.maximum(jnp.sqrt((slope**2).sum()), 1e-30)
            move, moments = moves.update(slope, moments)
            return (rows + move, moments), None

        (rows, _), _ = lax.scan(step, (start, moves.init(start)), length=steps)
        return rows, cost(rows)

    return jax.vmap(lambda seen, own: jax.vmap(lambda s: one(seen, s))(own))(changes, starts)
