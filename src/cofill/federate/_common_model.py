"""The interface of whatever sites learn together, as rounds, saving and audits see it.

A common model travels as one vector. In a round every site adds a vector to a sum: the change that
training made (`AbstractLearner`), or sums over its rows
(`SummedTable`, `NoisyTable`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.completion import Progress, silent
from cofill.federate._aggregation import LocalUpdate, SecureSum
from cofill.federate._rows import Rows, Shape
from cofill.impute import Correction
from cofill.views import MultiView, Scaler

Vectors = Mapping[str, Float[np.ndarray, " P"]]


@dataclass(frozen=True)
class Phase:
    """One kind of training.

    Parameters
    ----------
    name
        An argument of `AbstractLearner.loss`.
    streams
        Which rows a step draws, by names: ``"complete"`` (every modality), ``"several"`` (two or
        more), or ``"only:k"`` (modality number k and no other).
    """

    name: str
    streams: tuple[str, ...]

    def rows(self, rows: Rows) -> dict[str, np.ndarray]:
        """Return the positions of each stream's rows."""
        return {stream: rows.positions(stream) for stream in self.streams}

    def training_rows(self, rows: Rows) -> np.ndarray:
        """Return the positions of the rows that any stream draws."""
        return np.unique(np.concatenate(list(self.rows(rows).values())))


class AbstractCommonModel(ABC):
    """A model that sites learn together. Concrete ones are frozen dataclasses, hence hashable."""

    shape: Shape

    adds_by_rows: ClassVar[bool] = True
    """Whether a site's update may weigh as much as it has rows."""

    # Honest networks of this package have weights below 10^3.
    largest_change: ClassVar[float] = 1e6
    """Number beyond which nobody's plain update is believed."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Kinds of training in order: all but the last pre-train at a site, the last is for rounds.

        None for a model that is not trained.
        """
        return ()

    @property
    def held_out(self) -> float:
        """Share of a site's rows that judge the common model and train nothing."""
        return 0.0

    @property
    def momentum(self) -> float:
        """Momentum of the mean of several sites' weights that suits the model (`FedAvg`)."""
        return 0.0

    def figures(self, phase: Phase) -> tuple[str, ...]:
        """Return the names of the figures that training of a phase reports."""
        return ()

    def secure_sum(self, chosen: SecureSum) -> SecureSum:
        """Return settings of the secure sum that the model's numbers fit, from those chosen."""
        return chosen

    # --- the coordinator ----------------------------------------------------------------------

    @abstractmethod
    def start(self, seed: int = 0) -> Float[np.ndarray, " P"]:
        """Return the common model before the first round, which anybody can make."""

    def sum_length(self, vector: Float[np.ndarray, " P"]) -> int:
        """Return how many numbers a site adds to a common model."""
        return len(vector)

    @abstractmethod
    def after_round(
        self, coordinator: Any, mean: Vectors, sites: int
    ) -> tuple[Mapping[str, np.ndarray], Float[np.ndarray, " next"]]:
        """Return the strategy's state and the common model after the mean of so many sites."""

    def is_done(self, vector: Float[np.ndarray, " P"]) -> bool:
        """Return whether further rounds would change nothing."""
        return False

    # --- a site -------------------------------------------------------------------------------

    def add_up(self, site: Any, model: Any) -> tuple[Any, LocalUpdate | None]:
        """Return a site that nothing was trained at, and what it adds; None if it adds nothing."""
        return site, None

    def learn_from_own(self, site: Any, weights: Float[np.ndarray, " P"]) -> Any:
        """Return a site that takes the final model, with what its own people tell besides."""
        return site

    def error(self, weights: Float[np.ndarray, " P"], rows: Rows) -> float:
        """Return the mean squared error of rows that are held out, NaN where none are."""
        return math.nan

    @abstractmethod
    def complete_views(
        self,
        scalers: Mapping[str, Scaler],
        weights: Float[np.ndarray, " P"],
        views: MultiView,
        correction: Correction | None = None,
        progress: Progress = silent,
    ) -> dict[str, Float[np.ndarray, "n features"]]:
        """Return missing cells per view, in the user's units; other cells may be NaN.

        ``correction`` is what a site's own people add to the common model.
        """

    # --- audits -------------------------------------------------------------------------------

    @abstractmethod
    def learned_cells(self, rows: Rows) -> Float[np.ndarray, "people size"]:
        """Return the rows that a round learns from."""

    @abstractmethod
    def after_update(
        self, weights: Float[np.ndarray, " P"], change: Float[np.ndarray, " length"]
    ) -> Float[np.ndarray, " next"]:
        """Return the common model as it would be if one site's update were the only one."""

    @abstractmethod
    def log_losses(
        self, models: Sequence[Float[np.ndarray, " _"]], cells: Float[np.ndarray, "people size"]
    ) -> Float[np.ndarray, "models people"]:
        """Return everybody's loss under each model, as a logarithm unless some is not above 0."""
