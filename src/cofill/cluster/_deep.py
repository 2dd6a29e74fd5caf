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
from cofill.cluster._deep_settings import DeepSettings, DeepState, plan_of
from cofill.cluster._kmeans_settings import KMeansSettings
from cofill.cluster._lloyd import sum_groups
from cofill.cluster._parties import ClusterCoordinator, ClusterSite, received_model, received_sums
from cofill.cluster._rounds import (
    DeepPlan,
    SiteMemory,
    new_weights,
    probabilities,
    start_memory,
    train_round,
)
from cofill.cluster._starts import join_starts, summarise_locally
from cofill.errors import DataError, TrainingError
from cofill.privacy import GroupSums, ModelWeights, Release, Update
from cofill.protocol import COORDINATOR, Inbox, Step

_SEEDING, _HOMES, _NEIGHBOURS = 1, 2, 3  # purposes of random numbers


def deep_steps(settings: DeepSettings) -> tuple[Step[Any], ...]:
    """Return all steps of the protocol: initial weights, rounds, groups."""
    turn = (Step("train", _train), Step("average", _average, "coordinator"))
    start = (
        Step("summarise", _summarise),
        Step("start networks", _start, "coordinator"),
        Step("train apart", _train_apart),
        Step("gather", _gather, "coordinator"),
    )
    end = (Step("assign", _assign), Step("close", _close, "coordinator"))
    return (*start, *(turn * settings.rounds), *end)


def _summarise(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Release a few local centroids with counts where networks start from k-means."""
    results = []
    for site in sites:
        outbox: list[Release] = []
        if plan_of(site.settings, site.kinds).warm:
            wanted = KMeansSettings(k=site.settings.k)
            sums, counts = summarise_locally(site.rows, wanted, site.rng(_SEEDING))
            outbox.append(
                GroupSums(sender=site.name, receiver=COORDINATOR, round=0, sums=sums, counts=counts)
            )
        results.append((site, outbox))
    return results


def _start(
    coordinators: Sequence[ClusterCoordinator], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Make the initial weights; send each restart to the site where it starts."""
    results = []
    for coordinator, inbox in zip(coordinators, inboxes, strict=True):
        settings: DeepSettings = coordinator.settings
        plan = plan_of(settings, coordinator.kinds)
        centers = None
        if plan.warm:
            sums = received_sums(coordinator, inbox, (0, plan.columns))
            wanted = KMeansSettings(k=settings.k, restarts=settings.restarts)
            rng = np.random.default_rng([coordinator.seed, _SEEDING])
            centers = join_starts(sums, wanted, rng).astype(np.float32)
        keys = jax.random.split(jax.random.key(coordinator.seed), settings.restarts)
        groups = sum(plan.heads)
        state = DeepState(
            np.array(new_weights(plan, keys)),
            np.zeros((settings.restarts, groups), np.float32),
            np.arange(settings.restarts),
            np.full(settings.restarts, np.nan),
            centers=centers,
        )
        homes = _homes(coordinator) if plan.apart else {}
        outbox = [
            coordinator.to_one(
                site, 0, state.weights[home].reshape(-1), restarts=home, shares=state.shares[home]
            )
            for site, home in homes.items()
        ]
        results.append((replace(coordinator, state=state), outbox))
    return results


def _homes(coordinator: ClusterCoordinator) -> dict[str, np.ndarray]:
    """Return which restarts start at which site: in turn, in an order drawn from the seed."""
    order = np.random.default_rng([coordinator.seed, _HOMES]).permutation(sorted(coordinator.sites))
    numbers = np.arange(coordinator.settings.restarts)
    return {
        str(site): numbers[numbers % len(order) == at]
        for at, site in enumerate(order[: len(numbers)])
    }


def _train_apart(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Train the restarts that start at each site on its rows alone; release what changed."""
    received = {at: received_model(inbox) for at, inbox in enumerate(inboxes)}
    models = {at: model for at, model in received.items() if model is not None}
    results: list[Any] = [(site, []) for site in sites]
    trained = _trained([sites[at] for at in models], list(models.values()), apart=True)
    for at, (site, outbox) in zip(models, trained, strict=True):
        results[at] = (replace(site, memory=None), outbox)  # the rounds start with fresh moments
    return results


def _gather(
    coordinators: Sequence[ClusterCoordinator], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Put the restarts together and send all of them to all sites."""
    results = []
    for coordinator, inbox in zip(coordinators, inboxes, strict=True):
        state: DeepState = coordinator.state
        if plan_of(coordinator.settings, coordinator.kinds).apart:
            homes, size = _homes(coordinator), state.weights.shape[1]
            weights = state.weights.copy()
            sizes = {site: len(home) * size for site, home in homes.items()}
            for update in _updates(inbox, sizes):
                weights[homes[update.sender]] += update.change.reshape(-1, size)
            state = replace(state, weights=weights)
        results.append((replace(coordinator, state=state), _sent(coordinator, state)))
    return results


def _sent(coordinator: ClusterCoordinator, state: DeepState) -> list[Release]:
    extras = {
        "shares": state.shares,
        "restarts": state.restarts,
        "best": np.array([state.best]),
    }
    if state.centers is not None:
        extras["centers"] = state.centers
    return coordinator.to_all(state.number, state.weights.reshape(-1), **extras)


def _train(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Train the common networks on each site's rows; release what changed."""
    models = [_expected(site, inbox) for site, inbox in zip(sites, inboxes, strict=True)]
    return _trained(sites, models)


def _trained(
    sites: Sequence[ClusterSite], models: Sequence[ModelWeights], *, apart: bool = False
) -> list[Any]:
    """Train at all sites, those of one shape together."""
    calls: dict[Any, list[int]] = {}
    for at, (site, model) in enumerate(zip(sites, models, strict=True)):
        plan = plan_of(site.settings, site.kinds)
        plan = plan.before_rounds if apart else plan
        calls.setdefault((plan, model.round, len(model.extras["restarts"])), []).append(at)
    results: list[Any] = [None] * len(sites)
    for (plan, number, restarts), chosen in calls.items():
        trained = _train_alike(
            plan, number, restarts, [sites[at] for at in chosen], [models[at] for at in chosen]
        )
        for at, result in zip(chosen, trained, strict=True):
            results[at] = result
    return results


def _train_alike(
    plan: DeepPlan,
    number: int,
    restarts: int,
    sites: Sequence[ClusterSite],
    models: Sequence[ModelWeights],
) -> list[tuple[ClusterSite, list[Release]]]:
    weights = np.stack([model.weights.reshape(restarts, -1) for model in models])
    common = np.stack([model.extras["shares"] for model in models])
    memories = tuple(
        _memory(plan, site, model, weights.shape[-1])
        for site, model in zip(sites, models, strict=True)
    )
    keys = jnp.stack([_key(site, number) for site in sites])
    centers = np.stack([model.extras["centers"] for model in models]) if plan.warm else None
    result = train_round(plan, memories, weights, common, centers, keys, jnp.array(number))
    after, shares = np.asarray(result.weights), np.asarray(result.shares)
    judged = {f"judged_{name}": np.asarray(p) for name, p in result.judged._asdict().items()}
    results: list[tuple[ClusterSite, list[Release]]] = []
    for at, site in enumerate(sites):
        moments = jax.tree.map(lambda leaf, at=at: leaf[at], result.moments)
        memory = memories[at]._replace(shares=result.shares[at], moments=moments)
        update = Update(
            sender=site.name,
            receiver=COORDINATOR,
            round=number,
            change=(after[at] - weights[at]).reshape(-1),
            rows=len(site.rows),
            extras={"shares": shares[at], **{name: part[at] for name, part in judged.items()}},
        )
        site = replace(site, memory=(models[at].extras["restarts"], memory))
        results.append((site, [update]))
    return results


def _memory(plan: DeepPlan, site: ClusterSite, model: ModelWeights, size: int) -> SiteMemory:
    """Return what the site keeps for the restarts that are still in the trial."""
    restarts = model.extras["restarts"]
    if site.memory is None:
        near = None
        if plan.shape is None:
            settings: DeepSettings = site.settings
            near = jnp.asarray(neighbours(site.rows, settings.neighbours, site.rng(_NEIGHBOURS)))
        return start_memory(plan, site.rows, near, len(restarts), size)
    before, memory = site.memory
    if len(before) == len(restarts):
        return memory
    return memory.take(np.flatnonzero(np.isin(before, restarts)))


def _key(site: ClusterSite, number: int) -> Any:
    key = jax.random.fold_in(jax.random.key(site.seed), crc32(site.name.encode()))
    return jax.random.fold_in(key, number)


def _average(
    coordinators: Sequence[ClusterCoordinator], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Average the sites' changes by rows; after the trial, keep the finalists; send them on."""
    results = []
    for coordinator, inbox in zip(coordinators, inboxes, strict=True):
        state = _averaged(coordinator, inbox)
        results.append((replace(coordinator, state=state), _sent(coordinator, state)))
    return results


def _averaged(coordinator: ClusterCoordinator, inbox: Inbox) -> DeepState:
    settings: DeepSettings = coordinator.settings
    state: DeepState = coordinator.state
    updates = _updates(inbox, dict.fromkeys(coordinator.sites, state.weights.size))
    rows = np.array([update.rows for update in updates], np.float64)
    parts = rows / rows.sum()
    restarts = len(state.restarts)
    change = np.zeros(state.weights.size)
    for part, update in zip(parts, updates, strict=True):
        change += part * update.change
    weights = state.weights + change.astype(np.float32).reshape(restarts, -1)
    mean: dict[str, np.ndarray] = {
        name: np.einsum("s,s...->...", parts, np.array([u.extras[name] for u in updates]))
        for name in ("shares", "judged_shares", "judged_inconsistency", "judged_doubt")
    }
    loss = _common_objective(plan_of(settings, coordinator.kinds), mean)
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
    if state.number == settings.trial_rounds and restarts > settings.finalists:
        finalists = np.sort(np.argsort(loss, kind="stable")[: settings.finalists])
        state = replace(
            state,
            weights=state.weights[finalists],
            shares=state.shares[finalists],
            restarts=state.restarts[finalists],
            objective=state.objective[finalists],
            centers=None if state.centers is None else state.centers[finalists],
        )
    return state


def _common_objective(
    plan: DeepPlan, mean: dict[str, np.ndarray]
) -> Float[np.ndarray, " restarts"]:
    """Return the common model's loss, first head: its entropy is that of all rows together."""
    shares = mean["judged_shares"][:, plan.head_slices[0]]
    spread = -(shares * np.log(np.maximum(shares, 1e-30))).sum(axis=1)
    weights = plan.objective
    information = weights.evenness * spread - mean["judged_doubt"][:, 0]
    return mean["judged_inconsistency"][:, 0] - weights.weight * information


def _updates(inbox: Inbox, sizes: Mapping[str, int]) -> list[Update]:
    updates = {r.sender: r for r in inbox if isinstance(r, Update)}
    for site in sizes:
        if site not in updates:
            raise DataError(f"site {site!r} has sent no update; all sites must take part")
        if updates[site].change.shape != (sizes[site],):
            raise DataError(
                f"the update from {site!r} has shape {updates[site].change.shape}, expected was "
                f"({sizes[site]},); refused"
            )
    return [updates[site] for site in sorted(sizes)]


def _expected(site: ClusterSite, inbox: Inbox) -> ModelWeights:
    model = received_model(inbox)
    if model is None:
        raise DataError(f"site {site.name!r} has received no model; the coordinator must send one")
    return model


def _assign(
    sites: Sequence[ClusterSite], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Give every row its group by the best restart; release the groups' sums."""
    results = []
    for site, inbox in zip(sites, inboxes, strict=True):
        model = _expected(site, inbox)
        theta = model.weights.reshape(len(model.extras["restarts"]), -1)
        plan = plan_of(site.settings, site.kinds)
        sure, _ = probabilities(plan, theta[int(model.extras["best"][0])], site.rows)
        labels = sure.argmax(axis=1)
        sums, counts = sum_groups(site.rows, labels, site.settings.k)
        site = replace(
            site, labels=labels, confidence=sure.max(axis=1).astype(np.float64), memory=None
        )
        results.append((site, [_sums_release(site, model.round, sums, counts)]))
    return results


def _close(
    coordinators: Sequence[ClusterCoordinator], inboxes: Sequence[Inbox], report_progress: Any
) -> list[Any]:
    """Keep the best restart and the means of its groups (NaN for an empty one)."""
    results = []
    for coordinator, inbox in zip(coordinators, inboxes, strict=True):
        state: DeepState = coordinator.state
        releases = received_sums(
            coordinator, inbox, (coordinator.settings.k, len(coordinator.kinds))
        )
        counts = np.sum([release.counts for release in releases], axis=0)[:, None]
        sums = np.sum([release.sums for release in releases], axis=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        best = [state.best]
        state = replace(
            state,
            weights=state.weights[best],
            shares=state.shares[best],
            restarts=state.restarts[best],
            objective=state.objective[best],
            centers=means[None],
        )
        results.append((replace(coordinator, state=state), []))
    return results


def _sums_release(
    site: ClusterSite, number: int, sums: np.ndarray, counts: np.ndarray
) -> GroupSums:
    return GroupSums(sender=site.name, receiver=COORDINATOR, round=number, sums=sums, counts=counts)
