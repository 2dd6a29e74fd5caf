"""How networks are trained: the settings of the one training loop, checked when made."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.settings import require_above_zero, require_at_least, require_in

Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "cosine", "warmup-cosine"]
WARMUP_SHARE = 0.1  # of all steps


@storable
@dataclass(frozen=True)
class DPSettings:
    """Differentially private steps (DP-SGD, Abadi et al. 2016, Algorithm 1).

    Each step draws every row with probability batch_size / rows (Poisson sampling, as accountants
    assume), clips each drawn row's gradient to ``clip_norm``, adds Gaussian noise of standard
    deviation ``noise_multiplier * clip_norm`` to their sum, and divides by the *expected* batch
    size.

    Parameters
    ----------
    clip_norm
        Largest norm of one row's gradient.
    noise_multiplier
        Noise in units of clip_norm. What it buys is the accountant's business.
    """

    clip_norm: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        require_above_zero(self, "clip_norm")
        require_at_least(self, noise_multiplier=0)


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
    """

    epochs: int = 100
    batch_size: int | None = 32
    learning_rate: float = 1e-3
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    validation_fraction: float = 0.0
    patience: int = 0
    gradient_clip: float | None = None
    restarts: int = 3
    memory_limit: int = 2 * 1024**3
    dp: DPSettings | None = None

    def __post_init__(self) -> None:
        require_at_least(
            self, epochs=1, batch_size=1, memory_limit=1, weight_decay=0, patience=0, restarts=0
        )
        require_above_zero(self, "learning_rate", "gradient_clip")
        for name, kind in (("optimizer", Optimizer), ("schedule", Schedule)):
            value, allowed = getattr(self, name), get_args(kind)
            if value not in allowed:
                raise SettingError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        require_in(self, "[0, 1)", "validation_fraction")
        if self.dp is not None and (self.patience or self.validation_fraction):
            raise SettingError(
                "patience and validation_fraction must be 0 with dp, because choosing an epoch by "
                f"its loss is not accounted for, got {self.patience} and "
                f"{self.validation_fraction}."
            )


def schedule_at(settings: TrainSettings, step: Array, total: Array) -> Array:
    """Return the learning rate of a step out of a total that may differ between networks."""
    if settings.schedule == "constant":
        return jnp.asarray(settings.learning_rate)
    done = step / total
    warm = WARMUP_SHARE if settings.schedule == "warmup-cosine" else 0.0
    rise = jnp.minimum(1.0, (step + 1) / jnp.maximum(1.0, warm * total))
    fall = 0.5 * (1 + jnp.cos(math.pi * jnp.clip((done - warm) / (1 - warm), 0, 1)))
    return settings.learning_rate * jnp.where(done < warm, rise, fall)
