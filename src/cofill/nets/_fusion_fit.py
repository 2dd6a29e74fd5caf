"""Fit fusions, those of many problems as few compiled programs.

Rows to learn from usually have more groups than the rows to predict: both training and
cross-validation therefore see them with the patterns of the rows to predict. Everything that has
to be chosen (penalty, weight decay, how much of the blend is the networks') is chosen by
cross-validation on the problem's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.nets._fusion import (
    PENALTIES,
    Fusion,
    FusionProblem,
    as_probabilities,
    ensemble,
    flagged,
    is_served,
)
from cofill.nets._linear import Moments, ridge_predict
from cofill.nets._losses import CellLoss, GroupDropout, Grouped
from cofill.nets._networks import MLP, recipe
from cofill.nets._settings import TrainSettings
from cofill.nets._tasks import Task, split_keys
from cofill.nets._train import train
from cofill.settings import require_at_least


@storable
@dataclass(frozen=True)
class FusionSettings:
    """Settings of a fusion; those that are None depend on the number of rows.

    With a thousand rows or more, networks are deeper and learn faster without dropout; with many
    thousands they take more steps and are fewer, because chance matters less.

    Parameters
    ----------
    hidden, dropout
        Widths of the hidden layers, empty for ridge regression alone, and the share of hidden units
        dropped in training.
    weight_decays, folds
        Candidates among which cross-validation chooses, and its number of parts.
    members, fold_members
        Networks in the ensemble, and in the ensembles of the cross-validation.
    learning_rate, steps
        Largest step, which falls to zero by a cosine, and steps of the optimiser (but at least five
        passes over the rows).

    Examples
    --------
    >>> FusionSettings().chosen(500).hidden, FusionSettings().chosen(5000).hidden
    ((64,), (128, 128))
    >>> FusionSettings(hidden=(8,)).chosen(5000).hidden
    (8,)
    """

    hidden: tuple[int, ...] | None = None
    weight_decays: tuple[float, ...] | None = None
    members: int | None = None
    fold_members: int | None = None
    folds: int = 3
    dropout: float | None = None
    learning_rate: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        require_at_least(self, members=1, fold_members=1, steps=1, folds=2)
        if any(width < 1 for width in self.hidden or ()):
            raise SettingError(f"hidden must be widths of 1 or more, got {self.hidden}")
        if any(decay < 0 for decay in self.weight_decays or ()):
            raise SettingError(f"weight_decays must be 0 or more, got {self.weight_decays}")
        if self.hidden != () and self.weight_decays == ():
            raise SettingError("weight_decays must hold at least one value, got none")

    def chosen(self, rows: int) -> Any:
        """Return the settings for so many rows, none of them None."""
        usual = _FEW if rows < 1024 else _SOME if rows < 8192 else _MANY
        stated = ((f.name, getattr(self, f.name)) for f in fields(self))
        return replace(usual, **{name: value for name, value in stated if value is not None})

    def training(self, rows: int, of: int) -> TrainSettings:
        """Return the settings of the training loop for so many rows of a problem of `of` rows."""
        chosen = self.chosen(of)
        # Rounded, so that problems of nearly one size share a compiled program.
        rows = 2 ** int(np.ceil(np.log2(max(rows, 16))))
        batch = int(np.clip(rows // 16, 16, max(128, min(rows // 256, 512))))
        return TrainSettings(
            epochs=max(5, chosen.steps * batch // rows),
            batch_size=batch,
            learning_rate=chosen.learning_rate,
            optimizer="adamw",
            schedule="cosine",
            gradient_clip=5.0,
        )


_FEW = FusionSettings((64,), (0.03, 0.3), 4, 2, dropout=0.1, learning_rate=2e-3, steps=2500)
_SOME = replace(_FEW, hidden=(128, 128), weight_decays=(1.0, 3.0), dropout=0.0, learning_rate=5e-3)
_MANY = replace(_SOME, weight_decays=(0.1, 1.0), members=2, fold_members=1, steps=10_000)


def fit_fusions(
    problems: Sequence[FusionProblem],
    settings: FusionSettings,
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Fusion]:
    """Return one fusion per problem; networks of equal shape train as one program."""
    folds = [_folds(p, settings) for p in problems]
    linear = [_fit_linear(p, f) for p, f in zip(problems, folds, strict=True)]
    report_progress = progress or (lambda _: None)
    if settings.hidden == ():
        report_progress(1.0)
        return [
            Fusion(m, penalty, (), np.zeros(p.targets.shape[1]), p.blocks, p.served, oof, None)
            for p, (m, penalty, oof) in zip(problems, linear, strict=True)
        ]
    tried = _cross_validate(problems, folds, settings, lambda s: report_progress(0.7 * s))
    decays = [
        min(by_decay, key=lambda decay, p=problem, by=by_decay: _error(p, by[decay]))
        for problem, by_decay in zip(problems, tried, strict=True)
    ]
    ensembles = [
        _tasks(p, settings, slice(None), decay, settings.chosen(len(p.inputs)).members, 0)
        for p, decay in zip(problems, decays, strict=True)
    ]
    networks = _train(
        problems, ensembles, settings.training, lambda s: report_progress(0.7 + 0.3 * s)
    )
    fusions = []
    for k, p in enumerate(problems):
        moments, penalty, linear_oof = linear[k]
        network_oof = tried[k][decays[k]]
        share = _blend(p, network_oof, linear_oof)
        used = np.where(is_served(p.thinned, p.served)[:, None], share, 0.0)
        oof = used * network_oof + (1 - used) * linear_oof
        parts = p.blocks, p.served, oof, decays[k]
        fusions.append(Fusion(moments, penalty, networks[k], share, *parts))
    return fusions


def refine_fusions(
    fusions: Sequence[Fusion],
    problems: Sequence[FusionProblem],
    settings: FusionSettings,
    *,
    steps: int = 200,
) -> list[Fusion]:
    """Return fusions that learned from more rows: ridge exactly, networks by a few small steps.

    Each problem holds all rows, old and new. Penalty, blend and weight decay stay as they were;
    out-of-fold predictions are not computed anew.
    """

    def gentle(rows: int, of: int) -> TrainSettings:
        rate = settings.chosen(of).learning_rate / 5
        return replace(settings, steps=steps, learning_rate=rate).training(rows, of)

    owners, ensembles = [], []
    for f, p in zip(fusions, problems, strict=True):
        if f.networks:
            tasks = _tasks(p, settings, slice(None), f.weight_decay or 0.0, len(f.networks), 1)
            started = zip(tasks, f.networks, strict=True)
            owners.append(p)
            ensembles.append([replace(task, network=network) for task, network in started])
    trained = iter(_train(owners, ensembles, gentle, lambda _: None))
    return [
        replace(
            f,
            moments=Moments.of(p.inputs, p.present, p.targets, p.groups),
            networks=next(trained) if f.networks else (),
            patterns=f.patterns | p.served,
        )
        for f, p in zip(fusions, problems, strict=True)
    ]


def _folds(problem: FusionProblem, settings: FusionSettings) -> np.ndarray:
    """Return each row's fold, at random, in equal numbers."""
    rng = np.random.default_rng([problem.seed, 0xF01D])
    rows = len(problem.inputs)
    return rng.permutation(np.arange(rows) % min(settings.folds, rows))


def _fit_linear(
    problem: FusionProblem, folds: np.ndarray
) -> tuple[Moments, np.ndarray, np.ndarray]:
    targets = problem.targets
    oof = np.empty((len(PENALTIES), *targets.shape))
    for fold in np.unique(folds):
        out = folds == fold
        inputs, present = problem.inputs[~out], problem.present[~out]
        inside = Moments.of(inputs, present, targets[~out], problem.groups)
        oof[:, out] = ridge_predict(inside, problem.inputs[out], problem.thinned[out], PENALTIES)
    wrong = np.nan_to_num((oof - targets) ** 2).sum(axis=1)
    penalty = wrong.argmin(axis=0)
    chosen = np.take_along_axis(oof, penalty[None, None, :], axis=0)[0]
    moments = Moments.of(problem.inputs, problem.present, targets, problem.groups)
    return moments, penalty, as_probabilities(chosen, problem.blocks)


def _cross_validate(
    problems: Sequence[FusionProblem],
    folds: Sequence[np.ndarray],
    settings: FusionSettings,
    report_progress: Callable[[float], None],
) -> list[dict[float, np.ndarray]]:
    """Return each problem's out-of-fold predictions by weight decay."""
    chosen = [settings.chosen(len(p.inputs)) for p in problems]
    cuts = [
        (k, decay, int(fold))
        for k, rows in enumerate(folds)
        for decay in chosen[k].weight_decays
        for fold in np.unique(rows)
    ]
    ensembles = [
        _tasks(problems[k], settings, folds[k] != fold, decay, chosen[k].fold_members, fold + 1)
        for k, decay, fold in cuts
    ]
    cut_problems = [problems[k] for k, _, _ in cuts]
    trained = _train(cut_problems, ensembles, settings.training, report_progress)
    predicted = [
        {decay: np.empty(problem.targets.shape) for decay in usual.weight_decays}
        for problem, usual in zip(problems, chosen, strict=True)
    ]
    for (k, decay, fold), networks in zip(cuts, trained, strict=True):
        problem, out = problems[k], folds[k] == fold
        inputs = flagged(problem.inputs[out], problem.thinned[out], problem.groups)
        predicted[k][decay][out] = ensemble(networks, inputs, problem.blocks)
    return predicted


def _tasks(
    problem: FusionProblem,
    settings: FusionSettings,
    rows: np.ndarray | slice,
    decay: float,
    members: int,
    part: int,
) -> list[Task]:
    """Return the members of one ensemble, to be trained on some of a problem's rows."""
    columns = flagged(problem.inputs[rows], problem.present[rows], problem.groups)
    inputs = Grouped(columns, problem.shown[rows]) if problem.needs_thinning else columns
    targets = problem.targets[rows].astype(np.float32)
    chosen = settings.chosen(len(problem.inputs))
    widths = (columns.shape[1], *chosen.hidden, targets.shape[1])
    network = recipe(MLP, widths, residual=True, dropout=chosen.dropout)
    keys = split_keys(jax.random.fold_in(jax.random.key(problem.seed), part), members)
    task = Task(network, inputs, targets, key=keys[0], weight_decay=decay, name=problem.name)
    return [replace(task, key=key) for key in keys]


def _train(
    problems: Sequence[FusionProblem],
    ensembles: Sequence[Sequence[Task]],
    training_of: Callable[[int, int], TrainSettings],
    report_progress: Callable[[float], None],
) -> list[tuple[Any, ...]]:
    """Return trained ensembles, one a problem; those with one loss and one size train in one call.

    `training_of` returns the settings for an ensemble's rows and those of its problem.
    """
    calls: dict[Any, list[int]] = {}
    for k, (problem, tasks) in enumerate(zip(problems, ensembles, strict=True)):
        loss: Any = CellLoss(problem.blocks)
        if problem.needs_thinning:
            groups = tuple((a + g, b + g + 1) for g, (a, b) in enumerate(problem.groups))
            loss = GroupDropout(loss, groups)
        training = training_of(tasks[0].rows, len(problem.inputs))
        calls.setdefault((loss, training), []).append(k)
    networks: list[tuple[Any, ...]] = [()] * len(ensembles)
    for done, ((loss, training), chosen) in enumerate(calls.items()):

        def follow(epochs: int, total: int, _: np.ndarray, at: int = done) -> None:
            report_progress((at + epochs / total) / len(calls))

        tasks = [task for k in chosen for task in ensembles[k]]
        trained = iter(train(tasks, loss, training, progress=follow).networks)
        for k in chosen:
            networks[k] = tuple(next(trained) for _ in ensembles[k])
    return networks


def _error(problem: FusionProblem, predicted: np.ndarray) -> float:
    known = ~np.isnan(problem.targets)
    return float(((predicted - problem.targets)[known] ** 2).mean()) if known.any() else 0.0


def _blend(problem: FusionProblem, networks: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return, per cell, the least-squares share of the networks, between 0 and 1."""
    share = np.zeros(problem.targets.shape[1])
    for block in problem.blocks:
        step = 1 if block.kind != "categorical" else block.stop - block.start
        for start in range(block.start, block.stop, step):
            part = slice(start, start + step)
            apart = networks[:, part] - linear[:, part]
            gap = problem.targets[:, part] - linear[:, part]
            known = ~np.isnan(gap)
            below = (apart[known] ** 2).sum()
            share[part] = np.clip((apart[known] * gap[known]).sum() / below, 0, 1) if below else 0.0
    return share
