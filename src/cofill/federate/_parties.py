"""The parties of a federation whose sites hold other individuals, and how they work together.

A `RowSite` has rows and trains; a `Coordinator` has the common model and adds up. `RoundSettings`
says how: how often, with whom, and how what they send is protected (`_aggregation`).
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.federate._aggregation import Lesson, Packing, SecureSum, Summing
from cofill.federate._learner import AbstractLearner, Phase, figures_of, weights_of
from cofill.federate._local import LocalSettings
from cofill.federate._rows import Rows
from cofill.federate._strategies import AbstractStrategy, FedAvg
from cofill.privacy import Budget, Member, SiteNoise
from cofill.protocol import Federation
from cofill.views import Scaler

__all__ = [
    "Coordinator",
    "RoundSettings",
    "RowSite",
    "coordinator_of",
    "federation_of",
    "require_lessons",
    "site_of",
]

_LEAST_SUMMED = 3  # sites of a secure sum


@dataclass(frozen=True)
class RoundSettings:
    """How sites and coordinator work together.

    Parameters
    ----------
    rounds
        How often models are averaged.
    participation
        Share of the sites invited to a round.
    min_sites
        Answers without which a round fails.
    dropout
        Chance that an invited site does not answer, to try what happens then. In a secure sum it
        leaves after it has shared its keys, which is the harder case.
    pretrain
        Epochs of each phase before the rounds, by the phase's name; 0 leaves it out.
    together
        Train the sites of a process as one batch, or one after another.
    secure
        True, or settings of a `SecureSum`: the coordinator sees the sum of the sites' updates and
        no site's own.
    site_noise
        Clips each site's update and puts noise on the sum, so that the common model hides whether
        a site took part with its data. With ``secure`` every site adds its part of the noise under
        its mask, the release carries the event, and sites' budgets are kept by the gate. Without,
        the coordinator adds the noise: it is trusted with the plain updates, which therefore carry
        no guarantee in the ledger. Sites count alike, whatever their rows, and send no figures.

    Examples
    --------
    >>> RoundSettings(rounds=3).participation
    1.0
    """

    rounds: int = 40
    participation: float | int = 1.0
    min_sites: int = 1
    dropout: float | int = 0.0
    pretrain: Mapping[str, int] = field(
        default_factory=lambda: {"autoencoder": 20, "cycle": 5}, hash=False
    )
    together: bool = True
    secure: bool | SecureSum = False
    site_noise: SiteNoise | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "min_sites"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.participation <= 1:
            raise SettingError(f"participation must be in (0, 1], got {self.participation}")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"dropout must be in [0, 1), got {self.dropout}")
        if any(epochs < 0 for epochs in self.pretrain.values()):
            raise SettingError(f"pretrain must hold epochs of at least 0, got {self.pretrain}")
        object.__setattr__(self, "pretrain", dict(self.pretrain))  # the caller keeps his own

    @property
    def summing(self) -> SecureSum | None:
        """Settings of the secure sum, None for plain updates."""
        if isinstance(self.secure, SecureSum):
            return self.secure
        return SecureSum() if self.secure else None

    def invited(self, sites: int) -> int:
        """Return how many of so many sites are invited to a round."""
        least = max(self.min_sites, _LEAST_SUMMED if self.secure else 1)
        return min(max(round(self.participation * sites), least), sites)

    def pretraining(self, learner: AbstractLearner) -> tuple[tuple[Phase, int], ...]:
        """Return the phases before the rounds that are trained, and their epochs."""
        pairs = ((phase, self.pretrain.get(phase.name, 0)) for phase in learner.phases[:-1])
        return tuple((phase, epochs) for phase, epochs in pairs if epochs)

    def _check(self, sites: int) -> None:
        """Raise a `SettingError` if so few sites cannot work together like this."""
        if self.min_sites > sites:
            raise SettingError(
                f"min_sites must be at most the number of sites, {sites}, got {self.min_sites}"
            )
        if self.secure and sites < _LEAST_SUMMED:
            raise SettingError(
                f"secure sums must have at least {_LEAST_SUMMED} sites, got {sites}: of fewer, the "
                "sum tells a site what another one sent"
            )
        noise = self.site_noise
        if self.secure and noise is not None and noise.sites > self.invited(sites):
            raise SettingError(
                f"site_noise counts on the noise of {noise.sites} sites in a round, and only "
                f"{self.invited(sites)} are invited; lower its sites or raise participation"
            )


@dataclass(frozen=True, eq=False)
class RowSite:
    """A site that holds individuals: its rows, its optimiser's moments, its control, its scales.

    ``notes`` is what its owner should know and nobody else is told. ``secret`` makes what it draws
    its own where privacy rests on that; ``member`` and ``lesson`` are its part in a secure sum.
    """

    name: str
    rows: Rows
    learner: AbstractLearner
    local: LocalSettings
    settings: RoundSettings
    seed: int
    by_rows: bool = True
    controls: bool = False
    moments: Any = None
    control: Float[np.ndarray, " P"] | None = None
    scalers: Mapping[str, Scaler] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    secret: int | None = field(default=None, repr=False)
    member: Member | None = None
    lesson: Lesson | None = field(default=None, repr=False)

    def stream(self, *purpose: int) -> list[int]:
        """Return the seed of one of the site's random streams: it depends on nobody else."""
        own = [] if self.secret is None else [self.secret]
        return [self.seed, zlib.crc32(self.name.encode()), *purpose, *own]

    def packing(self, size: int, number: int) -> Packing:
        """Return how it packs what it adds to the sum of a round, as the coordinator reads it."""
        return Packing(
            size,
            ("control",) if self.controls and number else (),
            figure_names(self.learner, self.settings, pretrain=not number),
            self.by_rows,
            self.settings.site_noise,
        )

    def noted(self, note: str) -> RowSite:
        """Return the site with one more note, unless it has the same of another round."""
        told = any(note.partition(":")[2] == other.partition(":")[2] for other in self.notes)
        return self if told else replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, eq=False)
class Coordinator:
    """Holds the common model, chooses sites, adds up; sees no row.

    ``notes`` says which answers were refused or missing; ``curve`` has one entry per round with
    the sites' figures, weighted by rows. ``figures`` are the names of those, of pre-training and
    of rounds, and ``summing`` is a secure sum that is under way.
    """

    names: tuple[str, ...]
    weights: Float[np.ndarray, " P"]
    strategy: AbstractStrategy
    state: Mapping[str, np.ndarray]
    settings: RoundSettings
    seed: int
    figures: tuple[tuple[str, ...], ...] = ((), ())
    round: int = 0
    invited: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    curve: tuple[Mapping[str, float | int], ...] = ()
    summing: Summing | None = field(default=None, repr=False)

    @property
    def packing(self) -> Packing:
        """How sites pack what they add to the sum of the round under way."""
        return Packing(
            len(self.weights),
            ("control",) if self.strategy.controls and self.round else (),
            self.figures[1 if self.round else 0],
            self.strategy.by_rows and self.settings.site_noise is None,
            self.settings.site_noise,
        )


def figure_names(
    learner: AbstractLearner, settings: RoundSettings, *, pretrain: bool
) -> tuple[str, ...]:
    """Return the names of the figures that sites tell after training."""
    if not pretrain:
        return figures_of(learner, learner.phases[-1])
    return tuple(
        f"{phase.name}_{name}"
        for phase, _ in settings.pretraining(learner)
        for name in figures_of(learner, phase)
    )


def federation_of(
    rows: Mapping[str, Rows],
    learner: AbstractLearner,
    *,
    local: LocalSettings,
    settings: RoundSettings,
    strategy: AbstractStrategy | None = None,
    seed: int = 0,
    budgets: Mapping[str, Budget] | None = None,
) -> Federation[RowSite]:
    """Return sites and a coordinator that are ready for their first round."""
    coordinator = coordinator_of(tuple(rows), learner, settings, strategy or FedAvg(), seed)
    sites = {
        name: site_of(name, own, learner, local, settings, coordinator.strategy, seed)
        for name, own in rows.items()
    }
    federation = Federation(sites, coordinator=coordinator, budgets=budgets or {})
    require_lessons(federation)
    return federation


def coordinator_of(
    names: tuple[str, ...],
    learner: AbstractLearner,
    settings: RoundSettings,
    strategy: AbstractStrategy,
    seed: int,
) -> Coordinator:
    """Return a coordinator with new weights."""
    settings._check(len(names))
    phases = [phase.name for phase in learner.phases[:-1]]
    unknown = [name for name in settings.pretrain if name not in phases]
    if phases and unknown:
        raise SettingError(f"pretrain: there is no phase {unknown[0]!r}; there is {phases}")
    weights = weights_of(learner, jax.random.key(seed))
    figures = tuple(figure_names(learner, settings, pretrain=p) for p in (True, False))
    return Coordinator(names, weights, strategy, strategy.init(weights), settings, seed, figures)


def site_of(
    name: str,
    rows: Rows,
    learner: AbstractLearner,
    local: LocalSettings,
    settings: RoundSettings,
    strategy: AbstractStrategy,
    seed: int,
) -> RowSite:
    """Return a site that trains as a strategy asks."""
    if strategy.controls and (local.optimizer, local.moments, local.momentum) != (
        "sgd",
        "reset",
        0,
    ):
        raise SettingError(
            f"strategy {strategy.name!r} needs plain steps: optimizer 'sgd', moments 'reset' and "
            f"momentum 0, got {local.optimizer!r}, {local.moments!r} and {local.momentum}"
        )
    if local.dp is not None:
        _check_private(learner, settings)
    local = replace(local, proximal=strategy.proximal or local.proximal)
    return RowSite(
        name,
        rows,
        learner,
        local,
        settings,
        seed,
        by_rows=strategy.by_rows and settings.site_noise is None,
        controls=strategy.controls,
        # The seed is common knowledge: samples and noise of DP-SGD must not follow from it.
        secret=secrets.randbits(128) if local.dp is not None else None,
    )


def _check_private(learner: AbstractLearner, settings: RoundSettings) -> None:
    for phase in (*(p for p, _ in settings.pretraining(learner)), learner.phases[-1]):
        if len(phase.streams) > 1:
            raise SettingError(
                "dp must be None for a phase that draws from several streams of rows "
                f"({', '.join(phase.streams)}); leave phase {phase.name!r} out, or the cycle"
            )
    if settings.site_noise is not None:
        raise SettingError(
            "dp of a site's training and site_noise are two ways to hide its rows; choose one"
        )


def require_lessons(federation: Federation[RowSite]) -> None:
    """Raise a `DataError` if no site has rows that the model can learn from."""
    sites = federation.sites.values()
    if not any(len(p) for s in sites for p in s.learner.phases[-1].rows(s.rows).values()):
        raise DataError(
            "no site has an individual with more than one modality, so there is nothing to learn "
            "from; check that modalities name individuals by the same ids"
        )
