"""A round of deep clustering at the sites: all sites and all restarts as one compiled program.

The steps are those of the engine in `cofill.nets`; this module brings their loss and batches.
Restarts differ in their weights only: at a site they see the same batches and the same partners,
so that rows are gathered and warped once for all of them.

Every site judges the common model before it trains: the model after its own training looks good
to it even where the sites' networks differ so much that their average has no groups.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from cofill.cluster._augment import towards, warp
from cofill.cluster._deep_settings import DeepPlan
from cofill.cluster._network import apply_network, first_weights
from cofill.cluster._objective import Terms, head_terms, objective
from cofill.nets import Batch, State, Trainer, advance, flatten_network, form_of, make_optimizer

_LAST_RATE = 0.05  # of the learning rate, where the cosine ends
_ROWS_AT_ONCE = 4096  # bounds the memory of the hidden layers
_JUDGED_BATCHES = 4  # on which every site judges the common model
_ADAM = make_optimizer("adam")


class SiteMemory(NamedTuple):
    """What a site keeps from round to round; shares and moments have the axis of restarts first."""

    rows: Any
    near: Any  # numbers of each row's neighbours; None for images
    shares: Any  # the site's shares of the last round
    moments: Any  # Adam's

    def take(self, restarts: np.ndarray) -> SiteMemory:
        """Return the memory of some of the restarts."""
        shares, moments = jax.tree.map(lambda leaf: leaf[restarts], (self.shares, self.moments))
        return self._replace(shares=shares, moments=moments)


class RoundResult(NamedTuple):
    """Weights and terms after a round, with the axes of sites and restarts first."""

    weights: Float[Array, "sites restarts size"]
    moments: Any
    shares: Float[Array, "sites restarts groups"]  # while it trained
    judged: Terms  # of the common model, before it trained


@partial(jax.jit, static_argnums=0)
def new_weights(plan: DeepPlan, keys: Array) -> Float[Array, "restarts size"]:
    """Return initial weights, one flat vector a key."""
    return jax.vmap(lambda key: flatten_network(_first(plan, key)))(keys)


def start_memory(
    plan: DeepPlan, rows: Float[np.ndarray, "n columns"], near: Any, restarts: int, size: int
) -> SiteMemory:
    """Return what a site knows before the first round of so many restarts of so many weights."""
    moments = jax.vmap(_ADAM.init)(jnp.zeros((restarts, size)))
    shares = jnp.zeros((restarts, sum(plan.heads)))
    return SiteMemory(jax.device_put(np.asarray(rows, np.float32)), near, shares, moments)


@partial(jax.jit, static_argnums=0)
def train_round(
    plan: DeepPlan,
    memories: tuple[SiteMemory, ...],
    weights: Float[Array, "sites restarts size"],
    common: Float[Array, "sites restarts groups"],
    centers: Float[Array, "sites restarts k columns"] | None,
    keys: Array,
    number: Array,
) -> RoundResult:
    """Return every site's restarts after some steps from common weights on the site's rows.

    ``weights``, ``common`` and ``centers`` are the common model, shares and centres of k-means
    (None to start at random) that each site was sent; ``number`` is that of the round, from 0.
    """
    counts = jnp.array([memory.rows.shape[0] for memory in memories])
    most = max(memory.rows.shape[0] for memory in memories)
    rows = _stack_tables([memory.rows for memory in memories], most)
    is_image = memories[0].near is None
    near = None if is_image else _stack_tables([memory.near for memory in memories], most)
    kept = ((memory.shares, memory.moments) for memory in memories)
    shares, moments = jax.tree.map(lambda *leaves: jnp.stack(leaves), *kept)
    # In the first round nobody knows any shares: the common and the site's cancel out.
    common = jnp.where(number > 0, common, shares)

    def train_site(rows: Array, near: Any, count: Array, key: Array, *restarts: Any) -> RoundResult:
        # Few derivations of keys: each is a generator for XLA to compile.
        step_keys = jax.random.split(key, plan.steps + 1)
        order = _order(plan, most, step_keys[0], count)

        def draw(step: Array) -> Batch:
            key = step_keys[step + 1]
            steps = plan.rounds * plan.steps
            done = (number * plan.steps + step) / steps if plan.falling else 0.0
            fall = _LAST_RATE + (1 - _LAST_RATE) * (1 + jnp.cos(jnp.pi * done)) / 2
            pairs = _with_partners(plan, rows, near, order[step], key)
            return Batch(pairs, key, plan.settings.learning_rate * fall)

        def train_restart(
            weights: Array, moments: Any, common: Array, shares: Array, centers: Array | None
        ) -> RoundResult:
            loss = partial(_loss, plan, number < plan.warm, common, shares, centers)

            def judge(step: Array) -> Terms:
                return loss(weights, (), draw(step).rows, step_keys[0])[1][1]

            judged = lax.map(judge, jnp.arange(min(_JUDGED_BATCHES, plan.steps)))
            trainer = Trainer(loss, _ADAM, draw)
            state, terms = advance(trainer, State(weights, moments), plan.steps)
            mean = Terms(*(part.mean(axis=0) for part in judged))
            return RoundResult(state.weights, state.moments, terms.shares.mean(axis=0), mean)

        return jax.vmap(train_restart)(*restarts)

    sites = (weights, moments, common, shares, centers)
    return jax.vmap(train_site)(rows, near, counts, keys, *sites)


@partial(jax.jit, static_argnums=0)
def _probabilities(plan: DeepPlan, theta: Array, rows: Array) -> tuple[Array, Array]:
    logits, code = _apply(plan, _unflatten(plan, theta), _shaped(plan, rows))
    return jax.nn.softmax(logits[0]), code


def probabilities(
    plan: DeepPlan, theta: Float[np.ndarray | Array, " size"], rows: Float[np.ndarray, "n columns"]
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n code"]]:
    """Return the probability of each group for each row, and the rows' codes."""
    theta = jax.device_put(theta)
    blocks: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = np.asarray(rows[start : start + _ROWS_AT_ONCE], np.float32)
        # A last part of another size would compile again; few sizes are met this way.
        size = min(_ROWS_AT_ONCE, 1 << (len(part) - 1).bit_length())
        padded = np.concatenate([part, np.zeros((size - len(part), part.shape[1]), np.float32)])
        probability, code = _probabilities(plan, theta, padded)
        blocks.append((np.asarray(probability)[: len(part)], np.asarray(code)[: len(part)]))
    probability, code = zip(*blocks, strict=True)
    return np.concatenate(probability), np.concatenate(code)


def _loss(
    plan: DeepPlan,
    warm: Array,
    common: Array,
    shares: Array,
    centers: Array | None,
    theta: Array,
    memory: Any,
    pairs: tuple[Array, Array],
    key: Array,
) -> tuple[Array, tuple[Any, Terms]]:
    rows, partners = pairs
    weights = _unflatten(plan, theta)
    if plan.shape is None and plan.settings.adversary:
        partners = partners + _against(plan, weights, rows, partners)
    logits, _ = _apply(plan, weights, jnp.concatenate([rows, partners]))
    total = jnp.array(0.0)
    terms = []
    for head, groups in zip(logits, plan.head_slices, strict=True):
        terms.append(head_terms(*jnp.split(head, 2)))
        total += objective(terms[-1], common[groups], shares[groups], plan.objective)
    if centers is not None:
        flat = rows.reshape(rows.shape[0], -1)
        group = ((centers**2).sum(axis=1) / 2 - flat @ centers.T).argmin(axis=1)
        log = jax.nn.log_softmax(logits[0])
        imitation = -jnp.take_along_axis(log, jnp.tile(group, 2)[:, None], axis=1).mean()
        total = jnp.where(warm, imitation, total)
    inconsistency, doubt, head_shares = zip(*terms, strict=True)
    figures = Terms(jnp.stack(inconsistency), jnp.stack(doubt), jnp.concatenate(head_shares))
    return total, (memory, figures)


def _against(plan: DeepPlan, weights: dict[str, Any], rows: Array, partners: Array) -> Array:
    # The small step from the partner that changes the groups most (Miyato et al. 2018); its length
    # is a share of the way from the row to its partner.
    weights = lax.stop_gradient(weights)
    reference, _ = _apply(plan, weights, rows)

    def inconsistency(move: Array) -> Array:
        pairs = zip(reference, _apply(plan, weights, partners + move)[0], strict=True)
        return jnp.stack([head_terms(*pair).inconsistency for pair in pairs]).sum()

    way = jax.grad(inconsistency)(jnp.zeros_like(partners))
    way = way / jnp.maximum(jnp.linalg.norm(way, axis=1, keepdims=True), 1e-12)
    distance = jnp.linalg.norm(partners - rows, axis=1, keepdims=True)
    return lax.stop_gradient(plan.settings.adversary * distance * way)


def _stack_tables(tables: list[Array], most: int) -> Array:
    # Sites of different sizes in one array; what is added at the end is never drawn.
    width = max(table.shape[1] for table in tables)
    # A site with few rows has few neighbours: it repeats them.
    wide = [jnp.tile(t, (1, -(-width // t.shape[1])))[:, :width] for t in tables]
    return jnp.stack([jnp.pad(t, ((0, most - t.shape[0]), (0, 0))) for t in wide])


def _order(plan: DeepPlan, most: int, key: Array, rows: Array) -> Array:
    # The site's rows in random order, over and over, dealt out in batches.
    drawn = jax.random.uniform(key, (most,))
    order = jnp.argsort(jnp.where(jnp.arange(most) < rows, drawn, 2.0))
    index = jnp.arange(plan.steps * plan.settings.batch) % rows
    return order[index].reshape(plan.steps, plan.settings.batch)


def _with_partners(
    plan: DeepPlan, table: Array, near: Array | None, index: Array, key: Array
) -> tuple[Array, Array]:
    rows = _shaped(plan, table[index])
    if near is None:
        return rows, warp(key, rows, plan.settings.warp)
    return rows, towards(key, rows, table, near[index], plan.settings.reach)


def _apply(plan: DeepPlan, weights: dict[str, Any], rows: Array) -> tuple[list[Array], Array]:
    return apply_network(weights, rows, len(plan.heads), plan.settings.network)


def _shaped(plan: DeepPlan, rows: Array) -> Array:
    return rows if plan.shape is None else rows.reshape(rows.shape[0], *plan.shape)


def _first(plan: DeepPlan, key: Array) -> dict[str, Any]:
    return first_weights(key, plan.columns, plan.shape, plan.heads, plan.settings.network)


def _unflatten(plan: DeepPlan, theta: Array) -> dict[str, Any]:
    return form_of(jax.eval_shape(partial(_first, plan), jax.random.key(0))).build(theta)
