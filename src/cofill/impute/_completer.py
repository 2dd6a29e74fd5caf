"""All views side by side as one table, whose missing cells and rows are told from what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cofill.completion import AbstractCompleter, Completed, Progress, silent
from cofill.impute._model import TableModel, fit_table, require_effort
from cofill.impute._pooled import side_by_side
from cofill.views import MultiView, View


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
    seed: int = 0

    def _fit(self, views: MultiView, progress: Progress) -> None:
        require_effort(self.effort)
        features = [f for view in views.values() for f in view.features]
        self.model_: TableModel = fit_table(
            _table(views),
            features,
            effort=self.effort,
            seed=self.seed,
            progress=lambda share: progress(self.name, share),
        )
        self.notes_ = self.model_.notes

    def complete(self, views: MultiView, *, progress: Progress | None = None) -> Completed:
        """Fill what is missing; a view that is not there is completed for everybody."""
        absent = [
            View(name, views.ids[:0], np.empty((0, len(features))), features)
            for name, features in getattr(self, "features_", {}).items()
            if name not in views
        ]
        if absent:
            known = {**views, **{view.name: view for view in absent}}
            order = [n for n in self.features_ if n in known]
            views = MultiView([known[n] for n in [*order, *(n for n in views if n not in order)]])
        return super().complete(views, progress=progress or silent)

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        views = views.select(list(self.features_))
        filled = self.model_.predict(_table(views))
        places = side_by_side([len(features) for features in self.features_.values()])
        return {
            name: filled[:, start:stop]
            for name, (start, stop) in zip(self.features_, places, strict=True)
        }


def _table(views: MultiView) -> np.ndarray:
    return np.hstack([views.aligned(name) for name in views])
