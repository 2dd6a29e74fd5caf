"""A model that can be worked out by hand, sites that hold it, and ways to disturb a round."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cofill.federate import (
    AbstractLearner,
    Design,
    FedAvg,
    FederatedProtocol,
    LocalSettings,
    Phase,
    RoundSettings,
    Rows,
    Shape,
)
from cofill.federate._parties import make_coordinator, make_site
from cofill.federate._rounds import round_steps
from cofill.protocol import Federation, Membership, Step, run_protocol


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


def protocol_for(names, design) -> FederatedProtocol:
    return FederatedProtocol(Membership(dict.fromkeys(names, ("x",)), ("x",)), design)


def encoded_federation(
    rows, learner, *, local, settings, strategy=None, seed=0, budgets=None
) -> Federation:
    """A federation of encoded rows at its first round."""
    design = Design(type(learner), {}, local, settings, strategy or FedAvg(), seed)
    protocol = protocol_for(rows, design)
    return Federation(
        {name: make_site(name, own_rows, learner, design) for name, own_rows in rows.items()},
        coordinator=make_coordinator(tuple(rows), learner, design),
        budgets=budgets or {},
        next_step=protocol.first_round,
    )


def spring_federation(rows=None, *, local=PLAIN, rounds=2, strategy=None, seed=0, **settings):
    """A federation of springs."""
    budgets = settings.pop("budgets", None)
    return encoded_federation(
        some_sites() if rows is None else rows,
        Spring(),
        local=local,
        settings=RoundSettings(**{"rounds": rounds, "secure": False, **settings}),
        strategy=strategy,
        seed=seed,
        budgets=budgets,
    )


def run_rounds(federations, *, until=None, after=None, progress=None) -> None:
    """Run rounds one by one, so that a failing one leaves those before it."""
    first = federations[0]
    protocol = protocol_for(first.sites, first.coordinator.design)
    ends = [k + 1 for k in range(len(protocol.steps)) if protocol.ends_round(k)]
    rounds = range(0 if protocol.design.pretrains else 1, protocol.design.settings.rounds + 1)
    for federation in federations:  # steps that were tampered with have other numbers
        done = federation.coordinator.round - rounds[0]
        federation.next_step = ends[done - 1] if done else protocol.first_round
    for number, end in zip(rounds, ends, strict=True):
        if until is not None and number > until:
            return
        if min(f.next_step for f in federations) >= end:
            continue
        run_protocol(protocol, federations, until=end, progress=progress)
        if after is not None:
            after(number)


def tampered(change, step="train", secure=False) -> list[Step]:
    """Steps of a round in which what a step sends is changed: ``change(outbox) → outbox``."""

    def wrap(original):
        def run(parties, inboxes, report_progress):
            results = original.run(parties, inboxes, report_progress)
            return [(party, change(list(outbox))) for party, outbox in results]

        return replace(original, run=run) if original.name == step else original

    return [wrap(original) for original in round_steps(secure=secure)]


@pytest.fixture(scope="session")
def toy():
    return SimpleNamespace(
        Spring=Spring,
        springs=springs,
        sites=some_sites,
        plain=PLAIN,
        federation=spring_federation,
        encoded=encoded_federation,
        run_rounds=run_rounds,
        tampered=tampered,
    )
