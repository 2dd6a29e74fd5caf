"""Grey images: how close reconstructed ones are to the true ones, and a short form for records."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Real, UInt8

from cofill.errors import DataError, SettingError
from cofill.metrics._reconstruction import require_same_shape

_CHUNK = 1024  # images blurred at once: bounds the memory of the five blurred stacks


def psnr(error: int | float, data_range: int | float = 255) -> float:
    """Peak signal-to-noise ratio in dB of a mean squared error (Fed-VIGAN, Eq. 4.3).

    Of several images the published figure is that of their mean error. No error gives infinity.
    `data_range` is the distance between black and white: 255 for bytes, 1 for [0, 1], 2 for
    [−1, 1].

    Examples
    --------
    >>> round(psnr(4844.809), 2), round(psnr(0.01, data_range=1))
    (11.28, 20)
    """
    _check_range(data_range)
    return float(10 * np.log10(float(data_range) ** 2 / error)) if error > 0 else float("inf")


def ssim_per_image(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> Float[np.ndarray, " n"]:
    """Structural similarity of each image (Wang et al. 2004, Eq. 13 and 17); 1 when equal.

    Local means, variances and covariance come from an 11 × 11 Gaussian window of width 1.5, at the
    places where it lies wholly inside the image, as in the authors' program; K1 = 0.01, K2 = 0.03.
    Images smaller than 11 pixels get the largest odd window that fits, of the same width: 7 × 7 for
    8 × 8 digits. `data_range` as for `psnr`.

    Examples
    --------
    >>> dark, light = np.full((1, 8, 8), 0.25), np.full((1, 8, 8), 0.75)
    >>> np.round(ssim_per_image(dark, light, data_range=1), 4)
    array([0.6001])
    """
    from scipy.ndimage import gaussian_filter

    require_same_shape(truth, guess)
    _check_range(data_range)
    _, height, width = truth.shape
    if min(height, width) < 1:
        raise DataError(f"images must have at least one pixel, got shape {truth.shape}.")
    edge = (min(11, height, width) - 1) // 2

    def blur(images: np.ndarray) -> np.ndarray:
        blurred = gaussian_filter(images, 1.5, radius=edge, axes=(1, 2))
        return blurred[:, edge : height - edge, edge : width - edge]

    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    scores = [np.zeros(0)]
    for start in range(0, len(truth), _CHUNK):
        x, y = (a[start : start + _CHUNK].astype(np.float64) for a in (truth, guess))
        mean_x, mean_y = blur(x), blur(y)
        variances = blur(x * x) - mean_x**2 + blur(y * y) - mean_y**2
        light = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
        structure = (2 * (blur(x * y) - mean_x * mean_y) + c2) / (variances + c2)
        scores.append(np.mean(light * structure, axis=(1, 2)))
    return np.concatenate(scores)


def _check_range(data_range: int | float) -> None:
    if not 0 < data_range < np.inf:
        raise SettingError(
            f"data_range must be the positive distance between black and white, got {data_range}."
        )


def packed_images(images: UInt8[np.ndarray, "n height width"]) -> dict[str, Any]:
    """Return images as JSON's types: one short text instead of a number for each pixel.

    Examples
    --------
    >>> pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    >>> packed = packed_images(pixels)
    >>> packed["shape"], bool((unpacked_images(packed) == pixels).all())
    ([1, 3, 4], True)
    """
    packed = zlib.compress(np.ascontiguousarray(images).tobytes(), 9)
    return {"shape": list(images.shape), "grey": b64encode(packed).decode()}


def unpacked_images(packed: Mapping[str, Any]) -> UInt8[np.ndarray, "n height width"]:
    """Return the images of `packed_images`."""
    try:
        flat = np.frombuffer(zlib.decompress(b64decode(packed["grey"])), dtype=np.uint8)
        return flat.reshape(packed["shape"])
    except (KeyError, TypeError, ValueError, zlib.error):
        raise DataError("images of the record are damaged; make the record again") from None
