"""What a site hands into a private run: its features, factors and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cofill.codec import storable
from cofill.cooperate._private_features import LocalFeatures
from cofill.cooperate._private_learner import INPUT_BITS
from cofill.cooperate._private_plan import Plan
from cofill.cooperate._private_targets import Targets
from cofill.views import View

_MOST_PRODUCTS = 300  # columns of products of two views, over all pairs that tell of a target
_MOST_FACTORS = 12


def factors_of(views: int) -> int:
    """Return how many leading features of a view enter products, by the number of views.

    Two views have no pair that tells of a third.
    """
    pairs = (views - 1) * (views - 2) // 2
    return min(_MOST_FACTORS, int(np.sqrt(_MOST_PRODUCTS / pairs))) if pairs else 0


@storable
@dataclass(frozen=True, eq=False)
class LocalModel:
    """What a site has learned from its own rows alone."""

    features: LocalFeatures
    targets: Targets

    @classmethod
    def fit(cls, view: View, width: int, views: int, seed: int) -> LocalModel:
        """Learn features and targets of a view in a federation of so many views."""
        features = LocalFeatures.fit(view, width, factors_of(views), seed)
        return cls(features, Targets.fit(view))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of features, factors and targets."""
        return self.features.width, len(self.features.spread), self.targets.width

    def inputs(
        self, view: View, slots: np.ndarray, plan: Plan, computer: Any, *, asking: bool
    ) -> dict[str, np.ndarray]:
        """Return a view's inputs by label, rows at their slots and zero elsewhere.

        ``computer`` has `encode`. Asking needs no targets.
        """
        features = self.features.of(view)
        count = len(plan.views)
        pairs = max(1, (count - 1) * (count - 2) // 2)
        factor = (count * pairs * plan.slots) ** -0.25 / np.sqrt(max(1, len(self.features.spread)))
        tables = {
            "feature": features / np.sqrt(count * plan.slots),
            "factor": self.features.leading(features) * factor,
        }
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


@storable
@dataclass(frozen=True, eq=False)
class Choice:
    """What an owner has chosen for each target column by cross-validation.

    ``variant`` says whether products of views are used, ``penalty`` is one of `Plan.penalties`,
    ``error`` the mean squared error in units of the column's variance.
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
