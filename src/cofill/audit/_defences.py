"""What defences of codes would cost, before any code is sent.

Parties that plan to complete their views by codes try every defence at several strengths on their
own people. Half of the people choose the defence, the other half give the figures that are
reported, so that no figure is of people it was chosen by. The codes of people who are learned from
are attacked, the rows of people who are held out are completed; where people are few, several parts
of them are held out in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cofill.attack._intervals import bootstrap, ends_of
from cofill.attack._people import check_varied
from cofill.audit._anonymity import anonymity
from cofill.audit._audit import Audit, Curve
from cofill.audit._code_trial import (
    Attacked,
    Told,
    TradeOff,
    TrialSettings,
    attack_codes,
    codes_sent,
    completed_rows,
    error_of,
    fit_defended,
    together,
    trade_off,
    widest,
)
from cofill.audit._held_out import HeldOut, hold_out
from cofill.audit._least_leak import least_leak
from cofill.audit._release import AuditedRelease
from cofill.completion._completer import silent
from cofill.cooperate import CodeDefence
from cofill.errors import DataError, SettingError
from cofill.views import Kind, MultiView

__all__ = ["ViewAuditSettings", "audit_views"]

_LEAST = 100  # people, below which halves of halves tell nothing
_SMALLEST_PILOT, _LARGEST_PILOT = 20, 100
_LEAST_ATTACKED = 40
_ENOUGH = 200  # people held out, below which further parts of the people are held out in turn
_NONE = "no defence"
_LEAK = "R² of the row behind a code, mean over views"
_GROWTH = "growth of the error of completed rows, %"


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
        if self.most_people < _LEAST:
            raise SettingError(f"most_people must be at least {_LEAST}, got {self.most_people}")
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
class _Family:
    """A kind of defence: what its strength is, and the defences by their names and strengths."""

    name: str
    strength: str
    defences: Mapping[str, tuple[float | int, CodeDefence]]


def _families(settings: ViewAuditSettings, pilot: int) -> list[_Family]:
    made = [
        _Family(
            "narrower codes",
            "numbers in a code, as a share of the row's columns",
            {f"codes of {100 * w:g} %": (w, CodeDefence(width=w)) for w in settings.widths},
        ),
        _Family(
            "noise",
            "ε of a code at δ = 1e-05",
            {f"noise of ε = {e:g}": (e, CodeDefence(epsilon=e)) for e in settings.epsilons},
        ),
        _Family(
            "few levels",
            "bits of each number of a code",
            {f"{b} bit{'s' * (b > 1)} a number": (b, CodeDefence(bits=b)) for b in settings.bits},
        ),
        _Family(
            "only what is needed",
            "price of leak",
            {
                f"needs at a price of {p:g}": (p, CodeDefence(pilot=pilot, price=p))
                for p in settings.prices
            },
        ),
    ]
    return [family for family in made if family.defences]


@dataclass(frozen=True, eq=False)
class _Found:
    """What one defence came to in one half of the people.

    Leaks are over everybody whose code is sent: a pilot's people count as without a defence.
    """

    leak: float
    ends: tuple[float, float]
    worst: float
    worst_view: str
    outside: float
    growth: float
    growth_ends: tuple[float, float]

    @property
    def point(self) -> tuple[float, float]:
        return self.leak, self.growth

    @property
    def words(self) -> str:
        """The figures in words."""
        growth, low, high = (round(100 * g) for g in (self.growth, *self.growth_ends))
        return (
            f"codes give away R² {self.leak:.2f} of a row ({self.worst:.2f} in the worst view, "
            f"{self.worst_view!r}) and the error of completed rows grows by "
            f"{growth} % (95 % interval {low} to {high} %)"
        )


def audit_views(
    views: MultiView,
    *,
    settings: ViewAuditSettings | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Audit:
    """Say what codes of views would give away, and what each defence would cost.

    Parameters
    ----------
    views
        Views of the same people; those whom every view knows without an empty cell are used.
    settings
        Defences, strengths and what is asked of them.
    progress
        Told what is done and the share done.

    Returns
    -------
    Audit
        A release for each view's codes without a defence, a curve for each kind of defence, and in
        ``choice`` the defence with the least leak that costs no more than allowed.

    Raises
    ------
    DataError
        If there are fewer than two views, too few people whom all of them know, or nothing to
        measure an error by.

    Examples
    --------
    >>> from cofill.attack import DecoderSettings
    >>> from cofill.nets import FusionSettings, TrainSettings
    >>> linear = DecoderSettings(folds=2, repeats=1, fusion=FusionSettings(hidden=()))
    >>> trial = TrialSettings(encoders=TrainSettings(epochs=20), attack=linear)
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(120, 2))
    >>> views = MultiView.from_arrays({
    ...     v: np.hstack([common, rng.normal(size=(120, 2))]) for v in ("lab", "ward")})
    >>> quick = ViewAuditSettings(widths=(0.5,), epsilons=(), bits=(), prices=(), trial=trial)
    >>> audit = audit_views(views, settings=quick)
    >>> [release.sender for release in audit.releases], [curve.name for curve in audit.curves]
    (['lab', 'ward'], ['narrower codes'])
    """
    settings = settings or ViewAuditSettings()
    tell = progress or silent
    started = time.perf_counter()
    whole, notes = _whole(views, settings)
    turns, chooses = _split(whole, settings)
    held = turns[0]
    pilot = settings.pilot_of(held.train.n_individuals)
    families = _families(settings, pilot)
    defences = {n: d for family in families for n, (_, d) in family.defences.items()}
    trial = _Trial(turns, chooses, pilot, settings)
    halves = trial.run({_NONE: CodeDefence(), **defences}, lambda s: tell("trying defences", s))
    choice, change, conclusion = _chosen(*halves, defences, settings)
    choosers, others = (part.size for part in trial.asked)
    told = (
        f"Half of the people chose the defence (of them {choosers} were held out, and completed); "
        f"all figures here are of the other half (of them {others} were held out).",
    )
    limit = least_leak(held.train, float(settings.growth)).get("all")
    return Audit(
        title="Codes of views, before they are sent",
        releases=tuple(trial.releases(change, told)),
        curves=tuple(_curve(family, halves[1], settings, told) for family in families),
        settings={
            "audit": "views",
            **{k: v for k, v in vars(settings).items() if k != "trial"},
            "pilot": pilot,
            "people": whole.n_individuals,
            "held_out": choosers + others,
            "turns": len(turns),
        },
        choice={**choice, "least_leak": limit},
        notes=(conclusion, *_limit(limit, settings), *notes),
        duration_s=time.perf_counter() - started,
    )


# --- people ---------------------------------------------------------------------------------------


def _whole(views: MultiView, settings: ViewAuditSettings) -> tuple[MultiView, list[str]]:
    """Return the people of whom everything is known, and notes about the others."""
    if len(views) < 2:
        raise DataError(f"there must be at least 2 views, got {len(views)}; codes need a receiver")
    known = np.asarray(views.presence.all(axis=1))
    for name in views:
        known &= ~np.isnan(views.aligned(name)).any(axis=1)
    count = int(known.sum())
    if count < _LEAST:
        raise DataError(
            f"at least {_LEAST} people must be known to all {len(views)} views without an empty "
            f"cell, got {count} of {views.n_individuals}"
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


def _split(views: MultiView, settings: ViewAuditSettings) -> tuple[list[HeldOut], dict[Any, bool]]:
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


class _Trial:
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
        self.plain: dict[str, tuple[Told, list[Attacked]]] = {}

    def run(
        self, defences: Mapping[str, CodeDefence], tell: Callable[[float], None]
    ) -> tuple[dict[str, _Found], dict[str, _Found]]:
        """Return what every defence came to, by the half that chooses and by the other."""
        parts = len(self.turns) + 1
        made = []
        codes: dict[str, dict[str, Told]] = {}
        for turn, held in enumerate(self.turns):
            systems = fit_defended(
                held, defences, self.settings.trial, lambda s, at=turn: tell((at + s) / parts)
            )
            made.append({name: completed_rows(system, held) for name, system in systems.items()})
            codes = codes or {name: codes_sent(system) for name, system in systems.items()}
        widths = widest(list(codes.values()))
        leaks: dict[str, dict[str, list[Attacked]]] = {}
        for k, (name, by_view) in enumerate(codes.items()):
            tell((len(self.turns) + k / len(codes)) / parts)
            leaks[name] = {v: self._attack(told, widths[v]) for v, told in by_view.items()}
        self.plain = {v: (codes[_NONE][v], found) for v, found in leaks[_NONE].items()}
        done = {name: together([one[name] for one in made]) for name in defences}
        tell(1.0)
        first, second = (
            {
                name: self._found(leaks[name], done[name], done[_NONE], defence, half)
                for name, defence in defences.items()
            }
            for half in (0, 1)
        )
        return first, second

    def halves(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of people who choose, and of the others."""
        chooses = np.array([self.chooses[one] for one in ids.tolist()])
        return np.flatnonzero(chooses), np.flatnonzero(~chooses)

    def _attack(self, told: Told, width: int) -> list[Attacked]:
        settings = replace(self.settings.trial.attack, seed=self.settings.seed)
        parts = self.halves(told.ids[self.pilot :])
        return attack_codes(told, settings, skip=self.pilot, width=width, parts=parts)

    def _found(
        self,
        leaks: Mapping[str, list[Attacked]],
        done: Mapping[str, tuple[np.ndarray, np.ndarray]],
        plain: Mapping[str, tuple[np.ndarray, np.ndarray]],
        defence: CodeDefence,
        half: int,
    ) -> _Found:
        """Return a defence's figures in one half."""
        share = defence.pilot / self.turns[0].train.n_individuals
        own = {v: found[half] for v, found in leaks.items()}
        bare = {v: found[half] for v, (_, found) in self.plain.items()}
        by_view = {v: share * bare[v].r2 + (1 - share) * own[v].r2 for v in own}
        ends = [
            float(np.mean([share * bare[v].ends[e] + (1 - share) * own[v].ends[e] for v in own]))
            for e in (0, 1)
        ]
        worst = max(by_view, key=lambda v: by_view[v])
        people = self.asked[half]
        return _Found(
            leak=float(np.mean(list(by_view.values()))),
            ends=(ends[0], ends[1]),
            worst=by_view[worst],
            worst_view=worst,
            outside=float(np.mean([one.r2 for one in own.values()])),
            growth=error_of(done, people) / error_of(plain, people) - 1,
            growth_ends=_growth_ends(done, plain, people, self.settings.seed),
        )

    def releases(self, change: str, notes: tuple[str, ...]) -> list[AuditedRelease]:
        """Return every view's codes as they would be sent without a defence."""
        names = list(self.plain)
        return [
            AuditedRelease(
                kind="codes",
                sender=view,
                receiver=", ".join(other for other in names if other != view),
                what=f"codes of {told.codes.shape[1]} numbers each, without a defence",
                individuals=len(told.codes),
                bytes=4 * told.codes.size,
                leaks=found[1].leaks,
                anonymity=anonymity(told.codes),
                notes=notes,
                advice=change,
            )
            for view, (told, found) in self.plain.items()
        ]


def _growth_ends(
    done: Mapping[str, tuple[np.ndarray, np.ndarray]],
    plain: Mapping[str, tuple[np.ndarray, np.ndarray]],
    people: np.ndarray,
    seed: int,
) -> tuple[float, float]:
    """Return the interval of the growth of the error, people being drawn again."""

    def by_person(rows: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        each = [((true - made)[people] ** 2).mean(axis=1) for true, made in rows.values()]
        return np.mean(each, axis=0)

    with_it, without = by_person(done), by_person(plain)

    def growth(counts: np.ndarray) -> np.ndarray:
        return (counts @ with_it) / np.maximum(counts @ without, 1e-300) - 1

    return ends_of(bootstrap(growth, len(people), seed=seed)[1])


# --- choice ---------------------------------------------------------------------------------------


def _chosen(
    first: Mapping[str, _Found],
    second: Mapping[str, _Found],
    defences: Mapping[str, CodeDefence],
    settings: ViewAuditSettings,
) -> tuple[dict[str, Any], str, str]:
    """Choose by the first half what is advised; tell what it comes to in the second."""
    cheap = [n for n, found in first.items() if found.growth <= settings.growth]
    advised = min(cheap, key=lambda n: first[n].leak)
    weighed = trade_off({n: f.point for n, f in first.items()}, settings.most_leak, settings.growth)
    there = second[weighed.best]
    reached = there.leak < settings.most_leak and there.growth < settings.growth
    choice = {
        "advised": advised,
        "defence": _changed(defences.get(advised, CodeDefence())),
        **_figures(second[advised]),
        "reached": reached,
        "best": {
            "name": weighed.best,
            "defence": _changed(defences.get(weighed.best, CodeDefence())),
            **_figures(there),
        },
        "frontier": list(weighed.frontier),
    }
    change = _advice(advised, second, defences, settings)
    return choice, change, _conclusion(weighed, reached, first, second, settings)


def _figures(found: _Found) -> dict[str, Any]:
    return {
        "leak": found.leak,
        "worst_leak": found.worst,
        "leak_outside_pilot": found.outside,
        "growth": found.growth,
        "growth_interval": list(found.growth_ends),
    }


def _changed(defence: CodeDefence) -> dict[str, Any]:
    """Return the settings of a defence that are not the usual ones."""
    usual = asdict(CodeDefence())
    return {name: value for name, value in asdict(defence).items() if value != usual[name]}


def _advice(
    advised: str,
    second: Mapping[str, _Found],
    defences: Mapping[str, CodeDefence],
    settings: ViewAuditSettings,
) -> str:
    allowed = f"{100 * settings.growth:g} %"
    if advised == _NONE:
        return (
            f"No defence tried here leaks less at a growth of the error of at most {allowed}: "
            "send codes to fewer receivers and of fewer people, or accept a larger error."
        )
    given = ", ".join(f"{k}={v!r}" for k, v in _changed(defences[advised]).items())
    found = second[advised]
    pilot = defences[advised].pilot
    exposed = f", the {pilot} people of the pilot counted as without a defence" if pilot else ""
    beyond = (
        f"; that is above the {allowed} that was allowed, which it kept among those who chose it"
        if found.growth > settings.growth
        else ""
    )
    return (
        f"Of the defences tried, CodeDefence({given}) leaks least at a growth of the error of at "
        f"most {allowed}: {found.words}{exposed}, where without a defence it is R² "
        f"{second[_NONE].leak:.2f}{beyond}."
    )


def _conclusion(
    weighed: TradeOff,
    reached: bool,
    first: Mapping[str, _Found],
    second: Mapping[str, _Found],
    settings: ViewAuditSettings,
) -> str:
    goal = (
        f"A leak below R² {settings.most_leak:g} at a growth of the error below "
        f"{100 * settings.growth:g} %"
    )
    best = f"{weighed.best}: {second[weighed.best].words}"
    if reached:
        return f"{goal} can be had, by {best}."
    if weighed.reached:
        return f"{goal} was seen only among the people who chose the defence, by {best}."
    return (
        f"{goal} was not reached by any of the {len(first) - 1} settings tried. The best trade-off "
        f"is {best}."
    )


def _limit(limit: float | None, settings: ViewAuditSettings) -> list[str]:
    """Say that no codes can do better, where the people are enough to say so."""
    if limit is None or limit < settings.most_leak:
        return []
    return [
        "Whatever the codes are: where regressions are linear, a receiver who puts all codes that "
        f"it gets together explains at least R² {limit:.2f} of the rows behind them at a growth of "
        f"{100 * settings.growth:g} %. Against such a receiver the goal is out of reach."
    ]


# --- curves ---------------------------------------------------------------------------------------


def _curve(
    family: _Family,
    found: Mapping[str, _Found],
    settings: ViewAuditSettings,
    notes: tuple[str, ...],
) -> Curve:
    points = [found[name] for name in family.defences]
    if any(defence.pilot for _, defence in family.defences.values()):
        notes = (
            *notes,
            f"where a pilot says what is needed, its people count as without a defence; without "
            f"them the leaks are {', '.join(f'{one.outside:.2f}' for one in points)}",
        )
    plain = found[_NONE]
    return Curve(
        name=family.name,
        strength=family.strength,
        x=tuple(x for x, _ in family.defences.values()),
        leak=tuple(one.leak for one in points),
        leak_name=_LEAK,
        utility=tuple(100 * one.growth for one in points),
        utility_name=_GROWTH,
        low=tuple(one.ends[0] for one in points),
        high=tuple(one.ends[1] for one in points),
        worst=tuple(one.worst for one in points),
        floor=0.0,
        without=(plain.leak, 100 * plain.growth),
        goal=(settings.most_leak, 100 * settings.growth),
        labels=tuple(family.defences),
        notes=notes,
    )
