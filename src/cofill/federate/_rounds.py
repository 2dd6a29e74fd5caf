"""Rounds as a protocol: the coordinator invites sites, they train and answer, it aggregates.

``invite → train → aggregate`` is one round; round 0 is the pre-training of models that have one.
Nothing but models and updates crosses a border, as declared releases through the gate. A site that
does not answer, or answers with something unsound, is named and left out; the round goes on with
the others. Between rounds nothing is under way, so that a checkpoint is the parties themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from cofill.errors import DataError, SettingError
from cofill.federate._learner import AbstractLearner, Phase, weights_of
from cofill.federate._local import LocalSettings, Work, plan, train_sites
from cofill.federate._rows import Rows
from cofill.federate._strategies import AbstractStrategy, FedAvg
from cofill.privacy import Model, Release, Update
from cofill.protocol import COORDINATOR, Federation, Step, run_steps
from cofill.views import Scaler

__all__ = [
    "Coordinator",
    "RoundSettings",
    "RowSite",
    "coordinator_of",
    "federation_of",
    "require_lessons",
    "round_steps",
    "run_rounds",
    "site_of",
]

Outbox = Sequence[Release]


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
        Chance that an invited site does not answer, to try what happens then.
    pretrain
        Epochs of each phase before the rounds, by the phase's name; 0 leaves it out.
    together
        Train the sites of a process as one batch, or one after another.

    Examples
    --------
    >>> RoundSettings(rounds=3).participation
    1.0
    """

    rounds: int = 40
    participation: float | int = 1.0
    min_sites: int = 1
    dropout: float | int = 0.0
    pretrain: Mapping[str, int] = field(default_factory=lambda: {"autoencoder": 20, "cycle": 5})
    together: bool = True

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


@dataclass(frozen=True, eq=False)
class RowSite:
    """A site that holds individuals: its rows, its optimiser's moments, its control, its scales."""

    name: str
    rows: Rows
    learner: AbstractLearner
    local: LocalSettings
    settings: RoundSettings
    seed: int
    moments: Any = None
    control: Float[np.ndarray, " P"] | None = None
    controls: bool = False
    scalers: Mapping[str, Scaler] = field(default_factory=dict)

    def stream(self, *purpose: int) -> list[int]:
        """Return the seed of one of the site's random streams: it depends on nobody else."""
        return [self.seed, zlib.crc32(self.name.encode()), *purpose]


@dataclass(frozen=True, eq=False)
class Coordinator:
    """Holds the common model, chooses sites, adds up; sees no row.

    ``notes`` says which answers were refused or missing; ``curve`` has one entry per round with
    the sites' figures, weighted by rows.
    """

    names: tuple[str, ...]
    weights: Float[np.ndarray, " P"]
    strategy: AbstractStrategy
    state: Mapping[str, np.ndarray]
    settings: RoundSettings
    seed: int
    round: int = 0
    invited: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    curve: tuple[Mapping[str, float], ...] = ()


def federation_of(
    rows: Mapping[str, Rows],
    learner: AbstractLearner,
    *,
    local: LocalSettings,
    settings: RoundSettings,
    strategy: AbstractStrategy | None = None,
    seed: int = 0,
) -> Federation[RowSite]:
    """Return sites and a coordinator that are ready for their first round."""
    coordinator = coordinator_of(tuple(rows), learner, settings, strategy or FedAvg(), seed)
    sites = {
        name: site_of(name, own, learner, local, settings, coordinator.strategy, seed)
        for name, own in rows.items()
    }
    federation = Federation(sites, coordinator=coordinator)
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
    weights = weights_of(learner, jax.random.key(seed))
    return Coordinator(names, weights, strategy, strategy.init(weights), settings, seed)


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
    if strategy.controls and (local.optimizer != "sgd" or local.moments != "reset"):
        raise SettingError(
            f"strategy {strategy.name!r} needs plain steps: optimizer 'sgd' and moments 'reset', "
            f"got {local.optimizer!r} and {local.moments!r}"
        )
    local = replace(local, proximal=strategy.proximal or local.proximal)
    return RowSite(name, rows, learner, local, settings, seed, controls=strategy.controls)


def require_lessons(federation: Federation[RowSite]) -> None:
    """Raise a `DataError` if no site has rows that the model can learn from."""
    sites = federation.sites.values()
    if not any(len(p) for s in sites for p in s.learner.phases[-1].rows(s.rows).values()):
        raise DataError(
            "no site has an individual with more than one modality, so there is nothing to learn "
            "from; check that modalities name individuals by the same ids"
        )


def run_rounds(
    federations: Sequence[Federation[RowSite]],
    *,
    progress: Callable[[str, float], None] | None = None,
    after: Callable[[int], None] | None = None,
    until: int | None = None,
) -> None:
    """Run the rounds that are still to come, of several federations as one.

    Parameters
    ----------
    federations
        With the same learner and settings (repeats with other seeds, say).
    progress
        Called with what is done and the share done.
    after
        Called with the number of each round that has ended (0 is the pre-training).
    until
        Stop after this round; all rounds unless told.
    """
    first: Coordinator = federations[0].coordinator
    total = first.settings.rounds
    learner = next(iter(federations[0].sites.values())).learner
    pretrains = any(first.settings.pretrain.get(p.name, 0) for p in learner.phases[:-1])
    last = total if until is None else min(until, total)
    while first.round <= last:
        number = first.round
        if number == 0 and not pretrains:
            for federation in federations:
                federation.coordinator = replace(federation.coordinator, round=1)
        else:

            def tell(what: str, share: float, at: int = number) -> None:
                if progress is not None:
                    word = "pre-training" if at == 0 else f"round {at} of {total}"
                    progress(word, (at + share) / (total + 1))

            run_steps(round_steps(pretrain=number == 0), federations, progress=tell)
        if after is not None and (number or pretrains):
            after(number)
        first = federations[0].coordinator
    if progress is not None:
        progress("rounds done", 1.0)


def round_steps(*, pretrain: bool = False) -> list[Step[Any]]:
    """Return the steps of one round."""
    return [
        Step("invite", _invite, at="coordinator"),
        Step("pre-train" if pretrain else "train", _pretrain if pretrain else _train),
        Step("aggregate", _aggregate, at="coordinator"),
    ]


def _invite(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], tell: Any
) -> list[tuple[Coordinator, Outbox]]:
    made = []
    for party in parties:
        invited = party.names
        wanted = max(round(party.settings.participation * len(invited)), party.settings.min_sites)
        if party.round and wanted < len(invited):  # everybody pre-trains
            rng = np.random.default_rng([party.seed, 0xC0, party.round])
            chosen = set(rng.permutation(len(invited))[:wanted].tolist())
            invited = tuple(name for k, name in enumerate(invited) if k in chosen)
        extras = {"control": party.state["control"]} if party.strategy.controls else {}
        letters = [
            Model(
                sender=COORDINATOR,
                receiver=name,
                round=party.round,
                weights=party.weights,
                extras=extras,
            )
            for name in invited
        ]
        made.append((replace(party, invited=invited), letters))
    return made


def _train(
    sites: Sequence[RowSite], inboxes: Sequence[Any], tell: Any
) -> list[tuple[RowSite, Outbox]]:
    """Train for a round at every invited site that has rows for it."""
    return _answers(sites, inboxes, lambda site: [(site.learner.phases[-1], site.local.epochs)])


def _pretrain(
    sites: Sequence[RowSite], inboxes: Sequence[Any], tell: Any
) -> list[tuple[RowSite, Outbox]]:
    """Train the phases before the rounds, one after another."""
    return _answers(
        sites,
        inboxes,
        lambda site: [(p, site.settings.pretrain.get(p.name, 0)) for p in site.learner.phases[:-1]],
    )


def _answers(
    sites: Sequence[RowSite],
    inboxes: Sequence[Any],
    phases_of: Callable[[RowSite], list[tuple[Phase, int]]],
) -> list[tuple[RowSite, Outbox]]:
    models = [next((r for r in inbox if isinstance(r, Model)), None) for inbox in inboxes]
    awake = [
        k for k, model in enumerate(models) if model is not None and _answering(sites[k], model)
    ]
    if not awake:
        return [(site, []) for site in sites]
    phases = phases_of(sites[awake[0]])
    begun = {k: models[k].weights for k in awake}  # pyright: ignore[reportOptionalMemberAccess]
    moments: dict[int, Any] = {
        k: sites[k].moments if sites[k].local.moments == "keep" else None for k in awake
    }
    figures: dict[int, dict[str, float]] = {k: {} for k in awake}
    taken: dict[int, int] = dict.fromkeys(awake, 0)
    now = dict(begun)
    for at, (phase, epochs) in enumerate(phases):
        if not epochs:
            continue
        final = phase.name == sites[awake[0]].learner.phases[-1].name
        work = {}
        for k in awake:
            drawn = plan(
                sites[k].rows, phase, sites[k].local, epochs, sites[k].stream(_round(models[k]), at)
            )
            if drawn.steps:
                work[k] = _work(sites[k], models[k], now[k], moments[k] if final else None, drawn)
        trained = train_sites(
            sites[awake[0]].learner,
            phase,
            sites[awake[0]].local,
            list(work.values()),
            together=sites[awake[0]].settings.together,
        )
        for k, done in zip(work, trained, strict=True):
            now[k] = done.weights
            moments[k] = done.moments if final else moments[k]
            prefix = "" if final else f"{phase.name}_"
            figures[k] |= {f"{prefix}{name}": value for name, value in done.figures.items()}
            taken[k] += done.steps
    return [
        _answer(site, model, now[k], moments[k], taken[k], figures[k])
        if k in now and model is not None
        else (site, [])
        for k, (site, model) in enumerate(zip(sites, models, strict=True))
    ]


def _round(model: Model | None) -> int:
    return 0 if model is None else model.round


def _answering(site: RowSite, model: Model) -> bool:
    """Return whether a site answers, when drop-outs are being tried."""
    if not site.settings.dropout:
        return True
    rng = np.random.default_rng(site.stream(0xD0, model.round))
    return bool(rng.random() >= site.settings.dropout)


def _work(site: RowSite, model: Model | None, weights: Any, moments: Any, drawn: Any) -> Work:
    assert model is not None  # noqa: S101 - only invited sites get here
    control = None
    if site.controls:
        own = np.zeros_like(model.weights) if site.control is None else site.control
        control = model.extras["control"] - own
    total, number = site.settings.rounds, model.round
    decays = site.local.decay and number > 0
    rate = tuple(
        0.5 * (1 + np.cos(np.pi * (number - 1 + k) / total)) if decays else 1.0 for k in (0, 1)
    )
    key = jax.random.key(int(np.random.default_rng(site.stream(0x4B, number)).integers(2**31)))
    return Work(weights, moments, site.rows, drawn, key, control, (float(rate[0]), float(rate[1])))


def _answer(
    site: RowSite,
    model: Model,
    weights: Any,
    moments: Any,
    steps: int,
    figures: Mapping[str, float],
) -> tuple[RowSite, Outbox]:
    if not steps:  # the coordinator should know that the site is there and has nothing to teach
        nothing = Update(
            sender=site.name,
            receiver=COORDINATOR,
            round=model.round,
            change=np.zeros(0, dtype=np.float32),
            rows=0,
        )
        return site, [nothing]
    extras = {}
    control = site.control
    if site.controls and model.round:
        own = np.zeros_like(weights) if control is None else control
        mean_rate = _mean_rate(site, model.round)
        control = (
            own
            - model.extras["control"]
            + (model.weights - weights) / (steps * site.local.learning_rate * mean_rate)
        )
        extras = {"control": control - own}
    update = Update(
        sender=site.name,
        receiver=COORDINATOR,
        round=model.round,
        change=weights - model.weights,
        rows=len(site.rows),
        extras=extras,
        metrics=dict(figures),
    )
    return replace(site, moments=moments, control=control), [update]


def _mean_rate(site: RowSite, number: int) -> float:
    """Return the mean of a round's step sizes relative to the largest."""
    if not site.local.decay:
        return 1.0
    total = site.settings.rounds
    ends = [0.5 * (1 + np.cos(np.pi * (number - 1 + k) / total)) for k in (0, 1)]
    return max(float(np.mean(ends)), 1e-3)


def _aggregate(
    parties: Sequence[Coordinator], inboxes: Sequence[Any], tell: Any
) -> list[tuple[Coordinator, Outbox]]:
    return [(_aggregated(p, inbox), []) for p, inbox in zip(parties, inboxes, strict=True)]


def _aggregated(party: Coordinator, inbox: Sequence[Release]) -> Coordinator:
    """Return the coordinator after a round: bad answers are named and left out."""
    notes, sound = [], []
    wanted = {"control": party.weights.shape} if party.strategy.controls and party.round else {}
    for release in inbox:
        fault = _fault(release, party, wanted)
        if fault:
            notes.append(f"round {party.round}: site {release.sender!r} {fault}; left out")
        else:
            sound.append(release)
    answered = {release.sender for release in inbox}
    notes += [
        f"round {party.round}: site {name!r} did not answer; left out"
        for name in party.invited
        if name not in answered
    ]
    if len(sound) < party.settings.min_sites:
        raise DataError(
            f"round {party.round}: {len(sound)} of {len(party.invited)} sites gave a sound answer, "
            f"and min_sites is {party.settings.min_sites}; "
            + (notes[0] if notes else "nobody was invited")
        )
    rows = np.array([u.rows for u in sound], dtype=np.float64)
    share = rows / rows.sum() if party.strategy.by_rows else np.full(len(rows), 1 / len(rows))
    mean = {"change": _mean([u.change for u in sound], share)}
    for name in wanted:
        alike = np.full(len(sound), 1 / len(sound))
        mean[name] = _mean([u.extras[name] for u in sound], alike)
    if party.round:
        part = len(sound) / len(party.names)
        state, weights = party.strategy.apply(dict(party.state), party.weights, mean, part)
    else:  # what pre-training made is averaged (Eq. 2.1), whatever the strategy
        state, weights = party.state, party.weights + mean["change"]
    names = sorted({name for u in sound for name in u.metrics})
    told = {
        name: float(sum(s * u.metrics.get(name, 0.0) for s, u in zip(share, sound, strict=True)))
        for name in names
    }
    return replace(
        party,
        weights=weights.astype(np.float32),
        state=state,
        round=party.round + 1,
        notes=(*party.notes, *(n for n in notes if not _told(n, party.notes))),
        curve=(*party.curve, {"round": party.round, "sites": len(sound), **told}),
    )


def _told(note: str, before: Sequence[str]) -> bool:
    """Return whether the same was said of an earlier round."""
    return any(note.partition(":")[2] == other.partition(":")[2] for other in before)


def _mean(vectors: Sequence[np.ndarray], share: np.ndarray) -> np.ndarray:
    total = np.zeros(vectors[0].shape, dtype=np.float64)
    for part, vector in zip(share, vectors, strict=True):
        total += part * vector
    return total.astype(np.float32)


def _fault(
    release: Release, party: Coordinator, wanted: Mapping[str, tuple[int, ...]]
) -> str | None:
    """Return what is wrong with an answer, in words; None when nothing is."""
    if not isinstance(release, Update):
        return f"sent {type(release).kind} where an update was asked for"
    if release.sender not in party.invited:
        return "was not invited"
    if release.round != party.round:
        return f"answered round {release.round}"
    if release.rows < 1:
        return "has no individual that this model can learn from"
    vectors = {"change": release.change, **{n: release.extras.get(n) for n in wanted}}
    for name, vector in vectors.items():
        if vector is None:
            return f"sent no {name}"
        if vector.shape != party.weights.shape:
            return f"sent a {name} of shape {vector.shape} for {party.weights.shape}"
        if not np.isfinite(vector).all():
            return f"sent a {name} with {int((~np.isfinite(vector)).sum())} numbers not finite"
    return None
