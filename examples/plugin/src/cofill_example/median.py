"""A completion method: fill holes with the column's median."""

from collections.abc import Mapping

import numpy as np

from cofill.completion import AbstractCompleter, Progress
from cofill.views import Kind, MultiView


class MedianCompleter(AbstractCompleter):
    """Median of numeric columns, commonest value of the others.

    The first line of the docstring is what `cofill methods` shows.
    """

    name = "median"
    pools_rows = False  # a view is filled from its own rows, so nothing crosses a border

    def _fit(self, views: MultiView, progress: Progress) -> None:
        self.fills_ = {}
        for name, view in views.items():
            numeric = [feature.kind is Kind.NUMERIC for feature in view.features]
            medians = np.nanmedian(view.cells, axis=0)
            self.fills_[name] = np.where(numeric, medians, view.typical())

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        return {name: np.tile(fill, (len(views.ids), 1)) for name, fill in self.fills_.items()}
