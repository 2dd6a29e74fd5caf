"""Decoders of a release, for many amounts of knowledge, folds and repeats as one batch.

An attacker with *m* pairs (what was released of a person, what is private of them) learns ridge
regression and small networks and blends them, all choices by cross-validation inside the pairs
(`cofill.nets.fit_fusions`). Everybody is decoded by decoders that learned from others only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.nets import Block, Fusion, FusionProblem, FusionSettings, fit_fusions, require_at_least

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
        require_at_least(self, folds=2, repeats=1, most_people=2, draws=100)

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

    def of(self, people: np.ndarray) -> "Decoded":
        """Return the guesses for some of the people."""
        return replace(self, guesses=self.guesses[:, people])


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
    """Decode everybody in every problem by decoders that did not see them.

    A problem is what the attacker sees of everyone, and for how many the targets are known.
    Problems share folds and pairs, so that their results are paired. Targets are numbers, or
    encoded cells with their `blocks`.
    """
    people, outputs = targets.shape
    kinds = blocks or (Block("squared", 0, outputs),)
    inputs = [_standardise(values) for values, _ in problems]
    amounts = [pairs_in(amount, people, settings.folds) for _, amount in problems]
    shape = (settings.repeats, people, outputs)
    decoded = [Decoded(np.empty(shape), np.zeros(shape[::2]), amount) for amount in amounts]
    tasks: list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]] = []
    fits: list[FusionProblem] = []
    for repeat in range(settings.repeats):
        rng = np.random.default_rng([settings.seed, repeat, 0xDEC0])
        order = rng.permutation(people)
        for fold in range(settings.folds):
            held_out = order[fold :: settings.folds]
            pool = rng.permutation(np.delete(order, np.s_[fold :: settings.folds]))
            seed = int(rng.integers(2**31))
            for k, (values, amount) in enumerate(zip(inputs, amounts, strict=True)):
                pairs = pool[:amount]
                # The attacker scales by the pairs: there are no other known targets.
                centre, scale = np.zeros(outputs), np.ones(outputs)
                if blocks is None:
                    centre, scale = _scale(targets[pairs])
                fits.append(
                    FusionProblem(
                        values[pairs],
                        np.ones((amount, 1), bool),
                        ((0, values.shape[1]),),
                        (targets[pairs] - centre) / scale,
                        kinds,
                        seed=seed,
                        name="a decoder",
                    )
                )
                tasks.append((k, repeat, held_out, centre, scale))
    fusions = fit_fusions(fits, settings.fusion)
    for (k, repeat, held_out, centre, scale), fusion, fit in zip(tasks, fusions, fits, strict=True):
        guess = fusion.predict(inputs[k][held_out], np.ones((len(held_out), 1), bool))
        decoded[k].guesses[repeat, held_out] = guess * scale + centre
        decoded[k].precision[repeat] += _precision(fusion, fit, scale) / settings.folds
    return decoded


def _precision(fusion: Fusion, problem: FusionProblem, scale: np.ndarray) -> np.ndarray:
    wrong: Any = ((fusion.out_of_fold - problem.targets) ** 2).mean(axis=0) * scale**2
    return 1 / np.maximum(wrong, 1e-3 * scale**2)


def _standardise(values: np.ndarray) -> np.ndarray:
    centre, scale = _scale(values)
    return (values - centre) / scale


def _scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = values.std(axis=0)
    # A column that does not vary (or by rounding only) is left as it is.
    flat = scale <= 1e-12 * np.maximum(np.abs(values).max(axis=0), 1e-300)
    return values.mean(axis=0), np.where(flat, 1.0, scale)
