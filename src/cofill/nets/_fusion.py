"""One prediction from several groups of inputs, any of which may be missing.

A fusion is a small ensemble of networks over all groups at once, blended with ridge regression per
pattern. Rows to learn from usually have more groups than the rows to predict: both training and
cross-validation therefore see them with the patterns of the rows to predict. Everything that has
to be chosen (penalty, weight decay, how much of the blend is the networks') is chosen by
cross-validation on the rows given; the out-of-fold predictions are kept, because weights, error
bars and intervals must not be made from fitted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError, SettingError
from cofill.nets._forward import forward
from cofill.nets._group_dropout import GroupDropout, Grouped
from cofill.nets._linear import Moments, patterns_of, ridge_predict
from cofill.nets._losses import Block, CellLoss, expectations
from cofill.nets._networks import MLP, recipe
from cofill.nets._settings import TrainSettings
from cofill.nets._tasks import Task, split_keys
from cofill.nets._train import train

__all__ = ["Fusion", "FusionProblem", "FusionSettings", "fit_fusions", "refine_fusions"]

_PENALTIES = np.logspace(-5, 1, 13)
_MOST_PATTERNS = 64
_DRAWS = 16  # patterns drawn for each row, among which each step draws


class _Chosen(NamedTuple):
    """How a fusion of so many rows is learned, nothing left open."""

    hidden: tuple[int, ...]
    weight_decays: tuple[float, ...]
    members: int
    fold_members: int
    dropout: float
    learning_rate: float
    steps: int


_FEW = _Chosen(
    hidden=(64,),
    weight_decays=(0.03, 0.3),
    members=4,
    fold_members=2,
    dropout=0.1,
    learning_rate=2e-3,
    steps=2500,
)
_SOME = _FEW._replace(hidden=(128, 128), weight_decays=(1.0, 3.0), dropout=0.0, learning_rate=5e-3)
_MANY = _SOME._replace(weight_decays=(0.1, 1.0), members=2, fold_members=1, steps=10_000)


@dataclass(frozen=True)
class FusionSettings:
    """How a fusion is learned; what is None depends on the number of rows.

    With a thousand rows or more, networks are deeper and learn faster without dropout; with many
    thousands they take more steps and are fewer, because chance matters less.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; empty for ridge regression alone.
    weight_decays
        Candidates among which cross-validation chooses.
    members, fold_members
        Networks in the ensemble, and in the ensembles of the cross-validation.
    folds
        Parts of the cross-validation.
    dropout
        Share of hidden units dropped in training.
    learning_rate
        Largest step; it falls to zero by a cosine.
    steps
        Steps of the optimiser (but at least five passes over the rows).

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
        for name in ("members", "fold_members", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"{name} must be at least 1, got {value}")
        if any(width < 1 for width in self.hidden or ()):
            raise SettingError(f"hidden must be widths of 1 or more, got {self.hidden}")
        if any(decay < 0 for decay in self.weight_decays or ()):
            raise SettingError(f"weight_decays must be 0 or more, got {self.weight_decays}")
        if self.folds < 2:
            raise SettingError(f"folds must be at least 2, got {self.folds}")
        if self.hidden != () and self.weight_decays == ():
            raise SettingError("weight_decays must hold at least one value, got none")

    def chosen(self, rows: int) -> _Chosen:
        """Return what is done with so many rows."""
        usual = _FEW if rows < 1024 else _SOME if rows < 8192 else _MANY
        given = {name: getattr(self, name, None) for name in usual._fields}
        return usual._replace(**{n: value for n, value in given.items() if value is not None})

    def training(self, rows: int, of: int) -> TrainSettings:
        """Return the settings of the training loop for so many rows of a problem of `of` rows."""
        chosen = self.chosen(of)
        # Rounded, so that problems of nearly one size share a compiled program.
        rows = 2 ** int(np.ceil(np.log2(max(rows, 16))))
        batch = int(np.clip(rows // 16, 16, max(128, min(rows // 256, 512))))
        epochs = max(5, chosen.steps * batch // rows)
        return TrainSettings(
            epochs=epochs,
            batch_size=batch,
            learning_rate=chosen.learning_rate,
            optimizer="adamw",
            schedule="cosine",
            gradient_clip=5.0,
        )


@dataclass(frozen=True, eq=False)
class FusionProblem:
    """Rows to learn one fusion from.

    Parameters
    ----------
    inputs
        Scaled columns, zero where missing.
    present
        Which row has which group.
    groups
        Columns ``(start, stop)`` of each group; together they are all columns.
    targets
        Encoded cells, NaN where not known.
    blocks
        Kinds of the target's columns.
    needed
        Patterns of present groups of the rows to predict later, one a row (repeats count); all
        groups when left out.
    seed
        Start of all randomness of this problem.
    name
        Shown in messages.
    """

    inputs: Float[np.ndarray, "rows width"]
    present: Bool[np.ndarray, "rows groups"]
    groups: tuple[tuple[int, int], ...]
    targets: Float[np.ndarray, "rows outputs"]
    blocks: tuple[Block, ...]
    needed: Bool[np.ndarray, "needed groups"] | None = None
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise DataError(
                f"{self.name or 'a fusion'} must have at least 2 rows to learn from, "
                f"got {len(self.inputs)}"
            )

    @cached_property
    def patterns(self) -> dict[tuple[bool, ...], float]:
        """The commonest patterns needed, and their shares."""
        if self.needed is None or not len(self.needed):
            return {(True,) * len(self.groups): 1.0}
        found = {tuple(map(bool, p)): len(rows) for p, rows in patterns_of(self.needed) if p.any()}
        common = sorted(found.items(), key=lambda item: -item[1])[:_MOST_PATTERNS]
        total = sum(count for _, count in common)
        return {pattern: count / total for pattern, count in common} or {
            (True,) * len(self.groups): 1.0
        }

    @cached_property
    def served(self) -> frozenset[tuple[bool, ...]]:
        """The patterns that networks can learn: needed, and shown by some row."""
        return frozenset(p for p in self.patterns if self.present[:, list(p)].all(axis=1).any())

    @property
    def needs_thinning(self) -> bool:
        """Whether some row has a group that rows to predict lack."""
        return any(not all(pattern) for pattern in self.patterns)

    def draw(self, times: int) -> Bool[np.ndarray, "rows draws groups"]:
        """Draw needed patterns for each row; one with none of a pattern's groups keeps its own."""
        rng = np.random.default_rng([self.seed, 0x7417, times])
        patterns = np.array(list(self.patterns))
        shares = list(self.patterns.values())
        drawn = patterns[rng.choice(len(patterns), (len(self.inputs), times), p=shares)]
        own = self.present[:, None, :]
        shown = own & drawn
        return np.where(shown.any(axis=2, keepdims=True), shown, own)

    @cached_property
    def shown(self) -> Bool[np.ndarray, "rows draws groups"]:
        """The patterns among which each step of training draws, for every row."""
        return self.draw(_DRAWS)

    @cached_property
    def thinned(self) -> Bool[np.ndarray, "rows groups"]:
        """Which groups each row shows in cross-validation: a needed pattern's, drawn for it."""
        return self.draw(1)[:, 0]


@dataclass(frozen=True, eq=False)
class Fusion:
    """A learned fusion.

    Attributes
    ----------
    out_of_fold
        Prediction for each row of the problem by a fusion that had not seen it.
    share
        Per output, the share of the blend that is the networks'; the rest is ridge regression.
    patterns
        Patterns the networks were trained for; ridge regression alone serves the others.
    weight_decay
        What cross-validation chose, or None without networks.
    """

    moments: Moments
    penalty: np.ndarray
    networks: tuple[Any, ...]
    share: Float[np.ndarray, " outputs"]
    blocks: tuple[Block, ...]
    patterns: frozenset[tuple[bool, ...]]
    out_of_fold: Float[np.ndarray, "rows outputs"]
    weight_decay: float | None

    def predict(
        self,
        inputs: Float[np.ndarray, "rows width"],
        present: Bool[np.ndarray, "rows groups"],
    ) -> Float[np.ndarray, "rows outputs"]:
        """Return expected cells: numbers, and probabilities of binary and categorical ones."""
        linear = ridge_predict(self.moments, inputs, present, _PENALTIES, self.penalty)
        linear = _as_probabilities(linear, self.blocks)
        if not self.networks:
            return linear
        made = _ensemble(self.networks, _flagged(inputs, present, self.moments.groups), self.blocks)
        share = np.where(_is_served(present, self.patterns)[:, None], self.share, 0.0)
        return share * made + (1 - share) * linear

    def ridge_weights(self) -> Float[np.ndarray, "width outputs"]:
        """Return the coefficients of the ridge regression for rows that have every group."""
        values, vectors = np.linalg.eigh(self.moments.covariance)
        values = np.maximum(values, 0.0)
        unit = values.mean() if values.mean() > 0 else 1.0
        shrunk = values[:, None] + unit * _PENALTIES[self.penalty][None, :]
        return vectors @ ((vectors.T @ self.moments.cross) / shrunk)


def fit_fusions(
    problems: Sequence[FusionProblem],
    settings: FusionSettings,
    *,
    progress: Callable[[float], None] | None = None,
) -> list[Fusion]:
    """Learn one fusion per problem; networks of equal shape train as one program."""
    folds = [_folds(p, settings) for p in problems]
    linear = [_fit_linear(p, f) for p, f in zip(problems, folds, strict=True)]
    tell = progress or _silent
    if settings.hidden == ():
        tell(1.0)
        none = [np.zeros(p.targets.shape[1]) for p in problems]
        return [
            Fusion(m, pen, (), share, p.blocks, p.served, oof, None)
            for p, (m, pen, oof), share in zip(problems, linear, none, strict=True)
        ]
    tried = _cross_validate(problems, folds, settings, lambda s: tell(0.7 * s))
    decays = [
        min(made, key=lambda decay, p=problem, made=made: _error(p, made[decay]))
        for problem, made in zip(problems, tried, strict=True)
    ]
    networks = _fit_ensembles(problems, decays, settings, lambda s: tell(0.7 + 0.3 * s))
    fusions = []
    for k, problem in enumerate(problems):
        moments, penalty, linear_oof = linear[k]
        network_oof = tried[k][decays[k]]
        share = _blend(problem, network_oof, linear_oof)
        used = np.where(_is_served(problem.thinned, problem.served)[:, None], share, 0.0)
        oof = used * network_oof + (1 - used) * linear_oof
        fusions.append(
            Fusion(
                moments,
                penalty,
                networks[k],
                share,
                problem.blocks,
                problem.served,
                oof,
                decays[k],
            )
        )
    return fusions


def refine_fusions(
    fusions: Sequence[Fusion],
    problems: Sequence[FusionProblem],
    settings: FusionSettings,
    *,
    steps: int = 200,
) -> list[Fusion]:
    """Let fusions learn from more rows: ridge regression exactly, networks by a few small steps.

    Each problem holds all rows, old and new. Penalty, blend and weight decay stay as they were;
    out-of-fold predictions are not made anew.
    """

    def gentle(rows: int, of: int) -> TrainSettings:
        rate = settings.chosen(of).learning_rate / 5
        return replace(settings, steps=steps, learning_rate=rate).training(rows, of)

    ensembles = [
        [
            replace(task, network=network)
            for task, network in zip(
                _tasks(p, settings, _all(p), f.weight_decay or 0.0, n, 1),
                f.networks,
                strict=True,
            )
        ]
        for f, p in zip(fusions, problems, strict=True)
        if (n := len(f.networks))
    ]
    owners = [p for f, p in zip(fusions, problems, strict=True) if f.networks]
    trained = iter(_train(owners, ensembles, gentle, _silent))
    return [
        replace(
            f,
            moments=Moments.of(p.inputs, p.present, p.targets, p.groups),
            networks=next(trained) if f.networks else (),
            patterns=f.patterns | p.served,
        )
        for f, p in zip(fusions, problems, strict=True)
    ]


def _is_served(
    present: np.ndarray, patterns: frozenset[tuple[bool, ...]]
) -> Bool[np.ndarray, " rows"]:
    """Which rows have a pattern that the networks were trained for."""
    served = np.zeros(len(present), dtype=bool)
    for pattern, rows in patterns_of(present):
        # Beyond so many patterns networks are trained on a sample of them and serve any.
        many = len(patterns) >= _MOST_PATTERNS and pattern.any()
        served[rows] = many or tuple(map(bool, pattern)) in patterns
    return served


def _silent(_: float) -> None:
    """Report nothing."""


def _folds(problem: FusionProblem, settings: FusionSettings) -> np.ndarray:
    """Assign each row to one of the folds at random, in equal numbers."""
    rng = np.random.default_rng([problem.seed, 0xF01D])
    rows = len(problem.inputs)
    return rng.permutation(np.arange(rows) % min(settings.folds, rows))


def _fit_linear(
    problem: FusionProblem, folds: np.ndarray
) -> tuple[Moments, np.ndarray, np.ndarray]:
    targets = problem.targets
    oof = np.empty((len(_PENALTIES), *targets.shape))
    for fold in np.unique(folds):
        out = folds == fold
        inside = Moments.of(
            problem.inputs[~out], problem.present[~out], targets[~out], problem.groups
        )
        oof[:, out] = ridge_predict(inside, problem.inputs[out], problem.thinned[out], _PENALTIES)
    wrong = np.nan_to_num((oof - targets) ** 2).sum(axis=1)
    penalty = wrong.argmin(axis=0)
    chosen = np.take_along_axis(oof, penalty[None, None, :], axis=0)[0]
    moments = Moments.of(problem.inputs, problem.present, targets, problem.groups)
    return moments, penalty, _as_probabilities(chosen, problem.blocks)


def _cross_validate(
    problems: Sequence[FusionProblem],
    folds: Sequence[np.ndarray],
    settings: FusionSettings,
    tell: Callable[[float], None],
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
    trained = _train([problems[k] for k, _, _ in cuts], ensembles, settings.training, tell)
    made = [
        {decay: np.empty(problem.targets.shape) for decay in usual.weight_decays}
        for problem, usual in zip(problems, chosen, strict=True)
    ]
    for (k, decay, fold), networks in zip(cuts, trained, strict=True):
        problem, out = problems[k], folds[k] == fold
        flagged = _flagged(problem.inputs[out], problem.thinned[out], problem.groups)
        made[k][decay][out] = _ensemble(networks, flagged, problem.blocks)
    return made


def _fit_ensembles(
    problems: Sequence[FusionProblem],
    decays: Sequence[float],
    settings: FusionSettings,
    tell: Callable[[float], None],
) -> list[tuple[Any, ...]]:
    ensembles = [
        _tasks(p, settings, _all(p), decay, settings.chosen(len(p.inputs)).members, 0)
        for p, decay in zip(problems, decays, strict=True)
    ]
    return _train(problems, ensembles, settings.training, tell)


def _all(problem: FusionProblem) -> np.ndarray:
    return np.ones(len(problem.inputs), bool)


def _tasks(
    problem: FusionProblem,
    settings: FusionSettings,
    rows: np.ndarray,
    decay: float,
    members: int,
    part: int,
) -> list[Task]:
    """Return the members of one ensemble, to be trained on some of a problem's rows."""
    columns = _flagged(problem.inputs[rows], problem.present[rows], problem.groups)
    inputs = Grouped(columns, problem.shown[rows]) if problem.needs_thinning else columns
    targets = problem.targets[rows].astype(np.float32)
    chosen = settings.chosen(len(problem.inputs))
    widths = (columns.shape[1], *chosen.hidden, targets.shape[1])
    network = recipe(MLP, widths, residual=True, dropout=chosen.dropout)
    keys = split_keys(jax.random.fold_in(jax.random.key(problem.seed), part), members)
    return [
        Task(network, inputs, targets, key=key, weight_decay=decay, name=problem.name)
        for key in keys
    ]


def _train(
    problems: Sequence[FusionProblem],
    ensembles: Sequence[Sequence[Task]],
    training_of: Callable[[int, int], TrainSettings],
    tell: Callable[[float], None],
) -> list[tuple[Any, ...]]:
    """Train ensembles, each for its problem; those with one loss and one size in one call.

    `training_of` says how, given an ensemble's rows and those of its problem.
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
            tell((at + epochs / total) / len(calls))

        tasks = [task for k in chosen for task in ensembles[k]]
        trained = iter(train(tasks, loss, training, progress=follow).networks)
        for k in chosen:
            networks[k] = tuple(next(trained) for _ in ensembles[k])
    return networks


def _flagged(
    inputs: np.ndarray, present: np.ndarray, groups: tuple[tuple[int, int], ...]
) -> np.ndarray:
    """Put a column behind each group that says whether the group is there; hide it if it is not."""
    parts = []
    for g, (a, b) in enumerate(groups):
        there = present[:, g : g + 1]
        parts += [inputs[:, a:b] * there, there]
    return np.hstack(parts).astype(np.float32)


def _ensemble(networks: Sequence[Any], inputs: np.ndarray, blocks: tuple[Block, ...]) -> np.ndarray:
    """Return the mean of what the networks expect."""
    total = np.zeros((len(inputs), blocks[-1].stop))
    for network in networks:
        total += expectations(forward(network, inputs), blocks)
    return total / len(networks)


def _as_probabilities(made: np.ndarray, blocks: tuple[Block, ...]) -> np.ndarray:
    """Bring linear predictions of coded cells back to probabilities."""
    for block in blocks:
        part = slice(block.start, block.stop)
        if block.kind == "bernoulli":
            made[:, part] = np.clip(made[:, part], 0.0, 1.0)
        elif block.kind == "categorical":
            positive = np.clip(made[:, part], 1e-6, None)
            made[:, part] = positive / positive.sum(axis=1, keepdims=True)
    return made


def _error(problem: FusionProblem, made: np.ndarray) -> float:
    known = ~np.isnan(problem.targets)
    return float(((made - problem.targets)[known] ** 2).mean()) if known.any() else 0.0


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
