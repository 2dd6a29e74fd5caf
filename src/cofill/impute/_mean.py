"""Fill every hole with the feature's mean, or its commonest value: the floor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cofill.completion import AbstractCompleter, Progress
from cofill.views import MultiView


class MeanCompleter(AbstractCompleter):
    """Mean of numeric features (rounded for whole numbers), commonest value of the others.

    Each view needs only itself, so nothing crosses a border. Ties go to the first category.

    Examples
    --------
    >>> from cofill.views import MultiView, View
    >>> people = MultiView([View("a", [1, 2, 3], [[1.0], [2.0], [6.0]]), View("b", [1], [[4.0]])])
    >>> MeanCompleter().fit_complete(people).cells["b"].ravel()
    array([4., 4., 4.])
    """

    name = "mean"
    pools_rows = False

    def _fit(self, views: MultiView, progress: Progress) -> None:
        self.fills_ = {name: view.typical() for name, view in views.items()}
        progress("mean", 1.0)

    def _predict(self, views: MultiView, progress: Progress) -> Mapping[str, np.ndarray]:
        # A broadcast row costs no memory, whatever the number of individuals.
        return {
            name: np.broadcast_to(fill, (views.n_individuals, len(fill)))
            for name, fill in self.fills_.items()
        }
