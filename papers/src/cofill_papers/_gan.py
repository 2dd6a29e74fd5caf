"""A small generative adversarial network for rows: it learns to draw rows like those it was shown.

A generator turns noise into rows, a discriminator tells them from real ones, and each trains
against the other (Goodfellow et al., 2014, with the non-saturating loss). All runs, one per set of
rows, train as one batch in one compiled loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.nets import MLP, State, apply_rows, descend, make_optimizer, start_training

__all__ = ["GANSettings", "draw_rows", "fit_generators"]


@dataclass(frozen=True)
class GANSettings:
    """How generators are trained.

    Parameters
    ----------
    noise
        Width of what the generator starts from.
    hidden
        Widths of its hidden layers; the discriminator has them in reverse.
    steps, batch, learning_rate
        Of Adam, for both networks.
    blur
        Standard deviation of noise on all rows that the discriminator sees, relative to half a
        column's range. Cells that are whole numbers need it: without, it tells made rows by their
        fractions and teaches nothing about how often a number comes.
    average
        How slowly the generator that is kept follows the one that trains, below 1; 0 keeps the
        latter.

    Examples
    --------
    >>> GANSettings(steps=10).batch
    128
    """

    noise: int = 64
    hidden: tuple[int, ...] = (256, 512)
    steps: int = 5000
    batch: int = 128
    learning_rate: float | int = 2e-4
    blur: float | int = 0.0
    average: float | int = 0.0

    def __post_init__(self) -> None:
        if not self.blur >= 0:
            raise SettingError(f"blur must be 0 or more, got {self.blur}")
        if not 0 <= self.average < 1:
            raise SettingError(f"average must be from 0 to below 1, got {self.average}")
        for name in ("noise", "steps", "batch"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise SettingError(f"learning_rate must be above 0, got {self.learning_rate}")


def fit_generators(
    rows: Float[np.ndarray, "runs n d"], keys: Any, settings: GANSettings | None = None
) -> Any:
    """Train one generator for each run's rows; return them stacked, for `draw_rows`.

    Columns are scaled to [−1, 1] by the rows' own range, which the generator's tanh covers.
    """
    settings = settings or GANSettings()
    low, high = rows.min(axis=1), rows.max(axis=1)
    half = np.where(high > low, (high - low) / 2, 1.0)
    middle = (high + low) / 2
    scaled = (rows - middle[:, None]) / half[:, None]
    networks = _fit(settings, jnp.asarray(scaled, jnp.float32), keys)
    return networks, jnp.asarray(middle, jnp.float32), jnp.asarray(half, jnp.float32)


def draw_rows(
    generators: Any, count: int, keys: Any, settings: GANSettings | None = None
) -> Float[np.ndarray, "runs count d"]:
    """Return so many new rows of each run's generator."""
    return np.asarray(_draw(settings or GANSettings(), count, generators, keys))


@partial(jax.jit, static_argnums=0)
def _fit(settings: GANSettings, rows: Float[Array, "runs n d"], keys: Any) -> MLP:
    return jax.vmap(partial(_fit_one, settings))(rows, keys)


def _fit_one(settings: GANSettings, rows: Float[Array, "n d"], key: Any) -> MLP:
    generator_key, discriminator_key, key = jax.random.split(key, 3)
    generator: Any = MLP((settings.noise, *settings.hidden, rows.shape[1]), key=generator_key)
    discriminator: Any = MLP((rows.shape[1], *settings.hidden[::-1], 1), key=discriminator_key)
    optimizer = make_optimizer("adam", first_moment=0.5)

    def loss(network: MLP, rows: Array, target: float) -> Array:
        logits = apply_rows(network, rows)[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, target * jnp.ones(len(rows))).mean()

    def blurred(rows: Array, key: Any) -> Array:
        if not settings.blur:
            return rows
        return rows + settings.blur * jax.random.normal(key, rows.shape)

    def discriminator_loss(network: MLP, real: Array, fakes: Array) -> Array:
        # Real rows count as 0.9 positive: a discriminator that is never sure teaches longer.
        return loss(network, real, 0.9) + loss(network, fakes, 0.0)

    def generator_loss(network: MLP, opponent: MLP, noise: Array, key: Any) -> Array:
        return loss(opponent, blurred(jnp.tanh(apply_rows(network, noise)), key), 1.0)

    def step(carry: tuple[Any, State, State], number: Array) -> tuple[Any, None]:
        average, generator, discriminator = carry
        picks, before, after = jax.random.split(jax.random.fold_in(key, number), 3)
        blurs = jax.random.split(jax.random.fold_in(picks, 1), 3)
        real = rows[jax.random.randint(picks, (settings.batch,), 0, len(rows))]
        noise = jax.random.normal(before, (settings.batch, settings.noise))
        fakes = jnp.tanh(apply_rows(generator.weights, noise))
        real, fakes = blurred(real, blurs[0]), blurred(fakes, blurs[1])
        slope = jax.grad(discriminator_loss)(discriminator.weights, real, fakes)
        discriminator = descend(optimizer, discriminator, slope, settings.learning_rate)
        noise = jax.random.normal(after, (settings.batch, settings.noise))
        slope = jax.grad(generator_loss)(generator.weights, discriminator.weights, noise, blurs[2])
        generator = descend(optimizer, generator, slope, settings.learning_rate)
        average = jax.tree.map(
            lambda old, new: settings.average * old + (1 - settings.average) * new,
            average,
            generator.weights,
        )
        return (average, generator, discriminator), None

    states = [start_training(optimizer, network) for network in (generator, discriminator)]
    (average, *_), _ = lax.scan(step, (generator, *states), jnp.arange(settings.steps))
    return average


@partial(jax.jit, static_argnums=(0, 1))
def _draw(settings: GANSettings, count: int, generators: Any, keys: Any) -> Array:
    def draw(generator: Any, key: Any) -> Array:
        network, middle, half = generator
        noise = jax.random.normal(key, (count, settings.noise))
        return jnp.tanh(apply_rows(network, noise)) * half + middle

    return jax.vmap(draw)(generators, keys)
