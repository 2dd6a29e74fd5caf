"""scikit-learn's imputers on pooled rows: what people do where they may pool."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from cofill.completion import AbstractCompleter, Progress
from cofill.errors import SettingError
from cofill.impute._pooled import Pool
from cofill.views import MultiView


@dataclass(kw_only=True, eq=False, repr=False)
class _PooledImputer(AbstractCompleter):
    """Fit an imputer on a sample of the pooled rows and apply it in blocks.

    Parameters
    ----------
    max_rows
        The size of the sample.
    seed
        Start of all randomness.
    """

    max_rows: Annotated[int, Ge(2)] = 10_000
    seed: int = 0

    def _fit(self, views: MultiView, progress: Progress) -> None:
        if self.max_rows < 2:
            raise SettingError(f"max_rows must be at least 2, got {self.max_rows}")
        self.pool_ = Pool.fit(views)
        matrix = self.pool_.encode(views)
        if len(matrix) > self.max_rows:
            rng = np.random.default_rng(self.seed)
            matrix = matrix[np.sort(rng.choice(len(matrix), self.max_rows, replace=False))]
        progress(self.name, 0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "did not converge" is this method's usual state
            self.imputer_ = self._imputer(matrix.shape[1]).fit(matrix)
        progress(self.name, 0.5)

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        matrix = self.pool_.encode(views)
        holes = np.flatnonzero(np.isnan(matrix).any(axis=1))
        block = 2_000
        for start in range(0, len(holes), block):
            rows = holes[start : start + block]
            matrix[rows] = self.imputer_.transform(matrix[rows])
            progress(self.name, 0.5 + 0.5 * (start + block) / max(len(holes), block))
        return self.pool_.decode(matrix)

    @abstractmethod
    def _imputer(self, width: int) -> Any:
        """Make the scikit-learn imputer."""


@dataclass(kw_only=True, eq=False, repr=False)
class NeighboursCompleter(_PooledImputer):
    """Mean of the k most similar individuals, over the columns both know (`KNNImputer`).

    Parameters
    ----------
    n_neighbors
        How many neighbours are averaged.
    weights
        ``"uniform"`` or ``"distance"``.
    max_rows
        Neighbours are sought among at most so many individuals, drawn by `seed`.
    """

    name: ClassVar[str] = "knn"

    n_neighbors: Annotated[int, Ge(1)] = 5
    weights: Literal["uniform", "distance"] = "uniform"

    def _imputer(self, width: int) -> Any:
        from sklearn.impute import KNNImputer

        return KNNImputer(
            n_neighbors=self.n_neighbors, weights=self.weights, keep_empty_features=True
        )


@dataclass(kw_only=True, eq=False, repr=False)
class IterativeCompleter(_PooledImputer):
    """Each column regressed on the others in rounds (`IterativeImputer`, Bayesian ridge).

    Parameters
    ----------
    max_iter
        Rounds over all columns.
    n_nearest_features
        Columns used for each regression; ``None`` means all up to 100 columns, 50 beyond, where
        all would take hours.
    max_rows
        Regressions are fitted on at most so many individuals, drawn by `seed`.
    """

    name: ClassVar[str] = "iterative"

    max_iter: Annotated[int, Ge(0)] = 10
    n_nearest_features: Annotated[int, Ge(1)] | None = None

    def _imputer(self, width: int) -> Any:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        nearest = self.n_nearest_features or (None if width <= 100 else 50)
        return IterativeImputer(
            max_iter=self.max_iter,
            n_nearest_features=nearest,
            random_state=self.seed,
            keep_empty_features=True,
        )
