"""A strategy of rounds: the mean update, with a momentum at the coordinator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cofill.federate import AbstractStrategy

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Momentum(AbstractStrategy):
    """FedAvg with a momentum at the coordinator."""

    name: ClassVar[str] = "momentum"
    by_rows: bool = True  # weigh sites by their number of rows
    momentum: float = 0.5

    def init(self, weights: np.ndarray) -> State:
        """Return the state before the first round."""
        return {"velocity": np.zeros_like(weights)}

    def apply(
        self, state: State, weights: np.ndarray, mean: Mapping[str, np.ndarray], share: float
    ) -> tuple[State, np.ndarray]:
        """Return state and weights after a round."""
        velocity = self.momentum * state["velocity"] + mean["change"]
        return {"velocity": velocity}, weights + velocity
