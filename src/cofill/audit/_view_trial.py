"""Defences of codes tried on people in halves: one half chooses, the other is reported on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cofill.attack import bootstrap_people, check_varied, percentile_interval
from cofill.audit._code_trial import (
    AttackedCodes,
    CompletedRows,
    HeldOut,
    TrialSettings,
    attack_codes,
    code_widths,
    complete_held_out,
    completion_error,
    fit_defended,
    hold_out,
    inferred_share,
    join_turns,
    sent_codes,
)
from cofill.audit._codes import CodeRelease
from cofill.audit._release import AuditedRelease, anonymity
from cofill.cooperate import CodeDefence
from cofill.errors import DataError, SettingError
from cofill.nets import require_above_zero, require_at_least, require_in
from cofill.views import Kind, MultiView

NO_DEFENCE = "no defence"
_ENOUGH = 200  # people held out, below which further parts of the people are held out in turn
_LEAST_PEOPLE = 100  # below which halves of halves tell nothing
# People: of fewer, receivers cannot say what they need; of more, too many codes leave in full.
_SMALLEST_PILOT, _LARGEST_PILOT = 20, 100
_LEAST_ATTACKED = 40  # beside the pilot, for an attacker to learn from some and guess others


# --- settings -------------------------------------------------------------------------------------


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
        require_above_zero(self, "growth")
        require_in(self, "(0, 1)", "most_leak")
        require_in(self, "[0.1, 0.5]", "share")
        require_at_least(self, most_people=_LEAST_PEOPLE)
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


# --- people ---------------------------------------------------------------------------------------


def keep_whole_people(views: MultiView, settings: ViewAuditSettings) -> tuple[MultiView, list[str]]:
    """Return the people of whom everything is known, and notes about the others."""
    if len(views) < 2:
        raise DataError(f"there must be at least 2 views, got {len(views)}; codes need a receiver")
    known = np.asarray(views.presence.all(axis=1))
    for name in views:
        known &= ~np.isnan(views.aligned(name)).any(axis=1)
    count = int(known.sum())
    if count < _LEAST_PEOPLE:
        raise DataError(
            f"at least {_LEAST_PEOPLE} people must be known to all {len(views)} views without an "
            f"empty cell, got {count} of {views.n_individuals}"
        )
    notes = []
    if count < len(known):
        notes.append(
            f"{len(known) - count} of {len(known)} people are not known to every view, or have "
            "empty cells: they had no part in this"
        )
    at = np.flatnonzero(known)
    if count > settings.most_people:
        rng = np.random.default_rng([settings.seed, 0xDEF])
        at = np.sort(rng.choice(at, settings.most_people, replace=False))
        notes.append(f"{settings.most_people} of {count} people, drawn at random, were used")
    if any(f.kind is not Kind.NUMERIC for view in views.values() for f in view.features):
        notes.append("errors are those of numeric columns; the leak is of all columns")
    return views.take(np.isin(np.arange(len(known)), at)), notes


def split_people(
    views: MultiView, settings: ViewAuditSettings
) -> tuple[list[HeldOut], dict[Any, bool]]:
    """Hold people out, in several turns where they are few, and say of everybody who chooses."""
    people = views.n_individuals
    order = np.random.default_rng([settings.seed, 0xDEFE]).permutation(people)
    size = round(settings.share * people)
    turns = min(people // size, max(1, -(-_ENOUGH // size)))
    held = []
    for turn in range(turns):
        test = np.zeros(people, dtype=bool)
        test[order[turn * size : (turn + 1) * size]] = True
        held.append(hold_out(views, test, settings.seed))
    _require_numbers(views, held[0])
    chooses = np.zeros(people, dtype=bool)
    chooses[order[::2]] = True
    return held, dict(zip(views.ids.tolist(), chooses.tolist(), strict=True))


def _require_numbers(views: MultiView, held: HeldOut) -> None:
    """Raise a `DataError` where the error of completed rows cannot be measured."""
    for name in views:
        numeric, scaler = held.scalers[name]
        if scaler is None:
            raise DataError(
                f"view {name!r} must have a numeric column, by which the error of completed rows "
                "is measured, got none"
            )
        check_varied(f"the rows of view {name!r}", held.train[name].cells[:, numeric])


# --- trial ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DefenceFigures:
    """What one defence came to in one half of the people.

    Leaks are over everybody whose code is sent: a pilot's people count as without a defence. What
    is inferred is the share of a row that the codes of the other views tell.
    """

    leak: float
    interval: tuple[float, float]
    worst_leak: float
    worst_view: str
    leak_outside_pilot: float
    growth: float
    growth_interval: tuple[float, float]
    inferred: float

    @property
    def point(self) -> tuple[float, float]:
        return self.leak, self.growth

    @property
    def words(self) -> str:
        """The figures in words."""
        growth, low, high = (round(100 * g) for g in (self.growth, *self.growth_interval))
        return (
            f"codes give away R² {self.leak:.2f} of a row ({self.worst_leak:.2f} in the worst "
            f"view, {self.worst_view!r}) and the error of completed rows grows by "
            f"{growth} % (95 % interval {low} to {high} %)"
        )


class Trial:
    """Tries defences on people in halves, and keeps what codes without one gave away."""

    def __init__(
        self,
        turns: Sequence[HeldOut],
        chooses: Mapping[Any, bool],
        pilot: int,
        settings: ViewAuditSettings,
    ) -> None:
        self.turns, self.chooses, self.pilot, self.settings = turns, chooses, pilot, settings
        self.asked = self.halves(np.concatenate([next(iter(h.tests.values())).ids for h in turns]))
        self.plain: dict[str, tuple[CodeRelease, list[AttackedCodes]]] = {}

    def run(
        self, defences: Mapping[str, CodeDefence], report_progress: Callable[[float], None]
    ) -> tuple[dict[str, DefenceFigures], dict[str, DefenceFigures]]:
        """Return what every defence came to, by the half that chooses and by the other."""
        parts = len(self.turns) + 1
        completed = []
        codes: dict[str, dict[str, CodeRelease]] = {}
        for turn, held in enumerate(self.turns):
            report_turn = lambda s, at=turn: report_progress((at + s) / parts)  # noqa: E731
            systems = fit_defended(held, defences, self.settings.trial, report_turn)
            completed.append({name: complete_held_out(s, held) for name, s in systems.items()})
            codes = codes or {name: sent_codes(system) for name, system in systems.items()}
        widths = code_widths(list(codes.values()))
        leaks: dict[str, dict[str, list[AttackedCodes]]] = {}
        for k, (name, by_view) in enumerate(codes.items()):
            report_progress((len(self.turns) + k / len(codes)) / parts)
            leaks[name] = {v: self._attack(release, widths[v]) for v, release in by_view.items()}
        self.plain = {
            v: (codes[NO_DEFENCE][v], attacked) for v, attacked in leaks[NO_DEFENCE].items()
        }
        done = {name: join_turns([item[name] for item in completed]) for name in defences}
        report_progress(1.0)
        first, second = (
            {
                name: self._figures(leaks[name], done[name], done[NO_DEFENCE], defence, half)
                for name, defence in defences.items()
            }
            for half in (0, 1)
        )
        return first, second

    def halves(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of people who choose, and of the others."""
        chooses = np.array([self.chooses[item] for item in ids.tolist()])
        return np.flatnonzero(chooses), np.flatnonzero(~chooses)

    def _attack(self, release: CodeRelease, width: int) -> list[AttackedCodes]:
        settings = replace(self.settings.trial.attack, seed=self.settings.seed)
        parts = self.halves(release.ids[self.pilot :])
        return attack_codes(release, settings, skip=self.pilot, width=width, parts=parts)

    def _figures(
        self,
        leaks: Mapping[str, list[AttackedCodes]],
        done: CompletedRows,
        plain: CompletedRows,
        defence: CodeDefence,
        half: int,
    ) -> DefenceFigures:
        """Return a defence's figures in one half."""
        share = defence.pilot / self.turns[0].train.n_individuals
        defended = {v: attacked[half] for v, attacked in leaks.items()}
        bare = {v: attacked[half] for v, (_, attacked) in self.plain.items()}
        by_view = {v: share * bare[v].r2 + (1 - share) * defended[v].r2 for v in defended}
        by_end = [
            [share * bare[v].ends[e] + (1 - share) * defended[v].ends[e] for v in defended]
            for e in (0, 1)
        ]
        worst = max(by_view, key=lambda v: by_view[v])
        people = self.asked[half]
        return DefenceFigures(
            leak=float(np.mean(list(by_view.values()))),
            interval=(float(np.mean(by_end[0])), float(np.mean(by_end[1]))),
            worst_leak=by_view[worst],
            worst_view=worst,
            leak_outside_pilot=float(np.mean([item.r2 for item in defended.values()])),
            growth=completion_error(done, people) / completion_error(plain, people) - 1,
            growth_interval=_growth_ends(done, plain, people, self.settings.seed),
            inferred=inferred_share(done, people),
        )

    def releases(self, change: str, notes: tuple[str, ...]) -> list[AuditedRelease]:
        """Return every view's codes as they would be sent without a defence."""
        names = list(self.plain)
        return [
            AuditedRelease(
                kind="codes",
                sender=view,
                receiver=", ".join(other for other in names if other != view),
                what=f"codes of {release.codes.shape[1]} numbers each, without a defence",
                individuals=len(release.codes),
                bytes=4 * release.codes.size,
                leaks=attacked[1].leaks,
                anonymity=anonymity(release.codes),
                notes=notes,
                advice=change,
            )
            for view, (release, attacked) in self.plain.items()
        ]


def _growth_ends(
    done: CompletedRows, plain: CompletedRows, people: np.ndarray, seed: int
) -> tuple[float, float]:
    """Return the interval of the growth of the error, people being drawn again."""

    def by_person(rows: CompletedRows) -> np.ndarray:
        each = [((true - completed)[people] ** 2).mean(axis=1) for true, completed in rows.values()]
        return np.mean(each, axis=0)

    with_it, without = by_person(done), by_person(plain)

    def growth(counts: np.ndarray) -> np.ndarray:
        return (counts @ with_it) / np.maximum(counts @ without, 1e-300) - 1

    return percentile_interval(bootstrap_people(growth, len(people), seed=seed)[1])
