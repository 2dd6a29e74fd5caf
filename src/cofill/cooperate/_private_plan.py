"""What all parties of a private run know: sizes, counts of people, and blocks of features.

A *block* is a set of columns that a person has when some views have them: every view's own
features, products of two views' leading features (present where both views are), and a constant.
One set of covariances serves every pattern of presence. They are taken over the people whom every
view has; where those are few, the covariance of two blocks is taken over the people who have both
(as `cofill.nets.Moments` does for codes), which uses more people, and fits together less well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from cofill.codec import storable
from cofill.errors import DataError

_MOST_JUDGED = 3_000  # people, shared or not, on whom cross-validation measures errors, to 3 %

_LEAST_PENALTY = 1e-6
_FINE, _COARSE = 9, 5  # penalties: each is a regression for every target column

MANY_VIEWS = 4
"""Views beyond which each has fewer features, and fewer regressions are tried for it.

Six views with all of both would need several times the words. With fewer features, products always
taken in and five penalties, errors on hidden rows of WDBC, credit and Scene-15, whose columns were
dealt to six views, and of Multiple Features were 0.94 to 1.02 times those of 108 features, nine
penalties and a choice of products. Multiple Features is a development set of this choice: other
splits than the bench's, of the same people.
"""

Block = tuple[int, ...]
"""Positions of the views that a block is made from: none for the constant, one, or two."""


@storable
@dataclass(frozen=True, eq=False)
class Plan:
    """The public part of a run.

    Parameters
    ----------
    views
        Names of the views, in the order all sites know.
    slots
        How many people there are in all: the length of the common order.
    widths, factors, targets
        Per view its numbers of features, of features that enter products, and of target columns.
    patterns, people
        Sets of views, as bits, and how many people have exactly these, by fold of the common order.
    asked
        Per view the sets of other views that some person whose cells it asks for has, each with the
        part of the people that is left out for them: 0 for none, or a fold counted from 1.
    parties
        Per view its sites' parties: one, or several that have rows of different people.
    groups
        Per view its groups of features: how many features and factors, and whom they may inform.
    """

    views: tuple[str, ...]
    slots: int
    widths: tuple[int, ...]
    factors: tuple[int, ...]
    targets: tuple[int, ...]
    patterns: Int[np.ndarray, " patterns"]
    people: Int[np.ndarray, "folds patterns"]
    asked: Mapping[str, tuple[tuple[int, int], ...]]
    parties: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def folds(self) -> int:
        """Into how many parts people are split for cross-validation, by slot."""
        return len(self.people)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The constant, every view's features, and products for every pair that has factors."""
        alone = range(len(self.views))
        pairs = [p for p in combinations(alone, 2) if all(self.factors[k] for k in p)]
        return ((), *((k,) for k in alone), *pairs)

    def judged_rows(self, fold: int) -> int:
        """Return how many of a fold's first slots are looked at for errors."""
        return min(len(range(fold, self.slots, self.folds)), -(-_MOST_JUDGED // self.folds))

    def learning_folds(self, part: int) -> list[int]:
        """Return the folds that are learned from where a part of the people is left out."""
        return [fold for fold in range(self.folds) if fold != part - 1]

    def width(self, block: Block) -> int:
        """Return how many columns a block has."""
        if len(block) == 2:
            return self.factors[block[0]] * self.factors[block[1]]
        return self.widths[block[0]] if block else 1

    @cached_property
    def columns(self) -> dict[Block, np.ndarray]:
        """Where each block's columns are among all."""
        stops = np.cumsum([self.width(block) for block in self.blocks])
        return {
            block: np.arange(stop - self.width(block), stop)
            for block, stop in zip(self.blocks, stops, strict=True)
        }

    def columns_of(self, blocks: Iterable[Block]) -> np.ndarray:
        """Return the columns of some blocks."""
        return np.concatenate([self.columns[block] for block in blocks])

    def informing(self, target: int, blocks: Iterable[Block]) -> Bool[np.ndarray, " columns"]:
        """Return which columns of some blocks, side by side, their owners let inform a view."""
        return np.concatenate([self._informs(block, target) for block in blocks])

    def _informs(self, block: Block, target: int) -> Bool[np.ndarray, " columns"]:
        if not block:
            return np.ones(1, bool)
        kind = 0 if len(block) == 1 else 1  # features, or factors of products
        parts = [
            np.repeat([g[2] >> target & 1 > 0 for g in groups], [g[kind] for g in groups])
            for groups in (self.groups[k] for k in block)
        ]
        return parts[0] if len(parts) == 1 else np.logical_and.outer(*parts).ravel()

    def count(self, members: Iterable[int], folds: Iterable[int] | None = None) -> int:
        """Return how many people have all of some views, in some folds or all."""
        bits = sum(1 << k for k in set(members))
        rows = list(range(self.folds) if folds is None else folds)
        return int(self.people[rows][:, (self.patterns & bits) == bits].sum())

    @cached_property
    def is_complete_case(self) -> bool:
        """Whether only people whom every view has are learned from.

        They must be at least half as many as any two views share.
        """
        pairs = combinations(range(len(self.views)), 2)
        most = max((self.count(pair) for pair in pairs), default=0)
        return 2 * self.count(range(len(self.views))) >= most

    def learned_from(self, members: Iterable[int], folds: Iterable[int]) -> int:
        """Return over how many people a moment of blocks made from some views is taken."""
        return self.count(range(len(self.views)) if self.is_complete_case else members, folds)

    def moment_scale(self, folds: Iterable[int]) -> float:
        """Return by what moments are too small where sums are not divided by their people.

        Weights do not change if moments and penalties shrink alike. So where all moments are over
        the same people, and these are enough that no digits are lost, nothing is divided on shares.
        """
        people = self.learned_from((), folds)
        is_enough = 4 * self.learned_from((), range(self.folds)) >= self.slots
        return people / self.slots if self.is_complete_case and is_enough else 1.0

    @cached_property
    def penalties(self) -> Float[np.ndarray, " grid"]:
        """Penalties to choose from, relative to the variance of a view's features.

        The least is a fraction of one over the number of people: below that, regression follows
        chance, and rounding would be seen in the cells.
        """
        people = self.learned_from((), range(self.folds))
        count = _FINE if len(self.views) <= MANY_VIEWS else _COARSE
        grid = np.geomspace(max(_LEAST_PENALTY, 0.03 / max(people, 1)), 0.1, count)
        # Powers differ between machines in the last digit, and computing sites must not.
        return np.array([float(f"{penalty:.6g}") for penalty in grid])

    def usable(self, target: int, pattern: int, *, pairs: bool, least: int) -> tuple[Block, ...]:
        """Return the blocks that tell of a target, for people with a pattern of other views.

        A block must have been seen together with the target in at least so many people.
        """
        return tuple(
            block
            for block in self.blocks
            if target not in block
            and all(pattern >> k & 1 for k in block)
            and (pairs or len(block) < 2)
            and self._informs(block, target).any()
            and self.count((*block, target)) >= least
        )

    def input_shapes(self, *, asking: bool) -> dict[str, tuple[int, int]]:
        """Return the shape of every party's inputs by label: ``party/table/part``."""
        parts = (
            {"asked": self.slots}
            if asking
            else {f"{f}": len(range(f, self.slots, self.folds)) for f in range(self.folds)}
        )
        shapes = {}
        for k, parties in enumerate(self.parties):
            for party, (part, rows) in product(parties, parts.items()):
                shapes[f"{party}/feature/{part}"] = rows, self.widths[k]
                shapes[f"{party}/factor/{part}"] = rows, self.factors[k]
                if not asking:
                    shapes[f"{party}/target/{part}"] = rows, self.targets[k]
        return shapes

    def weights(
        self, patterns: Int[np.ndarray, " slots"], least: int
    ) -> dict[str, UInt64[np.ndarray, " rows"]]:
        """Return who counts in a fold, one or zero a row, from each slot's pattern.

        ``learned/fold`` are those to learn from: people whom every view has, or everybody.
        ``view/fold`` are those on whom errors are measured: people with the view and all others
        that tell of it; where they are fewer than `least`, those with the view and any other.
        """
        everywhere = patterns == (1 << len(self.views)) - 1
        learned = everywhere | (not self.is_complete_case)
        chosen = {
            f"learned/{fold}": learned[fold :: self.folds].astype(np.uint64)
            for fold in range(self.folds)
        }
        for t, name in enumerate(self.views):
            blocks = self.usable(t, self.others(t), pairs=False, least=least)
            others = sum(1 << k for block in blocks for k in block)
            has = patterns >> t & 1 > 0
            whole = has & (patterns & others == others)
            looked_at = np.arange(self.slots) // self.folds < self.judged_rows(0)
            if (whole & looked_at).sum() < least:
                whole = has & (patterns & others != 0)
            for fold in range(self.folds):
                rows = whole[fold :: self.folds][: self.judged_rows(fold)]
                chosen[f"{name}/{fold}"] = rows.astype(np.uint64)
        return chosen

    def others(self, target: int) -> int:
        """Return the pattern of all views but one."""
        return ((1 << len(self.views)) - 1) & ~(1 << target)

    def require_learnable(self, least: int) -> None:
        """Raise a `DataError` unless some two views share people, and more than targets."""
        pairs = list(combinations(range(len(self.views)), 2))
        if not any(self.count(pair) >= least for pair in pairs):
            most = max((self.count(pair) for pair in pairs), default=0)
            raise DataError(
                f"no two views share at least {least} people (the most is {most}), so nothing can "
                "be learned; check that they name people by the same ids"
            )
        for target, name in enumerate(self.views):
            for other in range(len(self.views)):
                shared = self.count((target, other))
                if other != target and least <= shared <= self.targets[target]:
                    raise DataError(
                        f"view {name!r} has {self.targets[target]} target columns for {shared} "
                        f"people shared with {self.views[other]!r}, from which its predictions "
                        "would tell who is like whom; give it fewer columns than shared people"
                    )
