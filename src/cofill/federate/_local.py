"""Training at the sites: some epochs from common weights, all sites of a call as one program.

Which rows a step takes is drawn beforehand, by NumPy, from the site's own seed: the same rows
whether sites are trained as a batch or one after another, and the same after a restart. Sites with
fewer rows than others take empty steps at the end, which change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float

from cofill.errors import SettingError
from cofill.federate._learner import AbstractLearner, Batch, Phase, roomy, unravel_of
from cofill.federate._rows import Rows
from cofill.nets import DPSettings
from cofill.nets._private import capacity, private_gradient

__all__ = ["Local", "LocalSettings", "Plan", "Work", "plan", "train_sites"]


@dataclass(frozen=True)
class LocalSettings:
    """How a site trains between two exchanges.

    Parameters
    ----------
    epochs
        Passes over the site's rows in a round.
    batch
        Rows of a stream in a step.
    optimizer
        ``"adam"`` or ``"sgd"`` (with a momentum of 0.9 unless ``momentum`` says otherwise).
    learning_rate
        The largest step; it falls to zero along a cosine over all rounds when ``decay`` is True.
    first_moment, momentum
        Adam's β₁, and the momentum of plain steps.
    moments
        ``"keep"`` an optimiser's moments at the site from round to round, or ``"reset"`` them.
    clip
        Largest norm of a step's gradient; None for no limit.
    proximal
        μ of FedProx: pulls towards the weights that the round began with. Strategies set it.
    dp
        Differentially private steps (DP-SGD) for learners with one stream; None for none. Updates
        then carry their event and no figures, for the noise does not cover those. The number of
        a site's rows is public. Samples and noise come from the operating system: no seed repeats
        them.

    Examples
    --------
    >>> LocalSettings(epochs=2).batch
    32
    """

    epochs: int = 1
    batch: int = 32
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float | int = 2e-3
    decay: bool = True
    first_moment: float | int = 0.9
    momentum: float | int = 0.9
    moments: Literal["keep", "reset"] = "keep"
    clip: float | int | None = None
    proximal: float | int = 0.0
    dp: DPSettings | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, allowed in (("optimizer", ("adam", "sgd")), ("moments", ("keep", "reset"))):
            if getattr(self, name) not in allowed:
                raise SettingError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        if not 0 < self.learning_rate < math.inf:
            raise SettingError(f"learning_rate must be above 0, got {self.learning_rate}")
        for name in ("first_moment", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not 0 <= self.proximal < math.inf:
            raise SettingError(f"proximal must be at least 0, got {self.proximal}")
        if self.clip is not None and not self.clip > 0:
            raise SettingError(f"clip must be above 0 or None, got {self.clip}")

    def steps_by(self) -> optax.GradientTransformation:
        """Return the optimiser without its step size."""
        clipped = [] if self.clip is None else [optax.clip_by_global_norm(self.clip)]
        if self.optimizer == "adam":
            return optax.chain(*clipped, optax.scale_by_adam(b1=self.first_moment))
        return optax.chain(*clipped, optax.trace(decay=self.momentum))


class Plan(NamedTuple):
    """Which rows each step takes: stream → steps × batch positions, −1 where none.

    ``expected`` is the number of rows that a private step expects to draw.
    """

    positions: dict[str, np.ndarray]
    steps: int
    expected: float = 1.0


class Local(NamedTuple):
    """What one site's training made.

    ``weights`` are new, ``moments`` the optimiser's state, ``steps`` how many it took,
    ``travelled`` the sum of their sizes, ``figures`` means over steps.
    """

    weights: Float[np.ndarray, " P"]
    moments: Any
    steps: int
    travelled: float
    figures: dict[str, float]


@dataclass(frozen=True, eq=False)
class Work:
    """One site's part of a call: where it starts, its rows, which of them when."""

    weights: Float[np.ndarray, " P"]
    moments: Any
    rows: Rows
    plan: Plan
    key: Array
    control: Float[np.ndarray, " P"] | None = None
    rate: tuple[float, float] = (1.0, 1.0)

    @property
    def rates(self) -> Float[np.ndarray, " steps"]:
        """The size of each step relative to the largest: from the first rate towards the second."""
        (start, end), own = self.rate, self.plan.steps
        return (start + (end - start) * np.arange(own) / max(own, 1)).astype(np.float32)


def plan(
    rows: Rows, phase: Phase, settings: LocalSettings, epochs: int, seed: Sequence[int]
) -> Plan:
    """Draw which rows each step takes.

    The longest stream is gone through once an epoch, shorter ones begin again. With DP every step
    draws each row with the same probability (Poisson), as the accountant assumes.

    Examples
    --------
    >>> table = Rows(np.zeros((5, 2), np.float32), np.ones((5, 2), bool), np.ones((5, 2), bool))
    >>> drawn = plan(table, Phase("rounds", ("complete",)), LocalSettings(batch=2), 1, [0])
    >>> drawn.steps, sorted(drawn.positions["complete"].ravel().tolist())
    (3, [-1, 0, 1, 2, 3, 4])
    """
    rng = np.random.default_rng(list(seed))
    places = phase.rows(rows)
    longest = max((len(p) for p in places.values()), default=0)
    each = math.ceil(longest / settings.batch)
    if settings.dp is not None:
        ((name, own),) = places.items()  # `site_of` refuses several streams
        return _poisson(rng, name, own, settings.batch, each * epochs)
    index = {}
    for name, own in places.items():
        made = np.full((epochs, each * settings.batch), -1, dtype=np.int32)
        for epoch in range(epochs if len(own) else 0):
            if len(own) == longest:
                made[epoch, :longest] = rng.permutation(own)
            else:
                turns = math.ceil(longest / len(own))
                drawn = np.concatenate([rng.permutation(own) for _ in range(turns)])
                made[epoch, :longest] = drawn[:longest]
        index[name] = made.reshape(epochs * each, settings.batch)
    return Plan(index, epochs * each)


def _poisson(rng: np.random.Generator, name: str, own: np.ndarray, batch: int, steps: int) -> Plan:
    rate = min(1.0, batch / max(len(own), 1))
    places = max(capacity(len(own), rate), 1) if len(own) else 1
    index = np.full((steps, places), -1, dtype=np.int32)
    for step in range(steps):
        drawn = own[rng.random(len(own)) < rate][:places]
        index[step, : len(drawn)] = drawn
    return Plan({name: index}, steps, float(max(rate * len(own), 1.0)))


def train_sites(
    learner: AbstractLearner,
    phase: Phase,
    settings: LocalSettings,
    work: Sequence[Work],
    *,
    together: bool = True,
    changing: bool = False,
) -> list[Local]:
    """Train every site's copy of the model.

    Parameters
    ----------
    learner, phase, settings
        The model, what it trains now, and how.
    work
        One entry for each site.
    together
        Train all sites as one batch, or one after another: the same result, up to the rounding of
        sums that are taken in another order.
    changing
        Whether other sites come next time: then programs are made for some steps more than these
        sites need, so that those of other sizes can use them.
    """
    if not work:
        return []
    steps = max(w.plan.steps for w in work)
    steps = roomy(steps) if changing else steps
    size = roomy(max(len(w.rows) for w in work))  # more rows are no more work
    if together:
        return _trained(learner, phase, settings, work, steps, size)
    return [_trained(learner, phase, settings, [w], steps, size)[0] for w in work]


def _trained(
    learner: AbstractLearner,
    phase: Phase,
    settings: LocalSettings,
    work: Sequence[Work],
    steps: int,
    size: int,
) -> list[Local]:
    rates = np.zeros((len(work), steps), dtype=np.float32)
    planned = np.arange(steps) < np.array([w.plan.steps for w in work])[:, None]
    index: dict[str, np.ndarray] = {}
    for k, one in enumerate(work):
        rates[k, : one.plan.steps] = one.rates
    for stream in phase.streams:
        widest = max(w.plan.positions[stream].shape[1] for w in work)
        index[stream] = np.full((len(work), steps, widest), -1, dtype=np.int32)
        for k, one in enumerate(work):
            drawn = one.plan.positions[stream]
            index[stream][k, : len(drawn), : drawn.shape[1]] = drawn
    begun = settings.steps_by().init(jnp.asarray(work[0].weights))
    moments = [begun if w.moments is None else w.moments for w in work]
    controls: list[Any] = [w.control for w in work]
    given = {
        "weights": np.stack([w.weights for w in work]),
        "moments": jax.tree.map(lambda *leaves: np.stack(leaves), *moments),
        **_tables(tuple(w.rows for w in work), size),
        "index": index,
        "rates": rates,
        "planned": planned,
        "keys": jnp.stack([w.key for w in work]),
        "control": None if controls[0] is None else np.stack(controls),
        "expected": np.array([w.plan.expected for w in work], dtype=np.float32),
    }
    weights, moments, figures = jax.tree.map(np.asarray, _program(learner, phase, settings, given))
    with np.errstate(invalid="ignore", over="ignore"):  # of training that diverged
        means = {
            n: [float(v[k][planned[k]].mean()) for k in range(len(work))]
            for n, v in figures.items()
        }
    return [
        Local(
            weights[k],
            jax.tree.map(lambda leaf, at=k: leaf[at], moments),
            one.plan.steps,
            float(settings.learning_rate * one.rates.sum(dtype=np.float64)),
            {name: values[k] for name, values in means.items()},
        )
        for k, one in enumerate(work)
    ]


@lru_cache(maxsize=4)
def _tables(tables: tuple[Rows, ...], size: int) -> dict[str, Array]:
    """Return the rows of sites as one batch on the device, kept for the next round's same sites."""
    return {
        name: jnp.asarray(_stacked([getattr(rows, name) for rows in tables], size))
        for name in ("cells", "known", "present")
    }


def _stacked(arrays: Sequence[np.ndarray], size: int) -> np.ndarray:
    made = np.zeros((len(arrays), size, *arrays[0].shape[1:]), dtype=arrays[0].dtype)
    for k, array in enumerate(arrays):
        made[k, : len(array)] = array
    return made


@jax.jit(static_argnums=(0, 1, 2))
def _program(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings, given: Mapping[str, Any]
) -> tuple[Array, Any, dict[str, Array]]:
    axes = {name: (None if value is None else 0) for name, value in given.items()}
    return jax.vmap(lambda one: _one(learner, phase, settings, one), in_axes=(axes,))(given)


def _one(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings, given: Mapping[str, Any]
) -> tuple[Array, Any, dict[str, Array]]:
    """Train one site's copy; vmapped over sites."""
    unravel = unravel_of(learner)
    moves = settings.steps_by()
    start = given["weights"]

    def loss(weights: Array, batches: dict[str, Batch], key: Array) -> tuple[Array, Any]:
        total, figures = learner.loss(phase.name, unravel(weights), batches, key)
        return total, {"loss": total, **figures}

    def gathered(index: Array) -> Batch:
        at = jnp.maximum(index, 0)
        weight = (index >= 0).astype(start.dtype)
        return Batch(
            given["cells"][at],
            given["known"][at].astype(start.dtype),
            given["present"][at].astype(start.dtype) * weight[:, None],
            weight,
        )

    def slope_of(weights: Array, batches: dict[str, Batch], key: Array) -> tuple[Array, Any]:
        if settings.dp is None:
            (_, figures), slope = jax.value_and_grad(loss, has_aux=True)(weights, batches, key)
            return slope, figures
        return _private_slope(loss, weights, batches, key, settings.dp, given["expected"])

    def step(carry: Any, drawn: Any) -> tuple[Any, Any]:
        weights, moments = carry
        number, rate, planned, index = drawn
        batches = {name: gathered(places) for name, places in index.items()}
        slope, figures = slope_of(weights, batches, jax.random.fold_in(given["keys"], number))
        if settings.proximal:
            slope = slope + settings.proximal * (weights - start)
        if given["control"] is not None:
            slope = slope + given["control"]
        move, new = moves.update(slope, moments, weights)
        moved = weights - settings.learning_rate * rate * move
        # A private step whose sample is empty is a step: without its noise, it would tell so.
        kept = jax.tree.map(lambda a, b: jnp.where(planned, a, b), (moved, new), (weights, moments))
        return kept, figures

    steps = jnp.arange(given["rates"].shape[0])
    (weights, moments), figures = lax.scan(
        step, (start, given["moments"]), (steps, given["rates"], given["planned"], given["index"])
    )
    return weights, moments, figures


def _private_slope(
    loss: Any,
    weights: Array,
    batches: dict[str, Batch],
    key: Array,
    dp: DPSettings,
    expected: Array,
) -> tuple[Array, Any]:
    """Return the private gradient of the rows drawn, and their mean loss."""
    ((name, batch),) = batches.items()

    def of_row(number: Array, own: Array) -> tuple[Array, Array]:
        row = Batch(*(column[number][None] for column in batch))
        (total, _), slope = jax.value_and_grad(loss, has_aux=True)(weights, {name: row}, own)
        return total, slope

    places = jnp.arange(len(batch.weight))
    mean, slope = private_gradient(of_row, places, batch.weight > 0, expected, dp, key)
    return slope, {"loss": mean}
