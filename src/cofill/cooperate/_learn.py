"""The receiver learns: links from foreign codes to local cells, masks over them, or a fusion.

Beside the paper's method (`_faithful.py`) the best we know under the same constraint. A link that
exists for the same encoder is kept; so a new view costs its own links only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.cooperate._faithful import learn_faithful
from cofill.cooperate._link_data import LinkData, link_data, receive_codes
from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._predict import masked_sum
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._site import CooperativeSite, ViewModel, fit_in_groups
from cofill.nets import Fusion, FusionProblem, FusionSettings, fit_fusions, refine_fusions
from cofill.protocol import Inbox, Outbox, Step

_REFINING_STEPS = 200  # new rows move networks that are trained already only a little


def _learn(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[Inbox],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, Outbox]]:
    received = [receive_codes(site, inbox) for site, inbox in zip(sites, inboxes, strict=True)]
    all_data = [link_data(site) for site in received]
    learned: dict[int, CooperativeSite] = {}
    for learn in (_refine, learn_faithful, _learn_best):
        chosen = [data for data in all_data if _way_to_learn(data.site) is learn]
        for data, site in zip(chosen, learn(chosen, report_progress), strict=True):
            learned[id(data)] = site
    return [(learned[id(data)], []) for data in all_data]


LEARN = Step("train links", _learn)


def _way_to_learn(site: CooperativeSite) -> Callable[..., list[CooperativeSite]]:
    if site.settings.is_faithful:
        return learn_faithful
    return _refine if site.is_refining else _learn_best


def _learn_best(
    all_data: Sequence[LinkData], report_progress: Callable[[float], None]
) -> list[CooperativeSite]:
    """Return the sites with links and fusions, whichever is better in cross-validation."""
    linked = [data for data in all_data if data.links]
    masked = [d for d in linked if d.site.settings.method in ("masked", "auto")]
    fused = [d for d in linked if d.site.settings.method in ("fused", "auto")]
    unfitted = [
        (data, peer)
        for data in masked
        for peer, link in data.links.items()
        if data.is_unfitted(link)
    ]
    items = [(data, data.fusion_problem(peer)) for data, peer in unfitted]
    items += [(data, data.fusion_problem()) for data in fused]
    fitted = iter(fit_in_groups(items, _fusion_settings, _fit_problems, report_progress))
    for data, peer in unfitted:
        fusion = next(fitted)
        link = data.links[peer]
        data.links[peer] = replace(link, fusion=fusion, out_of_fold=fusion.out_of_fold)
    fusions = {id(data): next(fitted) for data in fused}
    counts = [sum(other is data for other, _ in unfitted) for data in all_data]
    return [
        _choose_model(data, fusions.get(id(data)), count)
        for data, count in zip(all_data, counts, strict=True)
    ]


def _fusion_settings(item: tuple[LinkData, *tuple[Any, ...]]) -> FusionSettings:
    return item[0].site.settings.fusion


def _fit_problems(
    items: Sequence[tuple[LinkData, FusionProblem]],
    settings: FusionSettings,
    report_progress: Callable[[float], None],
) -> Sequence[Fusion]:
    problems = [problem for _, problem in items]
    return fit_fusions(problems, settings, progress=report_progress)


def _choose_model(data: LinkData, fusion: Fusion | None, new_links: int) -> CooperativeSite:
    """Return the site with its model: masked links or the fusion, by their held-out errors."""
    site, targets = data.site, data.targets[data.is_linked]
    statistics = masked = None
    link_residuals = {}
    if data.links and all(link.fusion is not None for link in data.links.values()):
        outputs = data.held_out_outputs()
        statistics = MaskStatistics.of(outputs, data.targets, data.present)
        masked = masked_sum(outputs, statistics, data.present, site.settings)[data.is_linked]
        link_residuals = data.link_residuals(outputs)
    fused = None if fusion is None else fusion.out_of_fold
    use_fusion = fused is not None and (
        masked is None or _mean_error(fused, targets) <= _mean_error(masked, targets)
    )
    best = fused if use_fusion else masked
    model = ViewModel(
        links=data.links,
        statistics=statistics,
        fusion=fusion,
        use_fusion=use_fusion,
        residuals=None if best is None else Residuals.of(best, targets),
        link_residuals=link_residuals,
        seen=site.tokens,
    )
    return site.with_(model=model).count_trained(links=new_links, fusions=int(fusion is not None))


def _mean_error(predicted: np.ndarray, targets: np.ndarray) -> float:
    return float(np.nanmean((predicted - targets) ** 2))


def _refine(
    all_data: Sequence[LinkData], report_progress: Callable[[float], None]
) -> list[CooperativeSite]:
    """Return the sites after learning from new rows: sums exactly, networks by a few steps.

    What the old model predicts of the new rows is out of sample, so that mask statistics and
    residuals grow by it.
    """
    items = []
    for data in all_data:
        for peer, link in data.links.items():
            if link.fusion is not None:
                items.append((data, data.fusion_problem(peer), link.fusion, peer))
        if data.site.model.fusion is not None:
            fusion = data.site.model.fusion
            items.append((data, data.fusion_problem(), fusion, ""))
    grown = [data.grown_model() for data in all_data]  # before links are replaced
    refined = fit_in_groups(items, _fusion_settings, _refine_fusions, report_progress)
    fusions: dict[int, Fusion] = {}
    for (data, _, _, peer), fusion in zip(items, refined, strict=True):
        if peer:
            link = data.links[peer]
            data.links[peer] = replace(link, fusion=fusion, out_of_fold=None)
        else:
            fusions[id(data)] = fusion
    return [
        data.site.with_(model=replace(model, links=data.links, fusion=fusions.get(id(data))))
        for data, model in zip(all_data, grown, strict=True)
    ]


def _refine_fusions(
    items: Sequence[tuple[LinkData, FusionProblem, Fusion, str]],
    settings: FusionSettings,
    report_progress: Callable[[float], None],
) -> Sequence[Fusion]:
    _, problems, fusions, _ = zip(*items, strict=True)
    return refine_fusions(fusions, problems, settings, steps=_REFINING_STEPS)
