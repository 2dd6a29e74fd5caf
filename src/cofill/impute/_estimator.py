"""A scikit-learn transformer that fills the holes of a table, whatever library made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cofill.completion import require_draws
from cofill.errors import SettingError
from cofill.impute._completer import PooledCompleter
from cofill.impute._frame import FrameReader
from cofill.impute._model import fit_table, require_effort
from cofill.views import Feature, MultiView


class Imputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill every missing cell of a table from the known cells of its row.

    Takes an array, a data frame (pandas, polars, pyarrow: the same comes back, known cells
    untouched; dates and times are cells like others), or several frames of the same individuals as
    ``{name: frame}`` with an id column.

    Parameters
    ----------
    effort
        ``"quick"``, ``"normal"`` or ``"thorough"``.
    kinds
        ``{column: "numeric" | "binary" | "categorical"}`` where a column's type misleads, as with
        labels written in digits.
    id
        The column that identifies an individual, for several frames.
    seed
        Start of all randomness.

    Attributes
    ----------
    notes_
        What the user should know of the fit, in sentences.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(40.0)
    >>> table = np.column_stack([x, 3 * x])
    >>> table[7, 1] = np.nan
    >>> bool(abs(Imputer(effort="quick").fit_transform(table)[7, 1] - 21) < 1)
    True
    """

    def __init__(
        self,
        *,
        effort: str = "normal",
        kinds: Mapping[str, str] | None = None,
        id: str | None = None,  # noqa: A002  the word users have for it
        seed: int = 0,
    ) -> None:
        self.effort = effort
        self.kinds = kinds
        self.id = id
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Imputer:
        """Learn from the known cells."""
        require_effort(self.effort)
        self.completer_ = None
        if _is_several(X):
            completer = PooledCompleter(effort=self.effort, seed=self.seed)
            self.completer_ = completer.fit(self._views(X))
            self.notes_ = completer.notes_
            return self
        if _is_frame(X):
            validate_data(self, X, skip_check_array=True)
            self.reader_ = FrameReader.fit(X, self.kinds)
            cells, features = self.reader_.cells(X), self.reader_.features
        else:
            self.reader_ = None
            cells = self._array(X, reset=True)
            features = [Feature(f"x{k}") for k in range(cells.shape[1])]
        self.model_ = fit_table(cells, features, effort=self.effort, seed=self.seed)
        self.notes_ = self.model_.notes
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its missing cells filled, in the type it came in."""
        check_is_fitted(self, "notes_")
        if _is_several(X):
            completer, views = self._several(X)
            return completer.complete(views).to_frames(_library(X))
        cells, write = self._single(X)
        return write(self.model_.predict(cells))

    def draw(
        self,
        X: Any,
        n_draws: int = 5,
        *,
        key: int | Sequence[int] = 0,
        matched: bool | None = None,
    ) -> list[Any]:
        """Return the table several times, its missing cells drawn anew each time.

        Analyse each as if it were complete and pool the estimates by `cofill.rubin`. `matched`
        takes only numbers that were observed (predictive mean matching); None does so in columns
        that pile up at a value or are skewed.
        """
        check_is_fitted(self, "notes_")
        if _is_several(X):
            completer, views = self._several(X)
            drawn = completer.draw(views, n_draws, key=key, matched=matched)
            return [done.to_frames(_library(X)) for done in drawn]
        rngs = np.random.default_rng(key).spawn(require_draws(n_draws))
        cells, write = self._single(X)
        return [write(filled) for filled in self.model_.draws(cells, rngs, matched=matched)]

    def _several(self, X: Any) -> tuple[PooledCompleter, MultiView]:
        if self.completer_ is None:
            raise SettingError("the imputer was fitted on one table; transform one table")
        return self.completer_, self._views(X)

    def _single(self, X: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
        """Return a table's cells, and what makes a table like it of filled cells."""
        if self.completer_ is not None:
            raise SettingError("the imputer was fitted on several tables; transform {name: frame}")
        reader = self.reader_
        if reader is not None and _is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            return reader.cells(X), lambda filled: reader.write(X, filled)
        cells = self._array(X, reset=False)
        return cells, lambda filled: np.where(np.isnan(cells), filled, cells)

    def _array(self, X: Any, *, reset: bool) -> np.ndarray:
        options: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, X, reset=reset, **options))

    def _views(self, frames: Mapping[str, Any]) -> MultiView:
        if self.id is None:
            raise SettingError("id must name the column that identifies individuals, got None")
        return MultiView.from_frames(frames, id=self.id, kinds=self.kinds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _library(frames: Mapping[str, Any]) -> str:
    return type(next(iter(frames.values()))).__module__.split(".")[0]


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _is_several(X: Any) -> bool:
    """Whether X is {name: frame}; a sparse matrix may be a dictionary too."""
    return isinstance(X, Mapping) and not hasattr(X, "shape")
