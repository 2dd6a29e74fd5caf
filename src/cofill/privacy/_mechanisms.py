"""Defences of a released mean: clip to public bounds, add up exactly, add noise, say what it buys.

A defence is a setting. `MeanDefence.release` makes of rows a `NoisyMean`, a release that carries
its guarantee and the event that the gate charges to the site's budget.

Neighbours are a setting too:

- ``"replace one"``: the number of rows n is public. The mean moves by at most the diameter of the
  bounds over n.
- ``"add or remove one"``: n is private. The rows' sum around the centre of the bounds and their
  number get noise *together*, as one vector; the mean is their quotient. The number gets the share
  of noise that makes the mean's expected error least, and what is released is the noised number.
  (That rows are there at all is not hidden: without any there is no release.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.privacy._accounting import Guarantee, guarantee, noise_for
from cofill.privacy._bounds import Box, Norm
from cofill.privacy._checks import (
    is_integer,
    is_text,
    of_floats,
    of_type,
    require_delta,
    require_one_of,
    require_positive,
    require_whole,
)
from cofill.privacy._events import Event, GaussianEvent, LaplaceEvent, Neighbours
from cofill.privacy._noise import NoiseKind, Source, draw_noise, noise_generator, noise_step
from cofill.privacy._release import Release, checked

MeanNoise: TypeAlias = Literal["gaussian", "laplace", "laplace per coordinate"]

# Rows are added up in steps of 2^-32 units: exact in 64 bits for up to 2^30 rows.
_STEP = 2.0**-32
_MOST_ROWS = 2**30
_CHUNK = 2**17  # cells at a time: what a processor's cache holds


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyMean(Release):
    """The mean of a site's rows with noise, and what the noise guarantees.

    ``rows`` is the public number of rows, or the noised one where the number is private; ``scale``
    is per feature the standard deviation (Gaussian) or scale (Laplace) of the mean's noise.
    """

    kind: ClassVar[str] = "noisy-mean"
    noised: ClassVar[bool] = True
    parts: ClassVar[tuple[type, ...]] = (Guarantee,)
    mean: Float[np.ndarray, " features"] = checked(of_floats(1))
    rows: int = checked(is_integer)
    noise: NoiseKind = checked(is_text)
    scale: Float[np.ndarray, " features"] = checked(of_floats(1))
    guarantee: Guarantee = checked(of_type(Guarantee))

    @property
    def n_individuals(self) -> int:
        """How many individuals the mean is of, as released."""
        return max(self.rows, 0)

    def misfit(self) -> str | None:
        return None if len(self.mean) == len(self.scale) else "one scale a feature"

    def facts(self) -> dict[str, Any]:
        return {
            "features": len(self.mean),
            "noise": self.noise,
            "epsilon": float(self.guarantee.epsilon),
            "delta": float(self.guarantee.delta),
            "neighbours": self.guarantee.neighbours,
        }


class _SumNoise(NamedTuple):
    """Kind, grid and scale of the noise on a sum; and its scale on a number of rows, or None."""

    noise: NoiseKind
    step: float
    scale: float
    number_scale: float | None


@dataclass(frozen=True)
class MeanDefence:
    """Settings of a noisy mean: the bounds of records, the noise, and what is to be hidden.

    Parameters
    ----------
    bounds
        Public bounds of a record.
    epsilon, delta
        The guarantee of the whole vector; per coordinate for ``"laplace per coordinate"``.
    noise
        - ``"gaussian"``: by the L2 sensitivity, calibrated exactly (Balle & Wang 2018).
        - ``"laplace"``: by the L1 sensitivity of the whole vector; holds at ``delta=0`` too.
        - ``"laplace per coordinate"``: the papers' noise, (high − low) / (n ε) for each coordinate
          alone, which is not ε for the record. A record is all of its coordinates, so d of them
          cost d ε (784 pixels at 0.01: 7.84), or what their composition comes to at a δ (1.05 at
          1e-5); the guarantee states both.
    neighbours
        ``"replace one"`` or ``"add or remove one"``.

    Examples
    --------
    >>> defence = MeanDefence(Box(0.0, 1.0), epsilon=1.0)
    >>> rows = np.random.default_rng(0).uniform(size=(1000, 3))
    >>> noisy = defence.release(rows, sender="clinic", receiver="coordinator", rng=0)
    >>> noisy.mean.round(2).tolist(), noisy.scale.round(4).tolist()
    ([0.5, 0.5, 0.5], [0.0065, 0.0065, 0.0065])
    >>> print(noisy.guarantee)
    (ε = 1, δ = 1e-05)-differential privacy when one record is replaced by another, by Gaussian
    noise on the mean; assumes that the bounds of records were not taken from them and nobody knows
    the seed of the noise
    >>> print(MeanDefence(Box(0.0, 1.0), 0.01, noise="laplace per coordinate").guarantee(784))
    (ε = 1.05, δ = 1e-05)-differential privacy when one record is replaced by another (ε = 7.84 at
    δ = 0), by Laplace noise of ε = 0.01 per coordinate; assumes that the bounds of records were not
    taken from them
    """

    bounds: Box
    epsilon: float | int
    delta: float | int = 1e-5
    noise: MeanNoise = "gaussian"
    neighbours: Neighbours = "replace one"

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_one_of("noise", self.noise, get_args(MeanNoise))
        require_one_of("neighbours", self.neighbours, get_args(Neighbours))
        require_delta(self.delta, zero=self.noise != "gaussian")
        if self.noise == "laplace per coordinate" and self.neighbours != "replace one":
            raise SettingError(
                "noise 'laplace per coordinate' must have 'replace one' as neighbours, got "
                f"{self.neighbours!r}; use 'laplace' or 'gaussian'"
            )

    def event(self, width: int) -> Event:
        """Return what releasing a mean of so many features costs."""
        if self.noise == "gaussian":
            # In units of the sensitivity, whatever the neighbours: one exact Gaussian release.
            return GaussianEvent(noise_for(self.epsilon, self.delta), neighbours=self.neighbours)
        count = width if self.noise == "laplace per coordinate" else 1
        return LaplaceEvent(1 / self.epsilon, count=count, neighbours=self.neighbours)

    def guarantee(self, width: int, *, seeded: bool = False) -> Guarantee:
        """Return what a mean of so many features promises."""
        where = "the mean" if self.neighbours == "replace one" else "the sum and the number of rows"
        how = {
            "gaussian": f"Gaussian noise on {where}",
            "laplace": f"Laplace noise on {where}",
            "laplace per coordinate": f"Laplace noise of ε = {self.epsilon:g} per coordinate",
        }[self.noise]
        assumed = "the bounds of records were not taken from them"
        if seeded:
            assumed += " and nobody knows the seed of the noise"
        return guarantee(self.event(width), self.delta, how, assumes=assumed)

    def release(
        self, rows: np.ndarray, *, sender: str, receiver: str, rng: Source = None
    ) -> NoisyMean:
        """Return the noisy mean of rows × features, all finite, as a site's release.

        ``rng`` is a generator or seed, for experiments only; None draws a seed from the operating
        system.
        """
        means, numbers, noise, scale = self._add_noise(rows, 1, noise_generator(rng))
        width, n = rows.shape[1], int(numbers[0])
        return NoisyMean(
            sender=sender,
            receiver=receiver,
            mean=means[0],
            rows=n,
            noise=noise,
            scale=self.bounds.unit_of(width) * scale / max(n, 1),
            guarantee=self.guarantee(width, seeded=rng is not None),
            event=self.event(width),
        )

    def scale_of(self, rows: int, width: int) -> Float[np.ndarray, " features"]:
        """Return the noise on each coordinate of the mean of so many rows × features."""
        return self.bounds.unit_of(width) * self._sum_noise(width).scale / max(rows, 1)

    def draws(
        self, rows: np.ndarray, count: int, *, rng: Source = None
    ) -> Float[np.ndarray, "count features"]:
        """Return the means of many releases of the same rows, to audit the noise; never to send."""
        require_whole("count", count, 1)
        return self._add_noise(rows, count, noise_generator(rng))[0]

    def _add_noise(
        self, rows: np.ndarray, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, NoiseKind, float]:
        """Return noisy means and numbers of rows, the kind of noise, and its scale on the sum."""
        _check_rows(rows)
        width = rows.shape[1]
        noise, step, scale, number_scale = self._sum_noise(width)
        coarser = round(step / _STEP)  # a power of two
        total = (_exact_sum(self.bounds, rows) + coarser // 2) // coarser
        added = draw_noise(noise, np.full(count * width, scale / step), rng)
        totals = total + added.reshape(count, width)

        numbers = np.full(count, len(rows))
        if number_scale is not None:
            numbers = numbers + draw_noise(noise, np.full(count, number_scale), rng)
        offsets = self.bounds.unit_of(width) * (totals * step / np.maximum(numbers, 1)[:, None])
        return self.bounds.centre_of(width) + offsets, numbers, noise, scale

    def _sum_noise(self, width: int) -> _SumNoise:
        """Return the noise on the sum of so many features, and on the number of rows if private."""
        event = self.event(width)
        assert isinstance(event, GaussianEvent | LaplaceEvent)  # noqa: S101
        norm: Norm = 2 if self.noise == "gaussian" else 1
        each = self.noise == "laplace per coordinate"
        reach = 1.0 if each else self.bounds.reach(norm, width)
        is_private = self.neighbours == "add or remove one"
        sensitivity = reach if is_private else 2 * reach

        step = noise_step(event.noise_multiplier * sensitivity, _STEP)
        if step > _STEP:
            # Rounding the sum to the noise's grid can move it by one step in every coordinate.
            sensitivity += step * (1 if each else width ** (1 / norm))
        weight, joint = _weigh_count(norm, width) if is_private else (math.inf, 1.0)
        noise: NoiseKind = "gaussian" if norm == 2 else "laplace"
        scale = event.noise_multiplier * sensitivity * joint
        number_scale = event.noise_multiplier * joint / weight if is_private else None
        return _SumNoise(noise, step, scale, number_scale)


def _check_rows(rows: np.ndarray) -> None:
    if rows.ndim != 2 or not rows.shape[1]:
        raise DataError(f"rows must be rows × features, got {rows.ndim} dimensions")
    if not 0 < len(rows) <= _MOST_ROWS:
        raise DataError(f"rows must be 1 to {_MOST_ROWS:,} rows to have a mean, got {len(rows):,}")
    if not np.isfinite(rows).all():
        wrong = int((~np.isfinite(rows)).any(axis=1).sum())
        raise DataError(
            f"rows must be finite numbers, got {wrong:,} rows with others; complete or drop them"
        )


def _exact_sum(bounds: Box, rows: np.ndarray) -> np.ndarray:
    """Return the sum of clipped rows around the centre in steps of 2^-32 units, without rounding.

    Each row is rounded towards the centre, so that no norm grows.
    """
    total = np.zeros(rows.shape[1], np.int64)
    chunk = max(1, _CHUNK // rows.shape[1])
    for start in range(0, len(rows), chunk):
        inside = bounds.in_units(np.asarray(rows[start : start + chunk], float))
        total += np.trunc(inside / _STEP).astype(np.int64).sum(axis=0)
    return total


def _weigh_count(norm: Norm, width: int) -> tuple[float, float]:
    """Return the weight λ of the number of rows beside the unit sum, and their joint sensitivity.

    The sum gets noise joint · reach a coordinate, the number joint / λ, where joint is the norm of
    (1, λ); the mean's squared error joint² (d + 1/λ²) is least at λ = d^(−1/4) with the L2 norm and
    d^(−1/3) with the L1 norm.
    """
    weight = width ** (-1 / 4 if norm == 2 else -1 / 3)
    return weight, (1 + weight**norm) ** (1 / norm)
