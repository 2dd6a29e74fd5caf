"""The ε that an attack proves: a lower bound from how often it is right and how often it is wrong.

Of an (ε, δ)-private mechanism every test between two neighbours obeys TPR ≤ exp(ε) FPR + δ and
(1 − FPR) ≤ exp(ε) (1 − TPR) + δ. A test that was seen to be better than that refutes the claim;
with Clopper–Pearson ends for the two rates it does so at a stated confidence (Jagielski, Ullman and
Oprea 2020; Nasr et al. 2021).
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from cofill.attack import Leak, exact_interval
from cofill.errors import DataError, SettingError
from cofill.privacy import Event, GaussianEvent, LaplaceEvent, MeanDefence

CONFIDENCE = 0.999
"""Of bounds: who says that a guarantee is false should be sure."""

_THRESHOLDS = 100  # tried on one half of the trials; the other half judges the best of them
_NUMBERS = 2**24  # drawn at one time
_COORDINATES = 2**22  # of released means drawn at one time
_DRAWS, _MOST = 20_000, 200_000  # fewest and most releases from either neighbour


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """A lower bound of ε that an attack proves, at a confidence.

    Parameters
    ----------
    epsilon, delta, confidence
        No (ε', δ)-guarantee with a smaller ε' is true, at this confidence; 0 where the attack
        proves nothing.
    true_rate, false_rate, trials
        How often the attack said "yes" rightly, and wrongly, in so many trials of either kind.
    how
        The attack, in words.
    """

    epsilon: float
    delta: float
    confidence: float
    true_rate: float
    false_rate: float
    trials: int
    how: str = ""

    def refutes(self, epsilon: float | int) -> bool:
        """Return whether a claimed ε at this δ is false.

        Examples
        --------
        >>> bound = bound_from_counts(990, 1000, 10, 1000, delta=1e-5)
        >>> bound.refutes(1.0), bound.refutes(6.0)
        (True, False)
        """
        return self.epsilon > epsilon


def bound_from_counts(
    hits: int,
    members: int,
    alarms: int,
    strangers: int,
    *,
    delta: float | int,
    confidence: float = CONFIDENCE,
    how: str = "",
) -> EpsilonBound:
    """Return the ε proved by a test that was right `hits` times and wrong `alarms` times.

    All four ends of the two rates hold together at the confidence, so that the better of the two
    forms may be taken.

    Parameters
    ----------
    hits, members, alarms, strangers
        How often the test said "yes" to how many that were so, and to how many that were not.
    delta, confidence
        δ of the guarantee in question, and the confidence of the bound.
    how
        The attack, in words.

    Examples
    --------
    >>> round(bound_from_counts(5000, 10_000, 100, 10_000, delta=0).epsilon, 2)
    3.54
    >>> bound_from_counts(50, 100, 50, 100, delta=0).epsilon
    0.0
    """
    if not (0 <= hits <= members and 0 <= alarms <= strangers and members and strangers):
        raise DataError(
            f"hits and alarms must be counts of at least one trial each, got {hits} of {members} "
            f"and {alarms} of {strangers}"
        )
    if not 0 < confidence < 1:
        raise SettingError(f"confidence must be above 0 and below 1, got {confidence}")
    each = (1 + confidence) / 2  # two intervals of two ends each
    hit_low, hit_high = exact_interval(hits, members, each)
    alarm_low, alarm_high = exact_interval(alarms, strangers, each)
    forms = (
        (hit_low, alarm_high),
        (1 - alarm_high, 1 - hit_low),
        # The same test with "yes" and "no" exchanged, for one that is wrong more often than right.
        (alarm_low, hit_high),
        (1 - hit_high, 1 - alarm_low),
    )
    return EpsilonBound(
        epsilon=max(_form(*form, delta) for form in forms),
        delta=float(delta),
        confidence=confidence,
        true_rate=hits / members,
        false_rate=alarms / strangers,
        trials=min(members, strangers),
        how=how,
    )


def bound_from_scores(
    present: Float[np.ndarray, " present"],
    absent: Float[np.ndarray, " absent"],
    *,
    delta: float | int,
    confidence: float = CONFIDENCE,
    how: str = "",
) -> EpsilonBound:
    """Return the ε proved by scores of independent trials, higher where the record is there.

    The threshold is chosen on the first half of the trials and judged on the second, so that the
    choice costs no confidence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bound = bound_from_scores(rng.normal(1, 1, 4000), rng.normal(0, 1, 4000), delta=1e-5)
    >>> 0.5 < bound.epsilon < 4.4
    True
    """
    if min(len(present), len(absent)) < 4:
        raise DataError(
            f"there must be at least 4 trials of either kind, got {len(present)} and {len(absent)}"
        )
    halves = (np.split(values, [len(values) // 2]) for values in (present, absent))
    first, second = zip(*halves, strict=True)
    tried = np.unique(np.quantile(np.concatenate(first), np.linspace(0, 1, _THRESHOLDS)))

    def judged(pair: tuple[np.ndarray, np.ndarray], at: float) -> EpsilonBound:
        return bound_from_counts(
            int((pair[0] > at).sum()),
            len(pair[0]),
            int((pair[1] > at).sum()),
            len(pair[1]),
            delta=delta,
            confidence=confidence,
            how=how,
        )

    best = max(tried.tolist(), key=lambda at: judged(first, at).epsilon)
    return judged(second, best)


def bound_of_leak(leak: Leak, *, delta: float | int) -> EpsilonBound | None:
    """Return the ε that a true positive rate at a false positive rate proves; None for others.

    The threshold lies at an order statistic of the strangers, whose own share beyond it has the
    upper end that the leak carries as `floor_high`: nothing was tried twice.

    Examples
    --------
    >>> from cofill.attack import membership_leaks
    >>> member = np.arange(400)[None] < 200
    >>> leak = membership_leaks(np.where(member, 1.0, 0.1), member, rates=(0.01,))[0]
    >>> round(bound_of_leak(leak, delta=1e-5).epsilon, 1)
    3.3
    """
    if not leak.figure.startswith("TPR") or leak.floor_high is None:
        return None
    return EpsilonBound(
        epsilon=_form(leak.interval[0], leak.floor_high, delta),
        delta=float(delta),
        confidence=leak.level,
        true_rate=leak.attack,
        false_rate=leak.floor,
        trials=min(leak.sizes.get("members", 0), leak.sizes.get("strangers", 0)),
        how=f"{leak.name}: {leak.figure}",
    )


def bound_of_event(event: Event, *, delta: float | int, seed: int = 0) -> EpsilonBound | None:
    """Return the ε proved against an event's mechanism by the best test of its two neighbours.

    It simulates noise of the written size, once for each neighbour, in units of what one neighbour
    changes; None for an event that is not Gaussian or Laplace noise alone.

    Examples
    --------
    >>> bound = bound_of_event(GaussianEvent(1.0), delta=1e-5)
    >>> 1 < bound.epsilon < 4.38
    True
    """
    rng = np.random.default_rng([seed, 0xE7E])
    scores = np.zeros((2, _DRAWS))
    for part in event.parts():
        if isinstance(part, GaussianEvent):
            noise = part.noise_multiplier / math.sqrt(part.count)
            seen = rng.normal(scale=noise, size=scores.shape) + np.array([[1.0], [0.0]])
            scores += (seen - 0.5) / noise**2
        elif isinstance(part, LaplaceEvent):
            noise = part.noise_multiplier
            rows = max(1, _NUMBERS // part.count)
            for start in range(0, _DRAWS, rows):
                size = (2, min(rows, _DRAWS - start), part.count)
                seen = rng.laplace(scale=noise, size=size) + np.array([1.0, 0.0])[:, None, None]
                # |seen| − |seen − 1|, without last bits that would tell the neighbours apart.
                scores[:, start : start + rows] += np.clip(2 * seen - 1, -1, 1).sum(2) / noise
        else:
            return None
    return bound_from_scores(
        scores[0],
        scores[1],
        delta=delta,
        how="the likelihood ratio of two neighbours under noise of the written size",
    )


def prove_epsilon(
    defence: MeanDefence,
    rows: Float[np.ndarray, "rows features"],
    *,
    delta: float | int | None = None,
    draws: int | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> EpsilonBound:
    """Return the ε that telling two neighbours apart by a noisy mean proves against a defence.

    Attackers know everybody's record but one, and that it is one of two at opposite corners of the
    public bounds: the worst case that a guarantee must cover. They see what the mechanism releases,
    and go by the likelihood ratio, which no test beats.

    Parameters
    ----------
    defence
        The mechanism that is run, as it would be for a release.
    rows
        Rows of the mean; the first one's place is taken by the two neighbours.
    delta, confidence
        At which δ (the defence's own when left out), and how sure.
    draws
        Releases from either neighbour; half choose the threshold, half judge it. When left out, as
        many as take a second or two: 20,000, and more of a mean of few features.
    seed
        Of the noise.

    Examples
    --------
    >>> from cofill.privacy import Box
    >>> rows = np.random.default_rng(0).uniform(size=(50, 3))
    >>> bound = prove_epsilon(MeanDefence(Box(0.0, 1.0), 1.0), rows, draws=40_000)
    >>> 0 < bound.epsilon < 1
    True
    """
    if len(rows) < 2:
        raise DataError(f"a mean must be of at least 2 rows to be audited, got {len(rows)}")
    width = rows.shape[1]
    if draws is None:
        draws = max(_DRAWS, min(_MOST, 2 * _COORDINATES // width))
    if draws < 100:
        raise SettingError(f"draws must be at least 100, got {draws}")
    far = defence.bounds.unit_of(width)
    corners = [defence.bounds.centre_of(width) + sign * far for sign in (1.0, -1.0)]
    data = [np.concatenate([defence.bounds.clip(c[None]), rows[1:]]) for c in corners]
    if defence.neighbours == "add or remove one":
        data[1] = rows[1:]
    centres = [defence.bounds.clip(d).mean(axis=0) for d in data]
    scale = defence.release(data[0], sender="a", receiver="b", rng=seed).scale
    size = max(1, _COORDINATES // width)
    scores = []
    for which, rows_with in enumerate(data):
        rng = np.random.default_rng([seed, which, 0xD157])
        parts = (
            defence.draws(rows_with, min(size, draws - at), rng=rng) for at in range(0, draws, size)
        )
        scores.append(np.concatenate([_ratio(defence, part, centres, scale) for part in parts]))
    return bound_from_scores(
        scores[0],
        scores[1],
        delta=defence.delta if delta is None else delta,
        confidence=confidence,
        how="telling two neighbours at the corners of the bounds apart by the released mean",
    )


def _ratio(
    defence: MeanDefence,
    means: Float[np.ndarray, "draws features"],
    centres: list[np.ndarray],
    scale: Float[np.ndarray, " features"],
) -> Float[np.ndarray, " draws"]:
    """Return the logarithm of the likelihood ratio of the first neighbour against the second."""
    first, second = ((means - centre) / scale for centre in centres)
    if defence.noise == "gaussian":
        return ((second**2 - first**2) / 2).sum(axis=1)
    return (np.abs(second) - np.abs(first)).sum(axis=1)


def _form(right_low: float, wrong_high: float, delta: float | int) -> float:
    if right_low <= delta or right_low - delta <= wrong_high:
        return 0.0
    return math.log((right_low - delta) / wrong_high)
