"""How close reconstructed pictures are to the true ones, for stacks of shape images × h × w.

`data_range` is the distance between black and white: 255 for bytes, 1 for [0, 1], 2 for [−1, 1].
"""

import numpy as np
from jaxtyping import Float, Real

from cofill.errors import DataError, SettingError
from cofill.metrics._cells import same_shape

WINDOW = 11
SIGMA = 1.5
_CHUNK = 1024


def mse255(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> float:
    """Mean squared pixel error as if black were 0 and white 255 (the scale of Fed-VIGAN's tables).

    Examples
    --------
    >>> mse255(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.5), data_range=1)
    16256.25
    """
    step = 255.0 / _checked_range(data_range)
    return _average(_squared_error(truth, guess)) * step**2


def psnr(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> float:
    """Peak signal-to-noise ratio in dB from the mean error of all images (Fed-VIGAN, Eq. 4.3).

    This is the published figure: the logarithm of the mean error. The mean of `psnr_per_image` is
    never below it. Equal images give infinity.

    Examples
    --------
    >>> psnr(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.1), data_range=1)
    20.0
    """
    peak = _checked_range(data_range)
    return float(_decibel(np.array([_average(_squared_error(truth, guess))]), peak)[0])


def psnr_per_image(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> Float[np.ndarray, " n"]:
    """Peak signal-to-noise ratio of each image in dB; infinity where it is equal to the truth.

    Examples
    --------
    >>> guess = np.stack([np.full((2, 2), 0.1), np.zeros((2, 2))])
    >>> psnr_per_image(np.zeros((2, 2, 2)), guess, data_range=1)
    array([20., inf])
    """
    peak = _checked_range(data_range)
    return _decibel(_squared_error(truth, guess), peak)


def ssim(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> float:
    """Mean structural similarity of the images, 1 when equal (see `ssim_per_image`).

    Examples
    --------
    >>> images = np.linspace(0, 1, 2 * 12 * 12).reshape(2, 12, 12)
    >>> round(ssim(images, images, data_range=1), 12)
    1.0
    """
    return _average(ssim_per_image(truth, guess, data_range))


def ssim_per_image(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"], data_range: int | float
) -> Float[np.ndarray, " n"]:
    """Structural similarity of each image (Wang et al. 2004, Eq. 13 and 17).

    Local means, variances and covariance come from an 11 × 11 Gaussian window of width 1.5, at the
    places where it lies wholly inside the image, as in the authors' program; K1 = 0.01, K2 = 0.03.
    Images smaller than 11 pixels get the largest odd window that fits, of the same width: 7 × 7 for
    8 × 8 digits.

    Examples
    --------
    >>> dark, light = np.full((1, 8, 8), 0.25), np.full((1, 8, 8), 0.75)
    >>> np.round(ssim_per_image(dark, light, data_range=1), 4)
    array([0.6001])
    """
    same_shape(truth, guess)
    peak = _checked_range(data_range)
    if min(truth.shape[1:]) < 1:
        raise DataError(f"images must have at least one pixel, got shape {truth.shape}.")
    fit = min(WINDOW, *truth.shape[1:])
    window = _gaussian(fit - 1 + fit % 2)
    scores = [
        _structural_similarity(
            truth[i : i + _CHUNK].astype(np.float64),
            guess[i : i + _CHUNK].astype(np.float64),
            window,
            (0.01 * peak) ** 2,
            (0.03 * peak) ** 2,
        )
        for i in range(0, len(truth), _CHUNK)
    ]
    return np.concatenate([np.zeros(0), *scores])


def _structural_similarity(
    x: Float[np.ndarray, "n h w"],
    y: Float[np.ndarray, "n h w"],
    window: Float[np.ndarray, " k"],
    c1: float,
    c2: float,
) -> Float[np.ndarray, " n"]:
    """Mean over the window's places of the similarity of light, contrast and structure."""
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


def _gaussian(size: int) -> Float[np.ndarray, " k"]:
    offset = np.arange(size) - size // 2
    weight = np.exp(-0.5 * (offset / SIGMA) ** 2)
    return weight / weight.sum()


def _squared_error(
    truth: Real[np.ndarray, "n h w"], guess: Real[np.ndarray, "n h w"]
) -> Float[np.ndarray, " n"]:
    """Mean squared error of each image."""
    same_shape(truth, guess)
    # In the images' own type the difference of two bytes would wrap around.
    return np.mean((guess.astype(np.float64) - truth) ** 2, axis=(1, 2))


def _decibel(error: Float[np.ndarray, " n"], peak: float) -> Float[np.ndarray, " n"]:
    exact = error == 0
    safe = np.where(exact, 1.0, error)
    return np.where(exact, np.inf, 20 * np.log10(peak) - 10 * np.log10(safe))


def _average(scores: Float[np.ndarray, " n"]) -> float:
    return float(scores.mean()) if len(scores) else float("nan")


def _checked_range(data_range: int | float) -> float:
    if not 0 < data_range < np.inf:
        raise SettingError(
            f"data_range must be the positive distance between black and white, got {data_range}."
        )
    return float(data_range)
