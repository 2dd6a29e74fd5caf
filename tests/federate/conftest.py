"""A model that can be worked out by hand, sites that hold it, and ways to disturb a round."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill.federate import (
    AbstractLearner,
    LocalSettings,
    Phase,
    RoundSettings,
    Rows,
    Shape,
    federation_of,
    round_steps,
)
from cofill.protocol import Step


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly():
    """Short compilations: these tests check results, not speed."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


SHAPE = Shape(("x", "h"), (2, 2))


@dataclass(frozen=True)
class Spring(AbstractLearner):
    """Weights w of loss ½ · h · (w − x)², per row and column: modality x and its stiffness h.

    The optimum of some rows is Σhx / Σh, known in closed form. It begins at 0.
    """

    shape: Shape = SHAPE

    @property
    def phases(self):
        return (Phase("rounds", ("complete",)),)

    def init(self, key):
        return jnp.zeros(2)

    def loss(self, phase, params, batches, key):
        batch = batches["complete"]
        x, h = batch.cells[:, :2], batch.cells[:, 2:]
        each = 0.5 * (h * (params - x) ** 2).sum(axis=1)
        total = (each * batch.weight).sum() / jnp.maximum(batch.weight.sum(), 1.0)
        return total, {"twice": 2 * total}

    def fill(self, params, cells, present):
        return jnp.concatenate([jnp.broadcast_to(params, (len(cells), 2)), cells[:, 2:]], axis=1)


def springs(x, h=1.0) -> Rows:
    """Rows that pull towards x (n × 2) with stiffness h."""
    x = np.atleast_2d(np.asarray(x, np.float32))
    cells = np.concatenate([x, np.broadcast_to(np.float32(h), x.shape)], axis=1)
    cells = np.ascontiguousarray(cells, dtype=np.float32)
    return Rows(cells, np.ones(cells.shape, bool), np.ones((len(x), 2), bool))


def some_sites(count=4, seed=0) -> dict[str, Rows]:
    """Sites of two to five springs, more at each."""
    rng = np.random.default_rng(seed)
    return {f"s{k}": springs(rng.normal(size=(2 + k % 4, 2)) + k) for k in range(count)}


PLAIN = LocalSettings(
    batch=8, optimizer="sgd", momentum=0.0, learning_rate=0.5, decay=False, moments="reset"
)


def spring_federation(rows=None, *, local=PLAIN, rounds=2, strategy=None, seed=0, **settings):
    """A federation of springs."""
    budgets = settings.pop("budgets", None)
    return federation_of(
        some_sites() if rows is None else rows,
        Spring(),
        local=local,
        settings=RoundSettings(rounds=rounds, **settings),
        strategy=strategy,
        seed=seed,
        budgets=budgets,
    )


def tampered(change, step="train", secure=False) -> list[Step]:
    """Steps of a round in which what a step sends is changed: ``change(outbox) → outbox``."""

    def wrap(one):
        def run(parties, inboxes, report_progress):
            return [
                (party, change(list(out)))
                for party, out in one.run(parties, inboxes, report_progress)
            ]

        return replace(one, run=run) if one.name == step else one

    return [wrap(one) for one in round_steps(secure=secure)]


@pytest.fixture(scope="session")
def toy():
    return SimpleNamespace(
        Spring=Spring,
        springs=springs,
        sites=some_sites,
        plain=PLAIN,
        federation=spring_federation,
        tampered=tampered,
    )
