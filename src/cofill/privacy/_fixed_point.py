"""Real vectors as words of a finite ring, in which sums of many sites neither round nor wrap."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt64

from cofill.errors import DataError
from cofill.privacy._checks import require_positive, require_whole


@dataclass(frozen=True)
class FixedPoint:
    """Numbers from −largest to largest as multiples of a step, in words of 64 bits.

    The step is the smallest power of two at which the sum over all sites fits. Everybody must use
    the same settings.

    Parameters
    ----------
    largest
        The largest absolute value of a coordinate. Values beyond are an error, not clipped.
    sites
        Most sites that may be added up.

    Examples
    --------
    >>> code = FixedPoint(largest=100.0)
    >>> a, b = np.array([1.5, -99.0]), np.array([-2.25, 98.0])
    >>> code.decode(code.encode(a) + code.encode(b)).tolist()
    [-0.75, -1.0]
    >>> code.step < 1e-12
    True
    """

    largest: float | int
    sites: int = 10_000

    def __post_init__(self) -> None:
        require_positive("largest", self.largest)
        require_whole("sites", self.sites, 1)

    @property
    def step(self) -> float:
        """The distance of neighbouring numbers; a sum of n is off by at most n / 2 of it."""
        return 2.0 ** (math.floor(math.log2(self.largest * self.sites)) + 1 - 62)

    def encode(self, vector: np.ndarray) -> UInt64[np.ndarray, " size"]:
        """Return the vector as words; negative numbers wrap around.

        Raises
        ------
        DataError
            If a value is not finite or beyond the largest.
        """
        beyond = ~(np.abs(vector) <= self.largest)
        if beyond.any():
            raise DataError(
                f"the vector must be finite and at most {self.largest:g} in absolute value, got "
                f"{int(beyond.sum())} of {vector.size} values beyond; clip it or choose a larger "
                "largest"
            )
        return np.rint(np.asarray(vector, float) / self.step).astype(np.int64).view(np.uint64)

    def decode(self, words: UInt64[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        """Return the vector of a sum of encoded vectors."""
        return words.view(np.int64) * self.step
