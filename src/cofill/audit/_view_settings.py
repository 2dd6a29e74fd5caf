"""Which defences of codes are tried before any is sent, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cofill.audit._code_trial import TrialSettings
from cofill.cooperate import CodeDefence
from cofill.errors import SettingError

LEAST_PEOPLE = 100  # below which halves of halves tell nothing
_SMALLEST_PILOT, _LARGEST_PILOT = 20, 100
_LEAST_ATTACKED = 40


@dataclass(frozen=True)
class ViewAuditSettings:
    """Which defences are tried, and what is asked of them.

    Parameters
    ----------
    growth
        By which share the error of completed rows may grow.
    most_leak
        R² below which a leak counts as small enough.
    share
        Of the people, held out at a time.
    pilot
        People whose full codes are sent first where receivers say what they need; a fifth of those
        who are learned from, at most 100, when left out.
    widths, epsilons, bits, prices
        Strengths of each defence (see `cofill.cooperate.CodeDefence`): numbers in a code as a share
        of the columns, ε of noise, bits of a number, price of leak where a pilot says what is
        needed. An empty one leaves the defence out.
    most_people
        Of more people so many, drawn at random, are used.
    trial
        How systems are fitted and attacked.
    seed
        Start of all randomness.

    Examples
    --------
    >>> ViewAuditSettings(growth=0.1).most_leak
    0.2
    """

    growth: float | int = 0.25
    most_leak: float | int = 0.2
    share: float = 0.2
    pilot: int | None = None
    widths: tuple[float, ...] = (0.5, 0.3, 0.2, 0.1)
    epsilons: tuple[float | int, ...] = (1000.0, 300.0, 100.0, 30.0)
    bits: tuple[int, ...] = (3, 2, 1)
    prices: tuple[float | int, ...] = (0.1, 0.2, 0.3, 0.5, 1.0)
    most_people: int = 1000
    trial: TrialSettings = field(default_factory=TrialSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.growth < np.inf:
            raise SettingError(f"growth must be a finite number above 0, got {self.growth}")
        if not 0 < self.most_leak < 1:
            raise SettingError(f"most_leak must be between 0 and 1, got {self.most_leak}")
        if not 0.1 <= self.share <= 0.5:
            raise SettingError(f"share must be from 0.1 to 0.5, got {self.share}")
        if self.most_people < LEAST_PEOPLE:
            raise SettingError(
                f"most_people must be at least {LEAST_PEOPLE}, got {self.most_people}"
            )
        if not (self.widths or self.epsilons or self.bits or self.prices):
            raise SettingError("at least one strength of one defence must be given, got none")

    def pilot_of(self, learners: int) -> int:
        """Return the pilot's size where so many people are learned from; 0 without prices.

        Examples
        --------
        >>> ViewAuditSettings().pilot_of(455), ViewAuditSettings(prices=()).pilot_of(455)
        (91, 0)
        """
        if not self.prices:
            return 0
        if self.pilot is None:
            return int(np.clip(learners // 5, _SMALLEST_PILOT, _LARGEST_PILOT))
        most = learners - _LEAST_ATTACKED
        if not _SMALLEST_PILOT <= self.pilot <= most:
            raise SettingError(
                f"pilot must be from {_SMALLEST_PILOT} to {most} of the {learners} people who are "
                f"learned from, got {self.pilot}"
            )
        return self.pilot


@dataclass(frozen=True)
class Family:
    """A kind of defence: what its strength is, and the defences by their names and strengths."""

    name: str
    strength: str
    defences: Mapping[str, tuple[float | int, CodeDefence]]


def families_of(settings: ViewAuditSettings, pilot: int) -> list[Family]:
    families = [
        Family(
            "narrower codes",
            "numbers in a code, as a share of the row's columns",
            {f"codes of {100 * w:g} %": (w, CodeDefence(width=w)) for w in settings.widths},
        ),
        Family(
            "noise",
            "ε of a code at δ = 1e-05",
            {f"noise of ε = {e:g}": (e, CodeDefence(epsilon=e)) for e in settings.epsilons},
        ),
        Family(
            "few levels",
            "bits of each number of a code",
            {f"{b} bit{'s' * (b > 1)} a number": (b, CodeDefence(bits=b)) for b in settings.bits},
        ),
        Family(
            "only what is needed",
            "price of leak",
            {
                f"needs at a price of {p:g}": (p, CodeDefence(pilot=pilot, price=p))
                for p in settings.prices
            },
        ),
    ]
    return [family for family in families if family.defences]
