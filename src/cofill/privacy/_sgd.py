"""The events of training: DP-SGD on Poisson samples, and noised gradients on shuffled batches.

Amplification by sampling is granted to Poisson samples only. Batches of a shuffled order look
alike in code and are not; what they are worth is `shuffled_event`.

Samples of `nets.train` are held in arrays of a fixed size, and lose rows when they do not fit.
Whether the *other* rows leave no place for one more says nothing about that one, and is as likely
with it as without. Given that they do leave a place, the step is exactly the sampled Gaussian
mechanism; so the chance that they do not is added to δ once, and that is all.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Protocol, runtime_checkable

from cofill.errors import SettingError
from cofill.privacy._checks import require_one_of, require_positive, require_whole
from cofill.privacy._events import Event, GaussianEvent, SampledGaussianEvent

__all__ = ["overflow_of", "sgd_event", "shuffled_event", "training_event"]

# As nets._private.capacity has it, which is not imported because nets loads JAX; a test keeps the
# two equal.
_OVERFLOW = 1e-12


def sgd_event(
    noise_multiplier: float | int,
    *,
    rate: float | int,
    steps: int,
    rows: int | None = None,
    sampling: Literal["poisson", "shuffled"] = "poisson",
) -> SampledGaussianEvent:
    """Return the event of DP-SGD, with the rare overflow of `nets.train`'s samples.

    Parameters
    ----------
    noise_multiplier, rate, steps
        As in `SampledGaussianEvent`.
    rows
        Number of rows. `nets.train` holds a sample in an array that it fits but for a chance of
        about 1e-12 a step, and the event says how large that chance is; None where samples of any
        size fit.
    sampling
        How rows came into steps. Shuffled batches are refused: see `shuffled_event`.

    Examples
    --------
    >>> sgd_event(1.1, rate=0.01, steps=1000).overflow
    0.0
    >>> 1e-9 < sgd_event(1.1, rate=0.01, steps=1000, rows=5000).overflow < 1e-8
    True
    """
    require_one_of("sampling", sampling, ("poisson", "shuffled"))
    if sampling == "shuffled":
        raise SettingError(
            "sampling must be 'poisson' for amplification by sampling to hold, got 'shuffled'; "
            "draw Poisson samples, or use shuffled_event(noise_multiplier, epochs), whose figure "
            "is valid without amplification"
        )
    return SampledGaussianEvent(
        noise_multiplier, rate=rate, steps=steps, overflow=overflow_of(rows, rate, steps)
    )


def shuffled_event(noise_multiplier: float | int, epochs: int) -> GaussianEvent:
    """Return the event of noised gradients on shuffled batches: no amplification.

    A record is in at most one batch an epoch, so each epoch is one Gaussian release of the sum of
    clipped gradients for it. Replacing the record moves that sum by twice the clipping norm.
    (Adding one would move every later batch, so there is no figure for that.)

    Examples
    --------
    >>> shuffled_event(1.1, epochs=10).neighbours
    'replace one'
    >>> from cofill.privacy import epsilon
    >>> round(epsilon(shuffled_event(1.1, epochs=10), 1e-5), 1)
    40.3
    """
    require_positive("noise_multiplier", noise_multiplier)
    return GaussianEvent(noise_multiplier / 2, count=epochs, neighbours="replace one")


@runtime_checkable
class _DP(Protocol):
    @property
    def noise_multiplier(self) -> float: ...
    @property
    def sampling(self) -> Any: ...


@runtime_checkable
class _Training(Protocol):
    @property
    def epochs(self) -> int: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def dp(self) -> _DP | None: ...


def training_event(settings: _Training, rows: int, *, steps: int | None = None) -> Event | None:
    """Return what training with `nets.TrainSettings` costs the rows it saw; None without dp.

    Parameters
    ----------
    settings
        `nets.TrainSettings`.
    rows
        Training rows.
    steps
        Steps over all attempts, as ``Trained.steps`` counts them; None for one attempt.

    Examples
    --------
    >>> from cofill.nets import DPSettings, TrainSettings
    >>> settings = TrainSettings(epochs=10, batch_size=32, dp=DPSettings(1.0, 1.1))
    >>> event = training_event(settings, 1000)
    >>> event.rate, event.steps
    (0.032, 320)
    """
    if settings.dp is None:
        return None
    require_whole("rows", rows, 1)
    if settings.dp.noise_multiplier == 0:
        return None
    batch = min(settings.batch_size or rows, rows)
    steps = settings.epochs * math.ceil(rows / batch) if steps is None else steps
    return sgd_event(
        settings.dp.noise_multiplier,
        rate=batch / rows,
        steps=steps,
        rows=rows,
        sampling=settings.dp.sampling,
    )


def overflow_of(rows: int | None, rate: float | int, steps: int) -> float:
    """Return the chance that in any of the steps the other rows leave no place for one more.

    The data set may be the one of two neighbours with a row less or with a row more.

    Examples
    --------
    >>> overflow_of(1000, 1.0, 10), overflow_of(None, 0.1, 10)
    (0.0, 0.0)
    """
    if rows is None or rate >= 1:
        return 0.0
    from scipy.stats import binom

    def places(count: int) -> int:
        return min(count, math.ceil(binom.isf(_OVERFLOW, count, rate)))

    def full(others: int) -> float:
        # Without the row they must fit their array, and with it the array of one row more.
        return float(binom.sf(min(places(others), places(others + 1) - 1), others, rate))

    return min(steps * max(full(rows), full(rows - 1)), 1 - 1e-9)
