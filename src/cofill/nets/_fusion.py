"""One prediction from several groups of inputs, any of which may be missing.

A fusion is a small ensemble of networks over all groups at once, blended with ridge regression per
pattern of present groups. Of the rows it learned from it keeps sums, weights and the out-of-fold
predictions only, because weights, error bars and intervals must not come from fitted ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.errors import DataError
from cofill.nets._linear import Groups, Moments, ridge_predict, spectrum
from cofill.nets._losses import Block, expectations
from cofill.nets._networks import forward
from cofill.views import patterns_of

PENALTIES = np.logspace(-5, 1, 13)  # of the ridge regression, relative to the inputs' mean square

_MOST_PATTERNS = 64  # that networks are trained for; where there are more, on a sample
_DRAWS = 16  # patterns drawn for each row, among which each step draws


@dataclass(frozen=True, eq=False)
class FusionProblem:
    """Rows that one fusion is fitted on.

    Parameters
    ----------
    inputs, present
        Scaled columns, zero where missing, and which row has which group.
    groups
        Columns ``(start, stop)`` of each group; together they are all columns.
    targets, blocks
        Encoded cells, NaN where not known, and the kinds of their columns.
    needed
        Patterns of present groups of the rows to predict later, one a row (repeats count); all
        groups when left out.
    seed, name
        Start of all randomness of this problem, and what messages call it.
    """

    inputs: Float[np.ndarray, "rows width"]
    present: Bool[np.ndarray, "rows groups"]
    groups: Groups
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
        needed = np.empty((0, len(self.groups)), bool) if self.needed is None else self.needed
        counts = {tuple(map(bool, p)): len(rows) for p, rows in patterns_of(needed) if p.any()}
        common = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_PATTERNS]
        common = common or [((True,) * len(self.groups), 1)]
        total = sum(count for _, count in common)
        return {pattern: count / total for pattern, count in common}

    @cached_property
    def served(self) -> frozenset[tuple[bool, ...]]:
        """The patterns that networks can learn: needed, and shown by some row."""
        return frozenset(p for p in self.patterns if self.present[:, list(p)].all(axis=1).any())

    @property
    def needs_thinning(self) -> bool:
        """Whether some row has a group that rows to predict lack."""
        return any(not all(pattern) for pattern in self.patterns)

    def draw(self, times: int) -> Bool[np.ndarray, "rows draws groups"]:
        """Return needed patterns drawn for each row; its own where it has no group of a pattern."""
        rng = np.random.default_rng([self.seed, 0x7417, times])
        patterns = np.array(list(self.patterns))
        shares = list(self.patterns.values())
        drawn = patterns[rng.choice(len(patterns), (len(self.inputs), times), p=shares)]
        present = self.present[:, None, :]
        shown = present & drawn
        return np.where(shown.any(axis=2, keepdims=True), shown, present)

    @cached_property
    def shown(self) -> Bool[np.ndarray, "rows draws groups"]:
        """The patterns among which each step of training draws, for every row."""
        return self.draw(_DRAWS)

    @cached_property
    def thinned(self) -> Bool[np.ndarray, "rows groups"]:
        """Which groups each row shows in cross-validation: a needed pattern's, drawn for it."""
        return self.draw(1)[:, 0]


@storable
@dataclass(frozen=True, eq=False)
class Fusion:
    """A fitted fusion: ridge regression and networks, blended for each output.

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
        self, inputs: Float[np.ndarray, "rows width"], present: Bool[np.ndarray, "rows groups"]
    ) -> Float[np.ndarray, "rows outputs"]:
        """Return expected cells: numbers, and probabilities of binary and categorical ones."""
        linear = ridge_predict(self.moments, inputs, present, PENALTIES, self.penalty)
        linear = as_probabilities(linear, self.blocks)
        if not self.networks:
            return linear
        columns = flagged(inputs, present, self.moments.groups)
        predicted = ensemble(self.networks, columns, self.blocks)
        share = np.where(is_served(present, self.patterns)[:, None], self.share, 0.0)
        return share * predicted + (1 - share) * linear

    def ridge_weights(self) -> Float[np.ndarray, "width outputs"]:
        """Return the coefficients of the ridge regression for rows that have every group."""
        values, vectors, unit = spectrum(self.moments.covariance)
        shrunk = values[:, None] + unit * PENALTIES[self.penalty][None, :]
        return vectors @ ((vectors.T @ self.moments.cross) / shrunk)


def is_served(
    present: np.ndarray, patterns: frozenset[tuple[bool, ...]]
) -> Bool[np.ndarray, " rows"]:
    """Return which rows have a pattern that the networks were trained for."""
    served = np.zeros(len(present), dtype=bool)
    for pattern, rows in patterns_of(present):
        # Beyond so many patterns networks are trained on a sample of them and serve any.
        many = len(patterns) >= _MOST_PATTERNS and pattern.any()
        served[rows] = many or tuple(map(bool, pattern)) in patterns
    return served


def flagged(inputs: np.ndarray, present: np.ndarray, groups: Groups) -> np.ndarray:
    """Return inputs with a column behind each group that says whether it is present, else zeros."""
    parts = []
    for g, (a, b) in enumerate(groups):
        flag = present[:, g : g + 1]
        parts += [inputs[:, a:b] * flag, flag]
    return np.hstack(parts).astype(np.float32)


def ensemble(networks: Sequence[Any], inputs: np.ndarray, blocks: tuple[Block, ...]) -> np.ndarray:
    """Return the mean of the networks' expected cells."""
    total = np.zeros((len(inputs), blocks[-1].stop))
    for network in networks:
        total += expectations(forward(network, inputs), blocks)
    return total / len(networks)


def as_probabilities(predicted: np.ndarray, blocks: tuple[Block, ...]) -> np.ndarray:
    """Return linear predictions with those of coded cells clipped to probabilities, in place."""
    for block in blocks:
        part = slice(block.start, block.stop)
        if block.kind == "bernoulli":
            predicted[:, part] = np.clip(predicted[:, part], 0.0, 1.0)
        elif block.kind == "categorical":
            # Above 0, so that shares exist where the regression denies every category.
            positive = np.clip(predicted[:, part], 1e-6, None)
            predicted[:, part] = positive / positive.sum(axis=1, keepdims=True)
    return predicted
