"""What every attack on a release returns: a figure with its interval, beside floor and ceiling."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, ndtri

from cofill.errors import SettingError
from cofill.metrics import plain

_CELLS = 2**24  # counts of people drawn at one time


@dataclass(frozen=True, kw_only=True)
class Leak:
    """How much an attack got out of a release. A larger figure is always a larger leak.

    Parameters
    ----------
    name, threat
        The attack and its variant; who attacks, with what knowledge, in one sentence.
    figure
        What the numbers are: ``"R²"``, ``"share re-identified"``, ``"TPR at 1 % FPR"``.
    scope
        ``"individual"`` where the release itself tells of a person, ``"population"`` where what is
        true of similar people does.
    floor, floor_high
        The figure of somebody who guesses, and its upper end where it is measured on a sample of
        people; None where it is exact.
    control
        The figure of the same attacker without the release, by what they have anyway; None where
        they have nothing.
    attack, interval
        The figure reached, and its interval.
    ceiling
        What nobody should exceed; None where it was not measured.
    gain
        Interval of attack − control over the same people; None without a control.
    level
        Of the intervals.
    sizes, details, notes
        Numbers behind the figure (people, pairs, repeats), further figures, and what a reader must
        know.

    Examples
    --------
    >>> leak = share_leak(40, 100, name="linkage", threat="a guest", figure="share linked",
    ...                   scope="individual", floor=0.01)
    >>> leak.excludes_floor(), [round(end, 3) for end in leak.interval]
    (True, [0.303, 0.503])
    """

    name: str
    threat: str
    figure: str
    scope: str
    floor: float
    attack: float
    interval: tuple[float, float]
    control: float | None = None
    ceiling: float | None = None
    floor_high: float | None = None
    gain: tuple[float, float] | None = None
    level: float = 0.95
    sizes: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scope not in ("individual", "population"):
            raise SettingError(f"scope must be individual or population, got {self.scope!r}")
        low, high = self.interval
        if not low <= high:
            raise SettingError(f"interval must rise, got {low} and {high}")

    def excludes_floor(self, attacks: int = 1) -> bool:
        """Return whether the whole interval lies above the floor: the leak is no accident.

        Of many attacks one seems to succeed by chance, so that intervals are widened to hold for
        all of ``attacks`` together (Bonferroni).
        """
        wider = self._widening(attacks)
        low = _widened(self.attack, self.interval[0], wider)
        high = self.floor if self.floor_high is None else self.floor_high
        return low > _widened(self.floor, high, wider)

    def beats_control(self, attacks: int = 1) -> bool | None:
        """Return whether the release adds to what the attacker has anyway; None if not compared.

        ``attacks`` are counted as in `excludes_floor`.
        """
        if self.gain is None:
            return None
        added = sum(self.gain) / 2 if self.control is None else self.attack - self.control
        return _widened(added, self.gain[0], self._widening(attacks)) > 0

    def _widening(self, attacks: int) -> float:
        """Return by how much an interval is wider that holds for so many attacks together."""
        # Drawn statistics are nearly normal; a quantile of a thousand draws reaches no further.
        tail = (1 - self.level) / 2
        return float(ndtri(tail / max(attacks, 1)) / ndtri(tail))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's types (`cofill.metrics.plain`)."""
        return {
            **plain(self, "leak"),
            "excludes_floor": self.excludes_floor(),
            "beats_control": self.beats_control(),
        }


def _widened(figure: float, end: float, wider: float) -> float:
    """Return an interval's end when it is so much farther from the figure."""
    # One attack is judged by its interval alone, also where its figure is not known.
    return end if wider == 1 else figure + wider * (end - figure)


def share_leak(hits: int, count: int, *, level: float = 0.95, **rest: Any) -> Leak:
    """Return the leak whose figure is a share, with its Clopper–Pearson interval."""
    low, high = exact_interval(hits, count, level)
    return Leak(attack=hits / count, interval=(low, high), level=level, **rest)


def compared_share_leak(
    hits: Float[np.ndarray, " people"],
    control: Float[np.ndarray, " people"] | None,
    *,
    draws: int = 1000,
    **rest: Any,
) -> Leak:
    """Return the leak whose figure is the share of people hit, compared person by person.

    Hits are means over repeats: repeats attack the same people again, and for an interval they are
    no further people.
    """
    people, gain = len(hits), None
    if control is not None:
        difference = hits - control
        gain = percentile_interval(
            bootstrap_people(lambda counts: counts @ difference / people, people, draws=draws)[1]
        )
    return share_leak(
        round(float(hits.sum())),
        people,
        control=None if control is None else float(control.mean()),
        gain=gain,
        **rest,
    )


def r2_leak(
    truth: Float[np.ndarray, "people features"],
    guesses: Float[np.ndarray, "repeats people features"],
    control: Float[np.ndarray, "repeats people features"] | None,
    best: Float[np.ndarray, "repeats people features"],
    *,
    draws: int,
    seed: int,
    **rest: Any,
) -> Leak:
    """Return the leak whose figure is the mean R² over features; the floor is the mean row."""

    def drawn(guesses: np.ndarray) -> tuple[float, np.ndarray]:
        statistic = r2_statistic(truth, guesses)
        return bootstrap_people(statistic, len(truth), draws=draws, seed=seed)

    value, values = drawn(guesses)
    control_value, control_values = (None, None) if control is None else drawn(control)
    return Leak(
        figure="R²",
        floor=0.0,
        control=control_value,
        attack=value,
        ceiling=max(value, drawn(best)[0]),
        interval=percentile_interval(values),
        gain=None if control_values is None else percentile_interval(values - control_values),
        **rest,
    )


def exact_interval(right: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper–Pearson interval of a share.

    Examples
    --------
    >>> [round(end, 4) for end in exact_interval(0, 10)]
    [0.0, 0.3085]
    """
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else float(betaincinv(right, count - right + 1, tail))
    high = 1.0 if right == count else float(betaincinv(right + 1, count - right, 1 - tail))
    return low, high


def bootstrap_people(
    statistic: Callable[[Float[np.ndarray, "draws people"]], Float[np.ndarray, " draws"]],
    people: int,
    *,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, Float[np.ndarray, " draws"]]:
    """Return a statistic of the people, and of people drawn again with replacement.

    The statistic is given how often each person was drawn. Two statistics with one seed are of the
    same draws: their difference is paired.

    Examples
    --------
    >>> x = np.arange(50.0)
    >>> value, drawn = bootstrap_people(lambda counts: counts @ x / 50, 50)
    >>> value, bool(18 < drawn.min() < drawn.max() < 31)
    (24.5, True)
    """
    rng = np.random.default_rng([seed, 0xB007])
    step = max(1, _CELLS // people)
    even = np.full(people, 1 / people)
    parts = [
        statistic(rng.multinomial(people, even, size=min(step, draws - at)).astype(np.float64))
        for at in range(0, draws, step)
    ]
    return float(statistic(np.ones((1, people)))[0]), np.concatenate(parts)


def percentile_interval(
    drawn: Float[np.ndarray, " draws"], level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile interval of drawn statistics.

    Examples
    --------
    >>> [round(end, 6) for end in percentile_interval(np.arange(101.0), 0.9)]
    [5.0, 95.0]
    """
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def r2_statistic(
    truth: Float[np.ndarray, "people features"],
    guesses: Float[np.ndarray, "repeats people features"],
) -> Callable[[Float[np.ndarray, "draws people"]], Float[np.ndarray, " draws"]]:
    """Return the statistic R², a mean over features that vary and over repeats."""
    varies = (truth != truth[:1]).any(axis=0)
    centred = truth[:, varies] - truth[:, varies].mean(axis=0)
    scale = centred.std(axis=0)
    y = centred / scale
    # R² is linear in the squared errors, so that repeats may be averaged first.
    wrong = (((guesses - truth)[:, :, varies] / scale) ** 2).mean(axis=0)

    def statistic(counts: Float[np.ndarray, "draws people"]) -> Float[np.ndarray, " draws"]:
        total = counts @ y**2 - (counts @ y) ** 2 / counts.sum(axis=1, keepdims=True)
        # A draw may miss everyone who differs: such a feature does not count in it.
        counted = total > 1e-9 * len(y)
        share = np.where(counted, (counts @ wrong) / np.where(counted, total, 1.0), 0.0)
        return 1 - share.sum(axis=1) / np.maximum(counted.sum(axis=1), 1)

    return statistic
