"""Settings of deep clustering, and the state of its coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._augment import WarpSettings
from cofill.cluster._network import NetworkSettings
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._rounds import DeepPlan
from cofill.cluster._rows import ColumnKinds
from cofill.errors import SettingError


@dataclass(frozen=True)
class DeepSettings:
    """Settings of deep clustering.

    Parameters
    ----------
    k
        Number of groups.
    over
        Groups of further heads that only help to train the body.
    restarts, finalists, trial
        How many networks start, and how many of them go on after this share of the rounds.
    apart
        Networks that start at random first train at one site each, for as many steps as this share
        of the rounds has. Without groups to start from, every site finds different ones, and the
        average of their networks has none.
    rounds, local_steps, batch
        Rounds of averaging, steps at every site between two of them, rows a step.
    learning_rate
        Of Adam; falls along a cosine to a twentieth.
    start, warm
        ``"kmeans"`` has the networks learn the groups of k-means, different ones in each restart,
        for this share of the rounds before they train on the objective; ``"random"`` does not;
        ``"auto"`` starts at random for images, whose warps say more than distances do.
    neighbours, reach, adversary
        Rows that are no images have their nearest neighbours at the site as partners, so many of
        them, up to this part of the way, and then a step in the direction that changes the group
        most, of this length relative to the way so far.
    network, objective, warp
        Widths, weights of the terms, and how far images are warped.

    Examples
    --------
    >>> DeepSettings(k=3).trial_rounds
    20
    """

    k: int = 10
    over: tuple[int, ...] = ()
    restarts: int = 8
    finalists: int = 2
    trial: float | int = 0.2
    apart: float | int = 0.4
    rounds: int = 100
    local_steps: int = 24
    batch: int = 256
    learning_rate: float | int = 2e-3
    start: str = "auto"
    warm: float | int = 0.15
    neighbours: int = 10
    reach: float | int = 1.0
    adversary: float | int = 0.5
    network: NetworkSettings = field(default_factory=NetworkSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    warp: WarpSettings = field(default_factory=WarpSettings)

    def __post_init__(self) -> None:
        for groups in (self.k, *self.over):
            if groups < 2:
                raise SettingError(f"k and over must be at least 2, got {groups}")
        for name in ("restarts", "finalists", "rounds", "local_steps", "batch", "neighbours"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.start not in ("auto", "kmeans", "random"):
            raise SettingError(f"start must be auto, kmeans or random, got {self.start!r}")
        if not 0 <= self.warm < 1:
            raise SettingError(f"warm must be from 0 to below 1, got {self.warm}")
        if not 0 < self.trial <= 1:
            raise SettingError(f"trial must be above 0 and at most 1, got {self.trial}")
        if not self.apart >= 0:
            raise SettingError(f"apart must be 0 or more, got {self.apart}")
        if not self.learning_rate > 0:
            raise SettingError(f"learning_rate must be above 0, got {self.learning_rate}")
        if not self.adversary >= 0:
            raise SettingError(f"adversary must be 0 or more, got {self.adversary}")
        if not 0 <= self.reach <= 1:
            raise SettingError(f"reach must be from 0 to 1, got {self.reach}")

    @property
    def trial_rounds(self) -> int:
        """After how many rounds the finalists are chosen."""
        return max(1, round(self.trial * self.rounds))


@dataclass(frozen=True, eq=False)
class DeepState:
    """The common model of all restarts, and how well each does.

    Attributes
    ----------
    weights, shares
        The common model and the groups' shares over all sites, for each restart still in the trial.
    restarts
        The numbers of these restarts.
    objective
        The loss of each at the start of the last round, first head, as the sites judged the common
        model: what the choice is by.
    centers
        Those of k-means that networks start from, None where they start at random; at the end the
        means of the groups.
    number
        Rounds done.
    history
        The objective of every restart after each round; NaN once a restart is out.
    """

    weights: Float[np.ndarray, "restarts size"]
    shares: Float[np.ndarray, "restarts groups"]
    restarts: Int[np.ndarray, " restarts"]
    objective: Float[np.ndarray, " restarts"]
    centers: Float[np.ndarray, "restarts k columns"] | None = None
    number: int = 0
    history: tuple[np.ndarray, ...] = ()

    @property
    def best(self) -> int:
        """Position of the restart with the least loss."""
        return int(np.argmin(np.where(np.isfinite(self.objective), self.objective, np.inf)))


def plan_of(settings: DeepSettings, kinds: ColumnKinds) -> DeepPlan:
    """Return the compiled-in settings for rows of this kind."""
    objective = settings.objective
    if objective.information is None:
        objective = replace(objective, information=0.5 if kinds.shape is None else 0.1)
    imitates = settings.start == "kmeans" or (settings.start == "auto" and kinds.shape is None)
    return DeepPlan(
        warm=round(settings.warm * settings.rounds) if imitates else 0,
        apart=0 if imitates else round(settings.apart * settings.rounds) * settings.local_steps,
        columns=len(kinds),
        shape=kinds.shape,
        heads=(settings.k, *settings.over),
        network=settings.network,
        objective=objective,
        warp=settings.warp,
        reach=settings.reach,
        adversary=settings.adversary,
        rounds=settings.rounds,
        steps=settings.local_steps,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
    )
