"""What a site does in a round: train from the common weights, and make a lesson of the change.

Sites of a call are trained as one batch where they have the same model and settings. A site trains
on its own rows, from its own random streams: who trains beside it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cofill.federate._aggregation import Lesson
from cofill.federate._learner import Phase
from cofill.federate._local import BatchPlan, LocalResult, LocalWork, plan_batches, train_sites
from cofill.federate._parties import RowSite
from cofill.privacy import Event, ModelWeights, compose, sgd_event

__all__ = ["answers", "taught"]

_DROPS, _TRAINS = 0xD0, 0x4B  # purposes of a site's random streams
Phases = tuple[tuple[Phase, int], ...]


def answers(site: RowSite, number: int) -> bool:
    """Return whether a site answers in a round, when drop-outs are being tried."""
    if not site.settings.dropout:
        return True
    rng = np.random.default_rng(site.stream(_DROPS, number, 1))
    return bool(rng.random() >= site.settings.dropout)


@dataclass
class _Course:
    """One site's way through the phases of a round."""

    site: RowSite
    model: ModelWeights
    weights: Float[np.ndarray, " P"]
    moments: Any
    steps: int = 0
    travelled: float = 0.0
    rows: set[int] = field(default_factory=set)
    figures: dict[str, float] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def work(self, at: int, phase: Phase, epochs: int) -> LocalWork | None:
        """Return what is to be trained in a phase; None when the site has no rows for it."""
        site, number = self.site, self.model.round
        drawn = plan_batches(site.rows, phase, site.local, epochs, site.stream(number, at))
        if not drawn.steps:
            return None
        final = phase == site.learner.phases[-1]
        rng = np.random.default_rng(site.stream(_TRAINS, number, at, 1))
        words = rng.integers(2**32, size=2, dtype=np.uint32)
        return LocalWork(
            self.weights,
            self.moments if final else None,
            site.rows,
            drawn,
            jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32"),
            self._control(),
            self._rate(),
        )

    def _control(self) -> np.ndarray | None:
        """Return what SCAFFOLD adds to the site's gradients: the common control less its own."""
        if not self.site.controls:
            return None
        own = self.site.control
        return self.model.extras["control"] - (0 if own is None else own)

    def _rate(self) -> tuple[float, float]:
        """Return relative step sizes at the round's beginning and end."""
        number, total = self.model.round, self.site.settings.rounds
        if not (self.site.local.decay and number > 0):
            return 1.0, 1.0
        begun, ended = (0.5 * (1 + np.cos(np.pi * k / total)) for k in (number - 1, number))
        return float(begun), float(ended)

    def done(self, phase: Phase, drawn: BatchPlan, made: LocalResult) -> None:
        """Take over what the training of a phase has made."""
        final = phase == self.site.learner.phases[-1]
        self.weights = made.weights
        self.moments = made.moments if final else self.moments
        self.steps += made.steps
        self.travelled += made.travelled
        self.rows |= set(phase.taught_by(self.site.rows).tolist())
        prefix = "" if final else f"{phase.name}_"
        self.figures |= {f"{prefix}{name}": value for name, value in made.figures.items()}
        event = _event(self.site, phase, drawn)
        self.events += [] if event is None else [event]

    def lesson(self) -> tuple[RowSite, Lesson | None]:
        """Return the site after the round and what it learned; None if it had no rows for it."""
        site, model = self.site, self.model
        if not self.steps:
            return site, None
        change, extras, control = self.weights - model.weights, {}, site.control
        if site.controls and model.round:
            own = np.zeros_like(self.weights) if control is None else control
            control = (own - model.extras["control"] - change / self.travelled).astype(np.float32)
            extras = {"control": control - own}
        private = site.local.dp is not None or site.settings.site_noise is not None
        lesson = Lesson(
            model.round,
            change,
            len(self.rows),
            extras,
            {} if private else {n: v for n, v in self.figures.items() if np.isfinite(v)},
            compose(self.events) if self.events else None,
        )
        if not np.isfinite(self.weights).all():
            # What a diverged training leaves behind would spoil every later round too.
            return replace(site, moments=None), lesson
        kept = self.moments if site.local.moments == "keep" else None
        return replace(site, moments=kept, control=control), lesson


def _event(site: RowSite, phase: Phase, drawn: BatchPlan) -> Event | None:
    """Return what private training of a phase cost."""
    if site.local.dp is None or not site.local.dp.noise_multiplier:
        return None
    rows = len(phase.taught_by(site.rows))
    return sgd_event(
        site.local.dp.noise_multiplier,
        rate=min(1.0, site.local.batch / rows),
        steps=drawn.steps,
        rows=rows,
    )


def taught(
    sites: Sequence[RowSite], models: Mapping[int, ModelWeights], *, pretrain: bool
) -> dict[int, tuple[RowSite, Lesson | None]]:
    """Train the sites that have been sent a model, and return them with what they learned.

    Parameters
    ----------
    sites
        All sites of a call.
    models
        The common model, by the site's position.
    pretrain
        Whether to train the phases before the rounds, else the last one.
    """
    courses = {
        k: _Course(sites[k], model, model.weights, sites[k].moments) for k, model in models.items()
    }
    groups: dict[Any, list[_Course]] = {}
    for course in courses.values():
        site = course.site
        phases = _phases(site, pretrain)
        alike = (site.learner, site.local, phases, site.settings.together, _changing(site))
        groups.setdefault(alike, []).append(course)
    for (learner, local, phases, together, changing), group in groups.items():
        for at, (phase, epochs) in enumerate(phases):
            pairs = [(course, course.work(at, phase, epochs)) for course in group]
            work = [(course, one) for course, one in pairs if one is not None]
            trained = train_sites(
                learner,
                phase,
                local,
                [one for _, one in work],
                together=together,
                changing=changing,
            )
            for (course, one), made in zip(work, trained, strict=True):
                course.done(phase, one.plan, made)
    return {k: course.lesson() for k, course in courses.items()}


def _phases(site: RowSite, pretrain: bool) -> Phases:
    if pretrain:
        return site.settings.pretraining(site.learner)
    return ((site.learner.phases[-1], site.local.epochs),)


def _changing(site: RowSite) -> bool:
    """Return whether other sites may train in the next round."""
    return site.settings.participation < 1 or site.settings.dropout > 0
