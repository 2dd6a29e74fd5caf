"""Membership: telling whom a network was trained on.

Threat model: somebody who has a person's row and the trained network (or can ask for its loss), and
perhaps data to train networks like it, says whether the person was in the training set.

The simple attack takes a small loss for membership. The stronger one (LiRA: Carlini et al. 2022,
"Membership inference attacks from first principles", Algorithm 1 and section VI-A) compares the
loss with its distribution under *shadow* networks that were, and were not, trained on the person.
The figure that matters is how many members are found while hardly any non-member is accused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.attack._intervals import exact_interval
from cofill.attack._leak import Leak, share_leak
from cofill.attack._people import as_matrix
from cofill.errors import DataError, SettingError

METHODS = ("threshold", "online", "offline")
_PERSONAL_SPREAD = 32  # shadow networks on a side from which each person's variance is their own
_THREATS = {
    "threshold": "somebody who has a person's row and the network takes a small loss for a member",
    "online": (
        "somebody who has a person's row, the network, and shadow networks trained with and "
        "without the person compares likelihoods"
    ),
    "offline": (
        "somebody who has a person's row, the network, and shadow networks that never saw the "
        "person calls a loss that is too small for a stranger a member's"
    ),
}


def likelihood_ratios(
    losses: Float[np.ndarray, " people"],
    shadow_losses: Float[np.ndarray, "shadows people"],
    inside: Bool[np.ndarray, "shadows people"],
    *,
    online: bool = True,
) -> Float[np.ndarray, " people"]:
    """Return how much likelier each loss is of a member than of a stranger (LiRA).

    Logarithms of losses are taken for normal. With fewer than 32 shadow networks on a side the
    variance is everybody's together, as the authors advise.

    Parameters
    ----------
    losses
        Under the network attacked.
    shadow_losses, inside
        Under shadow networks, and which of them were trained on whom.
    online
        Use networks trained on the person as well; else the score is how far a person's loss lies
        below that of a stranger, in standard deviations.

    Examples
    --------
    >>> inside = np.arange(8)[:, None] % 2 == np.zeros(2, int)
    >>> shadows = np.where(inside, 0.1, 1.0) * np.linspace(0.9, 1.1, 8)[:, None]
    >>> scores = likelihood_ratios(np.array([0.1, 1.0]), shadows, inside)
    >>> bool(scores[0] > 0 > scores[1])
    True
    """
    values, shadow_values = _log(losses), _log(shadow_losses)
    outer_mean, outer_width = _fit_normal(shadow_values, ~inside, "out of")
    if not online:
        return (outer_mean - values) / outer_width
    inner_mean, inner_width = _fit_normal(shadow_values, inside, "in")
    return (
        0.5 * ((values - outer_mean) / outer_width) ** 2
        + np.log(outer_width)
        - 0.5 * ((values - inner_mean) / inner_width) ** 2
        - np.log(inner_width)
    )


def score_losses(
    losses: Float[np.ndarray, " people"],
    shadow_losses: Float[np.ndarray, "shadows people"],
    inside: Bool[np.ndarray, "shadows people"],
    method: str,
) -> tuple[Float[np.ndarray, " people"], Float[np.ndarray, " people"]]:
    """Return scores that are higher for members, and those of the control.

    The control is the loss under networks that never saw the person: it tells how ordinary somebody
    is, not whether they were a member.
    """
    control = -_fit_normal(_log(shadow_losses), ~inside, "out of")[0]
    if method == "threshold":
        return -losses, control
    return likelihood_ratios(losses, shadow_losses, inside, online=method == "online"), control


def attack_membership(
    losses: Any,
    member: Any,
    *,
    shadow_losses: Any = None,
    inside: Any = None,
    method: str = "threshold",
    rates: Sequence[float] = (0.001, 0.01),
) -> tuple[Leak, ...]:
    """Tell members from strangers by their losses.

    Parameters
    ----------
    losses
        Of people under the network attacked: one a person.
    member
        Who was in its training set, to judge the attack by.
    shadow_losses, inside
        Networks × people: losses under shadow networks, and which were trained on whom; needed by
        ``"online"`` and ``"offline"``.
    method
        ``"threshold"``, or LiRA's ``"online"`` or ``"offline"``.
    rates
        False positive rates.

    Returns
    -------
    tuple of Leak
        The true positive rate at each rate, and the area under the curve.

    Examples
    --------
    >>> member = np.arange(400) < 200
    >>> rng = np.random.default_rng(0)
    >>> leaks = attack_membership(np.where(member, 0.1, 1.0) * rng.uniform(0.5, 1, 400), member)
    >>> [(leak.figure, leak.attack) for leak in leaks]
    [('TPR at 0.1 % FPR', 1.0), ('TPR at 1 % FPR', 1.0), ('AUC', 1.0)]
    """
    check_method(method)
    values = as_matrix("losses", np.asarray(losses)[:, None], least=4)[:, 0]
    truth = np.asarray(member)
    if truth.shape != values.shape or truth.dtype != np.bool_:
        raise DataError(
            f"member must be one truth value for each of the {len(values)} losses, got the shape "
            f"{truth.shape} of type {truth.dtype}"
        )
    if shadow_losses is None:
        if method != "threshold":
            raise SettingError(f"shadow_losses and inside must be given for the method {method!r}")
        return membership_leaks(-values[None], truth[None], rates=rates)
    shadows, trained = as_matrix("shadow_losses", shadow_losses, least=2), np.asarray(inside)
    if (
        shadows.shape[1] != len(values)
        or trained.shape != shadows.shape
        or trained.dtype != np.bool_
    ):
        raise DataError(
            "shadow_losses and inside must have a row for each shadow network and a column for "
            f"each of the {len(values)} people, got {shadows.shape} and {trained.shape}"
        )
    scores, control = score_losses(values, shadows, trained, method)
    return membership_leaks(
        scores[None], truth[None], control=control[None], method=method, rates=rates
    )


def check_method(method: str) -> None:
    """Refuse a method that is none of `METHODS`."""
    if method not in METHODS:
        raise SettingError(f"method must be one of {', '.join(METHODS)}, got {method!r}")


def membership_leaks(
    scores: Float[np.ndarray, "networks people"],
    member: Bool[np.ndarray, "networks people"],
    *,
    control: Float[np.ndarray, "networks people"] | None = None,
    method: str = "threshold",
    rates: Sequence[float] = (0.001, 0.01),
) -> tuple[Leak, ...]:
    """Return the leaks of scores (higher for members) against networks with the same people.

    Several networks sharpen the figure. Their people are the same, so intervals count people, not
    people × networks. The floor is what a worthless score reaches in expectation at the threshold
    that these strangers set, and its upper end how far the true false positive rate at that
    threshold may lie above the stated one.

    Examples
    --------
    >>> member = np.arange(100)[None] < 50
    >>> leak = membership_leaks(np.zeros((1, 100)), member)[-1]
    >>> leak.figure, leak.attack, leak.excludes_floor()
    ('AUC', 0.5, False)
    """
    if not (member.any(axis=1).all() and (~member).any(axis=1).all()):
        raise DataError(
            "member must hold members and strangers of every network, got one kind only"
        )
    for rate in rates:
        if not 0 < rate < 1:
            raise SettingError(f"rates must be above 0 and below 1, got {rate}")
    facts: dict[str, Any] = {
        "name": f"membership, {method}",
        "threat": _THREATS[method],
        "scope": "individual",
        "ceiling": 1.0,
        "sizes": {
            "members": int(member.any(axis=0).sum()),
            "strangers": int((~member).any(axis=0).sum()),
            "networks": len(member),
        },
    }
    leaks = [_rate_leak(scores, member, control, rate, facts) for rate in rates]
    value, interval = auc_with_interval(scores, member)
    return (
        *leaks,
        Leak(
            **facts,
            figure="AUC",
            floor=0.5,
            control=None if control is None else auc_with_interval(control, member)[0],
            attack=value,
            interval=interval,
        ),
    )


def auc_with_interval(
    scores: Float[np.ndarray, "networks people"], member: Bool[np.ndarray, "networks people"]
) -> tuple[float, tuple[float, float]]:
    """Return the mean area under the networks' curves, and its interval over people.

    Each person's part in the area's error is summed over the networks (for one network, DeLong,
    DeLong and Clarke-Pearson 1988).

    Examples
    --------
    >>> auc_with_interval(np.arange(4.0)[None], np.array([[False, True, False, True]]))[0]
    0.75
    """
    areas, parts = [], np.zeros(scores.shape[1])
    for values, inside in zip(scores, member, strict=True):
        high, low = values[inside], values[~inside]
        above = _share_below(low, high)  # share of strangers below each member
        under = 1 - _share_below(high, low)  # share of members above each stranger
        area = float(above.mean())
        areas.append(area)
        parts[inside] += (above - area) / inside.mean()
        parts[~inside] += (under - area) / (~inside).mean()
    value = float(np.mean(areas))
    people = scores.shape[1]
    error = float(np.sqrt((parts / len(scores)).var(ddof=1) / people))
    return value, (max(0.0, value - 1.96 * error), min(1.0, value + 1.96 * error))


def _share_below(reference: np.ndarray, values: np.ndarray) -> np.ndarray:
    ordered = np.sort(reference)
    first, last = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return (first + last) / (2 * len(ordered))


def _rate_leak(
    scores: np.ndarray,
    member: np.ndarray,
    control: np.ndarray | None,
    rate: float,
    facts: dict[str, Any],
) -> Leak:
    strangers = int((~member).sum())
    allowed = int(rate * strangers + 1e-9)
    rate_reached = _true_positive_rate(scores, member, allowed)
    # The same people stand behind every network: rates are of so many people, no more.
    inside, outside = facts["sizes"]["members"], facts["sizes"]["strangers"]
    accused = int(np.ceil(allowed / strangers * outside - 1e-9))
    return share_leak(
        round(rate_reached * inside),
        inside,
        **facts,
        figure=f"TPR at {100 * rate:g} % FPR",
        floor=(allowed + 1) / (strangers + 1),
        floor_high=exact_interval(accused, outside)[1],
        control=None if control is None else _true_positive_rate(control, member, allowed),
        details={"false_positives": allowed, "true_positive_rate": rate_reached},
        notes=(
            ()
            if rate * outside >= 1
            else (
                f"{outside} strangers are too few to measure a false positive rate of {rate:g}: "
                "the threshold lies above all of them",
            )
        ),
    )


def _true_positive_rate(scores: np.ndarray, member: np.ndarray, allowed: int) -> float:
    every = np.broadcast_to(scores, member.shape)
    threshold = np.sort(every[~member])[::-1][allowed]
    return float((every[member] > threshold).mean())


def _log(losses: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(losses, np.finfo(np.float64).tiny))


def _fit_normal(
    values: Float[np.ndarray, "shadows people"],
    chosen: Bool[np.ndarray, "shadows people"],
    side: str,
) -> tuple[Float[np.ndarray, " people"], Float[np.ndarray, " people"]]:
    """Return mean and deviation of the chosen values of each person."""
    count = chosen.sum(axis=0)
    if (count < 2).any():
        raise DataError(
            f"everybody must be {side} the training set of at least 2 shadow networks, got "
            f"{int((count < 2).sum())} people with fewer; train more shadow networks"
        )
    mean = np.where(chosen, values, 0.0).sum(axis=0) / count
    squares = np.where(chosen, (values - mean) ** 2, 0.0).sum(axis=0)
    variance = squares / (count - 1)
    if count.min() < _PERSONAL_SPREAD:
        variance = np.full(len(mean), squares.sum() / (count - 1).sum())
    # The mean is estimated too.
    return mean, np.sqrt(np.maximum(variance * (1 + 1 / count), 1e-12))
