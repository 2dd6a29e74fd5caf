"""Means of one class in several known groups: by year, by region, as tables publish them.

Who is in which group is known, who is in the class is not. The mean of the class in one group is a
sum over the class of columns that are zero outside the group. So all groups' means together are
one mean, of records with a block of columns for each group, and any attack on one mean attacks them
jointly: with g groups the attacker has g times as many sums of the same labels.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from cofill.attack._inputs import ReleasedMean, check_mean, check_prior
from cofill.errors import DataError, SettingError


def stack_groups(
    records: Float[np.ndarray, "records features"],
    groups: Shaped[np.ndarray, " records"],
    means: Mapping[str, Any],
    shares: Mapping[str, float | int],
) -> tuple[Float[np.ndarray, "records columns"], ReleasedMean]:
    """Return records with a block of columns for each group, and the one mean of the class there.

    Parameters
    ----------
    records, groups
        One row per individual, and the name of each one's group.
    means, shares
        Of the class in each group: its mean, and its share of the group's records.

    Examples
    --------
    >>> records, years = np.array([[1.0], [3.0], [5.0], [7.0]]), np.array(["a", "a", "b", "b"])
    >>> stacked, released = stack_groups(
    ...     records, years, {"a": [1.0], "b": [7.0]}, {"a": 0.5, "b": 0.5}
    ... )
    >>> stacked[:, 0], released.mean[0], released.prior
    (array([2., 6., 0., 0.]), np.float64(1.0), 0.5)
    """
    if set(means) != set(shares):
        raise SettingError(
            "each group must have a mean and a share of the class, got "
            f"{len(means)} means and {len(shares)} shares, not of the same groups"
        )
    unknown = ~np.isin(groups, list(means))
    if unknown.any():
        raise DataError(
            f"every record must be of a group with a mean, got {int(unknown.sum())} of "
            f"{len(groups)} that are not; leave them out, or add their groups' means"
        )
    is_member = np.stack([groups == name for name in means], axis=1)
    positives = is_member.sum(axis=0) * [check_prior(shares[name]) for name in means]
    if not is_member.any(axis=0).all():
        raise DataError("every group with a mean must have records, got one without any")
    total = float(positives.sum())
    # Blocks are in units in which the noise of all groups' means is alike.
    blocks, stacked = [], []
    for k, mean in enumerate(means.values()):
        released = check_mean(mean, features=records.shape[1])
        inside = is_member[:, k : k + 1] * (total / positives[k])
        blocks += [records * inside, inside]
        stacked += [released, [1.0]]
    return np.hstack(blocks), ReleasedMean(np.concatenate(stacked), total / len(records))
