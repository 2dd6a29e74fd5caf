"""Updates of a federation by row, made anew as they were sent, attacked for who was behind them.

A run keeps no updates. But training is the same for the same rows, model and seed, so the auditor,
who has the rows, trains the last rounds of every site again, from the common models of the run: the
figures in the ledger tell whether they are the very updates. The attack is on the run's own network
and loss. Rows are not searched for: each try would train the whole round again, with derivatives
through every step of it, and a thousand tries take many minutes for one site.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack import Leak, membership_leaks
from cofill.errors import SettingError
from cofill.federate import (
    AbstractLearner,
    Batch,
    FederatedCompletion,
    LocalUpdate,
    RowSite,
    make_unravel,
    train_locally,
)
from cofill.privacy import LedgerEntry, ModelWeights
from cofill.protocol import COORDINATOR

__all__ = ["RoundWatch"]

_STRANGERS = 300
_RATE = 0.01
_THREAT = (
    "a coordinator who has a person's whole record compares its loss under the common model before "
    "a site's update and after it, over several rounds, and says whether the person is the site's"
)


@dataclass(frozen=True, eq=False)
class _Round:
    """A round as its coordinator saw it: the model before, and what each site made of it."""

    number: int
    weights: Float[np.ndarray, " size"]
    updates: Mapping[str, LocalUpdate]


@dataclass
class RoundWatch:
    """Watches the rounds of a fit, to attack what the sites sent in the last of them.

    Give it to `FederatedCompletion.fit_sites` as ``on_round``.

    Parameters
    ----------
    rounds
        The last so many are attacked.
    seed
        Of the strangers that are drawn.

    Examples
    --------
    >>> from cofill.views import MultiView, by_row
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(60, 3))
    >>> views = MultiView.from_arrays({"a": a, "b": a @ rng.normal(size=(3, 2))})
    >>> watch = RoundWatch(rounds=2)
    >>> model = FederatedCompletion(rounds=3, batch=4, network={"width": 16, "blocks": 1})
    >>> held = by_row(views, 3, key=0)
    >>> model = model.fit_sites(held, on_round=watch)
    >>> leak, *_ = watch.leaks("site_1")
    >>> leak.figure, leak.sizes["members"]
    ('TPR at 1 % FPR', 20)
    """

    rounds: int = 3
    seed: int = 0
    _seen: deque[tuple[int, np.ndarray, dict[str, RowSite]]] = field(
        default_factory=deque, repr=False
    )

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise SettingError(f"rounds must be at least 1, got {self.rounds}")

    def __call__(self, number: int, model: FederatedCompletion) -> None:
        """Note what the next round begins with."""
        self.__dict__.pop("updates", None)
        self._seen.append((number, model.weights_, dict(model.federation_.sites)))
        while len(self._seen) > self.rounds + 1:
            self._seen.popleft()

    def covers(self, site: str) -> bool:
        """Return whether a site's updates of some round can be made anew."""
        return any(site in one.updates for one in self.updates)

    @cached_property
    def updates(self) -> tuple[_Round, ...]:
        """What the sites sent in the rounds that were watched from their beginning."""
        made = []
        for number, weights, sites in list(self._seen)[:-1]:
            every = list(sites.values())
            models = {
                k: ModelWeights(
                    sender=COORDINATOR, receiver=s.name, round=number + 1, weights=weights
                )
                for k, s in enumerate(every)
                if not s.design.strategy.controls
            }
            trained = train_locally(every, models)
            updates = {
                every[k].name: update for k, (_, update) in trained.items() if update is not None
            }
            made.append(_Round(number + 1, weights, updates))
        return tuple(made)

    def is_of(self, entries: Sequence[LedgerEntry]) -> bool:
        """Return whether the updates made anew have the figures that the ledger noted."""
        told = {e.facts.get("round"): e.facts.get("loss") for e in entries}
        site = entries[0].sender
        pairs = [
            (told.get(one.number), one.updates[site].figures.get("loss"))
            for one in self.updates
            if site in one.updates
        ]
        return bool(pairs) and all(
            a is not None and b is not None and math.isclose(a, b, rel_tol=1e-4) for a, b in pairs
        )

    def leaks(self, site: str) -> tuple[Leak, ...]:
        """Tell a site's people from other sites' by the site's updates."""
        cells, member = self._people(site)
        learner = self._sites[site].learner
        used = [one for one in self.updates if site in one.updates]
        scores, control = np.zeros(len(cells)), np.zeros(len(cells))
        for one in used:
            before = _losses(learner, one.weights, cells)
            after = _losses(learner, one.weights + one.updates[site].change, cells)
            if min(before.min(), after.min()) > 0:  # of a game, losses can be negative
                before, after = np.log(before), np.log(after)
            scores += before - after
            control -= before
        found = membership_leaks(scores[None], member[None], control=control[None], rates=(_RATE,))
        name = f"membership, by the updates of {len(used)} rounds"
        return tuple(replace(leak, name=name, threat=_THREAT) for leak in found)

    @property
    def _sites(self) -> dict[str, RowSite]:
        return self._seen[0][2]

    def _people(
        self, site: str
    ) -> tuple[Float[np.ndarray, "people size"], Bool[np.ndarray, " people"]]:
        """Return rows that the site learns from, then rows of others that they learn from."""
        taught_by = {n: s.rows.cells[_learned(s)] for n, s in self._sites.items()}
        others = np.concatenate([rows for n, rows in taught_by.items() if n != site])
        rng = np.random.default_rng([self.seed, 0x5EE])
        drawn = others[np.sort(rng.permutation(len(others))[:_STRANGERS])]
        own = taught_by[site]
        return np.concatenate([own, drawn]), np.arange(len(own) + len(drawn)) < len(own)


def _learned(site: RowSite) -> np.ndarray:
    """Return the positions of the rows in the first stream of a round's training."""
    phase = site.learner.phases[-1]
    return phase.rows(site.rows)[phase.streams[0]]


def _losses(
    learner: AbstractLearner, weights: np.ndarray, cells: Float[np.ndarray, "people size"]
) -> Float[np.ndarray, " people"]:
    """Return everybody's loss."""
    found: Any = _each(learner, jnp.asarray(weights), jnp.asarray(cells))
    return np.asarray(found, np.float64)


@jax.jit(static_argnums=(0,))
def _each(learner: AbstractLearner, weights: Array, cells: Array) -> Array:
    params, phase, shape = make_unravel(learner)(weights), learner.phases[-1], learner.shape

    def one(row: Array) -> Array:
        def batch(there: float) -> Batch:
            given = row[None] * there
            here = jnp.full((1, shape.count), there)
            return Batch(given, jnp.full_like(given, there), here, jnp.full(1, there))

        batches = {s: batch(float(s == phase.streams[0])) for s in phase.streams}
        return learner.loss(phase.name, params, batches, jax.random.key(0))[0]

    return jax.vmap(one)(cells)
