"""All views side by side in one scaled matrix: what methods that pool rows work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.views import MultiView, Scaler, side_by_side


@dataclass(frozen=True)
class Pool:
    """Scalers of all views, and the columns each view takes in the pooled matrix."""

    scalers: Mapping[str, Scaler]

    @classmethod
    def fit(cls, views: MultiView) -> Pool:
        """Fit one scaler per view on its observed rows."""
        return cls({name: Scaler.fit(view) for name, view in views.items()})

    @property
    def columns(self) -> dict[str, slice]:
        """Columns of each view in the pooled matrix."""
        places = side_by_side([scaler.width for scaler in self.scalers.values()])
        return {name: slice(*place) for name, place in zip(self.scalers, places, strict=True)}

    def encode(self, views: MultiView) -> Float[np.ndarray, "individuals width"]:
        """Return one row per individual, NaN where a view or a cell is missing."""
        parts = []
        for name, scaler in self.scalers.items():
            encoded = np.full((views.n_individuals, scaler.width), np.nan)
            encoded[views.present(name)], _ = scaler.encode_view(views[name])
            parts.append(encoded)
        return np.hstack(parts)

    def decode(self, matrix: Float[np.ndarray, "individuals width"]) -> dict[str, np.ndarray]:
        """Return cells per view in the user's units, numbers within the range seen at fit."""
        return {
            name: scaler.decode(matrix[:, self.columns[name]], clip=True)
            for name, scaler in self.scalers.items()
        }
