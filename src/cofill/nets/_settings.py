"""How networks are trained: the settings of the one training loop, checked when made."""

import math
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array

from cofill.codec import storable
from cofill.errors import SettingError

OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "cosine", "warmup-cosine")
WARMUP_SHARE = 0.1


@storable
@dataclass(frozen=True)
class DPSettings:
    """Differentially private steps (DP-SGD, Abadi et al. 2016, Algorithm 1).

    Each step draws every row with probability batch_size / rows, clips each drawn row's gradient
    to ``clip_norm``, adds Gaussian noise of standard deviation ``noise_multiplier * clip_norm`` to
    their sum, and divides by the *expected* batch size.

    Parameters
    ----------
    clip_norm
        Largest norm of one row's gradient.
    noise_multiplier
        Noise in units of clip_norm. What it buys is the accountant's business.
    sampling
        ``"poisson"``, the sampling that accountants assume.

    Examples
    --------
    >>> DPSettings(clip_norm=1.0, noise_multiplier=1.1).sampling
    'poisson'
    """

    clip_norm: float
    noise_multiplier: float
    sampling: Literal["poisson"] = "poisson"

    def __post_init__(self) -> None:
        _positive("clip_norm", self.clip_norm)
        _at_least("noise_multiplier", self.noise_multiplier, 0)
        _one_of("sampling", self.sampling, ("poisson",))


@storable
@dataclass(frozen=True)
class TrainSettings:
    """Settings of the training loop.

    Parameters
    ----------
    epochs
        Passes over the training rows.
    batch_size
        Rows a step; None for all rows.
    learning_rate
        Largest step size.
    optimizer
        ``"adam"``, ``"adamw"`` or ``"sgd"``.
    weight_decay
        Shrinks the weights: decoupled for adamw, added to the gradient for adam and sgd.
    schedule
        ``"constant"``, ``"cosine"`` (down to zero at the last step) or ``"warmup-cosine"`` (the
        first tenth of the steps rises from zero).
    validation_fraction
        Share of each task's rows kept out of training and scored after each epoch.
    patience
        Epochs without a better validation loss (training loss without validation rows) before a
        network stops and returns to its best parameters; 0 trains all epochs and keeps the last.
    gradient_clip
        Largest norm of a step's gradient; None for no limit.
    restarts
        How often a network that diverged starts again with a step ten times smaller.
    memory_limit
        Bytes that the networks trained at one time may take, by estimate.
    dp
        Differentially private steps, or None.

    Examples
    --------
    >>> TrainSettings(epochs=10, learning_rate=1e-2).optimizer
    'adam'
    """

    epochs: int = 100
    batch_size: int | None = 32
    learning_rate: float = 1e-3
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "warmup-cosine"] = "constant"
    validation_fraction: float = 0.0
    patience: int = 0
    gradient_clip: float | None = None
    restarts: int = 3
    memory_limit: int = 2 * 1024**3
    dp: DPSettings | None = None

    def __post_init__(self) -> None:
        _at_least("epochs", self.epochs, 1)
        if self.batch_size is not None:
            _at_least("batch_size", self.batch_size, 1)
        _positive("learning_rate", self.learning_rate)
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        _at_least("weight_decay", self.weight_decay, 0)
        _one_of("schedule", self.schedule, SCHEDULES)
        if not 0 <= self.validation_fraction < 1:
            raise SettingError(
                "validation_fraction must be at least 0 and below 1, "
                f"got {self.validation_fraction}."
            )
        _at_least("patience", self.patience, 0)
        if self.gradient_clip is not None:
            _positive("gradient_clip", self.gradient_clip)
        _at_least("restarts", self.restarts, 0)
        _at_least("memory_limit", self.memory_limit, 1)
        if self.dp is not None and (self.patience or self.validation_fraction):
            raise SettingError(
                "patience and validation_fraction must be 0 with dp, because choosing an epoch by "
                f"its loss is not accounted for, got {self.patience} and "
                f"{self.validation_fraction}."
            )


def schedule_at(settings: TrainSettings, step: Array, total: Array) -> Array:
    """Return the learning rate of a step out of a total that may differ between networks.

    Examples
    --------
    >>> round(float(schedule_at(TrainSettings(schedule="cosine"), jnp.array(5), jnp.array(10))), 6)
    0.0005
    """
    if settings.schedule == "constant":
        return jnp.asarray(settings.learning_rate)
    done = step / total
    warm = WARMUP_SHARE if settings.schedule == "warmup-cosine" else 0.0
    rise = jnp.minimum(1.0, (step + 1) / jnp.maximum(1.0, warm * total))
    fall = 0.5 * (1 + jnp.cos(math.pi * jnp.clip((done - warm) / (1 - warm), 0, 1)))
    return settings.learning_rate * jnp.where(done < warm, rise, fall)


def _at_least(name: str, value: float | int, least: float | int) -> None:
    if not (value >= least and math.isfinite(value)):
        raise SettingError(f"{name} must be {least} or more, got {value}.")


def _positive(name: str, value: float | int) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise SettingError(f"{name} must be above 0, got {value}.")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
