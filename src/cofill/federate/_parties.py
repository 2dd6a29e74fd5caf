"""The parties of a federation whose sites hold other individuals, stage by stage.

A site begins as an `UnscaledSite` with views and becomes a `RowSite` with encoded rows once scales
are agreed on; a `SurveyCoordinator` becomes a `Coordinator` with the common model. A coordinator
takes the sound answers of a round and makes notes on everything else.
"""

from __future__ import annotations

import math
import secrets
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import optax
from jaxtyping import Float

from cofill.codec import storable
from cofill.completion import Progress, silent
from cofill.errors import DataError
from cofill.federate._aggregation import LocalUpdate, Packing, SumState
from cofill.federate._common_model import AbstractCommonModel
from cofill.federate._design import Design
from cofill.federate._local import LocalSettings
from cofill.federate._rows import Rows, encode_rows
from cofill.federate._strategies import AbstractStrategy, FedAvg
from cofill.impute import Correction
from cofill.privacy import Columns, Event, Member, Release, SiteNoise, SumCode, Update
from cofill.protocol import MOST_ROWS, Survey, views_with_columns
from cofill.views import MultiView, Scaler, View

NO_TRAINING_ROWS = "has no individual that this model can learn from"
SURVEY_NUMBER = 0  # of the survey's sum; rounds, which begin at 0 too, come after it

Kind = TypeVar("Kind", bound=Release)

for _state in (optax.ScaleByAdamState, optax.TraceState, optax.EmptyState):
    storable(_state)  # an optimiser's moments are part of a site's state


@dataclass(frozen=True, eq=False)
class Summand:
    """What a site adds to a secure sum: values as the code takes them, rows behind it, its cost."""

    values: Any
    code: SumCode
    rows: int
    event: Event | None = None


@dataclass(frozen=True, eq=False)
class UnscaledSite:
    """A site before its rows are encoded.

    ``columns`` are the common columns once they are agreed on, and ``people`` the individuals of
    all sites; ``member`` is its part in secure sums, None where there are none.
    """

    name: str
    views: Mapping[str, View]
    design: Design
    member: Member | None = None
    columns: Columns | None = None
    people: int = 0

    @property
    def sum_noise(self) -> None:
        """No noise is on the sums of a survey."""

    def summand(self, sites: int) -> Summand | None:
        """Return what it adds to the survey of so many sites, once columns are agreed on."""
        if self.columns is None:
            return None
        views = views_with_columns(self.views, self.columns)
        survey = Survey(self.columns, self.design.settings.bounds)
        return Summand(survey.describe(views), survey.code(sites), views.n_individuals)

    def without_summand(self) -> UnscaledSite:
        """Return the site itself: what it adds follows from its views."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class AbstractCoordinator(ABC):
    """A coordinator of sums: whose messages it takes, and what it notes on the others.

    ``invited`` are the sites that take part, ``sum_state`` is a secure sum that is under way. Once
    it is ``finished``, nobody is invited and nothing is added up any more.
    """

    names: tuple[str, ...]
    design: Design
    invited: tuple[str, ...] = ()
    sum_state: SumState | None = field(default=None, repr=False)
    finished: bool = False

    @property
    def stage(self) -> str:
        """What is under way, as notes name it."""
        number = self.sum_number - SURVEY_NUMBER
        return f"round {number - 1}" if number else "survey"

    @property
    @abstractmethod
    def sum_number(self) -> int:
        """The number in the messages of a sum: 0 is the survey, then one for every round."""

    @property
    def sum_noise(self) -> SiteNoise | None:
        """The noise that is on the sum: none on that of a survey."""
        return None

    @property
    @abstractmethod
    def sum_length(self) -> int:
        """Words that a site sends."""

    @abstractmethod
    def sum_code(self, sites: int) -> SumCode:
        """Return the encoding of a sum of so many sites."""

    def sound_messages(
        self,
        inbox: Iterable[Release],
        kind: type[Kind],
        senders: Iterable[str],
        fault: Callable[[Kind], str | None] | None = None,
        *,
        number: int | None = None,
    ) -> tuple[list[Kind], list[str]]:
        """Return the sound messages in the order of their senders, and notes on others.

        ``kind`` is the type that is due from ``senders``; ``fault`` returns what else is wrong with
        a message, in words, or None; ``number`` is the round that messages are of, unless they are
        of the sum under way.
        """
        number = self.sum_number if number is None else number
        sound: dict[str, Kind] = {}
        notes = []
        for release in inbox:
            where = f"{self.stage}: site {release.sender!r}"
            if release.sender in sound:
                notes.append(f"{where} answered twice; the first answer counts")
                continue
            if release.sender not in senders:
                words = "was not invited"
            elif not isinstance(release, kind):
                words = f"sent {type(release).kind} where {kind.kind} was due"
            elif getattr(release, "round", None) != number:
                words = "answered another round"
            elif (words := fault(release) if fault else None) is None:
                sound[release.sender] = release
                continue
            notes.append(f"{where} {words}; left out")
        return [sound[name] for name in sorted(sound)], notes

    def fault_of_rows(self, rows: int) -> str | None:
        """Return why nobody has so many rows as a site claims, in words; None when it may."""
        robust = self.design.settings.robust
        most = MOST_ROWS if robust is None or robust.most_rows is None else robust.most_rows
        if rows < 0:
            return f"says that it has {rows} individuals"
        return None if rows <= most else f"claims more than {most:,} individuals"

    @property
    def summed_sites(self) -> str:
        """The sites whose vectors are in the sum under way, in words."""
        masked = () if self.sum_state is None else self.sum_state.masked
        return ", ".join(repr(vector.sender) for vector in masked)

    def idle_sites(self, inbox: Iterable[Release]) -> set[str]:
        """Return the invited sites that answered that they have nothing to add."""
        return set()

    def absence_notes(self, names: Iterable[str], messages: Iterable[Release]) -> list[str]:
        """Return a note on each site that did not answer."""
        absent = sorted(set(names) - {message.sender for message in messages})
        return [f"{self.stage}: site {name!r} did not answer; left out" for name in absent]


@dataclass(frozen=True, eq=False, kw_only=True)
class SurveyCoordinator(AbstractCoordinator):
    """The coordinator before it has a model; ``columns`` are those it has agreed on."""

    view_order: tuple[str, ...]
    columns: Columns | None = None

    @property
    def sum_number(self) -> int:
        return SURVEY_NUMBER

    @property
    def survey(self) -> Survey:
        """What the sites add up."""
        if self.columns is None:
            raise DataError("the coordinator has not agreed on columns yet; start again")
        return Survey(self.columns, self.design.settings.bounds)

    @property
    def sum_length(self) -> int:
        return self.survey.code(len(self.names)).length

    def sum_code(self, sites: int) -> SumCode:
        return self.survey.code(sites)


@dataclass(frozen=True, eq=False)
class RowSite:
    """A site that trains: its encoded rows, its optimiser's moments, its control, its scales.

    ``held_out`` are rows that train nothing and judge the common model as it arrives.
    ``notes`` is what its owner should know and nobody else is told. ``secret`` seeds samples and
    noise where privacy rests on them, for tests: where it is None they are new every time.
    ``trained_round`` is the last round that it has trained in. ``update`` waits for a secure sum,
    in which ``member`` is the site's part. ``weights`` is the final common model, once it has been
    handed out; ``correction`` what the site's own people add to a common model of tables.
    """

    name: str
    rows: Rows
    learner: AbstractCommonModel
    design: Design
    held_out: Rows
    columns: Columns | None = None
    scalers: Mapping[str, Scaler] = field(default_factory=dict)
    moments: Any = None
    control: Float[np.ndarray, " P"] | None = None
    notes: tuple[str, ...] = ()
    secret: int | None = field(default=None, repr=False)
    trained_round: int = -1
    member: Member | None = None
    update: LocalUpdate | None = field(default=None, repr=False)
    weights: Float[np.ndarray, " P"] | None = None
    correction: Correction | None = field(default=None, repr=False)

    @cached_property
    def local(self) -> LocalSettings:
        """How it trains."""
        return self.design.local_for(self.learner)

    @property
    def hides_figures(self) -> bool:
        """Whether its figures stay at home, for no noise would cover them."""
        return self.local.dp is not None or self.design.settings.site_noise is not None

    @property
    def judges(self) -> bool:
        """Whether it tells how well the common model does on rows that train nothing."""
        return len(self.held_out) > 0 and not self.hides_figures

    def stream(self, *purpose: int) -> list[int]:
        """Return the seed of one of the site's random streams: it depends on nobody else.

        The seed and the round are common knowledge, and whoever sends a round twice would get the
        same noise twice, to subtract it: samples and noise of DP-SGD do not follow from them.
        """
        if self.design.local.dp is not None:
            return self.secret_stream(*purpose)
        return [self.design.seed, zlib.crc32(self.name.encode()), *purpose]

    def secret_stream(self, *purpose: int) -> list[int]:
        """Return the seed of a random stream that nobody else can repeat."""
        secret = secrets.randbits(128) if self.secret is None else self.secret
        return [self.design.seed, zlib.crc32(self.name.encode()), *purpose, secret]

    def encode(self, views: MultiView) -> Rows:
        """Return individuals' rows as the common model sees them."""
        return encode_rows(views, self.scalers, self.learner.shape)

    def complete(
        self, weights: Float[np.ndarray, " P"], views: MultiView, progress: Progress = silent
    ) -> dict[str, Float[np.ndarray, "n features"]]:
        """Return the missing cells of individuals of the site, by the common model and its own."""
        parts = self.scalers, weights, views, self.correction, progress
        return self.learner.complete_views(*parts)

    def packing(self, update: LocalUpdate) -> Packing:
        """Return how it packs an update, as the coordinator reads it."""
        return self.design.packing(self.learner, len(update.change), update.round)

    @property
    def sum_noise(self) -> SiteNoise | None:
        """The noise that is on the sums of rounds."""
        return self.design.settings.site_noise

    def summand(self, sites: int) -> Summand | None:
        """Return what it adds to the sum of a round of so many sites; None where it trained not."""
        if self.update is None:
            return None
        secure_sum = self.learner.secure_sum(self.design.settings.secure_sum)
        packing, code = self.packing(self.update), secure_sum.code(sites)
        vector, event = packing.pack(self.update), self.update.event
        if packing.noise is not None:
            vector, event = packing.noise.protect(vector), packing.noise.event()
        return Summand(vector, code, self.update.rows, event)

    def without_summand(self) -> RowSite:
        """Return the site after a sum: its update is forgotten."""
        return replace(self, update=None)

    def with_note(self, note: str) -> RowSite:
        """Return the site with one more note, unless it has the same of another round."""
        return self if same_note(note, self.notes) else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, eq=False, kw_only=True)
class Coordinator(AbstractCoordinator):
    """Holds the common model, chooses sites, adds up; sees no row.

    ``state`` is the strategy's. ``round`` is the next one, 0 for the pre-training. ``notes`` says
    which answers were refused or missing; ``curve`` has one entry per round with the sites'
    figures, weighted by rows. ``best`` are the weights that sites' held-out rows judged best, and
    ``best_round`` after which round they were: 0 before there was a judgement.
    """

    learner: AbstractCommonModel
    weights: Float[np.ndarray, " P"]
    state: Mapping[str, np.ndarray]
    round: int
    notes: tuple[str, ...] = ()
    curve: tuple[Mapping[str, float | int], ...] = ()
    best: Float[np.ndarray, " P"] | None = field(default=None, repr=False)
    best_error: float = math.inf
    best_round: int = 0

    @property
    def strategy(self) -> AbstractStrategy:
        """How it combines updates of its learner."""
        strategy, alone = self.design.strategy, len(self.names) == 1
        if isinstance(strategy, FedAvg) and strategy.momentum is None:
            return replace(strategy, momentum=0.0 if alone else self.learner.momentum)
        return strategy

    @property
    def packing(self) -> Packing:
        """How sites pack what they add to the sum of the round under way."""
        size = self.learner.sum_length(self.weights)
        return self.design.packing(self.learner, size, self.round)

    @property
    def sum_number(self) -> int:
        """The number of the round's sum: that of the survey was 0."""
        return SURVEY_NUMBER + 1 + self.round

    @property
    def sum_noise(self) -> SiteNoise | None:
        return self.design.settings.site_noise

    @property
    def sum_length(self) -> int:
        return self.packing.length

    def sum_code(self, sites: int) -> SumCode:
        return self.learner.secure_sum(self.design.settings.secure_sum).code(sites)

    def idle_sites(self, inbox: Iterable[Release]) -> set[str]:
        """Return the invited sites that answered that they have no rows to train on.

        Raises a `DataError` if these are all sites: no round can ever train anything.
        """
        idle = {r.sender for r in inbox if isinstance(r, Update) and r.rows == 0}
        if idle >= set(self.names):
            raise DataError(
                f"round {self.round}: no site has an individual with more than one modality, so "
                "there is nothing to learn from; check that modalities name individuals by the "
                "same ids"
            )
        return idle & set(self.invited)


def make_coordinator(
    names: tuple[str, ...], learner: AbstractCommonModel, design: Design
) -> Coordinator:
    """Return a coordinator with new weights, before the first round."""
    weights = learner.start(design.seed)
    first = 0 if design.pretrains else 1
    return Coordinator(
        names=names,
        learner=learner,
        design=design,
        weights=weights,
        state=design.strategy.init(weights),
        round=first,
    )


def make_site(name: str, rows: Rows, learner: AbstractCommonModel, design: Design) -> RowSite:
    """Return a site with encoded rows, before the first round."""
    rows, held_out = _split_rows(rows, learner, [design.seed, zlib.crc32(name.encode()), 0x4E1D])
    return RowSite(name, rows, learner, design, held_out)


def _split_rows(rows: Rows, learner: AbstractCommonModel, seed: list[int]) -> tuple[Rows, Rows]:
    """Return the rows to train on and those to judge by: a share of those with two modalities."""
    judging = np.random.default_rng(seed).permutation(rows.positions("several"))
    judging = np.sort(judging[: int(learner.held_out * len(judging))])
    return rows.take(np.setdiff1d(np.arange(len(rows)), judging)), rows.take(judging)


def same_note(note: str, notes: tuple[str, ...]) -> bool:
    """Return whether some note says the same of another round."""
    return any(note.partition(":")[2] == other.partition(":")[2] for other in notes)


def join_notes(notes: Sequence[str]) -> str:
    """Return notes as the end of an error's sentence."""
    return f"; {'; '.join(notes)}" if notes else ""
