"""Membership: telling whom a network was trained on.

The attack (LiRA: Carlini et al. 2022, "Membership inference attacks from first principles",
Algorithm 1 and section VI-A) compares the loss with its distribution under *shadow* networks that
were, and were not, trained on the person.
The figure that matters is how many members are found while hardly any non-member is accused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.attack._inputs import as_matrix, check_varied
from cofill.attack._leak import Leak, exact_interval, share_leak
from cofill.errors import DataError, SettingError
from cofill.nets import SquaredError, Task, TrainSettings, split_keys, train

_PERSONAL_SPREAD = 32  # shadow networks on a side from which each person's variance is their own
_THREAT = (
    "somebody who has a person's row, the network, and shadow networks trained with and without "
    "the person compares likelihoods"
)


def likelihood_ratios(
    losses: Float[np.ndarray, " people"],
    shadow_losses: Float[np.ndarray, "shadows people"],
    inside: Bool[np.ndarray, "shadows people"],
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
    inner_mean, inner_width = _fit_normal(shadow_values, inside, "in")
    return (
        0.5 * ((values - outer_mean) / outer_width) ** 2
        + np.log(outer_width)
        - 0.5 * ((values - inner_mean) / inner_width) ** 2
        - np.log(inner_width)
    )


def membership_leaks(
    scores: Float[np.ndarray, "networks people"],
    member: Bool[np.ndarray, "networks people"],
    *,
    control: Float[np.ndarray, "networks people"] | None = None,
    name: str = "membership",
    threat: str = "somebody who has a person's row and the network scores how likely a member is",
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
        "name": name,
        "threat": threat,
        "scope": "individual",
        "ceiling": 1.0,
        "sizes": {
            "members": int(member.any(axis=0).sum()),
            "strangers": int((~member).any(axis=0).sum()),
            "networks": len(member),
        },
    }
    value, interval = auc_with_interval(scores, member)
    area = Leak(
        **facts,
        figure="AUC",
        floor=0.5,
        control=None if control is None else auc_with_interval(control, member)[0],
        attack=value,
        interval=interval,
    )
    return (*(_rate_leak(scores, member, control, rate, facts) for rate in rates), area)


def auc_with_interval(
    scores: Float[np.ndarray, "networks people"], member: Bool[np.ndarray, "networks people"]
) -> tuple[float, tuple[float, float]]:
    """Return the mean area under the networks' curves, and its interval over people.

    Each person's part in the area's error is summed over the networks (for one network, DeLong,
    DeLong and Clarke-Pearson 1988).
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
    error = float(np.sqrt((parts / len(scores)).var(ddof=1) / scores.shape[1]))
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
    few = (
        f"{outside} strangers are too few to measure a false positive rate of {rate:g}: the "
        "threshold lies above all of them"
    )
    return share_leak(
        round(rate_reached * inside),
        inside,
        **facts,
        figure=f"TPR at {100 * rate:g} % FPR",
        floor=(allowed + 1) / (strangers + 1),
        floor_high=exact_interval(accused, outside)[1],
        control=None if control is None else _true_positive_rate(control, member, allowed),
        details={"false_positives": allowed, "true_positive_rate": rate_reached},
        notes=() if rate * outside >= 1 else (few,),
    )


def _true_positive_rate(scores: np.ndarray, member: np.ndarray, allowed: int) -> float:
    threshold = np.sort(scores[~member])[::-1][allowed]
    return float((scores[member] > threshold).mean())


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


@dataclass(frozen=True, eq=False)
class Shadows:
    """Everybody's loss under every network, and which networks were trained on whom.

    ``steps`` are the most that any of them has taken, over all attempts.
    """

    losses: Float[np.ndarray, "networks people"]
    inside: Bool[np.ndarray, "networks people"]
    steps: int


def train_shadows(
    rows: Any, network: Any, training: TrainSettings, *, count: int = 32, key: Array
) -> Shadows:
    """Train networks on random halves of the people; everybody is in half of the networks.

    Networks reduce the squared error.

    Parameters
    ----------
    rows
        One a person; networks learn to make them again.
    network
        A `cofill.nets.recipe`, such as of an `Autoencoder`.
    training
        As the network attacked was trained.
    count
        Of networks, even.
    key
        Of weights, halves and orders.

    Examples
    --------
    >>> from cofill.nets import Autoencoder, recipe
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> network = recipe(Autoencoder, (3, 2))
    >>> shadows = train_shadows(
    ...     x, network, TrainSettings(epochs=2), count=4, key=jax.random.key(0)
    ... )
    >>> shadows.losses.shape, shadows.inside.sum(axis=0).tolist() == [2] * 20
    ((4, 20), True)
    """
    x = as_matrix("rows", rows, least=4).astype(np.float32)
    check_varied("rows", x)
    if count < 2 or count % 2:
        raise SettingError(f"count of shadow networks must be even and 2 or more, got {count}")
    halves, start = jax.random.split(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(halves)).tolist())
    # Pairs of networks share the people between them, so that all training sets are of one size.
    inside = np.zeros((count, len(x)), bool)
    for first in range(0, count, 2):
        inside[first, rng.permutation(len(x))[: len(x) // 2]] = True
        inside[first + 1] = ~inside[first]
    tasks = [
        Task(network, x[chosen], key=task_key)
        for chosen, task_key in zip(inside, split_keys(start, count), strict=True)
    ]
    trained = train(tasks, SquaredError(), training)
    losses = np.stack([_losses(shadow, x) for shadow in trained.networks])
    if not np.isfinite(losses).all():
        raise DataError("losses under shadow networks must be finite; scale the rows first")
    return Shadows(losses, inside, int(trained.steps.max()))


def attack_shadows(
    shadows: Shadows, *, attacked: int = 8, rates: Sequence[float] = (0.001, 0.01)
) -> tuple[Leak, ...]:
    """Attack some of the shadow networks by all the others.

    This measures what a network that is trained so gives away on average over training sets. For
    one finished network, score its losses by `likelihood_ratios` and those of the shadows, and
    judge the scores by `membership_leaks`.

    Parameters
    ----------
    shadows
        Networks that were trained as the one in question.
    attacked
        How many of them; more make the figure sharper at low false positive rates.
    rates
        False positive rates.

    Returns
    -------
    tuple of Leak
        The true positive rate at each rate, and the area under the curve.
    """
    networks = len(shadows.losses)
    if not 1 <= attacked <= networks:
        raise SettingError(f"attacked must be from 1 to networks ({networks}), got {attacked}")
    scores, controls = [], []
    for target in range(attacked):
        losses, inside = (
            np.delete(table, target, axis=0) for table in (shadows.losses, shadows.inside)
        )
        scores.append(likelihood_ratios(shadows.losses[target], losses, inside))
        # Networks that never saw the person tell how ordinary they are, not whether a member.
        controls.append(-_fit_normal(_log(losses), ~inside, "out of")[0])
    return membership_leaks(
        np.stack(scores),
        shadows.inside[:attacked],
        control=np.stack(controls),
        name="membership, online",
        threat=_THREAT,
        rates=rates,
    )


def _losses(network: Any, rows: np.ndarray) -> Float[np.ndarray, " people"]:
    total, count = SquaredError()(network, jnp.asarray(rows), jnp.asarray(rows), None)
    return np.asarray(total / jnp.maximum(count, 1), np.float64)
