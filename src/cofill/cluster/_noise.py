"""Noise on sums of groups, and what it costs an individual.

Every site clips its rows to a stated norm and adds noise to its sums and counts before they leave.
An individual is at one site, in one group, so a round's release changes by at most one clipped row
and one count when the individual comes or goes. Rounds add up; sites do not.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import SettingError
from cofill.privacy import (
    GaussianEvent,
    LaplaceEvent,
    draw_noise,
    epsilon,
    noise_for,
    noise_generator,
    noise_step,
)


@dataclass(frozen=True)
class GroupNoise:
    """How sums of groups are made private.

    Parameters
    ----------
    epsilon
        What all rounds together may cost.
    clip
        Norm that rows are clipped to, in the units of the rows: L2 for Gaussian noise, L1 for
        Laplace's. State it without looking at the data.
    mechanism
        ``"gaussian"`` (ε, δ) or ``"laplace"`` (ε, 0).
    delta
        For Gaussian noise.
    rounds
        How many rounds there will be: with noise the number cannot depend on the data.
    seed
        None draws noise that nobody can repeat. A number is for experiments: who knows it can take
        the noise away, and nothing is guaranteed.

    Examples
    --------
    >>> noise = GroupNoise(epsilon=1.0, clip=3.0, mechanism="laplace", rounds=4)
    >>> noise.scale
    8.0
    >>> noise.cost()["epsilon"]
    1.0
    """

    epsilon: float | int
    clip: float | int
    mechanism: str = "gaussian"
    delta: float = 1e-5
    rounds: int = 8
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.mechanism not in ("gaussian", "laplace"):
            raise SettingError(f"mechanism must be gaussian or laplace, got {self.mechanism!r}")
        for name in ("epsilon", "clip"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise SettingError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.rounds < 1:
            raise SettingError(f"rounds must be at least 1, got {self.rounds}")
        if self.mechanism == "gaussian" and not 0 < self.delta < 1:
            raise SettingError(f"delta must be between 0 and 1, got {self.delta}")

    @property
    def sensitivity(self) -> float:
        """How far one individual moves sums (in units of `clip`) and counts together."""
        return math.sqrt(2) if self.mechanism == "gaussian" else 2.0

    @property
    def scale(self) -> float:
        """Noise on a count, and on a sum in units of `clip`: standard deviation, or Laplace's b."""
        if self.mechanism == "laplace":
            return self.sensitivity * self.rounds / float(self.epsilon)
        return self.sensitivity * noise_for(self.epsilon, self.delta, steps=self.rounds)

    def event(self, rounds: int = 1) -> GaussianEvent | LaplaceEvent:
        """Return what so many rounds cost, for the accountant."""
        event = GaussianEvent if self.mechanism == "gaussian" else LaplaceEvent
        multiplier = self.scale / self.sensitivity
        return event(multiplier, count=rounds, neighbours="add or remove one")

    def cost(self) -> dict[str, Any]:
        """Return what all rounds cost an individual, in words and numbers for a record."""
        delta = self.delta if self.mechanism == "gaussian" else 0.0
        return {
            **asdict(self),
            "epsilon": epsilon(self.event(self.rounds), delta),
            "delta": delta,
            "noise_scale": self.scale,
            "unit": "one individual more or less, at one site",
            "guaranteed": self.seed is None,
        }

    @property
    def norm(self) -> int:
        """Order of the norm that rows are clipped in: 2 for Gaussian noise, 1 for Laplace's."""
        return 2 if self.mechanism == "gaussian" else 1

    def clip_rows(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return rows no longer than `clip`."""
        length = np.linalg.norm(rows, ord=self.norm, axis=1, keepdims=True)
        # A hair shorter, so that rounding does not lift them above the norm.
        short = (1 - 1e-12) * self.clip / np.maximum(length, np.finfo(float).tiny)
        return np.where(length <= self.clip, rows, rows * short)

    def add(
        self,
        sums: Float[np.ndarray, "k d"],
        counts: Float[np.ndarray, " k"],
        rng: np.random.Generator | None,
    ) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]:
        """Return sums of clipped rows and counts, with noise, both in steps far finer than it.

        Rounding to steps moves the vector a little further: that much more noise is added.
        """
        values = np.concatenate([sums / self.clip, counts[:, None]], axis=1)
        step = noise_step(self.scale, 2.0**-1000)
        size = values.size
        rounding = step * (math.sqrt(size) if self.mechanism == "gaussian" else size)
        scale = self.scale * (1 + rounding / self.sensitivity)
        kind = "gaussian" if self.mechanism == "gaussian" else "laplace"
        noise = draw_noise(kind, np.full(size, scale / step), noise_generator(rng))
        noisy = (np.rint(values / step) + noise.reshape(values.shape)) * step
        return noisy[:, :-1] * self.clip, noisy[:, -1]
