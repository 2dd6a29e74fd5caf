"""What common models of tables share: where features lie in a row, and what completes one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from cofill.completion import Progress, silent
from cofill.federate._aggregation import SecureSum
from cofill.federate._common_model import AbstractCommonModel
from cofill.federate._rows import Rows, Shape, encode_rows
from cofill.impute import Correction, Encoding
from cofill.views import MultiView, Scaler


@dataclass(frozen=True)
class AbstractTable(AbstractCommonModel):
    """A common model of tables of a shape, which is learned from sums over rows."""

    adds_by_rows: ClassVar[bool] = False
    largest_change: ClassVar[float] = 1e9  # a million people, thirty deviations off
    shape: Shape

    @cached_property
    def encoding(self) -> Encoding:
        """Where each feature lies in a row."""
        return Encoding.of_widths(self.shape.widths)

    def secure_sum(self, chosen: SecureSum) -> SecureSum:
        """Return settings of a secure sum of products of cells, larger than changes of weights."""
        return replace(chosen, largest=max(chosen.largest, self.largest_change))

    def learned_cells(self, rows: Rows) -> Float[np.ndarray, "people size"]:
        """Return all rows, with NaN for unknown cells."""
        return np.where(rows.known, rows.cells, np.nan)

    @abstractmethod
    def fill(
        self,
        vector: Float[np.ndarray, " state"],
        encoded: Float[np.ndarray, "n size"],
        correction: Correction | None = None,
    ) -> Float[np.ndarray, "n size"]:
        """Return encoded rows with unknown cells (NaN) filled, by a site's own candidates too."""

    def complete_views(
        self,
        scalers: Mapping[str, Scaler],
        weights: Float[np.ndarray, " state"],
        views: MultiView,
        correction: Correction | None = None,
        progress: Progress = silent,
    ) -> dict[str, Float[np.ndarray, "n features"]]:
        """Return all cells of individuals per view, in the user's units, missing ones filled."""
        encoded = self.learned_cells(encode_rows(views, scalers, self.shape)).astype(np.float64)
        filled = self.fill(weights, encoded, correction)
        slices = self.shape.slices
        return {name: scalers[name].decode(filled[:, slices[name]], clip=True) for name in slices}
