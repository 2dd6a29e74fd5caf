"""What a site hands into a private run: its features, factors and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_features import LocalFeatures
from cofill.cooperate._private_learner import INPUT_BITS
from cofill.cooperate._private_plan import Plan
from cofill.cooperate._private_targets import Targets
from cofill.errors import SettingError
from cofill.views import View

_MOST_PRODUCTS = 300  # columns of products of two views, over all pairs that tell of a target
_MOST_FACTORS = 12

EVERYBODY = 2**62 - 1
"""All views, as bits."""


def factors_of(views: int) -> int:
    """Return how many leading features of a view enter products, by the number of views.

    Two views have no pair that tells of a third.
    """
    pairs = (views - 1) * (views - 2) // 2
    return min(_MOST_FACTORS, int(np.sqrt(_MOST_PRODUCTS / pairs))) if pairs else 0


@storable
@dataclass(frozen=True, eq=False)
class FeatureGroup:
    """Features of some of a view's columns, and the views that they may inform, as bits."""

    features: LocalFeatures
    audience: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features and of factors, and the audience."""
        return self.features.width, len(self.features.spread), self.audience


@storable
@dataclass(frozen=True, eq=False)
class LocalModel:
    """What a site has learned from its own rows alone."""

    groups: tuple[FeatureGroup, ...]
    targets: Targets

    @classmethod
    def fit(
        cls,
        view: View,
        width: int,
        views: Sequence[str],
        seed: int,
        informs: Mapping[str, Sequence[str]],
    ) -> LocalModel:
        """Learn features and targets of a view in a federation.

        ``informs`` names, for some of the other views, the columns that may inform them; all may
        inform those that it does not name. Views with the same columns share features.
        """
        audiences = _audiences(view, views, informs)
        factors = factors_of(len(views))
        groups = [
            FeatureGroup(LocalFeatures.fit(view.select(names), width, factors, seed), audience)
            for names, audience in audiences.items()
        ]
        return cls(tuple(groups), Targets.fit(view))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features, factors and targets."""
        features, factors, _ = zip(*self.group_sizes, strict=True)
        return sum(features), sum(factors), self.targets.width

    @property
    def group_sizes(self) -> tuple[tuple[int, int, int], ...]:
        """Numbers of features and factors of each group, and the views it may inform, as bits."""
        return tuple(group.sizes for group in self.groups)

    def inputs(
        self, view: View, slots: np.ndarray, plan: Plan, computer: Any, *, asking: bool
    ) -> dict[str, np.ndarray]:
        """Return a view's inputs by label, rows at their slots and zero elsewhere.

        ``computer`` has `encode`. Asking needs no targets.
        """
        count = len(plan.views)
        pairs = max(1, (count - 1) * (count - 2) // 2)
        features, leading = [], []
        for group in self.groups:
            values, chosen = group.features.of(view), len(group.features.spread)
            factor = (count * pairs * plan.slots) ** -0.25 / np.sqrt(max(1, chosen))
            # What may inform nobody does not leave, not even under masks.
            is_used = float(group.audience > 0)
            leading.append(is_used * factor * group.features.leading(values))
            features.append(is_used * values / np.sqrt(count * plan.slots))
        tables = {"feature": np.hstack(features), "factor": np.hstack(leading)}
        if not asking:
            tables["target"] = self.targets.of(view) / np.sqrt(plan.slots)
        inputs = {}
        parts = {"asked": slice(None)} if asking else {f"{f}": f for f in range(plan.folds)}
        for name, table in tables.items():
            laid_out = np.zeros((plan.slots, table.shape[1]))
            laid_out[slots] = table
            for part, fold in parts.items():
                rows = laid_out if asking else laid_out[fold :: plan.folds]
                inputs[f"{name}/{part}"] = computer.encode(rows, INPUT_BITS)
        return inputs


def _audiences(
    view: View, views: Sequence[str], informs: Mapping[str, Sequence[str]]
) -> dict[tuple[str, ...], int]:
    """Return which views, as bits, each set of columns may inform."""
    unknown = sorted(set(informs) - (set(views) - {view.name}))
    if unknown:
        raise SettingError(
            f"informs of view {view.name!r} must name other views of the run, got {unknown[0]!r}"
        )
    names = view.feature_names
    if not informs:
        return {names: EVERYBODY}
    audiences: dict[tuple[str, ...], int] = {}
    for k, other in enumerate(views):
        allowed = informs.get(other, names)
        if lacking := sorted(set(allowed) - set(names)):
            raise SettingError(
                f"informs of view {view.name!r} must name columns that it has, got {lacking[0]!r}"
            )
        chosen = tuple(name for name in names if name in allowed)
        if other != view.name and chosen:
            audiences[chosen] = audiences.get(chosen, 0) | 1 << k
    return audiences or {names: 0}


@storable
@dataclass(frozen=True, eq=False)
class Choice:
    """What an owner has chosen for each target column by cross-validation.

    ``variant`` is without or with products of views, of those that were tried, ``penalty`` one of
    `Plan.penalties`, ``error`` the mean squared error in units of the column's variance.
    """

    variant: np.ndarray
    penalty: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, spread: np.ndarray) -> Choice:
        """Choose by sums of squared errors, variants × (penalties × columns), over the spread.

        All columns of a view have one variant: for each by itself chance would choose as well.
        """
        errors = scores.reshape(len(scores), -1, len(spread)) / np.maximum(spread, 1e-12)
        variant = int(errors.min(axis=1).mean(axis=1).argmin())
        penalty = errors[variant].argmin(axis=0)
        return cls(np.full(len(spread), variant), penalty, errors[variant].min(axis=0))
