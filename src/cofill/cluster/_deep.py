"""Deep clustering over sites: information maximisation, local steps, averaged weights, no label.

A network that gives every row a group is trained to be sure, to use all groups, and to give a row
and its partner the same group (see `_objective`). Sites train the common network on their rows
and release the change of its weights; the coordinator averages them by rows (McMahan et al. 2017).
Several restarts train together, as one batch; after a trial the few with the best objective go on,
and the best of these is the result. Neither the objective nor any choice needs a label.

A network without groups yet can be led to any numbering of them, and each site leads it to another:
the average has none. So a restart first trains at one site, until it has groups to start from, and
only then at all of them; the sites share the restarts out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cofill.cluster._augment import neighbours
from cofill.cluster._deep_settings import DeepPlan, DeepSettings, DeepState, plan_of
from cofill.cluster._kmeans import join_starts, summarise_locally
from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._lloyd import sum_groups
from cofill.cluster._parties import (
    ClusterCoordinator,
    ClusterSite,
    CoordinatorStep,
    SiteStep,
    from_every_site,
    received_sums,
)
from cofill.cluster._rounds import SiteMemory, new_weights, probabilities, start_memory, train_round
from cofill.errors import DataError, TrainingError
from cofill.privacy import ModelWeights, Update
from cofill.protocol import COORDINATOR, Inbox, Step, first_of_type, one_by_one

_SEEDING, _HOMES, _NEIGHBOURS = 1, 2, 3  # purposes of random numbers


def deep_steps(settings: DeepSettings) -> tuple[Step[Any], ...]:
    """Return all steps of the protocol: initial weights, rounds, groups."""
    start = (
        Step("summarise", one_by_one(_summarise)),
        Step("start networks", one_by_one(_start), "coordinator"),
        Step("train apart", _train_apart),
        Step("gather", one_by_one(_gather), "coordinator"),
    )
    turn = (Step("train", _train), Step("average", one_by_one(_average), "coordinator"))
    end = (Step("assign", one_by_one(_assign)), Step("close", one_by_one(_close), "coordinator"))
    return (*start, *(turn * settings.rounds), *end)


def _summarise(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Release a few local centroids with counts where networks start from k-means."""
    if not plan_of(site.settings, site.kinds).warm:
        return site, []
    settings: DeepSettings = site.settings
    wanted = KMeansSettings(k=settings.k, seed_group=settings.seed_group)
    sums, counts = summarise_locally(site.rows, wanted, site.rng(_SEEDING))
    return site, [site.release_sums(0, sums, counts)]


def _start(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Make the initial weights; send each restart to the site where it starts."""
    settings: DeepSettings = coordinator.settings
    plan, restarts = plan_of(settings, coordinator.kinds), settings.restarts
    centers = None
    if plan.warm:
        sums = received_sums(coordinator, inbox, (0, plan.columns))
        wanted = KMeansSettings(k=settings.k, restarts=restarts)
        rng = np.random.default_rng([coordinator.seed, _SEEDING])
        centers = join_starts(sums, wanted, rng).astype(np.float32)
    keys = jax.random.split(jax.random.key(coordinator.seed), restarts)
    state = DeepState(
        np.array(new_weights(plan, keys)),
        np.zeros((restarts, sum(plan.heads)), np.float32),
        np.arange(restarts),
        np.full(restarts, np.nan),
        centers,
    )
    homes = _homes(coordinator) if plan.apart else {}
    outbox = [
        _model_release(site, 0, state.weights[home], restarts=home, shares=state.shares[home])
        for site, home in homes.items()
    ]
    return replace(coordinator, state=state), outbox


def _homes(coordinator: ClusterCoordinator) -> dict[str, np.ndarray]:
    """Return which restarts start at which site: in turn, in an order drawn from the seed."""
    order = np.random.default_rng([coordinator.seed, _HOMES]).permutation(sorted(coordinator.sites))
    numbers = np.arange(coordinator.settings.restarts)
    homes = enumerate(order[: len(numbers)])
    return {str(site): numbers[numbers % len(order) == at] for at, site in homes}


def _model_release(
    site: str, number: int, weights: np.ndarray, **extras: np.ndarray
) -> ModelWeights:
    vectors = {name: part.reshape(-1) for name, part in extras.items()}
    return ModelWeights(
        sender=COORDINATOR, receiver=site, round=number, weights=weights.reshape(-1), extras=vectors
    )


def _send_state(coordinator: ClusterCoordinator, state: DeepState) -> CoordinatorStep:
    extras = {"shares": state.shares, "restarts": state.restarts, "best": np.array([state.best])}
    if state.centers is not None:
        extras["centers"] = state.centers
    number, weights = state.number, state.weights
    outbox = [_model_release(site, number, weights, **extras) for site in coordinator.sites]
    return replace(coordinator, state=state), outbox


def _gather(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Put the restarts together and send all of them to all sites."""
    state: DeepState = coordinator.state
    if plan_of(coordinator.settings, coordinator.kinds).apart:
        homes, size = _homes(coordinator), state.weights.shape[1]
        weights = state.weights.copy()
        sizes = {site: len(home) * size for site, home in homes.items()}
        for update in _updates(inbox, sizes):
            weights[homes[update.sender]] += update.change.reshape(-1, size)
        state = replace(state, weights=weights)
    return _send_state(coordinator, state)


def _updates(inbox: Inbox, sizes: Mapping[str, int]) -> list[Update]:
    updates = from_every_site(sizes, inbox, Update)
    for site, update in updates.items():
        if update.change.shape != (sizes[site],):
            raise DataError(
                f"the update from {site!r} has shape {update.change.shape}, expected was "
                f"({sizes[site]},); refused"
            )
    return list(updates.values())


# --- training at the sites ----------------------------------------------------------------------


def _train_apart(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[SiteStep]:
    """Train the restarts that start at each site on its rows alone; release what changed."""
    received = {at: first_of_type(inbox, ModelWeights) for at, inbox in enumerate(inboxes)}
    models = {at: model for at, model in received.items() if model is not None}
    results: list[SiteStep] = [(site, []) for site in sites]
    trained = _train_at([sites[at] for at in models], list(models.values()), apart=True)
    for at, (site, outbox) in zip(models, trained, strict=True):
        results[at] = (replace(site, memory=None), outbox)  # the rounds start with fresh moments
    return results


def _train(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[SiteStep]:
    """Train the common networks on each site's rows; release what changed."""
    return _train_at(sites, list(map(_expected_model, sites, inboxes)))


def _expected_model(site: ClusterSite, inbox: Inbox) -> ModelWeights:
    model = first_of_type(inbox, ModelWeights)
    if model is None:
        raise DataError(f"site {site.name!r} has received no model; the coordinator must send one")
    return model


def _train_at(
    sites: Sequence[ClusterSite], models: Sequence[ModelWeights], *, apart: bool = False
) -> list[SiteStep]:
    """Train at all sites, those of one shape together."""
    calls: dict[Any, list[int]] = {}
    for at, (site, model) in enumerate(zip(sites, models, strict=True)):
        plan = plan_of(site.settings, site.kinds)
        plan = plan.before_rounds if apart else plan
        calls.setdefault((plan, model.round, len(model.extras["restarts"])), []).append(at)
    results: dict[int, SiteStep] = {}
    for (plan, number, _), chosen in calls.items():
        trained = _train_alike(
            plan, number, [sites[at] for at in chosen], [models[at] for at in chosen]
        )
        results |= zip(chosen, trained, strict=True)
    return [results[at] for at in range(len(sites))]


def _train_alike(
    plan: DeepPlan, number: int, sites: Sequence[ClusterSite], models: Sequence[ModelWeights]
) -> list[SiteStep]:
    restarts = len(models[0].extras["restarts"])
    weights = np.stack([model.weights.reshape(restarts, -1) for model in models])
    common = np.stack([model.extras["shares"].reshape(restarts, -1) for model in models])
    memories = tuple(
        _memory(plan, site, model, weights.shape[-1])
        for site, model in zip(sites, models, strict=True)
    )
    keys = jnp.stack([_key(site, number) for site in sites])
    centers = None
    if plan.warm:
        shape = restarts, plan.settings.k, plan.columns
        centers = np.stack([model.extras["centers"].reshape(shape) for model in models])
    result = train_round(plan, memories, weights, common, centers, keys, jnp.array(number))
    changes, shares = np.asarray(result.weights) - weights, np.asarray(result.shares)
    judged = {f"judged_{name}": np.asarray(p) for name, p in result.judged._asdict().items()}
    results: list[SiteStep] = []
    for at, site in enumerate(sites):
        moments = jax.tree.map(lambda leaf, at=at: leaf[at], result.moments)
        memory = memories[at]._replace(shares=result.shares[at], moments=moments)
        update = Update(
            sender=site.name,
            receiver=COORDINATOR,
            round=number,
            change=changes[at].reshape(-1),
            rows=len(site.rows),
            extras={
                "shares": shares[at].reshape(-1),
                **{name: part[at].reshape(-1) for name, part in judged.items()},
            },
        )
        site = replace(site, memory=(models[at].extras["restarts"], memory))
        results.append((site, [update]))
    return results


def _memory(plan: DeepPlan, site: ClusterSite, model: ModelWeights, size: int) -> SiteMemory:
    """Return what the site keeps for the restarts that are still in the trial."""
    restarts = model.extras["restarts"]
    if site.memory is None:
        return _new_memory(plan, site, len(restarts), size)
    before, memory = site.memory
    if len(before) == len(restarts):
        return memory
    return memory.take(np.flatnonzero(np.isin(before, restarts)))


def _new_memory(plan: DeepPlan, site: ClusterSite, restarts: int, size: int) -> SiteMemory:
    near = None
    if plan.shape is None:
        count = plan.settings.neighbours
        near = jnp.asarray(neighbours(site.rows, count, site.rng(_NEIGHBOURS)))
    return start_memory(plan, site.rows, near, restarts, size)


def stored_memory(site: ClusterSite) -> tuple[Any, ...] | None:
    """Return which restarts a site trains, its shares and Adam's moments, as arrays."""
    if site.memory is None:
        return None
    restarts, memory = site.memory
    return restarts, memory.shares, tuple(jax.tree.leaves(memory.moments))


def restored_memory(site: ClusterSite, stored: tuple[Any, ...] | None) -> Any:
    """Return a site's memory with what was stored; rows and their neighbours are the site's own."""
    if stored is None:
        return None
    restarts, shares, leaves = stored
    plan = plan_of(site.settings, site.kinds)
    size = max(leaf.shape[-1] for leaf in leaves if leaf.ndim > 1)
    memory = _new_memory(plan, site, len(restarts), size)
    moments = jax.tree.unflatten(jax.tree.structure(memory.moments), map(jnp.asarray, leaves))
    return restarts, memory._replace(shares=jnp.asarray(shares), moments=moments)


def _key(site: ClusterSite, number: int) -> Any:
    key = jax.random.fold_in(jax.random.key(site.seed), crc32(site.name.encode()))
    return jax.random.fold_in(key, number)


# --- averaging, and the end ---------------------------------------------------------------------


def _average(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Average the sites' changes by rows; after the trial, keep the finalists; send them on."""
    settings: DeepSettings = coordinator.settings
    state: DeepState = coordinator.state
    updates = _updates(inbox, dict.fromkeys(coordinator.sites, state.weights.size))
    rows = np.array([update.rows for update in updates], np.float64)
    parts = rows / rows.sum()
    change = np.zeros(state.weights.size)
    for part, update in zip(parts, updates, strict=True):
        change += part * update.change
    weights = state.weights + change.astype(np.float32).reshape(state.weights.shape)
    plan = plan_of(settings, coordinator.kinds)
    terms = [_terms(update, plan, len(state.restarts)) for update in updates]
    mean = {
        name: np.einsum("s,s...->...", parts, np.array([each[name] for each in terms]))
        for name in terms[0]
    }
    loss = _common_objective(plan, mean)
    loss = np.where(np.isfinite(weights).all(axis=1), loss, np.inf)
    if not np.isfinite(loss).any():
        raise TrainingError(
            "every restart of deep clustering diverged; lower learning_rate, or scale the rows"
        )
    line = np.full(settings.restarts, np.nan)
    line[state.restarts] = loss
    state = replace(
        state,
        weights=weights,
        shares=mean["shares"].astype(np.float32),
        objective=loss,
        number=state.number + 1,
        history=(*state.history, line),
    )
    if state.number == settings.trial_rounds and len(loss) > settings.finalists:
        state = state.take(np.sort(np.argsort(loss, kind="stable")[: settings.finalists]))
    return _send_state(coordinator, state)


def _terms(update: Update, plan: DeepPlan, restarts: int) -> dict[str, np.ndarray]:
    """Return a site's shares and its terms of the objective, one row a restart."""
    groups, heads = sum(plan.heads), len(plan.heads)
    widths = {"shares": groups, "judged_shares": groups}
    widths |= {"judged_inconsistency": heads, "judged_doubt": heads}
    terms = {}
    for name, width in widths.items():
        numbers = update.extras.get(name)
        if numbers is None or numbers.shape != (restarts * width,):
            raise DataError(
                f"the update from {update.sender!r} must have {restarts * width} numbers of "
                f"{name!r}; refused"
            )
        terms[name] = numbers.reshape(restarts, width)
    return terms


def _common_objective(
    plan: DeepPlan, mean: dict[str, np.ndarray]
) -> Float[np.ndarray, " restarts"]:
    """Return the common model's loss, first head: its entropy is that of all rows together."""
    shares = mean["judged_shares"][:, plan.head_slices[0]]
    spread = -(shares * np.log(np.maximum(shares, 1e-30))).sum(axis=1)
    weights = plan.objective
    information = weights.evenness * spread - mean["judged_doubt"][:, 0]
    return mean["judged_inconsistency"][:, 0] - weights.weight * information


def _assign(site: ClusterSite, inbox: Inbox) -> SiteStep:
    """Give every row its group by the best restart; release the groups' sums."""
    model = _expected_model(site, inbox)
    theta = model.weights.reshape(len(model.extras["restarts"]), -1)
    plan = plan_of(site.settings, site.kinds)
    sure, _ = probabilities(plan, theta[int(model.extras["best"][0])], site.rows)
    labels, confidence = sure.argmax(axis=1), sure.max(axis=1).astype(np.float64)
    sums, counts = sum_groups(site.rows, labels, site.settings.k)
    small = counts < site.settings.min_group
    sums[small], counts[small] = 0.0, 0.0
    site = replace(site, labels=labels, confidence=confidence, memory=None)
    return site, [site.release_sums(model.round, sums, counts)]


def _close(coordinator: ClusterCoordinator, inbox: Inbox) -> CoordinatorStep:
    """Keep the best restart and the means of its groups (NaN for an empty one)."""
    state: DeepState = coordinator.state
    shape = coordinator.settings.k, len(coordinator.kinds)
    releases = received_sums(coordinator, inbox, shape)
    counts = np.sum([release.counts for release in releases], axis=0)[:, None]
    sums = np.sum([release.sums for release in releases], axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    state = replace(state.take(np.array([state.best])), centers=means[None])
    return replace(coordinator, state=state), []
