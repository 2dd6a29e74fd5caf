"""One audited release: what left, what an attacker gets, what was promised, what to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cofill.attack import Leak
from cofill.audit._anonymity import Anonymity
from cofill.audit._bound import EpsilonBound
from cofill.audit._verdict import Verdict, advantage, is_judged, level_of, verdict_of
from cofill.errors import SettingError
from cofill.metrics import plain
from cofill.privacy import Guarantee, Neighbours, Unit

__all__ = ["AuditedRelease", "Claim"]


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
    def of(cls, promised: Guarantee, by: str = "the accountant") -> Claim:
        """Return a guarantee as a claim."""
        return cls(
            epsilon=promised.epsilon,
            delta=promised.delta,
            neighbours=promised.neighbours,
            unit=promised.unit,
            by=by,
        )

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
    kind
        Type of the release, as the ledger calls it.
    sender, receiver
        From whom to whom; several receivers are written with commas.
    what
        What it is, in a few words.
    individuals, bytes
        How many people it tells of, and its size, 0 where that is not known.
    leaks
        What attacks got.
    claim
        What was promised; None where nothing was.
    proof
        The ε that an attack proves.
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
        return verdict_of(self.leaks, scope) or unattacked

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
    def worst(self) -> Leak | None:
        """The leak about individuals behind the verdict, the largest of its place on the scale."""
        judged = [leak for leak in self.leaks if leak.scope == "individual" and is_judged(leak)]
        if not judged:
            return None
        worst_leaks = [leak for leak in judged if level_of(leak) == self.individual]
        return max(worst_leaks, key=advantage)

    @property
    def change(self) -> str:
        """What to change, in one sentence."""
        from cofill.audit._advice import advice_on

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
                {**leak.to_dict(), "verdict": level_of(leak) if is_judged(leak) else None}
                for leak in self.leaks
            ],
        }


def receivers_of(names: Sequence[str]) -> str:
    """Return receivers between commas, each once.

    Examples
    --------
    >>> receivers_of(["lab", "ward", "lab"])
    'lab, ward'
    """
    return ", ".join(dict.fromkeys(names))
