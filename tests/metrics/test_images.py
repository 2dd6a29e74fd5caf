"""Pictures: the papers' own pairs of MSE and PSNR."""

import numpy as np
import pytest

from cofill import metrics
from cofill.errors import DataError


# Tables 4.3 to 4.5 of the Fed-VIGAN thesis print both figures of the same images.
@pytest.mark.parametrize(
    ("mse", "db"), [(4844.809, 11.277), (2026.374, 15.064), (1773.149, 15.643)]
)
def test_psnr_of_the_published_mse(mse, db):
    assert metrics.psnr(mse) == pytest.approx(db, abs=1.5e-3)


def test_psnr_without_an_error_is_infinite():
    assert metrics.psnr(0) == np.inf
    assert metrics.psnr(255**2 / 2) == pytest.approx(10 * np.log10(2))


def test_damaged_images_are_refused():
    with pytest.raises(DataError, match="damaged"):
        metrics.unpacked_images({"shape": [1, 2, 2], "grey": "AAAA"})
