"""How well generated modalities match test images that no training has seen.

Errors are on the scale of 0 to 255; "all" is the mean of both directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cofill.federate._estimator import FederatedCompletion
from cofill.federate._rows import Rows, encode_rows
from cofill.metrics import packed_images
from cofill.views import MultiView

_SHOWN = 8  # test images that are kept as pictures


class PairScores:
    """Scores of estimators of two modalities of one size, on test views."""

    def __init__(self, test: MultiView) -> None:
        self._test = test
        self._scaled: tuple[Any, Rows] | None = None

    def errors(self, estimator: FederatedCompletion, *, modules: bool = False) -> dict[str, float]:
        """Return squared errors of both directions and their mean.

        With `modules` also those of VIGAN's parts: of the generators alone (Table 4.6), and of the
        autoencoder that rebuilds true pairs (Table 4.3).
        """
        learner = estimator.learner_
        rows = self._rows(estimator)
        half = learner.shape.sizes[0]
        ways = {"x2y": (0, slice(half, None)), "y2x": (1, slice(0, half))}
        parts = {"": "fill"}
        if modules and hasattr(learner, "rebuilt"):
            parts["generators_"] = "generated"
        errors = {}
        for prefix, part in parts.items():
            for way, (shown, columns) in ways.items():
                completed = learner.complete(estimator.weights_, _only(rows, shown), part=part)
                errors[f"{prefix}{way}"] = _mse255(completed[:, columns], rows.cells[:, columns])
            errors[f"{prefix}all"] = (errors[f"{prefix}x2y"] + errors[f"{prefix}y2x"]) / 2
        if len(parts) > 1:
            completed = learner.complete(estimator.weights_, rows, part="rebuilt")
            errors["autoencoder"] = _mse255(completed, rows.cells)
        return errors

    def pictures(self, estimator: FederatedCompletion) -> dict[str, Any]:
        """Return some square test images and those predicted from them, packed."""
        rows = self._rows(estimator)
        few = Rows(rows.cells[:_SHOWN], rows.known[:_SHOWN], rows.present[:_SHOWN])
        half = estimator.learner_.shape.sizes[0]
        complete, weights = estimator.learner_.complete, estimator.weights_
        completed = [complete(weights, _only(few, shown)) for shown in (0, 1)]
        images = {
            "image": few.cells[:, :half],
            "edge from image": completed[0][:, half:],
            "edge": few.cells[:, half:],
            "image from edge": completed[1][:, :half],
        }
        side = round(half**0.5)
        grey = {n: np.rint(255 * np.clip(cells, 0, 1)) for n, cells in images.items()}
        shape = (-1, side, side)
        return {n: packed_images(g.astype(np.uint8).reshape(shape)) for n, g in grey.items()}

    def _rows(self, estimator: FederatedCompletion) -> Rows:
        """Return the test images in a model's range, encoded once while the range is the same."""
        ranges = [(s.center[0], s.scale[0]) for s in estimator.scalers_.values()]
        if self._scaled is None or self._scaled[0] != ranges:
            rows = encode_rows(self._test, estimator.scalers_, estimator.learner_.shape)
            self._scaled = (ranges, rows)
        return self._scaled[1]


def _only(rows: Rows, shown: int) -> Rows:
    """Return rows that show one of two modalities of one size."""
    present = np.zeros_like(rows.present)
    present[:, shown] = True
    known = np.repeat(present, rows.cells.shape[1] // 2, axis=1)
    return Rows(np.where(known, rows.cells, 0).astype(np.float32), known, present)


def _mse255(completed: np.ndarray, true: np.ndarray) -> float:
    return float(255**2 * np.mean((completed.astype(np.float64) - true) ** 2))
