"""Defences of codes on trial: fit systems, attack the codes they sent, judge what they complete.

The *leak* of a defence is what `cofill.attack.invert_codes` makes of the codes that were sent when
the system learned: the mean R² over the features of the row behind a code, for an attacker with 10,
100 or everybody else's pairs, whichever is most. Its *cost* is the growth of the error of completed
rows of other people, in standardised units, over that without a defence.

What completes a row also gives it away. Whoever has a person's codes from all views but one, as
every receiver has whose own view is another (its own code it can make), and as many pairs as the
system learned from, needs no code of that one view: it completes the row as the system does. The
share of the rows' variance that is *inferred* so is what the completion explains, and a defence
that keeps the error small cannot keep it small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool

from cofill.attack import DecoderSettings, Leak, invert_codes
from cofill.audit._codes import CodeRelease
from cofill.cooperate import (
    CodeDefence,
    CooperativeReconstruction,
    CooperativeSite,
    encode_rows,
    fit_many,
)
from cofill.metrics import mse
from cofill.nets import FusionSettings, TrainSettings
from cofill.privacy import rows_of
from cofill.protocol import run_protocol
from cofill.views import Kind, MultiView, Scaler

CompletedRows = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Per view, true and completed rows of the same people, in standardised units."""

_FEW = (10, 100)  # pairs of weaker attackers


def _decoders() -> DecoderSettings:
    fusion = FusionSettings(
        members=1, fold_members=1, folds=2, steps=200, weight_decays=(0.1,), hidden=(64,)
    )
    return DecoderSettings(folds=2, repeats=1, most_people=400, draws=100, fusion=fusion)


@dataclass(frozen=True)
class TrialSettings:
    """How systems are fitted and attacked.

    Parameters
    ----------
    encoders
        Training of the autoencoders that make codes.
    links
        What makes rows of codes: ridge regressions, because a grid of defences with networks would
        take hours.
    attack
        How the strongest attacker learns; those with few pairs use ridge regression alone.
    """

    encoders: TrainSettings = field(
        default_factory=lambda: TrainSettings(
            epochs=40, learning_rate=3e-3, schedule="cosine", batch_size=32
        )
    )
    links: FusionSettings = field(default_factory=lambda: FusionSettings(hidden=()))
    attack: DecoderSettings = field(default_factory=_decoders)


# --- people ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """A split of people into those who are learned from and those whose rows are asked."""

    seed: int  # of the systems
    train: MultiView  # what systems are fitted on
    tests: Mapping[str, MultiView]  # per view, who is asked; the view itself is empty in them
    truth: Mapping[str, np.ndarray]  # per view, the true rows of those people

    @cached_property
    def scalers(self) -> dict[str, tuple[list[int], Scaler | None]]:
        """Per view its numeric columns and their scaler, fitted on training rows."""
        by_view: dict[str, tuple[list[int], Scaler | None]] = {}
        for v in self.tests:
            view = self.train[v]
            numeric = [k for k, f in enumerate(view.features) if f.kind is Kind.NUMERIC]
            names = [view.feature_names[k] for k in numeric]
            by_view[v] = (numeric, Scaler.fit(view.select(names)) if names else None)
        return by_view

    def standardised(self, name: str, cells: np.ndarray) -> np.ndarray:
        """Return the numeric cells of a view in standardised units."""
        numeric, scaler = self.scalers[name]
        return scaler.encode(cells[:, numeric].astype(np.float64)) if scaler else cells[:, []]


def hold_out(views: MultiView, test: Bool[np.ndarray, " individuals"], seed: int) -> HeldOut:
    """Hold people out of complete views.

    Examples
    --------
    >>> views = MultiView.from_arrays({"a": np.eye(4), "b": np.ones((4, 2))})
    >>> held = hold_out(views, np.arange(4) == 3, seed=0)
    >>> held.train.n_individuals, held.truth["a"].shape, len(held.tests["a"]["a"])
    (3, (1, 4), 0)
    """
    asked = views.take(test)
    everyone = np.ones(asked.n_individuals, dtype=bool)
    return HeldOut(
        seed,
        views.take(~test),
        {v: asked.hide({v: everyone}) for v in views},
        {v: asked[v].cells for v in views},
    )


# --- systems --------------------------------------------------------------------------------------


def fit_defended(
    held: HeldOut,
    defences: Mapping[str, CodeDefence],
    settings: TrialSettings,
    report_progress: Callable[[float], None],
) -> dict[str, CooperativeReconstruction]:
    """Fit a system with each defence on the people who are not held out, all as one batch."""
    systems = {
        name: CooperativeReconstruction(
            method="fused",
            fusion=settings.links,
            encoder_training=settings.encoders,
            defence=defence,
            seed=held.seed,
        )
        for name, defence in defences.items()
    }
    # Systems with a pilot take other steps and are fitted after those without.
    kinds = len({system.protocol(held.train).steps for system in systems.values()})
    done, last = 0, 0.0

    def report_share(_: str, share: float) -> None:
        nonlocal done, last
        done, last = done + (share < last), share
        report_progress(min((done + share) / kinds, 1.0))

    fit_many(list(systems.values()), [held.train] * len(systems), progress=report_share)
    return systems


def align_codes(site: CooperativeSite, tokens: np.ndarray, codes: np.ndarray) -> CodeRelease:
    """Return codes of a site beside the rows that it made them of, in the order of tokens."""
    order = np.argsort(tokens)
    at = rows_of(site.tokens, tokens[order])
    return CodeRelease(codes[order].astype(np.float64), site.encoded()[at], site.view.ids[at])


def sent_codes(system: CooperativeReconstruction) -> dict[str, CodeRelease]:
    """Return what every site of a fitted system has sent to the first of its peers."""
    releases = {}
    for name, site in system.sites_.items():
        codes = system.sites_[site.peers[0]].peer_codes[name]
        releases[name] = align_codes(site, codes.tokens, codes.codes)
    return releases


def encode_views(system: CooperativeReconstruction, views: MultiView) -> dict[str, CodeRelease]:
    """Return the codes that a system's encoders make of views, without learning any link."""
    federation, protocol = system.start(views), system.protocol(views)
    run_protocol(protocol, [federation], until=protocol.learning.start + 1)
    return {
        name: align_codes(site, site.tokens, encode_rows(site, np.arange(len(site.view))))
        for name, site in federation.sites.items()
    }


# --- leak -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AttackedCodes:
    """What attackers made of one table of codes."""

    leaks: tuple[Leak, ...]  # by the number of pairs, each R² and share re-identified
    unique: float  # share of people whose code nobody else has

    @property
    def strongest(self) -> Leak:
        """The attack that explains most."""
        return max((k for k in self.leaks if k.figure == "R²"), key=lambda k: k.attack)

    @property
    def r2(self) -> float:
        """What the strongest attack explains; who explains nothing guesses the mean."""
        return max(0.0, self.strongest.attack)

    @property
    def ends(self) -> tuple[float, float]:
        """Interval of that, over people."""
        low, high = self.strongest.interval
        return max(0.0, low), max(0.0, high)


_SAYS_NOTHING = AttackedCodes(
    tuple(
        Leak(
            name="code inversion",
            threat="a receiver of codes that are the same for everybody learns nothing by them",
            figure=figure,
            scope="individual",
            floor=0.0,
            attack=0.0,
            interval=(0.0, 0.0),
        )
        for figure in ("R²", "share re-identified")
    ),
    0.0,
)


def code_widths(systems: Sequence[Mapping[str, CodeRelease]]) -> dict[str, int]:
    """Return, per view, the width of the widest codes of several systems."""
    return {v: max(releases[v].codes.shape[1] for releases in systems) for v in systems[0]}


def attack_codes(
    release: CodeRelease,
    settings: DecoderSettings,
    *,
    skip: int = 0,
    width: int = 0,
    parts: Sequence[np.ndarray] | None = None,
) -> list[AttackedCodes]:
    """Attack one view's codes: with few pairs by ridge regression, with all by networks too.

    Parameters
    ----------
    release, settings
        Codes with their rows, and the strongest attacker.
    skip
        So many people, the first by their tokens, are left out: a pilot's people, so that all
        defences are judged by the same ones.
    width
        Codes are made so wide by columns of nothing, so that decoders share a program.
    parts
        Positions (after those left out) of people who are judged apart, one result each; everybody
        when left out.
    """
    codes, rows = release.codes[skip:], release.rows[skip:]
    count = 1 if parts is None else len(parts)
    if (codes == codes[:1]).all():
        return [_SAYS_NOTHING] * count
    same = np.unique(codes, axis=0, return_counts=True)[1]
    wide = np.hstack([codes, np.zeros((len(codes), max(width - codes.shape[1], 0)))])
    linear = replace(settings, fusion=replace(settings.fusion, hidden=()))
    most = min(len(rows), settings.most_people) // settings.folds
    few = [p for p in _FEW if p <= most]
    leaks_by_pairs = (
        invert_codes(wide, rows, pairs=few, parts=parts, settings=linear),
        invert_codes(wide, rows, pairs=("all",), parts=parts, settings=settings),
    )
    unique = float((same == 1).sum() / len(codes))
    return [
        AttackedCodes(
            tuple(
                leak
                for leaks in leaks_by_pairs
                for leak in leaks[part * len(leaks) // count : (part + 1) * len(leaks) // count]
            ),
            unique,
        )
        for part in range(count)
    ]


# --- utility --------------------------------------------------------------------------------------


def complete_held_out(system: CooperativeReconstruction, held: HeldOut) -> CompletedRows:
    """Return true and completed rows of the people held out."""
    return {
        view: (
            held.standardised(view, held.truth[view]),
            held.standardised(view, system.reconstruct(asked, view)),
        )
        for view, asked in held.tests.items()
    }


def join_turns(turns: Sequence[CompletedRows]) -> CompletedRows:
    """Return what was completed in several turns as one, people of the first turn first."""
    joined = {
        v: map(np.concatenate, zip(*(rows[v] for rows in turns), strict=True)) for v in turns[0]
    }
    return {view: (true, completed) for view, (true, completed) in joined.items()}


def completion_error(completed: CompletedRows, people: np.ndarray | None = None) -> float:
    """Return the mean over views of the mean squared error, of everybody or of some people."""
    chosen = slice(None) if people is None else people
    return float(np.mean([mse(true[chosen], rows[chosen]) for true, rows in completed.values()]))


def inferred_share(completed: CompletedRows, people: np.ndarray | None = None) -> float:
    """Return the share of the rows' variance that completion explains, all views counting alike.

    Examples
    --------
    >>> inferred_share({"a": (np.array([[2.0], [-2.0]]), np.array([[1.0], [-1.0]]))})
    0.75
    """
    unknown = {view: (true, np.zeros_like(true)) for view, (true, _) in completed.items()}
    return 1 - completion_error(completed, people) / completion_error(unknown, people)


def least_inferred(growth: float | int, without: float | int) -> float:
    """Return the least share inferred where the error has grown by no more than so much.

    Without a defence the share `without` is inferred.

    Examples
    --------
    >>> least_inferred(0.25, 0.6)
    0.5
    """
    return 1 - (1 + growth) * (1 - without)


# --- choice ---------------------------------------------------------------------------------------

Point = tuple[float, float]
"""Leak of a defence, and growth of the error by it."""


@dataclass(frozen=True)
class TradeOff:
    """What a grid of defences comes to."""

    reached: bool  # whether any defence reaches both goals
    best: str  # the defence whose worse figure is least far beyond its goal
    within: str  # that of least leak among those that cost no more than allowed
    frontier: tuple[str, ...]  # those that no other beats in both figures, least leak first


def weigh_defences(
    points: Mapping[str, Point], most_leak: float | int, most_growth: float | int
) -> TradeOff:
    """Weigh the leaks of defences, one of which does and costs nothing, against their cost.

    Examples
    --------
    >>> points = {"none": (0.9, 0.0), "a": (0.4, 0.3), "b": (0.5, 0.4)}
    >>> weighed = weigh_defences(points, 0.2, 0.25)
    >>> weighed.reached, weighed.best, weighed.within, weighed.frontier
    (False, 'a', 'none', ('a', 'none'))
    """
    good = {n: p for n, p in points.items() if p[0] < most_leak and p[1] < most_growth}
    # How far beyond its goal the worse of both figures is.
    apart = {n: max(p[0] / most_leak, p[1] / most_growth) for n, p in points.items()}
    front = [
        n
        for n, (leak, cost) in points.items()
        if not any(a <= leak and b <= cost and (a, b) != (leak, cost) for a, b in points.values())
    ]
    return TradeOff(
        bool(good),
        min(good or points, key=lambda n: apart[n]),
        min((n for n, p in points.items() if p[1] <= most_growth), key=lambda n: points[n][0]),
        tuple(sorted(front, key=lambda n: points[n][0])),
    )
