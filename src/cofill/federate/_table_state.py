"""What all parties know of a common model of tables, stage by stage; see `_summed_table`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError

SHARES, GAUSSIANS, STRENGTH, FEATURES, WEIGHTS, DONE = range(6)
_UNSET = np.zeros(0)


@dataclass(frozen=True, eq=False)
class TableState:
    """What all parties know of the model so far; travels as one vector of numbers."""

    stage: int = SHARES
    step: int = 0
    people: float = 0.0
    counts: np.ndarray = field(default_factory=lambda: _UNSET)
    centre: np.ndarray = field(default_factory=lambda: _UNSET)
    spread: np.ndarray = field(default_factory=lambda: _UNSET)
    strengths: np.ndarray = field(default_factory=lambda: _UNSET)
    means: np.ndarray = field(default_factory=lambda: _UNSET)
    covariances: np.ndarray = field(default_factory=lambda: _UNSET)
    coefficients: np.ndarray = field(default_factory=lambda: _UNSET)
    inflations: np.ndarray = field(default_factory=lambda: _UNSET)
    errors: np.ndarray = field(default_factory=lambda: _UNSET)

    def to_vector(self) -> Float[np.ndarray, " state"]:
        """Return the state as one vector: the size of every part, then the parts."""
        parts = [np.ravel(getattr(self, f.name)).astype(np.float64) for f in fields(self)]
        return np.concatenate([[len(part) for part in parts], *parts])

    @classmethod
    def of_vector(cls, vector: Float[np.ndarray, " state"]) -> TableState:
        """Return the state that a vector holds; raise a `DataError` if it holds none."""
        names = [f.name for f in fields(cls)]
        sizes = vector[: len(names)].astype(int)
        if len(vector) != len(names) + sizes.sum() or (sizes < 0).any():
            raise DataError("the common model does not have the parts of a model of tables")
        parts = np.split(vector[len(names) :], np.cumsum(sizes)[:-1])
        values: dict[str, Any] = dict(zip(names, parts, strict=True))
        values |= {name: int(values[name][0]) for name in ("stage", "step")}
        values["people"] = float(values["people"][0])
        return cls(**values)
