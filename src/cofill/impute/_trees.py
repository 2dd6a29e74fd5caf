"""Trees for each column on filled rows: averaged ones, and boosted ones for many rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.impute._practice import AbstractCandidate, AbstractFitted, Practice, learnable

_BLOCK = 50_000  # rows predicted at once


@dataclass(frozen=True)
class ColumnModels(AbstractFitted):
    """One scikit-learn model a column; the row's own prediction where there is none."""

    models: Mapping[int, Callable[[np.ndarray], np.ndarray]]
    places: tuple[slice, ...]

    def predict(
        self, column: int, inputs: Float[np.ndarray, "n width"], known: Bool[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n block"]:
        model = self.models.get(column)
        if model is None:
            return inputs[:, self.places[column]].astype(np.float64)
        return model(inputs)


@dataclass(frozen=True)
class _Regressor:
    """A regression of a column's block, or of what the row's own prediction leaves."""

    model: Any
    base: slice | None

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        parts = [self.model.predict(inputs[a : a + _BLOCK]) for a in range(0, len(inputs), _BLOCK)]
        guess = np.concatenate(parts).reshape(len(inputs), -1)
        return guess if self.base is None else guess + inputs[:, self.base]


@dataclass(frozen=True)
class _Boosted:
    """A boosted regression, or a boosted classification back in the matrix's units."""

    model: Any
    places: np.ndarray | None
    centre: np.ndarray
    spread: float

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        if self.places is None:
            return self.model.predict(inputs)[:, None]
        chances = np.zeros((len(inputs), len(self.centre)))
        chances[:, self.places] = self.model.predict_proba(inputs)
        return (chances - self.centre) / self.spread


@dataclass(frozen=True)
class Forest(AbstractCandidate):
    """Averaged random trees: strong on few rows.

    Parameters
    ----------
    name
        What notes call it.
    trees, leaf, features
        Number of trees, rows a leaf at least, share of the columns tried at a split.
    extreme
        Extremely randomised trees (Geurts et al. 2006) instead of a random forest (Breiman 2001).
    residual
        Whether trees correct the Gaussian's prediction instead of making their own.
    most_rows
        Rows learned from at most.
    """

    name: str
    trees: int = 60
    leaf: int = 1
    features: float = 1.0
    extreme: bool = True
    residual: bool = False
    most_rows: int = 20_000

    def fit(self, practice: Practice, rows: np.ndarray, rng: np.random.Generator) -> ColumnModels:
        from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

        models = {}
        for k, learn in learnable(practice, rows, 5, self.most_rows, rng):
            place = practice.encoding.columns[k].place
            forest = (ExtraTreesRegressor if self.extreme else RandomForestRegressor)(
                self.trees,
                min_samples_leaf=self.leaf,
                max_features=self.features,
                random_state=int(rng.integers(2**31)),
                n_jobs=-1 if len(learn) > 1_000 else None,
            )
            inputs, targets = practice.inputs[k, learn], practice.targets(k, learn)
            if self.residual:
                targets = targets - inputs[:, place]
            forest.fit(inputs, targets[:, 0] if targets.shape[1] == 1 else targets)
            models[k] = _Regressor(forest, place if self.residual else None)
        return ColumnModels(models, tuple(c.place for c in practice.encoding.columns))


@dataclass(frozen=True)
class BoostedTrees(AbstractCandidate):
    """Histogram boosting on filled rows, with the holes beside them."""

    name: str
    steps: int = 150
    rate: float = 0.08
    most_rows: int = 50_000

    def fit(self, practice: Practice, rows: np.ndarray, rng: np.random.Generator) -> ColumnModels:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        models = {}
        for k, learn in learnable(practice, rows, 40, self.most_rows, rng):
            column = practice.encoding.columns[k]
            options = {
                "max_iter": self.steps,
                "learning_rate": self.rate,
                "min_samples_leaf": 10 if len(learn) < 2_000 else 20,
                "l2_regularization": 1.0,
                "early_stopping": False,
                "random_state": int(rng.integers(2**31)),
            }
            targets, inputs = practice.targets(k, learn), practice.inputs[k, learn]
            if column.levels is None:
                model = HistGradientBoostingRegressor(**options).fit(inputs, targets[:, 0])
                models[k] = _Boosted(model, None, column.centre, column.spread)
            else:
                labels = targets.argmax(axis=1)
                if len(np.unique(labels)) < 2:
                    continue
                model = HistGradientBoostingClassifier(**options).fit(inputs, labels)
                models[k] = _Boosted(model, model.classes_, column.centre, column.spread)
        return ColumnModels(models, tuple(c.place for c in practice.encoding.columns))
