"""Linkage: finding the codes of the same person at two sites."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.attack._inputs import as_matrix, check_same_people, check_varied
from cofill.attack._leak import Leak, bootstrap_people, percentile_interval, share_leak
from cofill.attack._matching import (
    assign_partners,
    initial_scores,
    learn_scores,
    pair_scores,
    refine_scores,
    whiten,
)
from cofill.errors import DataError, SettingError
from cofill.nets import require_at_least

_THREAT = (
    "a holder of the codes of two sites without ids, who knows {knows}, matches the codes of the "
    "same person"
)
_FIGURES = ("share linked", "share linked in the best matching", "share among the top 1 %")
_FEWEST = 10  # people to be linked, below which a share of them says nothing
_SHORT = 6  # rounds after which the best start is chosen


@dataclass(frozen=True)
class LinkageSettings:
    """How codes are linked.

    Parameters
    ----------
    repeats, rounds
        How often pairs are drawn anew (figures are means), and rounds of self-training.
    most_people
        Of a larger release so many people, drawn at random, are linked: the best matching of all
        takes a time that grows with their cube.
    seed
        Start of all randomness.
    """

    repeats: int = 3
    rounds: int = 20
    most_people: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, repeats=1, rounds=0, most_people=_FEWEST)


def link_codes(
    first: Any,
    second: Any,
    *,
    pairs: Sequence[int] = (0, 10, 100),
    settings: LinkageSettings | None = None,
) -> tuple[Leak, ...]:
    """Link the codes of the same people at two sites.

    The floor is a guess among the people who are left; the control is the same attack when the
    second site's columns are shuffled one by one, so that they belong to nobody; the ceiling is a
    map learned from everybody.

    Parameters
    ----------
    first, second
        Codes at the two sites, people in the same order, which only judges the attack.
    pairs
        Numbers of people whose two codes the attacker knows. They are not linked again.
    settings
        How to attack.

    Returns
    -------
    tuple of Leak
        For each number of pairs: the share linked to the likeliest code, in the best matching of
        all people, and among the likeliest 1 % (at least one) of the codes.

    Examples
    --------
    >>> x = np.random.default_rng(0).exponential(size=(80, 3)) * [3, 2, 1]
    >>> quick = LinkageSettings(repeats=1, rounds=5)
    >>> leak = link_codes(x, x @ np.diag([1.0, 2.0, 3.0]), pairs=(20,), settings=quick)[0]
    >>> leak.figure, bool(leak.attack > 0.9), leak.excludes_floor()
    ('share linked', True, True)
    """
    settings = settings or LinkageSettings()
    a = as_matrix("first", first, least=_FEWEST)
    b = as_matrix("second", second, least=_FEWEST)
    check_same_people(first=a, second=b)
    check_varied("first", a)
    check_varied("second", b)
    rng = np.random.default_rng([settings.seed, 0x11A7])
    chosen = rng.permutation(len(a))[: settings.most_people]
    # Nobody's position in the list may help: the second site's people come in another order.
    onto = rng.permutation(len(chosen))
    a, b = a[chosen], b[chosen][onto]
    partners = np.argsort(onto)
    nobody = np.stack([rng.permutation(column) for column in b.T], axis=1)
    for amount in pairs:
        _check_pairs(amount, len(a))
    ceiling = _hits(_score_by_everyone(a, b, partners), partners).mean(axis=1)
    leaks: list[Leak] = []
    for amount in pairs:
        repeats = settings.repeats if amount else 1
        hits = [_attack(a, b, partners, amount, settings, r) for r in range(repeats)]
        control = _attack(a, nobody, partners, amount, settings, 0)
        leaks += _leaks(np.stack(hits), control, ceiling, amount)
    return tuple(leaks)


def _check_pairs(amount: int, people: int) -> None:
    if amount < 0 or amount == 1:
        raise SettingError(f"pairs must be 0, or 2 and more, got {amount}")
    if amount > people - _FEWEST:
        raise DataError(
            f"{amount} pairs leave too few of {people} people to be linked; at most "
            f"{people - _FEWEST} can be known"
        )


def _attack(
    a: np.ndarray,
    b: np.ndarray,
    partners: np.ndarray,
    amount: int,
    settings: LinkageSettings,
    turn: int,
) -> Float[np.ndarray, "figures people"]:
    """Return whether each person was linked, by each figure; NaN for those known before."""
    rng = np.random.default_rng([settings.seed, turn, 0x9A12])
    left = rng.permutation(len(a))[:amount]
    right = partners[left]
    if amount:
        # Blind starts beside it help here and harm there: what a matching claims to tell is no safe
        # judge between them.
        rough = learn_scores(a, b, left, right)
    else:
        short = min(settings.rounds, _SHORT)
        blind = initial_scores(a, b, seed=settings.seed)
        tried = [refine_scores(a, b, s, left, right, rounds=short) for s in blind]
        rough = max(tried, key=lambda trial: trial[1])[0]
    scores, _ = refine_scores(a, b, rough, left, right, rounds=settings.rounds)
    rest = np.setdiff1d(np.arange(len(a)), left)
    others = np.sort(partners[rest])  # in the second site's order
    hits = np.full((len(_FIGURES), len(a)), np.nan)
    hits[:, rest] = _hits(scores[np.ix_(rest, others)], np.searchsorted(others, partners[rest]))
    return hits


def _hits(scores: Float[np.ndarray, "n n"], partners: np.ndarray) -> Bool[np.ndarray, "figures n"]:
    count = len(scores)
    true = scores[np.arange(count), partners]
    ranks = (scores >= true[:, None]).sum(axis=1) - 1
    return np.stack([ranks == 0, assign_partners(scores) == partners, ranks < _top(count)])


def _top(count: int) -> int:
    return max(1, count // 100)


def _score_by_everyone(a: np.ndarray, b: np.ndarray, partners: np.ndarray) -> np.ndarray:
    most = max(2, min(len(a) // 20, 20))
    u, v = whiten(a, most).points, whiten(b, most).points
    return pair_scores(u, v, u.T @ v[partners] / len(u))[0]


def _leaks(
    hits: Float[np.ndarray, "repeats figures people"],
    control: Float[np.ndarray, "figures people"],
    ceiling: Float[np.ndarray, " figures"],
    amount: int,
) -> list[Leak]:
    people = hits.shape[2]
    count = people - amount
    knows = f"which two codes are one person's for {amount} people" if amount else "no pair"
    floors = (1 / count, 1 / count, _top(count) / count)
    leaks = []
    for k, figure in enumerate(_FIGURES):
        asked = ~np.isnan(hits[:, k])
        share = float(hits[:, k][asked].mean())
        _, drawn = bootstrap_people(_share(hits[:, k]), people)
        _, controls = bootstrap_people(_share(control[None, k]), people)
        leaks.append(
            share_leak(
                round(share * count),
                count,
                name=f"linkage, {amount} pairs",
                threat=_THREAT.format(knows=knows),
                figure=figure,
                scope="individual",
                floor=floors[k],
                control=float(np.nanmean(control[k])),
                ceiling=max(float(ceiling[k]), share),
                gain=percentile_interval(drawn - controls),
                sizes={"people": people, "linked": count, "pairs": amount, "repeats": len(hits)},
                details={"by_repeat": np.nanmean(hits[:, k], axis=1)},
            )
        )
    return leaks


def _share(
    hits: Float[np.ndarray, "repeats people"],
) -> Callable[[Float[np.ndarray, "draws people"]], Float[np.ndarray, " draws"]]:
    """Return the statistic: the share of the attempts to link somebody that succeeded."""
    linked = np.nansum(hits, axis=0)
    times = (~np.isnan(hits)).sum(axis=0).astype(np.float64)
    return lambda counts: (counts @ linked) / np.maximum(counts @ times, 1.0)
