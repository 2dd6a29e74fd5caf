"""The paper's links and masks (CRS, sections IV-C and IV-D): one network per peer, then Eq. 4–8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from cofill.cooperate._link_data import LinkData
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._predict import link_output, masked_sum
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._site import CooperativeSite, Link, ViewModel, fit_in_groups
from cofill.nets import MLP, SquaredError, Task, TrainSettings, recipe, train

_REFINING_EPOCHS = 10  # new rows move links that are trained already only a little


def learn_faithful(
    all_data: Sequence[LinkData], report_progress: Callable[[float], None]
) -> list[CooperativeSite]:
    """Return the sites with the paper's links and masks; links of all sites train together."""
    unfitted = [
        (data, peer)
        for data in all_data
        for peer, link in data.links.items()
        if data.site.is_refining or data.is_unfitted(link)
    ]
    # Before links are replaced: what the old ones predict of new rows is out of sample.
    grown = {
        id(d): d.grown_model() for d in all_data if d.site.is_refining and d.uses_held_out_rows
    }
    links = fit_in_groups(unfitted, _link_training, _fit_links, report_progress)
    for (data, peer), link in zip(unfitted, links, strict=True):
        data.links[peer] = link
    sites = []
    for data in all_data:
        old = grown.get(id(data))
        model = _weigh_links(data) if old is None else replace(old, links=data.links)
        count = sum(fitted is data for fitted, _ in unfitted)
        sites.append(data.site.with_(model=model).count_trained(links=count))
    return sites


def _link_training(item: tuple[LinkData, str]) -> TrainSettings:
    site = item[0].site
    training = site.settings.link_training
    return replace(training, epochs=_REFINING_EPOCHS) if site.is_refining else training


def _fit_links(
    items: Sequence[tuple[LinkData, str]],
    training: TrainSettings,
    report_progress: Callable[[float], None],
) -> list[Link]:
    tasks = [_link_tasks(data, peer) for data, peer in items]
    trained = train(
        [task for link_tasks in tasks for task in link_tasks],
        SquaredError(),
        training,
        progress=lambda step, steps, _: report_progress(step / steps),
    )
    networks = iter(trained.networks)
    links = []
    for (data, peer), link_tasks in zip(items, tasks, strict=True):
        network, *fold_networks = (next(networks) for _ in link_tasks)
        links.append(_fitted_link(data, peer, network, fold_networks))
    return links


def _link_tasks(data: LinkData, peer: str) -> list[Task]:
    """Return the training of a link and, for held-out outputs, one training without each fold."""
    rows = data.is_shared(peer)
    codes, targets = data.codes[peer][rows], data.targets[rows]
    hidden = data.site.settings.widths(targets.shape[1]).link
    network = data.links[peer].network if data.site.is_refining else None
    key = jax.random.key(data.seed(peer))
    task = Task(
        network or recipe(MLP, (codes.shape[1], *hidden, targets.shape[1])),
        codes.astype(np.float32, copy=False),
        targets.astype(np.float32),
        key=key,
        name=f"link {peer!r} → {data.site.name!r}",
    )
    if data.site.is_refining or not data.uses_held_out_rows:
        return [task]
    folds = _folds(data, peer)
    without_fold = [
        replace(
            task,
            inputs=task.inputs[folds != fold],
            targets=task.targets[folds != fold],
            key=jax.random.fold_in(key, fold),
        )
        for fold in range(data.site.settings.mask_folds)
    ]
    return [task, *without_fold]


def _folds(data: LinkData, peer: str) -> Int[np.ndarray, " shared"]:
    """Return the fold of each row that the link learns from."""
    n_shared = int(data.is_shared(peer).sum())
    generator = np.random.default_rng(data.seed(peer, "folds"))
    return generator.permutation(n_shared) % data.site.settings.mask_folds


def _fitted_link(data: LinkData, peer: str, network: Any, fold_networks: Sequence[Any]) -> Link:
    """Return the link with its network and what those without a fold predict of that fold."""
    link = replace(data.links[peer], network=network, out_of_fold=None)
    if not fold_networks:
        return link
    codes = data.codes[peer][data.is_shared(peer)]
    folds, outputs = _folds(data, peer), np.empty((len(codes), data.targets.shape[1]))
    for fold, fold_network in enumerate(fold_networks):
        rows = folds == fold
        outputs[rows] = link_output(replace(link, network=fold_network), codes[rows])
    return replace(link, out_of_fold=outputs)


def _weigh_links(data: LinkData) -> ViewModel:
    """Weigh the links' outputs for the rows they learned from, or for rows they had not seen."""
    outputs = data.held_out_outputs() if data.uses_held_out_rows else data.link_outputs()
    statistics = residuals = None
    if data.links:
        statistics = MaskStatistics.of(outputs, data.targets, data.present)
        predicted = masked_sum(outputs, statistics, data.present, data.site.settings)
        residuals = Residuals.of(predicted[data.is_linked], data.targets[data.is_linked])
    return ViewModel(
        links=data.links,
        statistics=statistics,
        residuals=residuals,
        link_residuals=data.link_residuals(outputs),
        seen=data.site.tokens,
    )
