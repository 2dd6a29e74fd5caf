"""Trees for each column on filled rows: averaged ones, and boosted ones for many rows.

scikit-learn grows the trees; `TreeSum` keeps them as plain arrays, so that a fitted imputer can be
stored without pickle, and asks them without the checks and copies that scikit-learn's ensembles
make at every call: tables of a few hundred rows spend most of their time in those.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from cofill.codec import storable
from cofill.errors import StoreError
from cofill.impute._practice import (
    AbstractCandidate,
    AbstractColumnModel,
    AbstractPractice,
    ColumnModels,
    Seen,
    learnable,
)

_SIDE_BY_SIDE = 50_000  # rows of all columns from which columns are learned at the same time
_FINE = 5_000  # rows up to which inputs are binned finely; many rows average over bins
_DAMAGED = "the trees of this model are damaged; save the model again"
_RARE = 0.005  # share of a class below which it gets no boosted trees of its own


@storable
@dataclass(frozen=True, eq=False)
class TreeSum:
    """A sum of regression trees: ``base + scale · Σ trees``.

    Nodes of all trees follow each other; `left` and `right` count from the first node of a tree,
    and are -1 at leaves. A row goes left where its cell is at most the threshold, or where it is
    NaN and `missing_left` says so.
    """

    width: int
    sizes: Int[np.ndarray, " trees"]
    left: Int[np.ndarray, " nodes"]
    right: Int[np.ndarray, " nodes"]
    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    missing_left: Bool[np.ndarray, " nodes"]
    values: Float[np.ndarray, "nodes outputs"]
    base: Float[np.ndarray, " outputs"]
    scale: float

    @classmethod
    def of_forest(cls, trees: Sequence[Any], width: int) -> TreeSum:
        """Return the average of scikit-learn's trees (`tree_` of their estimators)."""
        names = "children_left", "children_right", "feature", "threshold", "missing_go_to_left"
        nodes_of = attrgetter(*names)
        parts = [(*nodes_of(tree), tree.value[:, :, 0]) for tree in trees]
        return cls._joined(parts, width, np.zeros(parts[0][-1].shape[1]), 1.0 / len(parts))

    @classmethod
    def of_boosting(cls, predictors: Sequence[Any], width: int, base: float) -> TreeSum:
        """Return the sum of histogram boosting's trees for one output."""
        parts = []
        for nodes in (predictor.nodes for predictor in predictors):
            leaf = nodes["is_leaf"].astype(bool)
            ends = (np.where(leaf, -1, nodes[s].astype(np.int32)) for s in ("left", "right"))
            rest = (nodes[n] for n in ("feature_idx", "num_threshold", "missing_go_to_left"))
            parts.append((*ends, *rest, np.where(leaf, nodes["value"], 0.0)[:, None]))
        return cls._joined(parts, width, np.array([base]), 1.0)

    @classmethod
    def _joined(
        cls, parts: Sequence[tuple[np.ndarray, ...]], width: int, base: np.ndarray, scale: float
    ) -> TreeSum:
        left, right, feature, threshold, missing_left, values = (
            np.concatenate(arrays) for arrays in zip(*parts, strict=True)
        )
        # Inputs are float32: the next one below a threshold parts them as the threshold does.
        short = threshold.astype(np.float32)
        short = np.where(short > threshold, np.nextafter(short, np.float32(-np.inf)), short)
        return cls(
            width,
            np.array([len(part[0]) for part in parts]),
            left.astype(np.int32),
            right.astype(np.int32),
            feature.astype(np.int32),
            short,
            missing_left.astype(bool),
            values.astype(np.float32),
            base,
            scale,
        )

    def predict(self, inputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n outputs"]:
        """Return the sum for each row."""
        if inputs.shape[1] != self.width:  # compiled code would read beyond the row
            raise StoreError(_DAMAGED)
        inputs = np.ascontiguousarray(inputs, dtype=np.float32)
        total = np.zeros((len(inputs), self.values.shape[1]))
        for tree in self._trees:
            total += tree.predict(inputs).reshape(total.shape)
        return self.base + self.scale * total

    @cached_property
    def _trees(self) -> tuple[Any, ...]:
        """scikit-learn's own trees, whose compiled code is asked."""
        from sklearn.tree._tree import Tree

        self._check()
        outputs = self.values.shape[1]
        trees, start = [], 0
        for size in self.sizes:
            part = slice(start, start + int(size))
            start = part.stop
            tree = Tree(self.width, np.ones(outputs, dtype=np.intp), outputs)
            state = tree.__getstate__()
            nodes: Any = np.zeros(int(size), state["nodes"].dtype)
            for name, array in (
                ("left_child", self.left),
                ("right_child", self.right),
                ("feature", self.feature),
                ("threshold", self.threshold),
                ("missing_go_to_left", self.missing_left),
            ):
                nodes[name] = array[part]
            values = np.ascontiguousarray(self.values[part, :, None], dtype=np.float64)
            state |= {"node_count": int(size), "nodes": nodes, "values": values}
            tree.__setstate__(state)
            trees.append(tree)
        return tuple(trees)

    def _check(self) -> None:
        """Raise a `StoreError` for nodes that compiled code could follow out of its memory."""
        if not len(self.sizes) or not (self.sizes > 0).all():
            raise StoreError(_DAMAGED)
        at = np.concatenate([np.arange(size) for size in self.sizes])
        size = np.repeat(self.sizes, self.sizes)
        inner = self.left != -1
        sound = (
            {len(a) for a in (self.right, self.feature, self.threshold, self.missing_left)}
            == {len(self.left)}
            == {len(self.values)}
            == {len(at)}
            and (~inner | ((self.left > at) & (self.left < size))).all()
            and (~inner | ((self.right > at) & (self.right < size))).all()
            and (~inner | ((self.feature >= 0) & (self.feature < self.width))).all()
        )
        if not sound:
            raise StoreError(_DAMAGED)


@storable
@dataclass(frozen=True)
class AveragedTrees(AbstractColumnModel):
    """The average of trees, added to the row's own prediction where they correct it."""

    trees: TreeSum
    correct: bool

    def predict(self, seen: Seen) -> np.ndarray:
        guess = self.trees.predict(seen.inputs)
        return guess + seen.base if self.correct else guess


@storable
@dataclass(frozen=True)
class BoostedColumn(AbstractColumnModel):
    """A boosted regression, or a boosted classification back in the matrix's units.

    `classes` are the places of the classes in the block, None for a number; two classes have one
    sum, the log-odds of the second. Rare classes have none and keep their share.
    """

    sums: tuple[TreeSum, ...]
    classes: Int[np.ndarray, " classes"] | None
    centre: Float[np.ndarray, " width"]
    spread: float

    def predict(self, seen: Seen) -> np.ndarray:
        scores = np.hstack([trees.predict(seen.inputs) for trees in self.sums])
        if self.classes is None:
            return scores
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = np.tile(self.centre, (len(scores), 1))
        common = self.centre[self.classes].sum()
        chances[:, self.classes] = common * odds / odds.sum(axis=1, keepdims=True)
        return (chances - self.centre) / self.spread


@dataclass(frozen=True)
class Forest(AbstractCandidate):
    """Averaged random trees: strong on few rows.

    Parameters
    ----------
    name
        What notes call it.
    trees, leaf, features
        Number of trees of a fold, rows a leaf at least, share of the columns tried at a split.
    extreme
        Extremely randomised trees (Geurts et al. 2006) instead of a random forest (Breiman 2001).
    residual
        Whether trees correct the Gaussian's prediction instead of making their own.
    most_rows
        Rows learned from at most.
    """

    name: str
    trees: int = 16
    leaf: int = 1
    features: float = 1.0
    extreme: bool = True
    residual: bool = False
    most_rows: int = 20_000

    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> ColumnModels:
        from sklearn import config_context

        models = {}
        with config_context(skip_parameter_validation=True):
            for k, learn in learnable(practice, rows, 5, self.most_rows, rng):
                seen, targets = practice.seen_of(k, learn), practice.targets(k, learn)
                if self.residual:
                    targets = targets - seen.base
                trees = self._grow(np.ascontiguousarray(seen.inputs), targets, rng)
                models[k] = AveragedTrees(trees, self.residual)
        return ColumnModels.of(models)

    def _grow(self, inputs: np.ndarray, targets: np.ndarray, rng: np.random.Generator) -> TreeSum:
        from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

        kind = ExtraTreeRegressor if self.extreme else DecisionTreeRegressor
        tree = kind(min_samples_leaf=self.leaf, max_features=self.features)
        targets = np.ascontiguousarray(targets, dtype=np.float64)
        grown, n = [], len(inputs)
        for seed in rng.integers(2**31, size=self.trees):
            tree.random_state = int(seed)
            weights = None
            if not self.extreme:
                weights = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
            tree.fit(inputs, targets, sample_weight=weights, check_input=False)
            grown.append(tree.tree_)
        return TreeSum.of_forest(grown, inputs.shape[1])


@dataclass(frozen=True)
class BoostedTrees(AbstractCandidate):
    """Histogram boosting on filled rows.

    Parameters
    ----------
    name
        What notes call it.
    steps, rate
        Trees (for each class) and how much of a tree's prediction is taken.
    most_rows, most_classes
        Rows learned from at most; columns of more classes, each of which has trees of its own, are
        left to other candidates.
    coarse
        Whether trees are small and many classes share the trees that two have: a third of the
        time.
    """

    name: str
    steps: int
    rate: float
    most_rows: int = 50_000
    most_classes: int = 40
    coarse: bool = False

    def fit(
        self, practice: AbstractPractice, rows: np.ndarray, rng: np.random.Generator
    ) -> ColumnModels:
        from threadpoolctl import threadpool_limits

        columns = list(learnable(practice, rows, 40, self.most_rows, rng))
        seeds = rng.integers(2**31, size=len(columns)).tolist()

        def learn(number: int) -> BoostedColumn | None:
            return self._fit_column(practice, *columns[number], seeds[number])

        if sum(len(learned) for _, learned in columns) < _SIDE_BY_SIDE:
            fitted = [learn(number) for number in range(len(columns))]
        else:  # a thread a column: threads within one wait for each other at every split
            with threadpool_limits(limits=1), ThreadPoolExecutor(os.cpu_count()) as pool:
                fitted = list(pool.map(learn, range(len(columns))))
        models = {k: m for (k, _), m in zip(columns, fitted, strict=True) if m is not None}
        return ColumnModels.of(models)

    def _fit_column(
        self, practice: AbstractPractice, k: int, rows: np.ndarray, seed: int
    ) -> BoostedColumn | None:
        """Return a column's trees; None where its classes are too few or too many."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        column = practice.encoding.columns[k]
        options: dict[str, Any] = {
            "max_iter": self.steps,
            "learning_rate": self.rate,
            "max_leaf_nodes": 16 if self.coarse else 31,
            "max_bins": 63 if len(rows) > _FINE else 255,
            "min_samples_leaf": 10 if len(rows) < 2_000 else 20,
            # Curvatures of rare classes are far below one: a penalty would still them.
            "l2_regularization": 1.0 if column.levels is None else 0.0,
            "early_stopping": False,
            "random_state": seed,
        }
        targets, classes, some = practice.targets(k, rows), None, slice(None)
        if column.levels is not None:
            labels = targets.argmax(axis=1)
            classes = np.flatnonzero(np.bincount(labels) >= _RARE * len(labels))
            if not 2 <= len(classes) <= self.most_classes:
                return None
            if self.coarse and len(classes) > 2:
                fewer = max(self.steps // 2, 2 * self.steps // len(classes))
                options["learning_rate"] = min(0.3, self.rate * self.steps / fewer)
                options["max_iter"] = fewer
            some = np.isin(labels, classes)
            kind, answers = HistGradientBoostingClassifier, labels[some]
        else:
            kind, answers = HistGradientBoostingRegressor, targets[:, 0]
        inputs = practice.seen_of(k, rows).inputs[some]
        inputs[:, np.isnan(inputs).all(axis=0)] = 0.0  # boosting refuses inputs without a value
        model: Any = kind(**options).fit(inputs, answers)
        trees, bases = zip(*model._predictors, strict=True), model._baseline_prediction.ravel()
        sums = tuple(
            TreeSum.of_boosting(part, inputs.shape[1], float(base))
            for part, base in zip(trees, bases, strict=True)
        )
        return BoostedColumn(sums, classes, column.centre, column.spread)
