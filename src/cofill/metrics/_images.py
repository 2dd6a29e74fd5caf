"""Grey images: how close reconstructed ones are to the true ones, and a short form for records."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Real, UInt8

from cofill.errors import DataError, SettingError
from cofill.metrics._cells import require_same_shape

# Window and constants of Wang et al. 2004.
_WINDOW, _SIGMA = 11, 1.5
_K1, _K2 = 0.01, 0.03
# Images blurred at once: bounds the memory of the five blurred stacks.
_CHUNK = 1024


def psnr(error: int | float, data_range: int | float = 255) -> float:
    """Peak signal-to-noise ratio in dB of a mean squared error (Fed-VIGAN, Eq. 4.3).

    Of several images the published figure is that of their mean error. No error gives infinity.

    Parameters
    ----------
    error
        Mean squared pixel error.
    data_range
        Distance between black and white: 255 for bytes, 1 for [0, 1], 2 for [−1, 1].

    Examples
    --------
    >>> round(psnr(4844.809), 2), round(psnr(0.01, data_range=1))
    (11.28, 20)
    """
    peak = _checked_range(data_range)
    return float(10 * np.log10(peak**2 / error)) if error > 0 else float("inf")


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
    require_same_shape(truth, guess)
    peak = _checked_range(data_range)
    if min(truth.shape[1:]) < 1:
        raise DataError(f"images must have at least one pixel, got shape {truth.shape}.")
    side = min(_WINDOW, *truth.shape[1:])
    side -= 1 - side % 2
    window = np.exp(-0.5 * ((np.arange(side) - side // 2) / _SIGMA) ** 2)
    scores = [
        _structural_similarity(
            truth[i : i + _CHUNK].astype(np.float64),
            guess[i : i + _CHUNK].astype(np.float64),
            window / window.sum(),
            peak,
        )
        for i in range(0, len(truth), _CHUNK)
    ]
    return np.concatenate([np.zeros(0), *scores])


def _structural_similarity(
    x: Float[np.ndarray, "n h w"],
    y: Float[np.ndarray, "n h w"],
    window: Float[np.ndarray, " k"],
    peak: float,
) -> Float[np.ndarray, " n"]:
    """Mean over the window's positions of the similarity of light, contrast and structure."""
    c1, c2 = (_K1 * peak) ** 2, (_K2 * peak) ** 2
    mean_x, mean_y = _blur(x, window), _blur(y, window)
    var_x = _blur(x * x, window) - mean_x**2
    var_y = _blur(y * y, window) - mean_y**2
    cov = _blur(x * y, window) - mean_x * mean_y
    light = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    structure = (2 * cov + c2) / (var_x + var_y + c2)
    return np.mean(light * structure, axis=(1, 2))


def _blur(
    images: Float[np.ndarray, "n h w"], window: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "n i j"]:
    """Weighted mean under the window wherever it fits."""
    from scipy.ndimage import correlate1d

    edge = len(window) // 2
    _, h, w = images.shape
    rows = correlate1d(images, window, axis=1)[:, edge : h - edge]
    return correlate1d(rows, window, axis=2)[:, :, edge : w - edge]


def _checked_range(data_range: int | float) -> float:
    if not 0 < data_range < np.inf:
        raise SettingError(
            f"data_range must be the positive distance between black and white, got {data_range}."
        )
    return float(data_range)


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
