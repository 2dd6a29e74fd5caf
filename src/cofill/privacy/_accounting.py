"""The accountant: what ε a list of events costs at a δ, what noise a budget asks for, guarantees.

Every figure comes from Google's dp-accounting. Two plain steps are taken around it: replacing a
record is removing one and adding one, so sensitivities double; and the chance that a Poisson
sample does not fit its array is added to δ (`_events.py` says why that is enough). By default
privacy loss distributions are used (PLD, with pessimistic rounding, so that the figure is a true
upper bound) and compositions of Gaussian noise alone by their exact formula (Balle & Wang 2018);
Rényi accounting is faster, a little looser, and what compositions of more than a million steps get.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy._checks import require_delta, require_positive, require_whole
from cofill.privacy._events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    Neighbours,
    SampledGaussianEvent,
    Unit,
    compose,
    overflow_of,
    require_relation,
)

Method = Literal["pld", "rdp"]

# Grid of the privacy loss distributions: fine, but never of more than some 400,000 cells.
_GRID = 1e-4
_ROUGH_GRID = 2e-3
_CELLS = 400_000
# Steps beyond which a privacy loss distribution takes seconds and its grid adds up.
_LONG = 1_000_000
_TOLERANCE = 1e-3  # above the least noise, so that a search ends after few accountings


def epsilon(
    events: Event | Iterable[Event],
    delta: float | int,
    *,
    neighbours: Neighbours | None = None,
    unit: Unit | None = None,
) -> float:
    """Return the ε at which events about the same people are private together at a δ.

    At δ = 0 only Laplace noise has a finite ε. ``neighbours`` and ``unit`` are what is to be
    hidden, None for what the events say: events about adding or removing a record also count for
    replacing one (at twice the sensitivity), not the other way round, which is a `SettingError`.

    Examples
    --------
    >>> round(epsilon(SampledGaussianEvent(1.1, rate=0.01, steps=1000), 1e-5), 2)
    1.52
    >>> epsilon([LaplaceEvent(2.0), LaplaceEvent(4.0)], 0)
    0.75
    """
    require_delta(delta)
    listed = (events,) if isinstance(events, Event) else tuple(events)
    if not any(event.parts() for event in listed):
        return 0.0
    neighbours, unit = resolve_relation(listed, neighbours, unit)
    parts = compose(_convert(p, neighbours, unit) for e in listed for p in e.parts()).events
    return _epsilon(parts, float(delta), neighbours, "pld", _GRID)


def rough_epsilon(
    events: Iterable[Event], delta: float | int, *, neighbours: Neighbours, unit: Unit
) -> float:
    """Return a quick upper bound of `epsilon`, for a gate that asks again and again."""
    parts = compose(_convert(p, neighbours, unit) for e in events for p in e.parts()).events
    sampled = any(isinstance(part, SampledGaussianEvent) for part in parts)
    # Rényi accounting has no bound for Poisson samples when one record is replaced.
    method: Method = "pld" if sampled and neighbours == "replace one" else "rdp"
    return _epsilon(parts, float(delta), neighbours, method, _ROUGH_GRID) if parts else 0.0


def noise_for(
    epsilon: float | int,
    delta: float | int,
    *,
    rate: float | int = 1.0,
    steps: int = 1,
    rows: int | None = None,
) -> float:
    """Return the noise multiplier with which DP-SGD stays within (ε, δ): the inverse of `epsilon`.

    It is at most 0.1% more than what is needed, never less, and in units of the clipping norm, that
    is of what adding one row can change.

    Parameters
    ----------
    epsilon, delta
        What may be spent.
    rate, steps
        Probability of a row to be in a step's Poisson sample, and number of steps. With rate 1 it
        is the exact noise of ``steps`` Gaussian releases.
    rows
        Number of rows, to pay for samples that do not fit their arrays; see `sgd_event`.

    Examples
    --------
    >>> round(noise_for(4.3772, 1e-5), 3)
    1.0
    >>> round(noise_for(0.3, 1e-5, rate=0.01, steps=100), 1)
    1.5
    """
    require_positive("epsilon", epsilon)
    require_delta(delta, zero=False)
    require_whole("steps", steps, 1)
    if rate == 1:
        # k releases with noise σ tell as much as one with noise σ / √k.
        return math.sqrt(steps) * _exact_noise(epsilon, delta)
    overflow = overflow_of(rows, rate, steps)
    if overflow >= delta:
        raise SettingError(
            f"delta must be above {overflow:.2g}, the chance that one of {steps} samples does not "
            f"fit its array, got {delta}"
        )

    def excess(method: Method, noise: float) -> float:
        event = SampledGaussianEvent(noise, rate=rate, steps=steps, overflow=overflow)
        cost = _epsilon((event,), float(delta), "add or remove one", method, _GRID)
        return math.log(max(cost, 1e-12) / epsilon)

    # Rényi accounting takes milliseconds and is not far off: it says where to look.
    noise = _least_noise(partial(excess, "rdp"), 1.0, 0.5)
    return _least_noise(partial(excess, "pld"), noise, 0.9)


# --- guarantees ----------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class Guarantee:
    """What a release promises, in figures and in words that a person can file.

    ``mechanism`` says how, in words; ``assumes`` what must be true for it to hold, such as the
    sampling; ``pure_epsilon`` is ε at δ = 0, where there is one.

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


def guarantee(event: Event, delta: float | int, mechanism: str, *, assumes: str = "") -> Guarantee:
    """Return what an event promises at a δ, for its own neighbours and unit.

    Examples
    --------
    >>> from cofill.privacy import GaussianEvent
    >>> round(guarantee(GaussianEvent(1.0), 1e-5, "Gaussian noise").epsilon, 3)
    4.377
    """
    neighbours, unit = resolve_relation((event,), None, None)
    pure = epsilon(event, 0)
    return Guarantee(
        epsilon=epsilon(event, delta),
        delta=delta,
        neighbours=neighbours,
        mechanism=mechanism,
        assumes="; ".join(text for text in (event.assumes, assumes) if text),
        unit=unit,
        pure_epsilon=pure if math.isfinite(pure) else None,
    )


# --- relations ----------------------------------------------------------------------------------


def resolve_relation(
    events: Iterable[Event], neighbours: Neighbours | None, unit: Unit | None
) -> tuple[Neighbours, Unit]:
    """Return neighbours and unit as asked for, else the strongest that all events speak of."""
    parts: list[Any] = [part for event in events for part in event.parts()]
    if unit is None:
        unit = "site" if parts and all(p.unit == "site" for p in parts) else "record"
    if neighbours is None:
        added = all(p.neighbours == "add or remove one" for p in parts)
        neighbours = "add or remove one" if added and parts else "replace one"
    require_relation(neighbours, unit)
    return neighbours, unit


def _convert(part: Any, neighbours: Neighbours, unit: Unit) -> Event:
    """Return a mechanism with its noise in units of what other neighbours can change."""
    if part.unit == "record" and unit == "site":
        raise SettingError(
            "unit must be 'record' for an event about single records, got 'site'; only site-level "
            "noise hides all that a site holds"
        )
    if part.unit == "site" and unit == "record":
        # One record, replaced or added, may turn the site's clipped vector into any other.
        noise = part.noise_multiplier / (1 if part.neighbours == "replace one" else 2)
        return replace(part, noise_multiplier=noise, neighbours=neighbours, unit="record")
    if part.neighbours == neighbours or isinstance(part, SampledGaussianEvent):
        return part
    if part.neighbours == "replace one":
        raise SettingError(
            "neighbours must be 'replace one' for an event about replacing a record, got "
            "'add or remove one'; with a public number of records nothing hides that one is there"
        )
    # A replaced record is one that goes and one that comes: it moves a sum twice as far.
    return replace(part, noise_multiplier=part.noise_multiplier / 2, neighbours=neighbours)


# --- dp-accounting ------------------------------------------------------------------------------


# A gate asks for nearly the same compositions with every release, a search for noise as well.
@lru_cache(maxsize=4096)
def _epsilon(
    parts: tuple[Any, ...], delta: float, neighbours: Neighbours, method: Method, grid: float
) -> float:
    """Return ε of mechanisms that all speak of the same neighbours."""
    if delta == 0:
        if all(isinstance(part, LaplaceEvent) for part in parts):
            return math.fsum(p.pure_epsilon for p in parts if isinstance(p, LaplaceEvent))
        return math.inf
    overflow = math.fsum(p.overflow for p in parts if isinstance(p, SampledGaussianEvent))
    epsilon_at = _curve(parts, neighbours, method, grid)
    return math.inf if overflow >= delta else float(epsilon_at(delta - overflow))


@lru_cache(maxsize=64)
def _curve(
    parts: tuple[Any, ...], neighbours: Neighbours, method: Method, grid: float
) -> Callable[[float], float]:
    """Return ε of the mechanisms' composition as a function of δ."""
    import dp_accounting as dp

    sigma = _single_gaussian(parts, neighbours)
    if sigma is not None:
        return partial(dp.get_epsilon_gaussian, sigma)
    if method == "rdp" or sum(getattr(p, "steps", 1) for p in parts) > _LONG:
        return _compose_rdp(parts, neighbours).get_epsilon
    return _compose_losses(parts, neighbours, grid).get_epsilon_for_delta


def _single_gaussian(parts: tuple[Any, ...], neighbours: Neighbours) -> float | None:
    """Return the noise of the one Gaussian release that all parts amount to, if there is one."""
    inverse = []
    for part in parts:
        if isinstance(part, LaplaceEvent) or getattr(part, "rate", 1) != 1:
            return None
        # Other events were converted before; samples keep what one added row can change.
        sampled = isinstance(part, SampledGaussianEvent)
        doubled = 2 if sampled and neighbours == "replace one" else 1
        inverse.append(part.times * (doubled / part.noise_multiplier) ** 2)
    return 1 / math.sqrt(math.fsum(inverse))


def _compose_rdp(parts: tuple[Any, ...], neighbours: Neighbours) -> Any:
    """Return dp-accounting's Rényi accountant after the mechanisms."""
    import dp_accounting as dp

    if neighbours == "replace one" and any(isinstance(p, SampledGaussianEvent) for p in parts):
        raise SettingError(
            "Poisson samples must be of at most a million steps when one record is replaced, got "
            f"{sum(p.times for p in parts)}"
        )
    accountant = dp.rdp.RdpAccountant()
    # It remarks on Rényi orders that it leaves out: the bound is the least over the other orders,
    # and as true, so users need not see that.
    logger = logging.getLogger("absl")
    logger.addFilter(_is_no_remark)
    try:
        for part in parts:
            noise_type = dp.LaplaceDpEvent if isinstance(part, LaplaceEvent) else dp.GaussianDpEvent
            event: Any = noise_type(part.noise_multiplier)
            if isinstance(part, SampledGaussianEvent):
                event = dp.PoissonSampledDpEvent(part.rate, event)
            accountant.compose(event, part.times)
    finally:
        logger.removeFilter(_is_no_remark)
    return accountant


def _is_no_remark(record: logging.LogRecord) -> bool:
    return "Excluding this order" not in record.getMessage()


def _compose_losses(parts: tuple[Any, ...], neighbours: Neighbours, grid: float) -> Any:
    """Return the privacy loss distribution of the mechanisms' composition."""
    import dp_accounting as dp
    from dp_accounting.pld import privacy_loss_distribution as losses

    relation = dp.NeighboringRelation[neighbours.upper().replace(" ", "_")]
    grid = max(grid, max(_loss_range(part) for part in parts) / _CELLS)
    gaussian = partial(losses.from_gaussian_mechanism, value_discretization_interval=grid)
    laplace = partial(losses.from_laplace_mechanism, value_discretization_interval=grid)
    total = losses.identity(value_discretization_interval=grid)
    for part in parts:
        noise = part.noise_multiplier
        if isinstance(part, SampledGaussianEvent):
            once = gaussian(noise, sampling_prob=part.rate, neighboring_relation=relation)
            distribution = once.self_compose(part.times)
        elif isinstance(part, LaplaceEvent):
            distribution = laplace(noise).self_compose(part.times)
        else:
            # Gaussians compose exactly: one with less noise in place of many on the grid.
            distribution = gaussian(noise / math.sqrt(part.times))
        total = total.compose(distribution)
    return total


def _loss_range(part: Any) -> float:
    """Return roughly the spread of the privacy losses of a mechanism's composition."""
    # Twenty deviations to either side: what lies beyond is far less than any δ.
    times = part.times
    if isinstance(part, LaplaceEvent):
        return 2 * min(times, 20 * math.sqrt(times)) / part.noise_multiplier
    noise = part.noise_multiplier
    if isinstance(part, GaussianEvent):
        noise, times = noise / math.sqrt(times), 1
    rate = getattr(part, "rate", 1.0)
    once = 20 / noise + 1 / noise**2
    return once + times * rate**2 / noise**2 + 20 * rate * math.sqrt(times) / noise


# --- the inverse --------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _exact_noise(epsilon: float | int, delta: float | int) -> float:
    """Return the noise of one Gaussian release, by dp-accounting's exact search."""
    from dp_accounting import get_sigma_gaussian

    # The search ends on either side of the exact value.
    return float(get_sigma_gaussian(epsilon, delta)) * (1 + 1e-9)


def _least_noise(excess: Callable[[float], float], start: float, factor: float) -> float:
    """Return noise whose excess is at most 0 and that is within the tolerance of the least."""
    from scipy.optimize import root_scalar

    high = start
    while excess(high) > 0:
        high /= factor
    low = high * factor
    while excess(low) <= 0:
        low, high = low * factor, low
    if not math.isfinite(excess(low)):
        raise SettingError("epsilon and delta must leave room for some noise; none was found")
    half, ends = _TOLERANCE / 2, (math.log(low), math.log(high))
    search = root_scalar(
        lambda x: excess(math.exp(x)), bracket=ends, method="brentq", xtol=half / 2
    )
    noise = math.exp(search.root) * (1 + half)
    return noise if excess(noise) <= 0 else high
