"""Events: what a release cost in differential privacy, as the accountant must know it.

An event names the mechanism and its noise in units of what one neighbour can change. It is a plain
value: it travels with a release, is written to the ledger, and is only handed to dp-accounting when
an ε is asked for. Every event says of which *neighbours* it speaks and whose they are:

- ``"replace one"``: two data sets of the same size that differ in one record. The number of records
  is public.
- ``"add or remove one"``: one data set has a record more. The number of records is private.
- ``unit="site"``: the neighbour is everything a site holds, not one record of it.

The events of DP-SGD are those of noised gradients on Poisson samples, as `nets.train` takes them.
Amplification by sampling is granted to Poisson samples only: batches of a shuffled order look
alike in code and are not. Samples of `nets.train` are held in arrays of a fixed size, and lose rows
when they do not fit. Whether the *other* rows leave no room for one more says nothing about that
one, and is as likely with it as without. Given that they do leave room, the step is exactly the
sampled Gaussian mechanism; so the chance that they do not is added to δ once, and that is all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from cofill.codec import storable
from cofill.errors import SettingError, StoreError
from cofill.privacy._checks import require_delta, require_one_of, require_positive, require_whole

Neighbours = Literal["replace one", "add or remove one"]
Unit = Literal["record", "site"]

# As nets.sample_capacity has it, which is not imported because nets loads JAX; a test keeps the
# two equal.
_OVERFLOW = 1e-12


def require_relation(neighbours: str, unit: str) -> None:
    """Raise a `SettingError` unless these words say what is to be hidden."""
    require_one_of("neighbours", neighbours, get_args(Neighbours))
    require_one_of("unit", unit, get_args(Unit))


@dataclass(frozen=True)
class Event:
    """What a release cost. Subclasses name a mechanism; `parts` takes compositions apart."""

    kind: ClassVar[str]

    def parts(self) -> tuple[Event, ...]:
        """Return the mechanisms that were applied."""
        return (self,)

    @property
    def assumes(self) -> str:
        """What must be true for the event to describe what was done."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON-able value."""
        # Not the codec's form: a ledger's lines are hashed, and people read them.
        return {"kind": self.kind, **vars(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Event:
        """Return the event that `to_json` wrote."""
        kinds = {event_type.kind: event_type for event_type in EVENT_TYPES}
        fields = {k: v for k, v in value.items() if k != "kind"}
        try:
            if "events" in fields:
                fields["events"] = tuple(map(Event.from_json, fields["events"]))
            return kinds[value["kind"]](**fields)
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"an event must be of one of the kinds {', '.join(sorted(kinds))} with its own "
                f"fields, got kind {value.get('kind')!r} with fields {', '.join(fields)}"
            ) from error


@dataclass(frozen=True)
class _Noise(Event):
    """Noise in units of the sensitivity, added some number of times.

    ``noise_multiplier`` is the standard deviation or scale over the sensitivity of the whole
    vector, for these ``neighbours``; ``count`` is how many such releases were made.
    """

    noise_multiplier: float | int
    count: int = 1
    neighbours: Neighbours = "replace one"
    unit: Unit = "record"

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)
        require_whole("count", self.count, 1)
        require_relation(self.neighbours, self.unit)

    @property
    def times(self) -> int:
        """How often the noise was added."""
        return self.count


@storable
@dataclass(frozen=True)
class GaussianEvent(_Noise):
    """Gaussian noise of a standard deviation in units of the L2 sensitivity."""

    kind: ClassVar[str] = "gaussian"


@storable
@dataclass(frozen=True)
class LaplaceEvent(_Noise):
    """Laplace noise of a scale in units of the L1 sensitivity: one has ε = 1 / noise_multiplier.

    Examples
    --------
    >>> LaplaceEvent(100.0, count=784).pure_epsilon
    7.84
    """

    kind: ClassVar[str] = "laplace"

    @property
    def pure_epsilon(self) -> float:
        """ε at δ = 0."""
        return self.count / self.noise_multiplier


@storable
@dataclass(frozen=True)
class SampledGaussianEvent(Event):
    """Gaussian noise on Poisson samples, step after step: DP-SGD (Abadi et al. 2016).

    Its neighbours are ``"add or remove one"`` by definition (the clipping norm bounds what one row
    adds); the accountant can turn that into ``"replace one"``. Rate and divisor of the steps are
    taken to be public, although they were computed from the number of rows.

    Parameters
    ----------
    noise_multiplier
        Standard deviation over the clipping norm, as in `nets.DPSettings`.
    rate
        Probability with which each row is drawn into a step's sample, independently of the others.
    steps
        How many steps were taken, those of abandoned attempts too.
    overflow
        Probability, over all steps, that a sample did not fit its array and lost rows; the
        accountant pays for it with δ.
    """

    kind: ClassVar[str] = "sampled-gaussian"
    neighbours: ClassVar[Neighbours] = "add or remove one"
    unit: ClassVar[Unit] = "record"
    noise_multiplier: float | int
    rate: float | int
    steps: int
    overflow: float | int = 0.0

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.rate <= 1:
            raise SettingError(f"rate must be above 0 and at most 1, got {self.rate}")
        require_whole("steps", self.steps, 1)
        require_delta(self.overflow, name="overflow")

    @property
    def times(self) -> int:
        """How often the noise was added."""
        return self.steps

    @property
    def assumes(self) -> str:
        return (
            f"each step draws every row independently with probability {self.rate:g} (Poisson "
            "sampling, not shuffled batches), the sample is not shown, and nothing but the "
            "noised gradients is used; the number of rows is public"
        )


@storable
@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several events about the same people."""

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    def parts(self) -> tuple[Event, ...]:
        return tuple(part for event in self.events for part in event.parts())

    @property
    def assumes(self) -> str:
        return "; ".join(dict.fromkeys(p.assumes for p in self.parts() if p.assumes))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "events": [event.to_json() for event in self.events]}


EVENT_TYPES = (ComposedEvent, GaussianEvent, LaplaceEvent, SampledGaussianEvent)


def compose(events: Iterable[Event]) -> ComposedEvent:
    """Return events about the same people as one, with equal mechanisms put together.

    Examples
    --------
    >>> compose([GaussianEvent(2.0), GaussianEvent(2.0, count=3)]).events
    (GaussianEvent(noise_multiplier=2.0, count=4, neighbours='replace one', unit='record'),)
    """
    merged: dict[Event, list[Any]] = {}
    for event in events:
        for part in event.parts():
            sampled = isinstance(part, SampledGaussianEvent)
            once = {"steps": 1, "overflow": 0.0} if sampled else {"count": 1}
            merged.setdefault(replace(part, **once), []).append(part)
    return ComposedEvent(tuple(map(_merge, merged.values())))


def _merge(parts: list[Any]) -> Event:
    """Return mechanisms that differ in their number only as one."""
    times = sum(part.times for part in parts)
    if not isinstance(parts[0], SampledGaussianEvent):
        return replace(parts[0], count=times)
    overflow = min(math.fsum(part.overflow for part in parts), 1 - 1e-9)
    return replace(parts[0], steps=times, overflow=overflow)


def sgd_event(
    noise_multiplier: float | int, *, rate: float | int, steps: int, rows: int | None = None
) -> SampledGaussianEvent:
    """Return the event of DP-SGD, with the rare overflow of `nets.train`'s samples.

    `nets.train` holds a sample in an array that it fits but for a chance of about 1e-12 a step;
    with the number of ``rows`` the event says how large that chance is. None where all samples fit.

    Examples
    --------
    >>> sgd_event(1.1, rate=0.01, steps=1000).overflow
    0.0
    >>> 1e-9 < sgd_event(1.1, rate=0.01, steps=1000, rows=5000).overflow < 1e-8
    True
    """
    overflow = overflow_of(rows, rate, steps)
    return SampledGaussianEvent(noise_multiplier, rate=rate, steps=steps, overflow=overflow)


def training_event(settings: Any, rows: int, steps: int) -> SampledGaussianEvent | None:
    """Return what training with `nets.TrainSettings` costs the rows it saw; None without noise.

    ``steps`` are those of all attempts, as ``Trained.steps`` counts them, and not those planned.

    Examples
    --------
    >>> from cofill.nets import DPSettings, TrainSettings
    >>> settings = TrainSettings(epochs=10, batch_size=32, dp=DPSettings(1.0, 1.1))
    >>> event = training_event(settings, 1000, 320)
    >>> event.rate, event.steps
    (0.032, 320)
    """
    if settings.dp is None or settings.dp.noise_multiplier == 0:
        return None
    require_whole("rows", rows, 1)
    batch = min(settings.batch_size or rows, rows)
    return sgd_event(settings.dp.noise_multiplier, rate=batch / rows, steps=steps, rows=rows)


def overflow_of(rows: int | None, rate: float | int, steps: int) -> float:
    """Return the chance that in any of the steps the other rows leave no room for one more.

    The data set may be the one of two neighbours with a row less or with a row more.
    """
    if rows is None or rate >= 1:
        return 0.0
    from scipy.stats import binom

    def capacity(count: int) -> int:
        return min(count, math.ceil(binom.isf(_OVERFLOW, count, rate)))

    def chance_full(count: int) -> float:
        # Without the row they must fit their array, and with it the array of one row more.
        return float(binom.sf(min(capacity(count), capacity(count + 1) - 1), count, rate))

    return min(steps * max(chance_full(rows), chance_full(rows - 1)), 1 - 1e-9)
