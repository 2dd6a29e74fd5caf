"""The receiver learns: links from foreign codes to local cells, masks over them, or a fusion.

The paper's method (CRS, sections IV-C and IV-D: one network per peer, then Eq. 4–8), and beside it
the best we know under the same constraint. A link that exists for the same encoder is kept; so a
new view costs its own links only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from cofill.cooperate._link_data import LinkData, link_data, receive_codes
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._own_cells import fit_own_cells
from cofill.cooperate._predict import link_output, masked_sum
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._site import CooperativeSite, Link, Report, ViewModel, fit_in_groups
from cofill.impute import JointGaussian
from cofill.nets import (
    MLP,
    Fusion,
    FusionSettings,
    SquaredError,
    Task,
    TrainSettings,
    fit_fusions,
    recipe,
    refine_fusions,
    train,
)
from cofill.protocol import Inbox, Outbox, Step

# New rows move networks that are trained already only a little.
_REFINING_STEPS = 200  # of fusions
_REFINING_EPOCHS = 10  # of the paper's links


def _learn(
    sites: Sequence[CooperativeSite], inboxes: Sequence[Inbox], report_progress: Report
) -> list[tuple[CooperativeSite, Outbox]]:
    received = [receive_codes(site, inbox) for site, inbox in zip(sites, inboxes, strict=True)]
    all_data = [link_data(site) for site in received]
    ways: dict[Any, list[LinkData]] = {_refine: [], _learn_faithful: [], _learn_best: []}
    for data in all_data:
        best = _refine if data.site.is_refining else _learn_best
        ways[_learn_faithful if data.site.settings.is_faithful else best].append(data)
    learned = {}
    for learn, chosen in ways.items():
        for data, site in zip(chosen, learn(chosen, report_progress), strict=True):
            learned[id(data)] = site
    return [(learned[id(data)], []) for data in all_data]


LEARN = Step("train links", _learn)


def _learn_best(all_data: Sequence[LinkData], report_progress: Report) -> list[CooperativeSite]:
    """Return the sites with links and fusions, whichever is better in cross-validation."""
    linked = [data for data in all_data if data.links]
    masked = [d for d in linked if d.site.settings.method in ("masked", "auto")]
    fused = [d for d in linked if d.site.settings.method in ("fused", "auto")]
    unfitted = [(data, peer) for data in masked for peer in data.unfitted_peers]
    items = [(data, data.fusion_problem(peer)) for data, peer in unfitted]
    items += [(data, data.fusion_problem()) for data in fused]

    def fit(items: list[Any], settings: FusionSettings, report: Report) -> Sequence[Fusion]:
        return fit_fusions([problem for _, problem in items], settings, progress=report)

    fitted = iter(fit_in_groups(items, _fusion_settings, fit, report_progress))
    for data, peer in unfitted:
        fusion = next(fitted)
        link = data.links[peer]
        data.links[peer] = replace(link, fusion=fusion, out_of_fold=fusion.out_of_fold)
    fusions = {id(data): next(fitted) for data in fused}
    counts = [sum(other is data for other, _ in unfitted) for data in all_data]
    pairs = zip(all_data, counts, strict=True)
    return [_choose_model(data, fusions.get(id(data)), count) for data, count in pairs]


def _fusion_settings(item: tuple[LinkData, *tuple[Any, ...]]) -> FusionSettings:
    return item[0].site.settings.fusion


def _choose_model(data: LinkData, fusion: Fusion | None, new_links: int) -> CooperativeSite:
    """Return the site with its model: masked links or the fusion, by their held-out errors."""
    site, targets = data.site, data.targets[data.is_linked]
    model, masked = ViewModel(links=data.links, seen=site.tokens), None
    if data.links and all(link.fusion is not None for link in data.links.values()):
        model, masked = _weigh_links(data, data.held_out_outputs())
    if fusion is not None:
        fused = fusion.out_of_fold
        if masked is None or (
            np.nanmean((fused - targets) ** 2) <= np.nanmean((masked - targets) ** 2)
        ):
            model = replace(model, use_fusion=True, residuals=Residuals.of(fused, targets))
            masked = fused
        model = replace(model, fusion=fusion)
    model = replace(model, own_cells=_own_cells(data, masked))
    counts = {"links": new_links, "fusions": int(fusion is not None)}
    return replace(site, model=model).count_trained(**counts)


def _refine(all_data: Sequence[LinkData], report_progress: Report) -> list[CooperativeSite]:
    """Return the sites after learning from new rows: sums exactly, networks by a few steps.

    What the old model predicts of the new rows is out of sample, so that mask statistics and
    residuals grow by it.
    """
    items = []
    for data in all_data:
        for peer, link in data.links.items():
            if link.fusion is not None:
                items.append((data, data.fusion_problem(peer), link.fusion, peer))
        if (fusion := data.site.model.fusion) is not None:
            items.append((data, data.fusion_problem(), fusion, ""))
    grown = [data.grown_model() for data in all_data]  # before links are replaced

    def fit(items: list[Any], settings: FusionSettings, report: Report) -> Sequence[Fusion]:
        _, problems, fusions, _ = zip(*items, strict=True)
        return refine_fusions(fusions, problems, settings, steps=_REFINING_STEPS)

    refined = fit_in_groups(items, _fusion_settings, fit, report_progress)
    fusions: dict[int, Fusion] = {}
    for (data, _, _, peer), fusion in zip(items, refined, strict=True):
        if peer:
            data.links[peer] = replace(data.links[peer], fusion=fusion, out_of_fold=None)
        else:
            fusions[id(data)] = fusion
    return [
        replace(data.site, model=replace(model, links=data.links, fusion=fusions.get(id(data))))
        for data, model in zip(all_data, grown, strict=True)
    ]


# --- the paper's links and masks ------------------------------------------------------------------


def _learn_faithful(all_data: Sequence[LinkData], report_progress: Report) -> list[CooperativeSite]:
    """Return the sites with the paper's links and masks; links of all sites train together."""
    unfitted = [
        (data, peer)
        for data in all_data
        for peer in (data.links if data.site.is_refining else data.unfitted_peers)
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
        if id(data) in grown:
            model = replace(grown[id(data)], links=data.links)
        else:
            outputs = data.held_out_outputs() if data.uses_held_out_rows else data.link_outputs()
            model, predicted = _weigh_links(data, outputs)
            model = replace(model, own_cells=_own_cells(data, predicted))
        count = sum(fitted is data for fitted, _ in unfitted)
        sites.append(replace(data.site, model=model).count_trained(links=count))
    return sites


def _link_training(item: tuple[LinkData, str]) -> TrainSettings:
    site = item[0].site
    training = site.settings.link_training
    return replace(training, epochs=_REFINING_EPOCHS) if site.is_refining else training


def _fit_links(
    items: Sequence[tuple[LinkData, str]], training: TrainSettings, report_progress: Report
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
    tasks = [task]
    for fold in range(data.site.settings.mask_folds):
        inputs, targets = task.inputs[folds != fold], task.targets[folds != fold]
        fold_key = jax.random.fold_in(key, fold)
        tasks.append(replace(task, inputs=inputs, targets=targets, key=fold_key))
    return tasks


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


def _weigh_links(data: LinkData, outputs: np.ndarray) -> tuple[ViewModel, np.ndarray | None]:
    """Return the model whose masks weigh links by these outputs, and its linked rows."""
    residuals = data.link_residuals(outputs)
    model = ViewModel(links=data.links, link_residuals=residuals, seen=data.site.tokens)
    if not data.links:
        return model, None
    statistics = MaskStatistics.of(outputs, data.targets, data.present)
    predicted = masked_sum(outputs, statistics, data.present, data.site.settings)[data.is_linked]
    wrong = Residuals.of(predicted, data.targets[data.is_linked])
    return replace(model, statistics=statistics, residuals=wrong), predicted


def _own_cells(data: LinkData, predicted: np.ndarray | None) -> JointGaussian | None:
    return fit_own_cells(data.site, data.targets, data.is_linked, predicted)
