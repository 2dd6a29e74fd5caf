"""What a site does at its end: complete its own individuals with the common model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from cofill.completion import Progress, silent
from cofill.federate._learner import AbstractLearner
from cofill.federate._rows import Rows, encode_rows
from cofill.views import MultiView, Scaler


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The common model with the scales that it was trained on."""

    learner: AbstractLearner
    scalers: Mapping[str, Scaler]
    weights: Float[np.ndarray, " P"]

    def predict(
        self, views: MultiView, progress: Progress = silent
    ) -> dict[str, Float[np.ndarray, "n features"]]:
        """Return the cells of everybody who lacks some, per view and in the user's units.

        Each modality is predicted from the others; rows without a missing cell hold NaN.
        """
        predictions = {}
        rows = encode_rows(views, self.scalers, self.learner.shape)
        for k, (name, columns) in enumerate(self.learner.shape.slices.items()):
            progress(f"completing {name}", k / len(views))
            incomplete = np.asarray(~rows.known[:, columns].all(axis=1))
            cells = np.full((views.n_individuals, len(views[name].features)), np.nan)
            if incomplete.any():
                filled, has_others = self._from_others(rows, k, incomplete)
                scaler = self.scalers[name]
                decoded = scaler.decode(filled[:, columns].astype(np.float64), clip=True)
                # Nothing but this modality is known of some: they get what is usual at the site.
                typical = views[name].typical()
                alone = ~has_others[:, None] & ~np.isnan(typical)
                cells[incomplete] = np.where(alone, typical, decoded)
            predictions[name] = cells
        return predictions

    def reconstruct(self, views: MultiView, name: str) -> Float[np.ndarray, "n features"]:
        """Return everybody's row of one modality as the others predict it, in the user's units."""
        shape = self.learner.shape
        rows = encode_rows(views, self.scalers, shape)
        everybody = np.ones(views.n_individuals, dtype=bool)
        filled, _ = self._from_others(rows, shape.names.index(name), everybody)
        return self.scalers[name].decode(
            filled[:, shape.slices[name]].astype(np.float64), clip=True
        )

    def _from_others(
        self, rows: Rows, modality: int, chosen: Bool[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "m size"], Bool[np.ndarray, " m"]]:
        """Return chosen rows as predicted from the other modalities, and who has any other.

        Rows of those who have none are of zeros: the mean of numbers.
        """
        present = rows.present[chosen].copy()
        present[:, modality] = False
        known = rows.known[chosen] & present[:, self.learner.shape.owner]
        shown = Rows(np.where(known, rows.cells[chosen], 0).astype(np.float32), known, present)
        filled = self.learner.complete(self.weights, shown)
        has_others = np.asarray(present.any(axis=1))
        return np.where(has_others[:, None], filled, 0.0), has_others
