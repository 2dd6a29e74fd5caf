"""A round of deep clustering at the sites: all sites and all restarts as one compiled program.

Restarts differ in their weights only: at a site they see the same batches and the same partners,
so that rows are gathered and warped once for all of them.

Every site judges the common model before it trains: what a site makes of it by itself looks good
even where the sites' networks differ so much that their average has no groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from cofill.cluster._augment import WarpSettings, towards, warp
from cofill.cluster._network import NetworkSettings, apply_network, first_weights
from cofill.cluster._objective import ObjectiveSettings, head_terms, objective

__all__ = ["Held", "Judged", "Plan", "Trained", "new_weights", "probabilities", "train_round"]

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's
_LAST_RATE = 0.05  # of the learning rate, where the cosine ends
_ROWS_AT_ONCE = 4096
_JUDGED = 4  # batches on which every site judges the common model


@dataclass(frozen=True)
class Plan:
    """What is fixed when a round is compiled."""

    columns: int
    shape: tuple[int, int, int] | None
    heads: tuple[int, ...]  # groups of each head; the first head is the one asked for
    network: NetworkSettings
    objective: ObjectiveSettings
    warp: WarpSettings
    reach: float | int
    adversary: float | int
    warm: int  # rounds in which the first head learns the groups of k-means
    apart: int  # steps of a restart at one site before the first round
    rounds: int
    steps: int
    batch: int
    learning_rate: float | int
    falling: bool = True  # whether the rate falls

    @property
    def before_rounds(self) -> Plan:
        """What a site does with the restarts that start with it: one long round, the rate kept."""
        return replace(self, rounds=1, steps=self.apart, falling=False)

    @property
    def places(self) -> tuple[slice, ...]:
        """Where each head's groups lie in a vector of all heads' shares."""
        ends = np.cumsum((0, *self.heads))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))


class Held(NamedTuple):
    """What a site keeps from round to round; arrays have the axis of restarts first."""

    rows: Any
    near: Any  # numbers of each row's neighbours; None for images
    own: Any  # the site's own shares of the last round
    first: Any  # Adam's moments
    second: Any


class Judged(NamedTuple):
    """The terms of the objective of every head, by a model on a site's rows."""

    inconsistency: Float[Array, "sites restarts heads"]
    doubt: Float[Array, "sites restarts heads"]
    shares: Float[Array, "sites restarts groups"]


class Trained(NamedTuple):
    """What a round made, with the axes of sites and restarts first."""

    weights: Float[Array, "sites restarts size"]
    first: Float[Array, "sites restarts size"]
    second: Float[Array, "sites restarts size"]
    shares: Float[Array, "sites restarts groups"]  # while it trained
    judged: Judged  # before it trained: the common model


@partial(jax.jit, static_argnums=0)
def new_weights(plan: Plan, keys: Array) -> Float[Array, "restarts size"]:
    """Return initial weights, one flat vector a key."""
    return jax.vmap(lambda key: ravel_pytree(_first(plan, key))[0])(keys)


@partial(jax.jit, static_argnums=0)
def train_round(
    plan: Plan,
    held: tuple[Held, ...],
    weights: Float[Array, "sites restarts size"],
    common: Float[Array, "sites restarts groups"],
    centers: Float[Array, "sites restarts k columns"] | None,
    keys: Array,
    number: Array,
) -> Trained:
    """Train every site's restarts from common weights for some steps on the site's own rows.

    Parameters
    ----------
    plan, held
        Settings, and what each site holds.
    weights, common, centers
        The common model, shares and centres of k-means (None to start at random) that each site
        was sent.
    keys
        One a site.
    number
        Of the round, from 0.
    """
    counts = jnp.array([h.rows.shape[0] for h in held])
    most = max(h.rows.shape[0] for h in held)
    rows, near = _stacked(held, "rows", most), _stacked(held, "near", most)
    # Few derivations of keys: each is a generator for XLA to compile.
    drawn = jax.vmap(lambda key: jax.random.split(key, plan.steps + 1))(keys)
    orders = jax.vmap(partial(_order, plan, most))(drawn[:, 0], counts)
    own = jnp.stack([h.own for h in held])
    # In the first round nobody knows any shares: common and own cancel out.
    common = jnp.where(number > 0, common, own)
    warm = number < plan.warm
    axes = (0, None, None, 0, 0, 0)  # a site's restarts see the same rows
    loss = jax.vmap(jax.vmap(partial(_loss, plan, warm), axes))
    slope = jax.value_and_grad(partial(_loss, plan, warm), has_aux=True)
    slope = jax.vmap(jax.vmap(slope, axes))

    def batch(place: Array) -> tuple[Array, Array]:
        chosen = partial(_batch, plan)
        return jax.vmap(chosen)(rows, near, orders[:, place], drawn[:, place + 1])

    def judge(place: Array) -> Judged:
        _, terms = loss(weights, *batch(place), common, own, centers)
        return Judged(*terms)

    def step(carry: tuple[Array, ...], place: Array) -> tuple[tuple[Array, ...], Array]:
        theta, first, second = carry
        (_, terms), gradient = slope(theta, *batch(place), common, own, centers)
        count = number * plan.steps + place
        first = _FIRST * first + (1 - _FIRST) * gradient
        second = _SECOND * second + (1 - _SECOND) * gradient**2
        done = (count + 1).astype(theta.dtype)
        size = jnp.sqrt(second / (1 - _SECOND**done)) + _TINY
        part = count / (plan.rounds * plan.steps) if plan.falling else 0.0
        rate = _LAST_RATE + (1 - _LAST_RATE) * (1 + jnp.cos(jnp.pi * part)) / 2
        move = plan.learning_rate * rate * first / (1 - _FIRST**done) / size
        return (theta - move, first, second), terms[2]

    judged = lax.map(judge, jnp.arange(min(_JUDGED, plan.steps)))
    start = (weights, jnp.stack([h.first for h in held]), jnp.stack([h.second for h in held]))
    (theta, first, second), shares = lax.scan(step, start, jnp.arange(plan.steps))
    shares = shares.mean(axis=0)
    return Trained(theta, first, second, shares, Judged(*(part.mean(axis=0) for part in judged)))


@partial(jax.jit, static_argnums=0)
def _probabilities(plan: Plan, theta: Array, rows: Array) -> tuple[Array, Array]:
    logits, code = apply_network(
        _unflat(plan, theta), _shaped(plan, rows), len(plan.heads), plan.network
    )
    return jax.nn.softmax(logits[0]), code


def probabilities(
    plan: Plan, theta: Float[np.ndarray | Array, " size"], rows: Float[np.ndarray, "n columns"]
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n code"]]:
    """Return the probability of each group for each row, and the rows' codes."""
    theta = jnp.asarray(theta)
    made: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = np.asarray(rows[start : start + _ROWS_AT_ONCE], np.float32)
        # A last part of another size would compile again; few sizes are met this way.
        size = min(_ROWS_AT_ONCE, 1 << (len(part) - 1).bit_length())
        padded = np.concatenate([part, np.zeros((size - len(part), part.shape[1]), np.float32)])
        sure, code = _probabilities(plan, theta, padded)
        made.append((np.asarray(sure)[: len(part)], np.asarray(code)[: len(part)]))
    sure, code = zip(*made, strict=True)
    return np.concatenate(sure), np.concatenate(code)


def _loss(
    plan: Plan,
    warm: Array,
    theta: Array,
    rows: Array,
    partners: Array,
    common: Array,
    own: Array,
    centers: Array | None,
) -> tuple[Array, tuple[Array, Array, Array]]:
    weights = _unflat(plan, theta)
    if plan.shape is None and plan.adversary:
        partners = partners + _against(plan, weights, rows, partners)
    both = jnp.concatenate([rows, partners])
    logits, _ = apply_network(weights, both, len(plan.heads), plan.network)
    total = jnp.array(0.0)
    terms = []
    for head, place in zip(logits, plan.places, strict=True):
        here, there = jnp.split(head, 2)
        found = head_terms(here, there)
        total += objective(found, common[place], own[place], plan.objective)
        terms.append(found)
    if centers is not None:
        flat = rows.reshape(rows.shape[0], -1)
        group = ((centers**2).sum(axis=1) / 2 - flat @ centers.T).argmin(axis=1)
        log = jax.nn.log_softmax(logits[0])
        taught = -jnp.take_along_axis(log, jnp.tile(group, 2)[:, None], axis=1).mean()
        total = jnp.where(warm, taught, total)
    return total, (
        jnp.stack([t.inconsistency for t in terms]),
        jnp.stack([t.doubt for t in terms]),
        jnp.concatenate([t.shares for t in terms]),
    )


def _against(plan: Plan, weights: dict[str, Any], rows: Array, partners: Array) -> Array:
    # The small step from the partner that changes the groups most (Miyato et al. 2018), as long as
    # a share of the way from the row to its partner.
    weights = lax.stop_gradient(weights)
    reference = apply_network(weights, rows, len(plan.heads), plan.network)[0]

    def apart(move: Array) -> Array:
        logits = apply_network(weights, partners + move, len(plan.heads), plan.network)[0]
        pairs = zip(reference, logits, strict=True)
        return jnp.stack([head_terms(*pair).inconsistency for pair in pairs]).sum()

    way = jax.grad(apart)(jnp.zeros_like(partners))
    way = way / jnp.maximum(jnp.linalg.norm(way, axis=1, keepdims=True), 1e-12)
    distance = jnp.linalg.norm(partners - rows, axis=1, keepdims=True)
    return lax.stop_gradient(plan.adversary * distance * way)


def _stacked(held: tuple[Held, ...], name: str, most: int) -> Any:
    # Sites of different sizes in one array; what is added at the end is never drawn.
    if held[0].near is None and name == "near":
        return None
    tables = [getattr(h, name) for h in held]
    width = max(table.shape[1] for table in tables)
    # A site with few rows has few neighbours: it repeats them.
    wide = [jnp.tile(t, (1, -(-width // t.shape[1])))[:, :width] for t in tables]
    return jnp.stack([jnp.pad(t, ((0, most - t.shape[0]), (0, 0))) for t in wide])


def _order(plan: Plan, most: int, key: Array, rows: Array) -> Array:
    # The site's rows in random order, over and over, dealt out in batches.
    place = jnp.arange(most)
    drawn = jax.random.uniform(key, (most,))
    order = jnp.argsort(jnp.where(place < rows, drawn, 2.0))
    index = jnp.arange(plan.steps * plan.batch) % rows
    return order[index].reshape(plan.steps, plan.batch)


def _batch(
    plan: Plan, rows: Array, near: Array | None, index: Array, key: Array
) -> tuple[Array, Array]:
    own = _shaped(plan, rows[index])
    if near is None:
        return own, warp(key, own, plan.warp)
    return own, towards(key, own, rows, near[index], plan.reach)


def _shaped(plan: Plan, rows: Array) -> Array:
    return rows if plan.shape is None else rows.reshape(rows.shape[0], *plan.shape)


def _first(plan: Plan, key: Array) -> dict[str, Any]:
    return first_weights(key, plan.columns, plan.shape, plan.heads, plan.network)


def _unflat(plan: Plan, theta: Array) -> dict[str, Any]:
    like = jax.eval_shape(partial(_first, plan), jax.random.key(0))
    leaves, tree = jax.tree.flatten(like)
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    parts = [
        theta[a:b].reshape(leaf.shape)
        for leaf, a, b in zip(leaves, ends[:-1], ends[1:], strict=True)
    ]
    return jax.tree.unflatten(tree, parts)
