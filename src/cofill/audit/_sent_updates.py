"""Attacks on the updates that a site has sent, which ask whose rows were behind them.

The attack is on the run's own network and loss, on the updates of the last rounds, with the common
model that each of them changed. Rows are not searched for: each try would train a whole round, with
derivatives through every step of it, and a thousand tries take many minutes for one site.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack import Leak, membership_leaks
from cofill.audit._auditors import describe_entries, describe_guarantee
from cofill.audit._evidence import Evidence
from cofill.audit._release import AuditedRelease
from cofill.federate import AbstractLearner, Batch, RowSite, make_unravel
from cofill.privacy import LedgerEntry, ModelWeights, Update

_STRANGERS = 300  # enough for a false positive rate of 1 % to be three people
_RATE = 0.01
_THREAT = (
    "a coordinator who has a person's whole record compares its loss under the common model before "
    "a site's update and after it, over several rounds, and says whether the person is the site's"
)


def audit_sent_updates(
    entries: Sequence[LedgerEntry], releases: Sequence[Update], evidence: Evidence
) -> AuditedRelease:
    """Tell a site's people from other sites' by the updates that the site has sent."""
    sender = entries[0].sender
    facts = describe_entries(entries, "what a site's training changed in the weights")
    facts |= describe_guarantee(entries)
    models: dict[int, ModelWeights] = {
        model.round: model
        for model in evidence.releases("model")
        if model.receiver == sender and len(model.weights)
    }
    rounds = [
        (update, models[update.round])
        for update in releases
        if update.round in models and update.change.dtype.kind == "f"
    ]
    if not rounds or sender not in evidence.row_sites or len(evidence.row_sites) < 2:
        return AuditedRelease(**facts, reason=_why_not(sender, releases, evidence))
    numbers = ", ".join(str(update.round) for update, _ in rounds)
    return AuditedRelease(
        **facts,
        leaks=_membership(sender, rounds, evidence.row_sites),
        notes=(
            f"the attack is on the updates of rounds {numbers} as they were sent, by the run's own "
            "network and loss",
            "rows were not searched for: every try would train the whole round again; for small "
            "networks and single steps `cofill audit update` does so",
        ),
    )


def _why_not(sender: str, releases: Sequence[Update], evidence: Evidence) -> str:
    if releases and len(evidence.row_sites) == 1:
        return "there is no other site whose people a site's could be told from"
    return evidence.why_not(sender)


def _membership(
    sender: str, rounds: Sequence[tuple[Update, ModelWeights]], sites: Mapping[str, RowSite]
) -> tuple[Leak, ...]:
    cells, is_member = _people(sender, sites)
    learner = sites[sender].learner
    scores, control = np.zeros(len(cells)), np.zeros(len(cells))
    for update, model in rounds:
        before = _losses(learner, model.weights, cells)
        after = _losses(learner, model.weights + update.change, cells)
        if min(before.min(), after.min()) > 0:  # a game's losses can be negative
            before, after = np.log(before), np.log(after)
        scores += before - after
        control -= before
    return membership_leaks(
        scores[None],
        is_member[None],
        control=control[None],
        name=f"membership, by the updates of {len(rounds)} rounds",
        threat=_THREAT,
        rates=(_RATE,),
    )


def _people(
    sender: str, sites: Mapping[str, RowSite]
) -> tuple[Float[np.ndarray, "people size"], Bool[np.ndarray, " people"]]:
    """Return rows that the site learns from, then some that other sites learn from."""
    rows = {name: site.rows.cells[_learned_rows(site)] for name, site in sites.items()}
    other_rows = np.concatenate([cells for name, cells in rows.items() if name != sender])
    order = np.random.default_rng([0, 0x5EE]).permutation(len(other_rows))
    strangers = other_rows[np.sort(order[:_STRANGERS])]
    members = rows[sender]
    people = np.concatenate([members, strangers])
    return people, np.arange(len(people)) < len(members)


def _learned_rows(site: RowSite) -> np.ndarray:
    """Return the positions of the rows in the first stream of a round's training."""
    phase = site.learner.phases[-1]
    return phase.rows(site.rows)[phase.streams[0]]


def _losses(
    learner: AbstractLearner, weights: np.ndarray, cells: Float[np.ndarray, "people size"]
) -> Float[np.ndarray, " people"]:
    """Return everybody's loss."""
    losses: Any = _each_loss(learner, jnp.asarray(weights), jnp.asarray(cells))
    return np.asarray(losses, np.float64)


@jax.jit(static_argnums=(0,))
def _each_loss(learner: AbstractLearner, weights: Array, cells: Array) -> Array:
    params, phase, shape = make_unravel(learner)(weights), learner.phases[-1], learner.shape

    def loss(row: Array) -> Array:
        def batch(share: float) -> Batch:
            shown = row[None] * share
            present = jnp.full((1, shape.count), share)
            return Batch(shown, jnp.full_like(shown, share), present, jnp.full(1, share))

        # Only the first stream holds the person; a phase may draw from several at once.
        batches = {stream: batch(float(stream == phase.streams[0])) for stream in phase.streams}
        return learner.loss(phase.name, params, batches, jax.random.key(0))[0]

    return jax.vmap(loss)(cells)
