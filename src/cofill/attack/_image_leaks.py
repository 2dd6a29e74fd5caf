"""How much of an image a guess shows: PSNR and SSIM as leaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.attack._intervals import bootstrap_people, percentile_interval
from cofill.attack._leak import Leak
from cofill.errors import DataError
from cofill.metrics import ssim_per_image

__all__ = ["image_leaks"]


def image_leaks(
    truth: Float[np.ndarray, "people pixels"],
    guesses: Float[np.ndarray, "repeats people pixels"],
    control: Float[np.ndarray, "repeats people pixels"] | None,
    ceilings: Sequence[Float[np.ndarray, "_ people pixels"]],
    image: tuple[int, int],
    data_range: float,
    *,
    draws: int,
    facts: Mapping[str, Any],
) -> list[Leak]:
    """Return the leaks of PSNR (of the mean error, in dB) and of SSIM; the floor is the mean image.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((20, 64))
    >>> facts = {"name": "n", "threat": "t", "scope": "individual"}
    >>> close = (x + 0.01)[None]
    >>> psnr, ssim = image_leaks(x, close, None, [close], (8, 8), 1.0, draws=100, facts=facts)
    >>> round(psnr.attack), psnr.excludes_floor(), ssim.excludes_floor()
    (40, True, True)
    """
    high, wide = image
    if high * wide != truth.shape[1]:
        raise DataError(
            f"image must be height and width of the {truth.shape[1]} pixels of a row, got "
            f"{high} × {wide}"
        )
    people = len(truth)
    mean = np.broadcast_to(truth.mean(axis=0), (1, *truth.shape))

    def errors(made: np.ndarray) -> np.ndarray:
        return ((made - truth) ** 2).mean(axis=(0, 2))

    def likeness(made: np.ndarray) -> np.ndarray:
        shape = (people, high, wide)
        flat = [ssim_per_image(truth.reshape(shape), m.reshape(shape), data_range) for m in made]
        return np.mean(flat, axis=0)

    def decibel(counts: np.ndarray, each: np.ndarray) -> np.ndarray:
        wrong = np.maximum(counts @ each / counts.sum(axis=1), 1e-12 * data_range**2)
        return 10 * np.log10(data_range**2 / wrong)

    def plain(counts: np.ndarray, each: np.ndarray) -> np.ndarray:
        return counts @ each / counts.sum(axis=1)

    leaks = []
    measures: list[tuple[str, Callable[..., np.ndarray], Callable[..., np.ndarray]]] = [
        ("PSNR, dB", errors, decibel),
        ("SSIM", likeness, plain),
    ]
    for figure, each, total in measures:

        def drawn(
            made: np.ndarray,
            each: Callable[..., np.ndarray] = each,
            total: Callable[..., np.ndarray] = total,
        ) -> tuple[float, np.ndarray]:
            own = each(made)
            return bootstrap_people(lambda counts: total(counts, own), people, draws=draws)

        value, spread = drawn(guesses)
        other = None if control is None else drawn(control)
        floor, floor_spread = drawn(mean)
        leaks.append(
            Leak(
                **facts,
                figure=figure,
                floor=floor,
                floor_high=percentile_interval(floor_spread)[1],
                control=None if other is None else other[0],
                attack=value,
                ceiling=max([value, *(drawn(c)[0] for c in ceilings)]),
                interval=percentile_interval(spread),
                gain=None if other is None else percentile_interval(spread - other[1]),
            )
        )
    return leaks
