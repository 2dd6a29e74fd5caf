"""The events of DP-SGD: noised gradients on Poisson samples, as `nets.train` takes them.

Amplification by sampling is granted to Poisson samples only. Batches of a shuffled order look
alike in code and are not.

Samples of `nets.train` are held in arrays of a fixed size, and lose rows when they do not fit.
Whether the *other* rows leave no room for one more says nothing about that one, and is as likely
with it as without. Given that they do leave room, the step is exactly the sampled Gaussian
mechanism; so the chance that they do not is added to δ once, and that is all.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from cofill.privacy._checks import require_whole
from cofill.privacy._events import SampledGaussianEvent

# As nets.sample_capacity has it, which is not imported because nets loads JAX; a test keeps the
# two equal.
_OVERFLOW = 1e-12


def sgd_event(
    noise_multiplier: float | int, *, rate: float | int, steps: int, rows: int | None = None
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

    Examples
    --------
    >>> sgd_event(1.1, rate=0.01, steps=1000).overflow
    0.0
    >>> 1e-9 < sgd_event(1.1, rate=0.01, steps=1000, rows=5000).overflow < 1e-8
    True
    """
    overflow = overflow_of(rows, rate, steps)
    return SampledGaussianEvent(noise_multiplier, rate=rate, steps=steps, overflow=overflow)


@runtime_checkable
class _TrainSettings(Protocol):
    """What is read of `nets.TrainSettings`."""

    @property
    def epochs(self) -> int: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def dp(self) -> Any: ...


def training_event(
    settings: _TrainSettings, rows: int, *, steps: int | None = None
) -> SampledGaussianEvent | None:
    """Return what training with `nets.TrainSettings` costs the rows it saw; None without noise.

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
    if settings.dp is None or settings.dp.noise_multiplier == 0:
        return None
    require_whole("rows", rows, 1)
    batch = min(settings.batch_size or rows, rows)
    steps = settings.epochs * math.ceil(rows / batch) if steps is None else steps
    return sgd_event(settings.dp.noise_multiplier, rate=batch / rows, steps=steps, rows=rows)


def overflow_of(rows: int | None, rate: float | int, steps: int) -> float:
    """Return the chance that in any of the steps the other rows leave no room for one more.

    The data set may be the one of two neighbours with a row less or with a row more.

    Examples
    --------
    >>> overflow_of(1000, 1.0, 10), overflow_of(None, 0.1, 10)
    (0.0, 0.0)
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
