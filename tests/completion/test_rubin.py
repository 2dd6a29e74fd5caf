"""Rubin's rules by hand values and by their purpose: intervals that cover."""

import numpy as np
import pytest

from cofill.completion import rubin
from cofill.errors import DataError


def test_hand_values():
    pooled = rubin([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert (pooled.estimate, pooled.within, pooled.between) == (2.0, 0.5, 1.0)
    assert pooled.total == pytest.approx(0.5 + 4 / 3)
    assert pooled.degrees_of_freedom == pytest.approx(2 * (pooled.total / (4 / 3)) ** 2)
    assert pooled.fraction_missing == pytest.approx((4 / 3) / pooled.total)
    low, high = pooled.interval(0.95)
    assert (low + high) / 2 == pytest.approx(2.0)


def test_equal_draws_leave_the_variance_of_one():
    pooled = rubin([1.0, 1.0], [0.25, 0.25])
    assert pooled.standard_error == 0.5
    assert np.isinf(pooled.degrees_of_freedom)
    assert pooled.interval(0.95)[1] == pytest.approx(1 + 1.96 * 0.5, abs=1e-3)


@pytest.mark.parametrize(("estimates", "variances"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_too_few_or_unequal_numbers_are_refused(estimates, variances):
    with pytest.raises(DataError, match="as many variances"):
        rubin(estimates, variances)
