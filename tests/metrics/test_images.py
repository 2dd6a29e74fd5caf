"""Pictures: the papers' own pairs of MSE and PSNR, and SSIM worked out window by window."""

import numpy as np
import pytest

from cofill import metrics
from cofill.errors import DataError, SettingError


# Tables 4.3 to 4.5 of the Fed-VIGAN thesis print both figures of the same images.
@pytest.mark.parametrize(
    ("mse", "db"), [(4844.809, 11.277), (2026.374, 15.064), (1773.149, 15.643)]
)
@pytest.mark.parametrize("peak", [255, 1, 2])
def test_psnr_of_the_published_mse(mse, db, peak):
    assert metrics.psnr(mse * (peak / 255) ** 2, peak) == pytest.approx(db, abs=1.5e-3)


def test_psnr_without_an_error_is_infinite():
    assert metrics.psnr(0) == np.inf
    assert metrics.psnr(255**2 / 2) == pytest.approx(10 * np.log10(2))


def ssim_by_hand(x, y, size, peak):
    """Wang et al. 2004 written as loops over the window's places."""
    offset = np.arange(size) - size // 2
    w = np.exp(-(offset[:, None] ** 2 + offset[None] ** 2) / (2 * 1.5**2))
    w /= w.sum()
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    scores = []
    for i in range(x.shape[0] - size + 1):
        for j in range(x.shape[1] - size + 1):
            a, b = x[i : i + size, j : j + size], y[i : i + size, j : j + size]
            ma, mb = (w * a).sum(), (w * b).sum()
            va, vb = (w * (a - ma) ** 2).sum(), (w * (b - mb) ** 2).sum()
            cov = (w * (a - ma) * (b - mb)).sum()
            top = (2 * ma * mb + c1) * (2 * cov + c2)
            scores.append(top / ((ma**2 + mb**2 + c1) * (va + vb + c2)))
    return np.mean(scores)


@pytest.mark.parametrize(
    ("h", "w", "size"), [(28, 28, 11), (11, 14, 11), (8, 8, 7), (12, 5, 5), (1, 9, 1), (2, 2, 1)]
)
@pytest.mark.parametrize("peak", [1.0, 255.0])
def test_ssim_window_by_window(h, w, size, peak):
    rng = np.random.default_rng(h)
    x = rng.uniform(0, peak, (2, h, w))
    y = np.clip(x + rng.normal(0, 0.2 * peak, x.shape), 0, peak)
    by_hand = [ssim_by_hand(a, b, size, peak) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(metrics.ssim_per_image(x, y, peak), by_hand, rtol=1e-9)


def test_ssim_of_flat_images_is_the_similarity_of_light():
    x, y = np.full((1, 28, 28), 100, np.uint8), np.full((1, 28, 28), 200, np.uint8)
    c1 = 2.55**2
    light = (2 * 100 * 200 + c1) / (100**2 + 200**2 + c1)
    assert metrics.ssim_per_image(x, y, 255)[0] == pytest.approx(light)


def test_ssim_of_more_images_than_a_chunk():
    x = np.random.default_rng(0).uniform(size=(1030, 3, 3))
    scores = metrics.ssim_per_image(x, x[::-1].copy(), 1)
    assert scores.shape == (1030,)
    np.testing.assert_allclose(scores, scores[::-1])
    assert metrics.ssim_per_image(x[:0], x[:0], 1).shape == (0,)


@pytest.mark.parametrize("peak", [0, -1.0, np.inf, np.nan])
def test_impossible_range(peak):
    with pytest.raises(SettingError, match="data_range"):
        metrics.psnr(1.0, peak)
    with pytest.raises(SettingError, match="data_range"):
        metrics.ssim_per_image(np.zeros((1, 8, 8)), np.zeros((1, 8, 8)), peak)


def test_damaged_images_are_refused():
    with pytest.raises(DataError, match="damaged"):
        metrics.unpacked_images({"shape": [1, 2, 2], "grey": "AAAA"})
