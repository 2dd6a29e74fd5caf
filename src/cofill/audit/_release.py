"""One audited release: what left, what an attacker gets, what was promised, what to change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cofill.attack import Leak, as_matrix, check_varied
from cofill.audit._bound import EpsilonBound
from cofill.audit._verdict import Verdict, advantage, level_of, verdict_of
from cofill.errors import SettingError
from cofill.metrics import plain
from cofill.privacy import Guarantee, Neighbours, Unit

_BY_KIND = {
    "codes": "Send narrower, noised or coarser codes, to fewer receivers and of fewer people, and "
    "do not call codes anonymous.",
    "blinded-ids": "Align by private set intersection (alignment=psi), so that a site cannot test "
    "ids that it guesses.",
    "mean": "Clip to public bounds and add noise for a stated ε (gaussian is the default), or "
    "release the mean of more people.",
    "noisy-mean": "Lower ε, or release the mean of more people.",
    "update": "Sum updates securely over several sites, and clip and noise them for a stated ε.",
    "model": "Train with differentially private steps for a stated ε, or for fewer epochs.",
    "masked-vector": "Put noise for a stated ε under the masks, because the sum is opened.",
    "column-summary": "Send rounded or public ranges in place of the smallest and largest value.",
    "group-sums": "Add noise for a stated ε to sums and counts, or send no group of few people.",
}
_ANY = "Add noise for a stated ε, or do not send it."


@dataclass(frozen=True, kw_only=True)
class Anonymity:
    """How large the groups of people are who look alike.

    Parameters
    ----------
    step
        Values are rounded to so many standard deviations of their column; 0 for values as released.
    people, groups, smallest
        How many people, how many different rounded rows, and the people in the smallest group: the
        release is k-anonymous for this k.
    k, share_below
        What is wanted, and the share of the people who are in a smaller group.
    """

    step: float
    people: int
    groups: int
    smallest: int
    k: int
    share_below: float


def anonymity(
    values: Any, *, k: int = 5, steps: Sequence[float | int] = (0.0, 0.5, 1.0, 2.0)
) -> tuple[Anonymity, ...]:
    """Count the people who share a row of released values.

    A code of real numbers is as good as a name: everybody has their own. Rounded more coarsely,
    people fall into groups.

    Parameters
    ----------
    values
        One row a person.
    k
        A group smaller than this is counted as too small.
    steps
        Roundings, in standard deviations of each column; 0 for the values as they are.

    Examples
    --------
    >>> found = anonymity([[0.0], [0.1], [5.0], [5.1]], k=2, steps=(0, 1))
    >>> [(one.groups, one.smallest, one.share_below) for one in found]
    [(4, 1, 1.0), (2, 2, 0.0)]
    """
    if k < 2:
        raise SettingError(f"k must be at least 2, got {k}")
    if any(step < 0 for step in steps):
        raise SettingError(f"steps must be 0 or more, got {tuple(steps)}")
    matrix = as_matrix("the release", values)
    check_varied("the release", matrix)
    deviation = matrix.std(axis=0)
    varied = matrix[:, deviation > 0] / deviation[deviation > 0]
    anonymities = []
    for step in steps:
        seen = varied if step == 0 else np.rint((varied - varied.min(axis=0)) / step)
        _, counts = np.unique(seen, axis=0, return_counts=True)
        anonymities.append(
            Anonymity(
                step=float(step),
                people=len(matrix),
                groups=len(counts),
                smallest=int(counts.min()),
                k=k,
                share_below=float(counts[counts < k].sum() / len(matrix)),
            )
        )
    return tuple(anonymities)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A guarantee as somebody states it, true or not.

    Parameters
    ----------
    epsilon, delta
        (ε, δ).
    neighbours, unit
        What is said to be hidden.
    by
        Who says so: the accountant, a paper, a site.

    Examples
    --------
    >>> print(Claim(epsilon=1.0, delta=1e-5, by="the accountant"))
    ε = 1 at δ = 1e-05 when one record is replaced, by the accountant
    """

    epsilon: float | int
    delta: float | int
    neighbours: Neighbours = "replace one"
    unit: Unit = "record"
    by: str = "the accountant"

    @classmethod
    def of(cls, promised: Guarantee) -> "Claim":
        """Return the accountant's guarantee as a claim."""
        names = ("epsilon", "delta", "neighbours", "unit")
        return cls(**{name: getattr(promised, name) for name in names})

    def __str__(self) -> str:
        change = "replaced" if self.neighbours == "replace one" else "added or removed"
        return (
            f"ε = {self.epsilon:.3g} at δ = {self.delta:.3g} when one {self.unit} is {change}, "
            f"by {self.by}"
        )


@dataclass(frozen=True, kw_only=True)
class AuditedRelease:
    """A release and what attacks made of it.

    Parameters
    ----------
    kind, what
        Type of the release, as the ledger calls it, and what it is in a few words.
    sender, receiver
        From whom to whom; several receivers are written with commas.
    individuals, bytes
        How many people it tells of, and its size, 0 where that is not known.
    leaks, proof, claim
        What attacks got, the ε that an attack proves, and what was promised.
    anonymity
        How many people look alike in it.
    reason
        Why there was no attack, in one sentence; needed where there are no leaks and no proof.
    personal
        Whether it was made from people's records.
    advice
        What to change, where more is known than the rule for its kind and verdict says.
    notes
        What a reader must know.
    attacks
        How many attacks the audit has made in all, of which one may seem to succeed by chance; 0
        for those on this release alone.

    Examples
    --------
    >>> keys = AuditedRelease(kind="public-keys", sender="lab", receiver="clinic", what="two keys",
    ...                       personal=False, reason="drawn at random, made from nobody's record")
    >>> keys.individual, keys.change
    ('nothing about a person', 'Nothing.')
    """

    kind: str
    sender: str
    receiver: str
    what: str
    individuals: int = 0
    bytes: int = 0
    leaks: tuple[Leak, ...] = ()
    claim: Claim | None = None
    proof: EpsilonBound | None = None
    anonymity: tuple[Anonymity, ...] = ()
    reason: str = ""
    personal: bool = True
    advice: str = ""
    notes: tuple[str, ...] = ()
    attacks: int = 0

    def __post_init__(self) -> None:
        if not (self.leaks or self.proof is not None or self.reason):
            raise SettingError(
                f"{self.kind} from {self.sender!r} must have been attacked or have a reason why "
                "not, got neither"
            )

    @property
    def individual(self) -> Verdict:
        """How much the release itself tells of a person."""
        return self._verdict("individual")

    @property
    def population(self) -> Verdict:
        """How much it tells of anybody, there or not, because it tells what people are like."""
        return self._verdict("population")

    def _verdict(self, scope: str) -> Verdict:
        unattacked = "not attacked" if self.personal else "nothing about a person"
        return verdict_of(self.leaks, scope, self.attacks or len(self.leaks)) or unattacked

    def level_of(self, leak: Leak) -> Verdict:
        """Return the place of one of its leaks on the scale."""
        return level_of(leak, self.attacks or len(self.leaks))

    @property
    def refuted(self) -> bool:
        """Whether an attack proves a larger ε than was claimed, at the δ of both."""
        return (
            self.claim is not None
            and self.proof is not None
            and self.proof.delta <= self.claim.delta
            and self.proof.refutes(self.claim.epsilon)
        )

    @property
    def change(self) -> str:
        """What to change, in one sentence."""
        return self.advice or advice_on(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON's types."""
        facts = {
            name: plain(getattr(self, name), name)
            for name in self.__dataclass_fields__
            if name not in ("leaks", "advice")
        }
        return {
            **facts,
            "verdict": {"individual": self.individual, "population": self.population},
            "refuted": self.refuted,
            "change": self.change,
            "leaks": [
                {**leak.to_dict(), "verdict": self.level_of(leak), "advantage": advantage(leak)}
                for leak in self.leaks
            ],
        }


def advice_on(release: AuditedRelease) -> str:
    """Return what to change about a release.

    Examples
    --------
    >>> from cofill.attack import share_leak
    >>> leak = share_leak(90, 100, name="inversion", threat="a site", figure="share found",
    ...                   scope="individual", floor=0.01)
    >>> advice_on(AuditedRelease(kind="update", sender="a", receiver="b", what="", leaks=(leak,)))
    'Sum updates securely over several sites, and clip and noise them for a stated ε.'
    """
    if release.refuted and release.claim is not None and release.proof is not None:
        return (
            f"Do not state ε = {release.claim.epsilon:g}: an attack proves at least "
            f"{release.proof.epsilon:.2g}; calibrate the noise to the whole record."
        )
    verdict = release.individual
    if verdict in ("considerable", "near-total"):
        return _BY_KIND.get(release.kind, _ANY)
    if verdict == "small":
        words = _BY_KIND.get(release.kind, _ANY)
        return f"If even a small leak is too much: {words[0].lower()}{words[1:]}"
    if release.population in ("considerable", "near-total"):
        return (
            "Nothing for the people in it; that it teaches what people are like is its use, and no "
            "noise that keeps the use takes that back."
        )
    if verdict == "not attacked" and release.claim is None:
        return "Nothing was shown by an attack; read the reason and decide whether it must be sent."
    if verdict == "none seen":
        return "Nothing, against the attackers tried here."
    return "Nothing."
