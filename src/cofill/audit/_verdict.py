"""The one scale by which an audit calls a leak none, small, considerable or near-total.

The scale compares what an attack reached with what the attacker would reach anyway. It looks at
how far the attack goes from there to everything, which is 1 for every figure of a leak (R², shares,
accuracies, rates, areas).
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from cofill.attack import Leak

Verdict: TypeAlias = Literal[
    "nothing about a person", "not attacked", "none seen", "small", "considerable", "near-total"
]

SCALE: tuple[Verdict, ...] = get_args(Verdict)
"""From the best to the worst; the first two are no results of an attack."""

# Conventions, and not measured: every report states them beside its verdicts (`SCALE_WORDS`).
_SMALL, _LARGE = 0.2, 0.8

SCALE_WORDS = (
    "An attack's advantage is the share of the way from what the attacker has anyway (the larger "
    "of floor and control) to everything (1) that the attack goes. None seen: the interval of the "
    "attack's figure does not lie above the floor, or its gain over the control may be zero; "
    "intervals are widened to hold for all attacks of the audit together (Bonferroni). "
    f"Small: an advantage below {_SMALL:g}. Considerable: from {_SMALL:g} to {_LARGE:g}. "
    f"Near-total: {_LARGE:g} and more. A release has the verdict of its worst attack. Not "
    "attacked: the reason is stated beside it. Nothing about a person: it was not made from "
    "anybody's record. That no attack was seen to succeed is no guarantee; a guarantee is an ε."
)
"""The scale in words, for every report."""


def advantage(leak: Leak) -> float:
    """Return how far an attack goes from what the attacker has anyway to everything.

    Examples
    --------
    >>> from cofill.attack import share_leak
    >>> leak = share_leak(75, 100, name="a", threat="b", figure="accuracy", scope="individual",
    ...                   floor=0.4, control=0.5)
    >>> advantage(leak)
    0.5
    """
    base = max(leak.floor, leak.floor if leak.control is None else leak.control)
    if base >= 1:
        return 0.0
    return min(max((leak.attack - base) / (1 - base), 0.0), 1.0)


def level_of(leak: Leak, attacks: int = 1) -> Verdict:
    """Return a leak's place on the scale, as one of so many attacks of an audit.

    Examples
    --------
    >>> from cofill.attack import share_leak
    >>> facts = {"name": "a", "threat": "b", "figure": "share", "scope": "individual"}
    >>> [level_of(share_leak(hits, 400, floor=0.01, **facts)) for hits in (4, 40, 200, 400)]
    ['none seen', 'small', 'considerable', 'near-total']
    """
    far = advantage(leak)
    if not leak.excludes_floor(attacks) or leak.beats_control(attacks) is False or far == 0:
        return "none seen"
    if far < _SMALL:
        return "small"
    return "considerable" if far < _LARGE else "near-total"


def verdict_of(leaks: Iterable[Leak], scope: str, attacks: int = 1) -> Verdict | None:
    """Return the worst place among the leaks of a scope, None where there is none to judge."""
    levels: list[Verdict] = [level_of(leak, attacks) for leak in leaks if leak.scope == scope]
    return worst_of(levels) if levels else None


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of some verdicts."""
    return SCALE[max(SCALE.index(verdict) for verdict in verdicts)]
