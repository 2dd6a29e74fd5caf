"""Settings of deep clustering, what follows from them for rows of a kind, and its state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from cofill.cluster._augment import WarpSettings
from cofill.cluster._network import NetworkSettings
from cofill.cluster._objective import ObjectiveSettings
from cofill.cluster._rows import ColumnKinds
from cofill.codec import storable
from cofill.errors import SettingError
from cofill.nets import require_above_zero, require_at_least, require_in
from cofill.privacy import require_one_of


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
    seed_group, min_group
        A centroid of fewer rows leaves no site where networks start from k-means, nor does the sum
        of a smaller group at the end.
    network, objective, warp
        Widths, weights of the terms, and how far images are warped.
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
    seed_group: int = 5
    min_group: int = 1
    network: NetworkSettings = field(default_factory=NetworkSettings)
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    warp: WarpSettings = field(default_factory=WarpSettings)

    def __post_init__(self) -> None:
        for groups in (self.k, *self.over):
            if groups < 2:
                raise SettingError(f"k and over must be at least 2, got {groups}")
        require_at_least(
            self,
            restarts=1,
            finalists=1,
            rounds=1,
            local_steps=1,
            batch=1,
            neighbours=1,
            seed_group=1,
            min_group=1,
            apart=0,
            adversary=0,
        )
        require_above_zero(self, "learning_rate")
        require_one_of("start", self.start, ("auto", "kmeans", "random"))
        require_in(self, "[0, 1)", "warm")
        require_in(self, "(0, 1]", "trial")
        require_in(self, "[0, 1]", "reach")

    @property
    def trial_rounds(self) -> int:
        """After how many rounds the finalists are chosen."""
        return max(1, round(self.trial * self.rounds))


@dataclass(frozen=True)
class DeepPlan:
    """What is fixed when a round is compiled: settings, and what follows from the kind of rows.

    ``warm`` is the number of rounds in which the first head learns the groups of k-means, ``apart``
    the number of steps of a restart at one site before the first round, ``falling`` whether the
    learning rate falls.
    """

    settings: DeepSettings
    objective: ObjectiveSettings
    columns: int
    shape: tuple[int, int, int] | None
    warm: int
    apart: int
    rounds: int
    steps: int
    falling: bool = True

    @property
    def heads(self) -> tuple[int, ...]:
        """Groups of each head; the first head is the one asked for."""
        return (self.settings.k, *self.settings.over)

    @property
    def before_rounds(self) -> DeepPlan:
        """The plan of the restarts that start at one site: one long round, the rate constant."""
        return replace(self, rounds=1, steps=self.apart, falling=False)

    @property
    def head_slices(self) -> tuple[slice, ...]:
        """Which part of a vector of all heads' shares is each head's."""
        ends = np.cumsum((0, *self.heads))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))


def plan_of(settings: DeepSettings, kinds: ColumnKinds) -> DeepPlan:
    """Return the plan for rows of this kind."""
    objective = settings.objective
    if objective.information is None:
        objective = replace(objective, information=0.5 if kinds.shape is None else 0.1)
    imitates = settings.start == "kmeans" or (settings.start == "auto" and kinds.shape is None)
    warm = round(settings.warm * settings.rounds) if imitates else 0
    apart = 0 if imitates else round(settings.apart * settings.rounds) * settings.local_steps
    sizes = len(kinds), kinds.shape
    return DeepPlan(settings, objective, *sizes, warm, apart, settings.rounds, settings.local_steps)


@storable
@dataclass(frozen=True, eq=False)
class DeepState:
    """The common model of the restarts that are still in the trial, and how well each does.

    ``shares`` are the groups' over all sites, ``restarts`` the restarts' numbers. ``objective`` is
    the loss of each at the start of the last round, first head, as the sites judged the common
    model: what the choice is by. ``centers`` are those of k-means that networks start from, None
    where they start at random; at the end the means of the groups. ``number`` counts the rounds
    done; ``history`` has the objective of every restart after each, NaN once it is out.
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

    def take(self, positions: Int[np.ndarray, " some"]) -> DeepState:
        """Return the state of some of the restarts."""
        names = ("weights", "shares", "restarts", "objective", "centers")
        parts = {n: getattr(self, n) for n in names if getattr(self, n) is not None}
        return replace(self, **{name: part[positions] for name, part in parts.items()})
