"""Decoders of a release, for many amounts of knowledge, folds and repeats as one batch.

An attacker with *m* pairs (what was released of a person, what is private of him) learns ridge
regression and small networks and blends them, all choices by cross-validation inside his pairs
(`cofill.nets.fit_fusions`). Everybody is decoded by decoders that learned from others only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.nets import Block, Fusion, FusionProblem, FusionSettings, fit_fusions

__all__ = ["Decoded", "DecoderSettings", "PairCount", "decode_held_out", "pairs_in"]

PairCount = int | str  # a number, or "all"


@dataclass(frozen=True)
class DecoderSettings:
    """How an attacker learns to decode.

    Parameters
    ----------
    folds
        People are decoded in so many parts, each by decoders taught with pairs of the others.
    repeats
        How often pairs and parts are drawn anew; figures are means.
    most_people
        Of a larger release so many people, drawn at random, are attacked.
    fusion
        Ridge regression and networks; ``hidden=()`` leaves networks out.
    draws
        Of the bootstrap.
    seed
        Start of all randomness.

    Examples
    --------
    >>> DecoderSettings(repeats=1).folds
    5
    """

    folds: int = 5
    repeats: int = 3
    most_people: int = 4000
    fusion: FusionSettings = field(
        default_factory=lambda: FusionSettings(
            hidden=(64,),
            weight_decays=(0.03, 0.3),
            members=2,
            fold_members=1,
            dropout=0.1,
            learning_rate=2e-3,
            steps=1000,
        )
    )
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("repeats", 1), ("most_people", 2), ("draws", 100)):
            if getattr(self, name) < least:
                raise SettingError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def sample(self, people: int) -> np.ndarray:
        """Return the positions of the people to attack."""
        if people <= self.most_people:
            return np.arange(people)
        rng = np.random.default_rng([self.seed, 0x5A3B])
        return np.sort(rng.choice(people, self.most_people, replace=False))


@dataclass(frozen=True, eq=False)
class Decoded:
    """What decoders made of a release: a guess for everyone in every repeat.

    ``precision`` is, for each guessed column, one over the squared error that the decoder expects.
    """

    guesses: Float[np.ndarray, "repeats people outputs"]
    precision: Float[np.ndarray, "repeats outputs"]
    pairs: int

    def of(self, people: np.ndarray) -> Decoded:
        """Return the guesses for some of the people."""
        return Decoded(self.guesses[:, people], self.precision, self.pairs)


def pairs_in(amount: PairCount, people: int, folds: int) -> int:
    """Return how many pairs an amount is; those left over to be attacked are never among them.

    Examples
    --------
    >>> pairs_in("all", 100, 5), pairs_in(10, 100, 5)
    (80, 10)
    """
    pool = people - -(-people // folds)
    if amount == "all":
        return pool
    if not isinstance(amount, int) or amount < 2:
        raise SettingError(f"pairs must be whole numbers of 2 or more, or 'all', got {amount!r}")
    if amount > pool:
        raise DataError(
            f"{amount} pairs are too many for {people} people in {folds} parts; at most {pool} can "
            "be known while the others are attacked"
        )
    return amount


def decode_held_out(
    problems: Sequence[tuple[Float[np.ndarray, "people _"], PairCount]],
    targets: Float[np.ndarray, "people outputs"],
    settings: DecoderSettings,
    blocks: tuple[Block, ...] | None = None,
) -> list[Decoded]:
    """Decode everybody in every problem by decoders that did not see him.

    Parameters
    ----------
    problems
        What the attacker sees of everyone, and for how many he also knows the targets. Problems
        share folds and pairs, so that their results are paired.
    targets
        What is private; numbers, or encoded cells with their `blocks`.
    settings
        How to learn.
    blocks
        Kinds of the targets' columns; numbers when left out.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> linear = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()))
    >>> made, = decode_held_out([(x @ np.ones((3, 4)) + x[:, :1], "all")], x[:, :1], linear)
    >>> made.guesses.shape, made.pairs
    ((1, 60, 1), 48)
    """
    people, outputs = targets.shape
    numbers = blocks is None
    kinds = blocks or (Block("squared", 0, outputs),)
    parts = [_scaled(inputs) for inputs, _ in problems]
    amounts = [pairs_in(amount, people, settings.folds) for _, amount in problems]
    made = [
        Decoded(
            np.empty((settings.repeats, people, outputs)),
            np.zeros((settings.repeats, outputs)),
            amount,
        )
        for amount in amounts
    ]
    jobs: list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]] = []
    asked: list[FusionProblem] = []
    for repeat in range(settings.repeats):
        rng = np.random.default_rng([settings.seed, repeat, 0xDEC0])
        turn = rng.permutation(people)
        for fold in range(settings.folds):
            out, pool = turn[fold :: settings.folds], np.delete(turn, np.s_[fold :: settings.folds])
            pool = rng.permutation(pool)
            for k, (inputs, amount) in enumerate(zip(parts, amounts, strict=True)):
                pairs = pool[:amount]
                # The attacker scales by his pairs: he has no other targets.
                centre, scale = _scale(targets[pairs]) if numbers else _unscaled(outputs)
                seed = int(rng.integers(2**31)) if k == 0 else asked[-1].seed
                asked.append(
                    FusionProblem(
                        inputs[pairs],
                        np.ones((amount, 1), bool),
                        ((0, inputs.shape[1]),),
                        (targets[pairs] - centre) / scale,
                        kinds,
                        seed=seed,
                        name="a decoder",
                    )
                )
                jobs.append((k, repeat, out, centre, scale))
    fusions = fit_fusions(asked, settings.fusion)
    for (k, repeat, out, centre, scale), fusion, problem in zip(jobs, fusions, asked, strict=True):
        seen = parts[k][out]
        guess = fusion.predict(seen, np.ones((len(seen), 1), bool))
        made[k].guesses[repeat, out] = guess * scale + centre
        made[k].precision[repeat] += _precision(fusion, problem, scale) / settings.folds
    return made


def _precision(fusion: Fusion, problem: FusionProblem, scale: np.ndarray) -> np.ndarray:
    wrong: Any = ((fusion.out_of_fold - problem.targets) ** 2).mean(axis=0) * scale**2
    return 1 / np.maximum(wrong, 1e-3 * scale**2)


def _scaled(values: np.ndarray) -> np.ndarray:
    centre, scale = _scale(values)
    return (values - centre) / scale


def _scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = values.std(axis=0)
    # A column that does not vary (or by rounding only) is left as it is.
    flat = scale <= 1e-12 * np.maximum(np.abs(values).max(axis=0), 1e-300)
    return values.mean(axis=0), np.where(flat, 1.0, scale)


def _unscaled(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(outputs), np.ones(outputs)
