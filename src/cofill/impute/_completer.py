"""All views side by side as one table, whose missing cells and rows are told from what is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cofill.completion import AbstractCompleter, Completed, Progress, merged, require_draws
from cofill.errors import SettingError
from cofill.impute._model import TableModel, fit_table, require_effort
from cofill.views import MultiView, side_by_side


@dataclass(kw_only=True, eq=False, repr=False)
class PooledCompleter(AbstractCompleter):
    """Every cell from everything known of its person: the method for one owner of all tables.

    Candidates of different kinds (a conditional Gaussian, trees, neighbours) are blended for each
    column by how well they tell cells that were hidden from them.

    Parameters
    ----------
    effort
        ``"quick"``, ``"normal"`` or ``"thorough"``: how much time candidates get. What was left
        out is in the result's notes.
    interval
        Level of the intervals that `complete` adds, such as 0.9, or None for none.
    seed
        Start of all randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.views import MultiView
    >>> x = np.random.default_rng(0).normal(size=(60, 1))
    >>> cells = np.hstack([x, 2 * x])
    >>> cells[:5, 1] = np.nan
    >>> done = PooledCompleter(effort="quick").fit_complete(MultiView.from_arrays({"t": cells}))
    >>> bool(abs(done.cells["t"][:5, 1] - 2 * x[:5, 0]).max() < 0.2)
    True
    """

    name: ClassVar[str] = "pooled"

    effort: str = "normal"
    interval: float | None = None
    seed: int = 0

    def _fit(self, views: MultiView, progress: Progress) -> None:
        require_effort(self.effort)
        if self.interval is not None and not 0 < self.interval < 1:
            raise SettingError(f"interval must be between 0 and 1, got {self.interval}")
        features = [f for view in views.values() for f in view.features]
        self.model_: TableModel = fit_table(
            _table(views, views),
            features,
            views=[len(view.features) for view in views.values()],
            effort=self.effort,
            seed=self.seed,
            progress=lambda share: progress(self.name, share),
        )
        self.notes_ = self.model_.notes

    def _complete(self, views: MultiView, progress: Progress) -> Completed:
        done = super()._complete(views, progress)
        if self.interval is None:
            return done
        ends = self.model_.intervals(_table(views, self.features_), self.interval)
        lower, upper = map(self._split, ends)
        return Completed.merge(
            views, done.cells, method=self.name, lower=lower, upper=upper, notes=self.notes_
        )

    def draw(
        self,
        views: MultiView,
        n_draws: int = 5,
        *,
        key: int | Sequence[int] = 0,
        matched: bool | None = None,
    ) -> list[Completed]:
        """Fill `views` several times, each time with other draws of what the cells could be.

        Analyse each result as if it were complete and pool the estimates by `rubin`. `matched`
        takes only numbers that were observed (predictive mean matching); None does so in columns
        that pile up at a value or are skewed.
        """
        later = self._later(views)
        rngs = np.random.default_rng(key).spawn(require_draws(n_draws))
        cells = _table(later.seen, self.features_)
        tables = map(self._split, self.model_.draws(cells, rngs, matched=matched))
        return [
            merged(later, Completed.merge(later.seen, t, method=self.name, notes=self.notes_))
            for t in tables
        ]

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        return self._split(self.model_.predict(_table(views, self.features_)))

    def _split(self, table: np.ndarray) -> dict[str, np.ndarray]:
        """Return each view's columns of the table."""
        places = side_by_side([len(features) for features in self.features_.values()])
        return {
            name: table[:, start:stop]
            for name, (start, stop) in zip(self.features_, places, strict=True)
        }


def _table(views: MultiView, names: Iterable[str]) -> np.ndarray:
    return np.hstack([views.aligned(name) for name in names])
