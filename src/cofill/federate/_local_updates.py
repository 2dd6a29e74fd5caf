"""What a site does in a round: train from the common weights, and report the change.

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

from cofill.federate._aggregation import LocalUpdate
from cofill.federate._common_model import Phase
from cofill.federate._local import LocalResult, LocalWork, plan_batches, train_sites
from cofill.federate._parties import RowSite
from cofill.privacy import Event, ModelWeights, compose, sgd_event

# Purposes of a site's random streams.
_DROP_OUT, _TRAINING = 0xD0, 0x4B


def answers(site: RowSite, number: int) -> bool:
    """Return whether a site answers in a round, when drop-outs are being tried."""
    dropout = site.design.settings.dropout
    rng = np.random.default_rng(site.stream(_DROP_OUT, number, 1))
    return not dropout or bool(rng.random() >= dropout)


@dataclass
class LocalRun:
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
        plan = plan_batches(site.rows, phase, site.local, epochs, site.stream(number, at))
        if not plan.steps:
            return None
        rng = np.random.default_rng(site.stream(_TRAINING, number, at, 1))
        words = rng.integers(2**32, size=2, dtype=np.uint32)
        return LocalWork(
            self.weights,
            self.moments if self._is_last(phase) else None,
            site.rows,
            plan,
            jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32"),
            self._correction(),
            self._rate(),
        )

    def _is_last(self, phase: Phase) -> bool:
        return phase == self.site.learner.phases[-1]

    def _correction(self) -> np.ndarray | None:
        """Return what SCAFFOLD adds to the site's gradients: the common control less its own."""
        if not self.site.design.strategy.controls:
            return None
        control = self.site.control
        return self.model.extras["control"] - (0 if control is None else control)

    def _rate(self) -> tuple[float, float]:
        """Return relative step sizes at the round's beginning and end, along a cosine."""
        number, total = self.model.round, self.site.design.settings.rounds
        local, first, last = self.site.local, 1.0, 1.0
        if local.decay and number > 0:
            first, last = (0.5 * (1 + np.cos(np.pi * k / total)) for k in (number - 1, number))
        return 0.0 if local.warm_up and number == 1 else float(first), float(last)

    def take(self, phase: Phase, work: LocalWork, result: LocalResult) -> None:
        """Take over the result of a phase."""
        is_last, local = self._is_last(phase), self.site.local
        rows = phase.training_rows(self.site.rows)
        self.weights = result.weights
        self.moments = result.moments if is_last else self.moments
        self.steps += work.plan.steps
        self.travelled += local.learning_rate * float(work.rates.sum(dtype=np.float64))
        self.rows |= set(rows.tolist())
        prefix = "" if is_last else f"{phase.name}_"
        self.figures |= {f"{prefix}{name}": value for name, value in result.figures.items()}
        if local.dp is not None and local.dp.noise_multiplier:
            rate = min(1.0, local.batch / len(rows))
            steps = {"rate": rate, "steps": work.plan.steps, "rows": len(rows)}
            self.events.append(sgd_event(local.dp.noise_multiplier, **steps))

    def end(self) -> tuple[RowSite, LocalUpdate | None]:
        """Return the site after the round and its update; None if it has nothing to add."""
        site, model, design = self.site, self.model, self.site.design
        if not self.steps:
            return site.learner.add_up(site, model)
        change, extras, control = self.weights - model.weights, {}, site.control
        if design.strategy.controls and model.round:
            before = np.zeros_like(self.weights) if control is None else control
            control = before - model.extras["control"] - change / self.travelled
            control = control.astype(np.float32)
            extras = {"control": control - before}
        figures = {n: v for n, v in self.figures.items() if np.isfinite(v)}
        update = LocalUpdate(
            model.round,
            change,
            len(self.rows),
            extras,
            {} if site.hides_figures else figures,
            compose(self.events) if self.events else None,
        )
        if not np.isfinite(self.weights).all():
            # What a diverged training leaves behind would spoil every later round too.
            return replace(site, moments=None), update
        moments = self.moments if site.local.moments == "keep" else None
        return replace(site, moments=moments, control=control), update


def train_locally(
    sites: Sequence[RowSite], models: Mapping[int, ModelWeights], *, pretrain: bool = False
) -> dict[int, tuple[RowSite, LocalUpdate | None]]:
    """Return the sites that got a model, trained, with their updates.

    ``models`` holds the common model by the site's position; ``pretrain`` trains the phases before
    the rounds, else the last one.
    """
    runs = {
        k: LocalRun(sites[k], model, model.weights, sites[k].moments) for k, model in models.items()
    }
    for run in runs.values():
        if not pretrain and run.site.judges:
            error = run.site.learner.error(run.model.weights, run.site.held_out)
            run.figures["held_out"] = error
    groups: dict[Any, list[LocalRun]] = {}
    for run in runs.values():
        learner, design = run.site.learner, run.site.design
        settings = design.settings
        rounds = tuple((phase, run.site.local.epochs) for phase in learner.phases[-1:])
        phases = settings.pretraining(learner) if pretrain else rounds
        changing = settings.participation < 1 or settings.dropout > 0  # other sites come next
        alike = (learner, run.site.local, phases, changing)
        groups.setdefault(alike, []).append(run)
    for (learner, local, phases, changing), group in groups.items():
        for at, (phase, epochs) in enumerate(phases):
            pairs = [(run, run.work(at, phase, epochs)) for run in group]
            jobs = [(run, work) for run, work in pairs if work is not None]
            work = [work for _, work in jobs]
            results = train_sites(learner, phase, local, work, changing=changing)
            for (run, job), result in zip(jobs, results, strict=True):
                run.take(phase, job, result)
    return {k: run.end() for k, run in runs.items()}
