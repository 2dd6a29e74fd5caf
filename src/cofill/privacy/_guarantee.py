"""The guarantee of a release: what its event promises at a δ."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy._accounting import epsilon, resolve_relation
from cofill.privacy._checks import require_delta
from cofill.privacy._events import Event, Neighbours, Unit, require_relation


@storable
@dataclass(frozen=True)
class Guarantee:
    """What a release promises, in figures and in words that a person can file.

    Parameters
    ----------
    epsilon, delta
        (ε, δ)-differential privacy.
    neighbours, unit
        What is hidden: a replaced or an added record, or all that a site holds.
    mechanism
        How: the noise, in words.
    assumes
        What must be true for it to hold, such as the sampling.
    pure_epsilon
        ε at δ = 0, where there is one.

    Examples
    --------
    >>> from cofill.privacy import LaplaceEvent
    >>> print(guarantee(LaplaceEvent(100.0, count=784), 1e-5, "Laplace noise per coordinate"))
    (ε = 1.05, δ = 1e-05)-differential privacy when one record is replaced by another (ε = 7.84 at
    δ = 0), by Laplace noise per coordinate
    """

    epsilon: float | int
    delta: float | int
    neighbours: Neighbours
    mechanism: str
    assumes: str = ""
    unit: Unit = "record"
    pure_epsilon: float | int | None = None

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise SettingError(f"epsilon must be 0 or more, got {self.epsilon}")
        require_delta(self.delta)
        require_relation(self.neighbours, self.unit)

    def __str__(self) -> str:
        replaced = self.neighbours == "replace one"
        change = f"one {self.unit} is {'replaced by another' if replaced else 'added or removed'}"
        pure = ""
        if self.pure_epsilon is not None and self.delta > 0:
            pure = f" (ε = {self.pure_epsilon:.3g} at δ = 0)"
        words = (
            f"(ε = {self.epsilon:.3g}, δ = {self.delta:.3g})-differential privacy when {change}"
            f"{pure}, by {self.mechanism}"
        )
        return f"{words}; assumes that {self.assumes}" if self.assumes else words


def guarantee(
    event: Event,
    delta: float | int,
    mechanism: str,
    *,
    assumes: str = "",
    neighbours: Neighbours | None = None,
    unit: Unit | None = None,
) -> Guarantee:
    """Return what an event promises at a δ; neighbours and unit as the event's unless given.

    Examples
    --------
    >>> from cofill.privacy import GaussianEvent
    >>> round(guarantee(GaussianEvent(1.0), 1e-5, "Gaussian noise").epsilon, 3)
    4.377
    """
    neighbours, unit = resolve_relation((event,), neighbours, unit)
    pure = epsilon(event, 0, neighbours=neighbours, unit=unit)
    return Guarantee(
        epsilon=epsilon(event, delta, neighbours=neighbours, unit=unit),
        delta=delta,
        neighbours=neighbours,
        mechanism=mechanism,
        assumes="; ".join(text for text in (event.assumes, assumes) if text),
        unit=unit,
        pure_epsilon=pure if math.isfinite(pure) else None,
    )
