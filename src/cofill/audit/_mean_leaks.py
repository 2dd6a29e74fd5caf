"""What guesses from a class's mean give away, about those in it and about others."""

from typing import Any

import numpy as np
from jaxtyping import Bool

from cofill.attack import Leak, exact_interval, share_leak


def mean_leaks(
    inside: Bool[np.ndarray, " contributors"],
    outside: Bool[np.ndarray, " others"],
    *,
    is_paired: bool,
    floor: float,
    control: float,
    ceiling: float,
) -> tuple[Leak, ...]:
    """Return what an attacker knows of contributors, and of others by the same mean.

    Parameters
    ----------
    inside, outside
        Who is guessed right of those in the mean, and of those who are not.
    is_paired
        Whether both are the same people, guessed by a mean with them and by one without.
    floor, control, ceiling
        Accuracies of the larger class, of clusters of the records, of learning with every label.
    """
    hits, other_hits = (int(inside.sum()), len(inside)), (int(outside.sum()), len(outside))
    share_of_others = other_hits[0] / other_hits[1]
    facts: dict[str, Any] = {
        "threat": "somebody who has everybody's record without the class, and the class's released "
        "mean and share, guesses who belongs to the class",
        "figure": "accuracy",
        "floor": floor,
    }
    others, compared = "others", "on people who are not in the mean"
    if not is_paired:
        (low, high), (other_low, other_high) = exact_interval(*hits), exact_interval(*other_hits)
        gain = low - other_high, high - other_low
    else:
        others, compared = "everybody by a mean without them", "by the mean without these people"
        gain = _paired_gain(inside, outside)
    return (
        share_leak(
            *hits,
            **facts,
            name="labels from the mean, contributors",
            scope="individual",
            control=share_of_others,
            ceiling=max(ceiling, hits[0] / hits[1]),
            gain=gain,
            sizes={"contributors": hits[1]},
            notes=(f"the control is the same attack {compared}",),
        ),
        share_leak(
            *other_hits,
            **facts,
            name=f"labels from the mean, {others}",
            scope="population",
            control=control,
            ceiling=max(ceiling, share_of_others),
            sizes={"others": other_hits[1]},
            notes=("the control is clustering of the records, under the best naming",),
        ),
    )


def _paired_gain(
    inside: Bool[np.ndarray, " people"], outside: Bool[np.ndarray, " people"]
) -> tuple[float, float]:
    """Return the interval of a difference of two shares of the same people.

    Only people who are guessed right one way and not the other tell of it (McNemar 1947).
    """
    more, less = int((inside & ~outside).sum()), int((outside & ~inside).sum())
    differ, people = more + less, len(inside)
    if not differ:
        most = exact_interval(0, people)[1]
        return -most, most
    low, high = exact_interval(more, differ)
    return (2 * low - 1) * differ / people, (2 * high - 1) * differ / people
