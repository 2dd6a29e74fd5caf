"""Defences of codes: fewer directions, only those that are needed, noise, few levels, an opponent.

A code says of its row whatever a decoder can make of it. A defence says less, and the settings here
compose: what a code holds is chosen first (``width``, ``pilot``, ``adversary``), then it is clipped
and noised (``epsilon``), then rounded (``bits``).

What noise promises is *local*: whoever sees a person's noisy code can hardly tell their row from
any other row, the encoder being known. The training of encoder and scaler on the same rows is not
covered, which the release says (`Codes.uncovered`). A person's noisy code is drawn once for
an encoder and sent again as it is: a second receiver or a repeated question learns nothing new and
costs nothing more, and a row that was changed meanwhile is not sent until the encoder is trained
anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.privacy import (
    Event,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    NoiseKind,
    add_noise,
    guarantee,
    noise_for,
    require_delta,
    require_one_of,
    require_positive,
    require_whole,
)

Rows = Float[np.ndarray, "rows width"]

_UNBOUNDED = 3.0  # codes that no function bounds have about unit variance: three deviations
_MOST_BITS = 16
_ASSUMED = (
    "the encoder is given (its training and the scaler's on the same rows are not covered), the "
    "clipping norm was not taken from the rows, and nobody knows the seed of the noise"
)


@storable
@dataclass(frozen=True)
class CodeDefence:
    """What a site does to its codes before they leave; nothing by default.

    Parameters
    ----------
    width
        Numbers in a code: a whole number, or a share of the view's encoded columns (a float of at
        most 1). With `pilot` the most numbers.
    pilot
        So many shared individuals' full codes are sent first; every receiver returns which
        directions of the code it needs (model weights, no rows); the sender then sends of everybody
        only directions that are worth their leak. 0 for no such round. The pilot's people are as
        exposed as without a defence.
    price
        What a unit of leak (share of the row's variance that a code explains) costs against a unit
        of what the receivers need (share of their rows' variance). Higher prices leak less. 0.5
        by default; only with `pilot` or `adversary`.
    adversary
        Whether the encoder is trained against a decoder that plays the attacker. With `pilot` it
        keeps what the receivers need and is opposed by a decoder of the whole row. Without, it
        knows nothing of the receivers: it keeps the row's leading components, as many as the code
        is wide, and is opposed by a decoder of what they leave.
    epsilon, delta
        Calibrated noise: the whole code is (ε, δ)-private when a person's row is replaced by any
        other, given the encoder. Laplace noise has δ = 0.
    noise
        ``"gaussian"`` or ``"laplace"``.
    clip
        Public norm to which a noisy code is clipped (L2 for Gaussian noise, L1 for Laplace); None
        for that of a code of ones, which no code of tanh exceeds.
    bits
        Each number of a code is rounded to one of 2^bits levels of a public range.

    Examples
    --------
    >>> defence = CodeDefence(epsilon=10.0)
    >>> round(defence.guarantee(4).epsilon, 3), round(defence.scale(4), 2)
    (10.0, 2.0)
    """

    width: int | float | None = None
    pilot: int = 0
    price: float | int | None = None
    adversary: bool = False
    epsilon: float | int | None = None
    delta: float | int = 1e-5
    noise: NoiseKind = "gaussian"
    clip: float | int | None = None
    bits: int | None = None

    def __post_init__(self) -> None:
        width = self.width
        is_count = isinstance(width, int) and not isinstance(width, bool) and width >= 1
        is_share = isinstance(width, float) and 0 < width <= 1
        if width is not None and not is_count and not is_share:
            raise SettingError(
                "width must be a whole number of 1 or more, or a share of the columns above 0 and "
                f"up to 1.0, got {width!r}"
            )
        if isinstance(self.pilot, bool) or self.pilot != 0:
            require_whole("pilot", self.pilot, 2)
        if self.price is not None:
            require_positive("price", self.price)
            if not (self.pilot or self.adversary):
                raise SettingError(
                    f"price goes with pilot or adversary, got a price of {self.price} alone"
                )
        require_one_of("noise", self.noise, get_args(NoiseKind))
        if self.epsilon is not None:
            require_positive("epsilon", self.epsilon)
            require_delta(self.delta, zero=self.noise == "laplace")
        if self.clip is not None:
            require_positive("clip", self.clip)
            if self.epsilon is None:
                raise SettingError(f"clip goes with epsilon, got a clip of {self.clip} alone")
        if self.bits is not None:
            require_whole("bits", self.bits, 1)
            if self.bits > _MOST_BITS:
                raise SettingError(f"bits must be at most {_MOST_BITS}, got {self.bits}")

    @property
    def cost_of_leak(self) -> float:
        """The price, or its default."""
        return 0.5 if self.price is None else float(self.price)

    def code_width(self, columns: int) -> int | None:
        """Return how many numbers a code of a view with so many columns has; None if not set."""
        if self.width is None or isinstance(self.width, int):
            return self.width
        return max(1, math.ceil(self.width * columns - 1e-9))

    def norm(self, width: int) -> float:
        """Return the norm to which codes of a width are clipped before noise."""
        if self.clip is not None:
            return float(self.clip)
        return float(width if self.noise == "laplace" else math.sqrt(width))

    def event(self) -> Event | None:
        """Return what one table of noisy codes costs, whoever gets it; None without noise.

        Replacing a person by any other moves their clipped code by at most twice the norm: the
        noise is in units of that.
        """
        if self.epsilon is None:
            return None
        if self.noise == "laplace":
            return LaplaceEvent(1 / float(self.epsilon))
        return GaussianEvent(noise_for(self.epsilon, self.delta))

    def scale(self, width: int) -> float:
        """Return the noise of each number: standard deviation (Gaussian) or scale (Laplace)."""
        event = self.event()
        if not isinstance(event, GaussianEvent | LaplaceEvent):
            return 0.0
        return float(event.noise_multiplier) * 2 * self.norm(width)

    def guarantee(self, width: int) -> Guarantee:
        """Return what the noise on codes of a width promises, and what it does not.

        Examples
        --------
        >>> print(CodeDefence(epsilon=1.0).guarantee(4))
        (ε = 1, δ = 1e-05)-differential privacy when one record is replaced by another, by Gaussian
        noise on each code, clipped to norm 2; assumes that the encoder is given (its training and
        the scaler's on the same rows are not covered), the clipping norm was not taken from the
        rows, and nobody knows the seed of the noise
        """
        event = self.event()
        if event is None:
            raise SettingError("epsilon must be set for codes to carry a guarantee, got None")
        kind = "Gaussian" if self.noise == "gaussian" else "Laplace"
        how = f"{kind} noise on each code, clipped to norm {self.norm(width):g}"
        delta = 0.0 if self.noise == "laplace" else self.delta
        return guarantee(event, delta, how, assumes=_ASSUMED)

    def add_noise(self, codes: Rows, rng: np.random.Generator) -> Rows:
        """Return codes, each clipped and with its own noise, on a grid that hides their last bits.

        Examples
        --------
        >>> noisy = CodeDefence(epsilon=1e6).add_noise(np.eye(2), np.random.default_rng(0))
        >>> bool(np.abs(noisy - np.eye(2)).max() < 0.01)
        True
        """
        width = codes.shape[1]
        order = 1 if self.noise == "laplace" else 2
        values = np.asarray(codes, np.float64)
        length = np.linalg.norm(values, ord=order, axis=1, keepdims=True)
        most = self.norm(width) * (1 - 1e-12)  # so that rounding does not lift it above
        clipped = values * np.minimum(1.0, most / np.maximum(length, 1e-300))
        # Two codes are at most twice the norm apart.
        apart = 2 * self.norm(width)
        return add_noise(self.noise, clipped, self.scale(width), apart, rng, size=width)

    def round_codes(self, codes: Rows, *, bounded: bool) -> Rows:
        """Return codes rounded to the levels; as they are without `bits`.

        ``bounded`` tells whether the encoder bounds codes by 1.

        Examples
        --------
        >>> CodeDefence(bits=1).round_codes(np.array([[-0.9, 0.2, 5.0]]), bounded=True).tolist()
        [[-0.5, 0.5, 0.5]]
        """
        if self.bits is None:
            return codes
        reach = (1.0 if bounded else _UNBOUNDED) + 2 * self.scale(codes.shape[1])
        levels = 2**self.bits
        cell = 2 * reach / levels
        at = np.clip(np.floor((np.asarray(codes, np.float64) + reach) / cell), 0, levels - 1)
        return (at + 0.5) * cell - reach
