"""The settings of a run that every party knows from the start: the model and how it is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cofill.errors import DataError, SettingError
from cofill.federate._aggregation import Packing, SecureSum
from cofill.federate._common_model import AbstractCommonModel, Phase
from cofill.federate._learner import AbstractLearner
from cofill.federate._local import LocalSettings
from cofill.federate._noisy_table import NoisyTable
from cofill.federate._robust import RobustMean
from cofill.federate._rows import Shape
from cofill.federate._strategies import AbstractStrategy, FedAvg, make_strategy
from cofill.federate._summed_features import PEOPLE_PER_COLUMN
from cofill.federate._summed_table import WIDEST, SummedTable
from cofill.nets import require_above_zero, require_at_least, require_in
from cofill.privacy import SiteNoise
from cofill.registry import Registry
from cofill.settings import typed_settings

_LEAST_SUMMED = 3  # sites of a secure sum: of two, each could subtract its own update

LEARNERS = Registry("cofill.learners", "model")
"""Models that sites can train together, by name: subclasses of `AbstractLearner`."""

LEARNERS.add(
    "best",
    "cofill.federate:CompletionNet",
    "tables: sums over all sites' people (`SummedTable`); images: the network",
)
LEARNERS.add("network", "cofill.federate:CompletionNet", "one network for all modalities")
LEARNERS.add("vigan", "cofill.federate:VIGAN", "the thesis's model of two modalities of one size")
LEARNERS.add("pix2pix", "cofill.federate:Pix2Pix", "federated pix2pix, as the thesis compares with")


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
    secure
        True, or settings of a `SecureSum`: the coordinator sees sums over the sites, of what scales
        columns and of updates, and no site's own. It takes three sites or more; False shows the
        coordinator every site's summaries and updates.
    site_noise
        Clips each site's update and puts noise on the sum, so that the common model hides whether
        a site took part with its data. With ``secure`` every site adds its part of the noise under
        its mask, the release carries the event, and sites' budgets are kept by the gate. Without,
        the coordinator adds the noise: it is trusted with the plain updates, which therefore carry
        no guarantee in the ledger. Sites count alike, whatever their rows, and send no figures.
    epsilon, delta
        What a site's sums may tell of one of its rows. Tables are then learned in one round from
        sums with noise (`NoisyTable`); a network asks for DP-SGD, in `LocalSettings`.
    robust
        Settings of a `RobustMean`: a median, a trimmed mean or bounds in place of the mean, where
        some sites may be hostile. A median or trimmed mean needs ``secure=False``.
    bounds
        Lowest and highest possible value of a view's numbers, or of one column (``"view/column"``),
        where these are publicly known. Nothing of the range is then asked of the sites.
    """

    rounds: int = 40
    participation: float | int = 1.0
    min_sites: int = 1
    dropout: float | int = 0.0
    pretrain: Mapping[str, int] = field(
        default_factory=lambda: {"autoencoder": 20, "cycle": 5}, hash=False
    )
    secure: bool | SecureSum = True
    site_noise: SiteNoise | None = None
    epsilon: float | int | None = None
    delta: float | int = 1e-5
    robust: RobustMean | None = None
    bounds: Mapping[str, tuple[float | int, float | int]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        require_at_least(self, rounds=1, min_sites=1)
        require_in(self, "(0, 1]", "participation")
        require_in(self, "[0, 1)", "dropout")
        require_in(self, "(0, 1)", "delta")
        require_above_zero(self, "epsilon")
        if any(epochs < 0 for epochs in self.pretrain.values()):
            raise SettingError(f"pretrain must hold epochs of at least 0, got {self.pretrain}")
        if self.robust is not None:
            self._require_robust(self.robust)
        for name, (low, high) in self.bounds.items():
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise SettingError(
                    f"bounds of {name!r} must be finite, the lower one first, got {low} and {high}"
                )
        # Copies: callers may change their dictionaries later.
        object.__setattr__(self, "pretrain", dict(self.pretrain))
        object.__setattr__(self, "bounds", dict(self.bounds))

    def _require_robust(self, robust: RobustMean) -> None:
        if self.secure and robust.needs_updates:
            raise SettingError(
                f"a robust {robust.rule} needs every site's own update, which secure sums hide; "
                "set secure to false, or bound norms only (rule 'mean' and a norm)"
            )
        if self.site_noise is not None:
            raise SettingError("site_noise bounds updates by its own clip; leave robust out")

    @property
    def secure_sum(self) -> SecureSum:
        """Settings of the secure sum, where there is one."""
        return self.secure if isinstance(self.secure, SecureSum) else SecureSum()

    def cohort_size(self, sites: int) -> int:
        """Return how many of so many sites are invited to a round."""
        least = max(self.min_sites, _LEAST_SUMMED if self.secure else 1)
        return min(max(round(self.participation * sites), least), sites)

    def fewest_summed(self, sites: int) -> int:
        """Return in how few sites' sum a round can end, of so many sites."""
        threshold = self.secure_sum.threshold
        return 2 * self.cohort_size(sites) // 3 + 1 if threshold is None else threshold

    def pretraining(self, learner: AbstractCommonModel) -> tuple[tuple[Phase, int], ...]:
        """Return the phases before the rounds that are trained, and their epochs."""
        pairs = ((phase, self.pretrain.get(phase.name, 0)) for phase in learner.phases[:-1])
        return tuple((phase, epochs) for phase, epochs in pairs if epochs)

    def require_sites(self, sites: int) -> None:
        """Raise a `SettingError` if so few sites cannot work together like this."""
        if self.min_sites > sites:
            raise SettingError(
                f"min_sites must be at most the number of sites, {sites}, got {self.min_sites}"
            )
        if self.secure and sites < _LEAST_SUMMED:
            raise SettingError(
                f"secure sums must have at least {_LEAST_SUMMED} sites, got {sites}: of fewer, the "
                "sum tells a site what another one sent; set secure to false to show the "
                "coordinator every site's own update"
            )
        noise = self.site_noise
        if self.secure and noise is not None and noise.sites > self.cohort_size(sites):
            raise SettingError(
                f"site_noise counts on the noise of {noise.sites} sites in a round, and only "
                f"{self.cohort_size(sites)} are invited; lower its sites or raise participation"
            )


@dataclass(frozen=True, eq=False)
class Design:
    """What all parties know before the first step; the columns arrive later.

    ``model`` is the learner's class, ``network`` its further fields beside its shape, ``local`` how
    a site trains, ``settings`` how sites and coordinator work together, ``strategy`` how the
    coordinator combines updates, ``seed`` that of everything drawn, except where privacy rests on
    it, ``image_local`` how a site trains where rows are images, if that differs. ``from_sums`` says
    that tables are learned from sums where people are enough, and not by the model.
    """

    model: type[AbstractLearner]
    network: Mapping[str, Any]
    local: LocalSettings
    settings: RoundSettings
    strategy: AbstractStrategy
    seed: int = 0
    image_local: LocalSettings | None = None
    from_sums: bool = False

    def __post_init__(self) -> None:
        local, strategy = self.local, self.strategy
        steps = (local.optimizer, local.moments, local.momentum)
        if strategy.controls and steps != ("sgd", "reset", 0):
            raise SettingError(
                f"strategy {strategy.name!r} needs plain steps: optimizer 'sgd', moments 'reset' "
                f"and momentum 0, got {local.optimizer!r}, {local.moments!r} and {local.momentum}"
            )
        if local.dp is not None and self.settings.site_noise is not None:
            raise SettingError(
                "dp of a site's training and site_noise are two ways to hide its rows; choose one"
            )
        owner = f"network: {self.model.__name__}"
        network = typed_settings(owner, self.model, self.network, leave=("shape",))
        object.__setattr__(self, "network", network)
        phases, pretrain = self.model.pretraining, self.settings.pretrain
        unknown = next((name for name in pretrain if name not in phases), None)
        # The default names phases that many models lack: only a model with phases can be misspelt.
        if phases and unknown is not None:
            raise SettingError(
                f"pretrain: there is no phase {unknown!r}; there is {', '.join(phases)}"
            )
        for name in ("local", "image_local"):
            plain = getattr(self, name) or local
            proximal = strategy.proximal or plain.proximal
            object.__setattr__(self, name, replace(plain, proximal=proximal))

    @property
    def locals(self) -> tuple[LocalSettings, LocalSettings]:
        """How a site trains, on rows of tables and on images."""
        return self.local, self.image_local or self.local

    def local_for(self, learner: AbstractCommonModel) -> LocalSettings:
        """Return how a site trains a learner."""
        return self.locals[learner.shape.image is not None]

    @property
    def pretrains(self) -> bool:
        """Whether a round of pre-training comes before the others."""
        return any(self.settings.pretrain.get(name) for name in self.model.pretraining)

    def make_learner(self, shape: Shape) -> AbstractCommonModel:
        """Return the model for rows of a shape."""
        is_table = shape.image is None and shape.size <= WIDEST
        if self.settings.epsilon is not None:
            if not is_table:
                data = "images" if shape.image else f"{shape.size} encoded columns"
                raise DataError(
                    f"epsilon is for tables of at most {WIDEST} encoded columns, and these are "
                    f"{data}; leave it out and set noise on a network's training (local, dp)"
                )
            return NoisyTable(shape, self.settings.epsilon, self.settings.delta)
        if self.from_sums and is_table and shape.people >= PEOPLE_PER_COLUMN * shape.size:
            return SummedTable(shape, self.seed)
        learner = self.model(shape, **self.network)  # pyright: ignore[reportCallIssue]
        if tuple(phase.name for phase in learner.phases[:-1]) != self.model.pretraining:
            raise SettingError(
                f"{self.model.__name__}.pretraining must name all its phases but the last"
            )
        trained = (*(p for p, _ in self.settings.pretraining(learner)), learner.phases[-1])
        mixed = next((phase for phase in trained if len(phase.streams) > 1), None)
        if self.local.dp is not None and mixed is not None:
            raise SettingError(
                "dp must be None for a phase that draws from several streams of rows "
                f"({', '.join(mixed.streams)}); leave phase {mixed.name!r} out, or the cycle"
            )
        return learner

    def packing(self, learner: AbstractCommonModel, size: int, number: int) -> Packing:
        """Return how sites pack what they add to the sum of a round; 0 is the pre-training."""
        if number:
            figures = tuple(name for last in learner.phases[-1:] for name in learner.figures(last))
        else:
            figures = tuple(
                f"{phase.name}_{name}"
                for phase, _ in self.settings.pretraining(learner)
                for name in learner.figures(phase)
            )
        noise = self.settings.site_noise
        extras = ("control",) if self.strategy.controls and number else ()
        by_rows = learner.adds_by_rows and self.strategy.by_rows and noise is None
        return Packing(size, extras, figures, by_rows, noise, self.settings.robust)


def make_design(
    model: str | type[AbstractLearner],
    strategy: str | Mapping[str, Any] | AbstractStrategy,
    settings: RoundSettings,
    sites: int,
    *,
    effort: str,
    training: Mapping[str, Any],
    network: Mapping[str, Any] | None,
    local: LocalSettings | Mapping[str, Any] | None,
    seed: int,
) -> Design:
    """Return the design for a model in `LEARNERS` or its class, as users ask for it.

    ``training`` and ``local`` are fields of `LocalSettings`, None for what suits the model and the
    strategy; ``local`` may be all of them.
    """
    kind: Any = LEARNERS.load(model) if isinstance(model, str) else model
    rule = make_strategy(strategy)
    asked = {name: value for name, value in training.items() if value is not None}

    def suit(fields_of_model: Mapping[str, Any]) -> LocalSettings:
        if isinstance(local, LocalSettings):
            return local
        suited = LocalSettings(**{"moments": "reset", **fields_of_model})
        if rule.controls:
            plain = {"learning_rate": 0.05, "momentum": 0.0, "moments": "reset"}
            suited = replace(suited, optimizer="sgd", **plain)
        return replace(suited, **{**asked, **(local or {})})

    # Whoever sets how a network is trained, who takes part in its rounds, or noise on its updates,
    # gets the network: sums have no noise, no steps and no rounds that a site can be left out of.
    is_plain = settings.site_noise is None and settings.robust is None
    is_plain &= settings.participation == 1 and rule == FedAvg()
    from_sums = model == "best" and is_plain and not (asked or network or local)
    if settings.epsilon is not None:
        if not from_sums:
            raise SettingError(
                "epsilon is kept by noise on sums, of which there is one round and nothing is "
                "trained: leave model, strategy, participation, site_noise, robust, network and "
                "all settings of training as they are, or set noise on training (local, dp)"
            )
        settings = replace(settings, rounds=1)
    knows_efforts = any(known.name == "effort" for known in fields(kind))
    network = {**({"effort": effort} if knows_efforts else {}), **(network or {})}
    for_tables, for_images = suit(kind.training), suit(kind.image_training(sites))
    return Design(kind, network, for_tables, settings, rule, seed, for_images, from_sums)
