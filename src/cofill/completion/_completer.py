"""The interface of every completion method: scikit-learn's manners over a `MultiView`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cofill.completion._completed import Completed
from cofill.completion._progress import Progress, silent
from cofill.completion._saved import save_model
from cofill.errors import DataError, SettingError
from cofill.metrics import r2
from cofill.privacy import SentLog
from cofill.views import ConformedViews, Feature, Kind, MultiView, TableSchema, conform

Fitted = TypeVar("Fitted", bound="AbstractCompleter")


@contextmanager
def kept_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Leave an estimator as it was before the block where that fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:  # an interrupt too: half a fit would answer `predict`
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class AbstractCompleter(BaseEstimator, ABC):
    """A method that learns from views with holes and fills holes in views of the same features.

    `fit` learns and returns self; `complete` fills; learned attributes end in an underscore.
    Subclasses write `_fit` and `_predict`; observed cells are out of their reach, because
    `Completed.merge` takes predictions only where nothing was observed.
    """

    name: ClassVar[str]
    pools_rows: ClassVar[bool] = True
    """Whether all rows must be in one place: for one owner of all, never for a consortium.

    True unless a subclass says otherwise, so that nobody takes a method for safe by mistake.
    """
    sent: SentLog | None = None
    """Where sites' releases are kept for an audit, if set before `fit`; no parameter of clones."""
    features_: dict[str, tuple[Feature, ...]]

    schemas_: dict[str, TableSchema]

    def fit(self: Fitted, views: MultiView, *, progress: Progress | None = None) -> Fitted:
        """Learn from the observed rows and cells of `views`."""
        require_rows(views)
        with kept_on_failure(self):
            self.features_ = {name: view.features for name, view in views.items()}
            self.schemas_ = {name: TableSchema.of(view) for name, view in views.items()}
            self.notes_: tuple[str, ...] = ()
            self._fit(views, progress or silent)
        return self

    def complete(self, views: MultiView, *, progress: Progress | None = None) -> Completed:
        """Fill what is missing in `views`; individuals need not be those of `fit`.

        There may be one individual only. Views and columns that are not there are completed for
        everybody; columns may stand in another order, and those that the fit did not have are
        passed through. A category that it did not have is kept and tells the method nothing.
        """
        later = self._later(views)
        if later.seen.is_complete:
            return merged(later, Completed.merge(later.seen, {}, method=self.name))
        return merged(later, self._complete(later.seen, progress or silent))

    def fit_complete(self, views: MultiView, *, progress: Progress | None = None) -> Completed:
        """Learn from `views` and fill them."""
        return self.fit(views, progress=progress).complete(views, progress=progress)

    def draw(
        self, views: MultiView, n_draws: int = 5, *, key: int | Sequence[int] = 0
    ) -> list[Completed]:
        """Fill `views` several times, each time with other draws of what the cells could be."""
        raise SettingError(
            f"the method {self.name!r} tells one value a cell and draws none; "
            "choose 'pooled', 'private' or 'cooperative'"
        )

    def score(self, views: MultiView, truth: MultiView) -> float:
        """Return the mean R² of the numeric cells missing in `views` and known in `truth`."""
        completed = self.complete(views)
        scores = []
        for name in views:
            known = truth[name].positions(views.ids)
            hidden = (known >= 0) & ~views.present(name)
            numeric = [k for k, f in enumerate(views[name].features) if f.kind is Kind.NUMERIC]
            if hidden.any() and numeric:
                actual = truth[name].cells[known[hidden]][:, numeric]
                completed_cells = completed.cells[name][hidden][:, numeric]
                # A cell left empty is scored as if the mean had been filled in.
                typical = views[name].typical()[numeric]
                scores.append(
                    r2(actual, np.where(np.isnan(completed_cells), typical, completed_cells))
                )
        if not scores:
            raise DataError("there is nothing to score: no row is missing in views and in truth")
        return float(np.mean(scores))

    @property
    def schemas(self) -> dict[str, TableSchema]:
        """What is remembered of each view's table, by which later ones are read."""
        check_is_fitted(self, "features_")
        known = getattr(self, "schemas_", {})
        return {
            name: known[name]
            if name in known and known[name].features == features
            else TableSchema(features)
            for name, features in self.features_.items()
        }

    def save(self, path: str | Path) -> None:
        """Write the fitted method to a new folder that `load_model` reads, for its owner only."""
        check_is_fitted(self, "features_")
        save_model(path, self)

    def learned(self) -> dict[str, Any]:
        """Return what `fit` learned, of storable types, for `save`."""
        return {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and name != "schemas_"
        }

    def restore(self, learned: Mapping[str, Any]) -> None:
        """Take over what `learned` returned, in place of a `fit`."""
        for name, value in learned.items():
            setattr(self, name, value)

    def _later(self, views: MultiView) -> ConformedViews:
        """Return views as the fit knows them."""
        check_is_fitted(self, "features_")
        return conform(views, self.schemas)

    @abstractmethod
    def _fit(self, views: MultiView, progress: Progress) -> None:
        """Learn; set attributes ending in an underscore."""

    def _complete(self, views: MultiView, progress: Progress) -> Completed:
        """Fill views of the fit's columns; for methods that tell more than cells."""
        predicted = self._predict(views, progress)
        return Completed.merge(views, predicted, method=self.name, notes=self.notes_)

    @abstractmethod
    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        """Return cells per view, one row per individual of ``views.ids``; NaN where unknown."""

    def _check_schema(self, views: MultiView) -> None:
        if set(views) != set(self.features_):
            raise DataError(
                f"the method was fitted on the views {', '.join(self.features_)} and cannot "
                f"complete {', '.join(views)}; fit it again"
            )
        for name, view in views.items():
            known = [f.name for f in self.features_[name]]
            if list(view.feature_names) != known:
                raise DataError(
                    f"view {name!r} has other features than at fit ({view.n_features} now, "
                    f"{len(known)} then); give the same columns in the same order"
                )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "features_")


def merged(later: ConformedViews, done: Completed) -> Completed:
    """Return what was predicted for views as the fit knows them, beside all that was observed."""
    notes = (*later.notes, *done.notes)
    if later.seen is later.views:
        return replace(done, notes=notes)
    return Completed.merge(
        later.views, done.cells, method=done.method, lower=done.lower, upper=done.upper, notes=notes
    )


def require_rows(views: MultiView) -> None:
    """Refuse a view without rows, or with a column that no row has a value of."""
    for name, view in views.items():
        if not len(view):
            raise DataError(f"view {name!r} has no rows; leave it out or give it individuals")
        unknown = np.isnan(view.cells).all(axis=0)
        if unknown.any():
            feature = view.feature_names[int(unknown.argmax())]
            raise DataError(
                f"view {name!r}: column {feature!r} has no value in any row; leave it out"
            )


def require_draws(n_draws: int) -> int:
    """Return how many draws are asked for; raise a `SettingError` unless there is one."""
    if n_draws < 1:
        raise SettingError(f"n_draws must be at least 1, got {n_draws}")
    return n_draws
