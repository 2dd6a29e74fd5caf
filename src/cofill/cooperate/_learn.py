"""The receiver learns: links from foreign codes to local cells, masks over them, or a fusion.

Paper CRS, sections IV-C and IV-D, and beside it the best we know under the same constraint. A link
that exists for the same encoder is kept; so a new view costs its own links only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.cooperate._masks import MaskStatistics
from cofill.cooperate._predict import link_guess, masked_sum
from cofill.cooperate._residuals import Residuals
from cofill.cooperate._site import (
    CooperativeSite,
    Link,
    Model,
    gathered,
    named_seed,
)
from cofill.errors import DataError
from cofill.nets import (
    MLP,
    Fusion,
    FusionProblem,
    FusionSettings,
    SquaredError,
    Task,
    fit_fusions,
    loss_blocks,
    recipe,
    refine_fusions,
    side_by_side,
    train,
)
from cofill.privacy import Codes, Release, rows_of, union
from cofill.protocol import Step

__all__ = ["LEARN", "desk_of", "fusion_problem", "receive"]

_REFINING_EPOCHS = 10
_REFINING_STEPS = 200


@dataclass(frozen=True, eq=False)
class _Desk:
    """What lies before a site when it learns: its rows and, per usable peer, their codes."""

    site: CooperativeSite
    targets: Float[np.ndarray, "rows width"]
    links: dict[str, Link]
    codes: dict[str, Float[np.ndarray, "rows code"]]
    present: Bool[np.ndarray, "rows peers"]
    needed: Bool[np.ndarray, "missing peers"]


def _learn(
    sites: Sequence[CooperativeSite],
    inboxes: Sequence[tuple[Release, ...]],
    report_progress: Callable[[float], None],
) -> list[tuple[CooperativeSite, list[Release]]]:
    received = [receive(site, inbox) for site, inbox in zip(sites, inboxes, strict=True)]
    desks = [desk_of(site) for site in received]
    faithful = [d for d in desks if d.site.settings.is_faithful]
    known = [d for d in desks if d.site.refines and not d.site.settings.is_faithful]
    others = [d for d in desks if not (d.site.refines or d.site.settings.is_faithful)]
    learned: dict[int, CooperativeSite] = {}
    for desk, site in zip(known, _refine(known), strict=True):
        learned[id(desk)] = site
    for desk, site in zip(faithful, _learn_faithful(faithful, report_progress), strict=True):
        learned[id(desk)] = site
    for desk, site in zip(others, _learn_best(others, report_progress), strict=True):
        learned[id(desk)] = site
    return [(learned[id(desk)], []) for desk in desks]


LEARN = Step("train links", _learn)


def receive(site: CooperativeSite, inbox: tuple[Release, ...]) -> CooperativeSite:
    """Check what came in and keep it; an unsound release leaves the site as it was."""
    codes = dict(site.peer_codes)
    for release in inbox:
        if isinstance(release, Codes):
            if release.spec.view != release.sender:
                raise DataError(
                    f"codes from {release.sender!r} to {site.name!r} are of view "
                    f"{release.spec.view!r}, which is not known here; refused"
                )
            release.check(None)
            codes[release.sender] = _merged(codes.get(release.sender), release)
    return site.with_(peer_codes=codes)


def _merged(old: Codes | None, new: Codes) -> Codes:
    """Add new codes to those of the same encoder; another encoder's replace them."""
    if old is None or old.spec != new.spec:
        return new
    fresh = rows_of(old.tokens, new.tokens) < 0
    return replace(
        old,
        tokens=np.concatenate([old.tokens, new.tokens[fresh]]),
        codes=np.concatenate([old.codes, new.codes[fresh]]),
    )


def desk_of(site: CooperativeSite) -> _Desk:
    tokens = site.tokens
    links, columns, present, notes = {}, {}, [], []
    for peer in site.others:
        sent = site.peer_codes.get(peer)
        old = site.model.links.get(peer)
        link = codes = there = None
        if sent is not None:
            link = old if old is not None and old.spec == sent.spec else _new_link(site, sent)
            codes, there = gathered(sent, link, tokens)
        shared = 0 if there is None else int(there.sum())
        if link is None or there is None or codes is None or shared < site.settings.min_overlap:
            notes.append(
                f"view {site.name!r} shares {shared} individuals with view {peer!r}, fewer than "
                f"{site.settings.min_overlap}: that link is left out"
            )
            continue
        links[peer], columns[peer] = link, codes
        present.append(there)
    if not links:
        notes.append(f"view {site.name!r} has no usable link and cannot be reconstructed")
    theirs = [site.peer_tokens[peer] for peer in links]
    strangers = union(theirs)
    strangers = strangers[rows_of(tokens, strangers) < 0]
    needed = [rows_of(one, strangers) >= 0 for one in theirs]
    return _Desk(
        site.with_(notes=tuple(notes)),
        site.encoded(),
        links,
        columns,
        np.stack(present, axis=1) if present else np.zeros((len(tokens), 0), bool),
        np.stack(needed, axis=1) if needed else np.zeros((0, 0), bool),
    )


def _new_link(site: CooperativeSite, sent: Codes) -> Link:
    """Return a link without a learner; the paper feeds codes as they are, ours standardised."""
    width = sent.spec.width
    if site.settings.is_faithful:
        return Link(sent.spec, np.zeros(width), np.ones(width))
    spread = sent.codes.std(axis=0, dtype=np.float64)
    return Link(
        sent.spec,
        sent.codes.mean(axis=0, dtype=np.float64),
        np.where(spread > 1e-6, spread, 1.0),
    )


# --- the paper's links and masks --------------------------------------------------------------


def _learn_faithful(
    desks: Sequence[_Desk], report_progress: Callable[[float], None]
) -> list[CooperativeSite]:
    places = [
        (k, peer)
        for k, desk in enumerate(desks)
        for peer, link in desk.links.items()
        if _unlearned(desk, link) or desk.site.refines
    ]
    # By the old links, before they are replaced: what they say of new rows is out of sample.
    grown = {
        k: _grown(desk) for k, desk in enumerate(desks) if desk.site.refines and _crosses(desk)
    }
    calls: dict[Any, list[tuple[int, str]]] = {}
    for k, peer in places:
        site = desks[k].site
        training = site.settings.link_training
        if site.refines:
            training = replace(training, epochs=_REFINING_EPOCHS)
        calls.setdefault(training, []).append((k, peer))
    for done, (training, chosen) in enumerate(calls.items()):
        tasks = [_link_tasks(desks[k], peer) for k, peer in chosen]
        trained = train(
            [task for tasks_of_link in tasks for task in tasks_of_link],
            SquaredError(),
            training,
            progress=lambda n, total, _, at=done: report_progress((at + n / total) / len(calls)),
        )
        networks = iter(trained.networks)
        for (k, peer), tasks_of_link in zip(chosen, tasks, strict=True):
            network, *crossed = (next(networks) for _ in tasks_of_link)
            desks[k].links[peer] = _learned_link(desks[k], peer, network, crossed)
    sites = []
    for k, desk in enumerate(desks):
        new = sum(at == k for at, _ in places)
        model = replace(grown[k], links=desk.links) if k in grown else _faithful_model(desk)
        sites.append(desk.site.with_(model=model).counted(links=new))
    return sites


def _faithful_model(desk: _Desk) -> Model:
    """Weigh the links' guesses for the rows they learned from, or for rows they had not seen."""
    guesses = _crossed_guesses(desk) if _crosses(desk) else _guesses(desk)
    linked = desk.present.any(axis=1)
    statistics = residuals = None
    if desk.links:
        statistics = MaskStatistics.of(guesses, desk.targets, desk.present)
        made = masked_sum(guesses, statistics, desk.present, desk.site.settings)[linked]
        residuals = Residuals.of(made, desk.targets[linked])
    return Model(
        links=desk.links,
        statistics=statistics,
        residuals=residuals,
        link_residuals=_link_residuals(desk, guesses),
        seen=desk.site.tokens,
    )


def _crosses(desk: _Desk) -> bool:
    settings = desk.site.settings
    return settings.mask_folds > 0 or not settings.is_faithful


def _unlearned(desk: _Desk, link: Link) -> bool:
    """Whether a link has nothing that masks can be made from.

    Guesses out of fold are not made anew when links are refined by more rows, so that such links
    are learned from the start when masks are wanted next.
    """
    return link.out_of_fold is None if _crosses(desk) else link.network is None


def _link_tasks(desk: _Desk, peer: str) -> list[Task]:
    """Return the link's own task and, for out-of-fold guesses, one without each fold."""
    own = _link_task(desk, peer)
    if desk.site.refines or not _crosses(desk):
        return [own]
    folds, key = _folds(desk, peer), jax.random.key(_seed(desk, peer))
    without = [
        replace(
            own,
            inputs=own.inputs[folds != k],
            targets=own.targets[folds != k],
            key=jax.random.fold_in(key, k),
        )
        for k in range(desk.site.settings.mask_folds)
    ]
    return [own, *without]


def _folds(desk: _Desk, peer: str) -> Int[np.ndarray, " shared"]:
    """Return the fold of each row that the link learns from."""
    shared = int(_shared(desk, peer).sum())
    order = np.random.default_rng(named_seed(desk.site.seed, desk.site.name, peer, "folds"))
    return order.permutation(shared) % desk.site.settings.mask_folds


def _learned_link(desk: _Desk, peer: str, network: Any, crossed: Sequence[Any]) -> Link:
    """Return the link with its network and what those without a fold say of that fold's rows."""
    link = replace(desk.links[peer], network=network, out_of_fold=None)
    if not crossed:
        return link
    codes = desk.codes[peer][_shared(desk, peer)]
    folds, made = _folds(desk, peer), np.empty((len(codes), desk.targets.shape[1]))
    for k, other in enumerate(crossed):
        made[folds == k] = link_guess(replace(link, network=other), codes[folds == k])
    return replace(link, out_of_fold=made)


def _link_task(desk: _Desk, peer: str) -> Task:
    rows = _shared(desk, peer)
    codes, targets = desk.codes[peer][rows], desk.targets[rows]
    hidden = desk.site.settings.widths(targets.shape[1]).link
    fresh = recipe(MLP, (codes.shape[1], *hidden, targets.shape[1]))
    return Task(
        desk.links[peer].network if desk.site.refines and desk.links[peer].network else fresh,
        codes.astype(np.float32, copy=False),
        targets.astype(np.float32),
        key=jax.random.key(_seed(desk, peer)),
        name=f"link {peer!r} → {desk.site.name!r}",
    )


def _shared(desk: _Desk, peer: str) -> Bool[np.ndarray, " rows"]:
    """Return which rows the peer sent codes for."""
    return desk.present[:, list(desk.links).index(peer)]


def _guesses(desk: _Desk) -> Float[np.ndarray, "peers rows width"]:
    """Return each link's guess for each row, zero where the peer sent no code."""
    made = np.zeros((len(desk.links), *desk.targets.shape))
    for j, (peer, link) in enumerate(desk.links.items()):
        rows = desk.present[:, j]
        made[j, rows] = link_guess(link, desk.codes[peer][rows])
    return made


def _crossed_guesses(desk: _Desk) -> Float[np.ndarray, "peers rows width"]:
    """Return for each row what each link said of it before it had learned from it."""
    made = np.zeros((len(desk.links), *desk.targets.shape))
    for j, link in enumerate(desk.links.values()):
        made[j, desk.present[:, j]] = link.out_of_fold
    return made


# --- links and fusions chosen by cross-validation ---------------------------------------------


def _learn_best(
    desks: Sequence[_Desk], report_progress: Callable[[float], None]
) -> list[CooperativeSite]:
    masked = [d for d in desks if d.site.settings.method in ("masked", "auto") and d.links]
    fused = [d for d in desks if d.site.settings.method in ("fused", "auto") and d.links]
    places = [(d, peer) for d in masked for peer, link in d.links.items() if _unlearned(d, link)]
    problems = [_link_problem(d, peer) for d, peer in places] + [fusion_problem(d) for d in fused]
    made = iter(_fit(problems, [d for d, _ in places] + fused, report_progress))
    for desk, peer in places:
        fusion = next(made)
        desk.links[peer] = replace(desk.links[peer], fusion=fusion, out_of_fold=fusion.out_of_fold)
    fusions = {id(d): next(made) for d in fused}
    new = {id(d): sum(at is d for at, _ in places) for d in desks}
    return [_assemble(desk, fusions.get(id(desk)), new[id(desk)]) for desk in desks]


def _refine(desks: Sequence[_Desk]) -> list[CooperativeSite]:
    """Learn from new rows: sums exactly, networks by a few steps, those of all sites together.

    What the old model says of the new rows is out of sample, so that masks' statistics and
    residuals grow by it.
    """
    places: list[tuple[_Desk, str]] = []
    models, problems = [], []
    for desk in desks:
        for peer, link in desk.links.items():
            if link.fusion is not None:
                places.append((desk, peer))
                models.append(link.fusion)
                problems.append(_link_problem(desk, peer))
        if desk.site.model.fusion is not None:
            places.append((desk, ""))
            models.append(desk.site.model.fusion)
            problems.append(fusion_problem(desk))
    grown = [_grown(desk) for desk in desks]  # by the old links, before they are replaced
    fusions: dict[int, Fusion] = {}
    for settings, chosen in _by_settings([desk for desk, _ in places]).items():
        better = refine_fusions(
            [models[k] for k in chosen],
            [problems[k] for k in chosen],
            settings,
            steps=_REFINING_STEPS,
        )
        for k, fusion in zip(chosen, better, strict=True):
            desk, peer = places[k]
            if peer:
                desk.links[peer] = replace(desk.links[peer], fusion=fusion, out_of_fold=None)
            else:
                fusions[id(desk)] = fusion
    return [
        desk.site.with_(model=replace(model, links=desk.links, fusion=fusions.get(id(desk))))
        for desk, model in zip(desks, grown, strict=True)
    ]


def _grown(desk: _Desk) -> Model:
    """Return a site's model with the new rows in its statistics and residuals."""
    old, site = desk.site.model, desk.site
    fresh = (rows_of(old.seen, site.tokens) < 0) & desk.present.any(axis=1)
    present, truth = desk.present[fresh], desk.targets[fresh]
    statistics, made = old.statistics, None
    if statistics is not None:
        guesses = _guesses(desk)[:, fresh]
        made = masked_sum(guesses, statistics, present, site.settings)
        statistics = statistics + MaskStatistics.of(guesses, truth, present)
    if old.use_fusion and old.fusion is not None:
        made = old.fusion.predict(np.hstack(list(desk.codes.values()))[fresh], present)
    residuals = old.residuals
    if made is not None and residuals is not None and len(truth):
        residuals = residuals + Residuals.of(made, truth)
    return replace(old, statistics=statistics, residuals=residuals, seen=site.tokens)


def _fit(
    problems: Sequence[FusionProblem],
    desks: Sequence[_Desk],
    report_progress: Callable[[float], None],
) -> list[Fusion]:
    """Fit problems of sites with equal settings in one call."""
    calls = _by_settings(desks)
    made: list[Any] = [None] * len(problems)
    for done, (settings, chosen) in enumerate(calls.items()):
        fitted = fit_fusions(
            [problems[k] for k in chosen],
            settings,
            progress=lambda share, at=done: report_progress((at + share) / len(calls)),
        )
        for k, fusion in zip(chosen, fitted, strict=True):
            made[k] = fusion
    return made


def _by_settings(desks: Sequence[_Desk]) -> dict[FusionSettings, list[int]]:
    """Return which desks learn by the same settings, and so in one call."""
    calls: dict[FusionSettings, list[int]] = {}
    for k, desk in enumerate(desks):
        calls.setdefault(desk.site.settings.fusion, []).append(k)
    return calls


def _link_problem(desk: _Desk, peer: str) -> FusionProblem:
    rows = _shared(desk, peer)
    codes = desk.codes[peer][rows]
    return FusionProblem(
        inputs=codes,
        present=np.ones((len(codes), 1), bool),
        groups=((0, codes.shape[1]),),
        targets=desk.targets[rows],
        blocks=_blocks(desk),
        seed=_seed(desk, peer),
        name=f"link {peer!r} → {desk.site.name!r}",
    )


def fusion_problem(desk: _Desk) -> FusionProblem:
    rows = desk.present.any(axis=1)
    return FusionProblem(
        inputs=np.hstack(list(desk.codes.values()))[rows],
        present=desk.present[rows],
        groups=side_by_side(c.shape[1] for c in desk.codes.values()),
        targets=desk.targets[rows],
        blocks=_blocks(desk),
        needed=desk.needed[desk.needed.any(axis=1)],
        seed=_seed(desk, ""),
        name=f"fusion of {desk.site.name!r}",
    )


def _blocks(desk: _Desk) -> Any:
    return loss_blocks(desk.site.fitted_scaler.blocks)


def _seed(desk: _Desk, peer: str) -> int:
    """Return a seed that depends on the site, its view and the peer, not on who else is there."""
    return named_seed(desk.site.seed, desk.site.name, peer)


def _assemble(desk: _Desk, fusion: Fusion | None, new_links: int) -> CooperativeSite:
    """Put a site's model together and choose between masked links and the fusion."""
    site = desk.site
    linked = desk.present.any(axis=1)
    statistics = masked = None
    link_residuals = {}
    if desk.links and all(link.fusion is not None for link in desk.links.values()):
        guesses = _crossed_guesses(desk)
        statistics = MaskStatistics.of(guesses, desk.targets, desk.present)
        masked = masked_sum(guesses, statistics, desk.present, site.settings)[linked]
        link_residuals = _link_residuals(desk, guesses)
    fused = None if fusion is None else fusion.out_of_fold
    targets = desk.targets[linked]
    use_fusion = fused is not None and (
        masked is None or _error(fused, targets) <= _error(masked, targets)
    )
    best = fused if use_fusion else masked
    model = Model(
        links=desk.links,
        statistics=statistics,
        fusion=fusion,
        use_fusion=use_fusion,
        residuals=None if best is None else Residuals.of(best, targets),
        link_residuals=link_residuals,
        seen=site.tokens,
    )
    return site.with_(model=model).counted(links=new_links, fusions=int(fusion is not None))


def _error(made: np.ndarray, targets: np.ndarray) -> float:
    return float(np.nanmean((made - targets) ** 2))


def _link_residuals(desk: _Desk, guesses: np.ndarray) -> dict[str, Residuals]:
    """Return how far each link alone is from the truth, over the rows it guessed."""
    found = {}
    for j, peer in enumerate(desk.links):
        rows = desk.present[:, j]
        found[peer] = Residuals.of(guesses[j, rows], desk.targets[rows])
    return found
