"""Training at the sites: some epochs from common weights, all sites of a call as one program.

The steps are those of the engine in `cofill.nets`; this module brings its loss and its batches.
Which rows a step takes is drawn beforehand, by NumPy, from the site's own seed: the same rows
whether sites are trained as a batch or one after another, and the same after a restart. Sites with
fewer rows than others take empty steps at the end, which change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from cofill import nets
from cofill.federate._common_model import Phase
from cofill.federate._learner import AbstractLearner, Batch, make_unravel
from cofill.federate._rows import Rows
from cofill.nets import (
    DPSettings,
    State,
    Trainer,
    advance,
    make_optimizer,
    require_above_zero,
    require_at_least,
    require_in,
    round_up,
    sample_capacity,
)
from cofill.privacy import require_one_of


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
        The largest step; it falls to zero along a cosine over all rounds when ``decay`` is True,
        and rises from zero in the first round when ``warm_up`` is.
    first_moment, second_moment, momentum
        Adam's β₁ and β₂, and the momentum of plain steps.
    weight_decay
        Share of the weights by which each step shrinks them, times the step's size.
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
    """

    epochs: int = 1
    batch: int = 32
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float | int = 2e-3
    decay: bool = True
    warm_up: bool = False
    first_moment: float | int = 0.9
    second_moment: float | int = 0.999
    weight_decay: float | int = 0.0
    momentum: float | int = 0.9
    moments: Literal["keep", "reset"] = "keep"
    clip: float | int | None = None
    proximal: float | int = 0.0
    dp: DPSettings | None = None

    def __post_init__(self) -> None:
        require_at_least(self, epochs=1, batch=1)
        require_one_of("optimizer", self.optimizer, ("adam", "sgd"))
        require_one_of("moments", self.moments, ("keep", "reset"))
        require_above_zero(self, "learning_rate", "clip")
        require_in(self, "[0, 1)", "first_moment", "second_moment", "momentum")
        require_at_least(self, proximal=0, weight_decay=0)

    def make_optimizer(self) -> optax.GradientTransformation:
        """Return the optimiser without its step size."""
        return make_optimizer(
            self.optimizer,
            clip=self.clip,
            momentum=self.momentum,
            first_moment=self.first_moment,
            second_moment=self.second_moment,
            decoupled_decay=self.weight_decay or None,
        )


class BatchPlan(NamedTuple):
    """Which rows each step takes: stream → steps × batch positions, −1 where none.

    ``expected`` is the number of rows that a private step expects to draw.
    """

    positions: dict[str, np.ndarray]
    steps: int
    expected: float = 1.0


class LocalResult(NamedTuple):
    """One site's weights after training, its optimiser's state, and figures averaged over steps."""

    weights: Float[np.ndarray, " P"]
    moments: Any
    figures: dict[str, float]


@dataclass(frozen=True, eq=False)
class LocalWork:
    """One site's part of a call: initial weights, rows, and which of them each step takes.

    ``control`` is what SCAFFOLD adds to every gradient; ``rate`` holds the relative step sizes at
    the beginning and at the end.
    """

    weights: Float[np.ndarray, " P"]
    moments: Any
    rows: Rows
    plan: BatchPlan
    key: Array
    control: Float[np.ndarray, " P"] | None = None
    rate: tuple[float, float] = (1.0, 1.0)

    @property
    def rates(self) -> Float[np.ndarray, " steps"]:
        """The size of each step relative to the largest: from the first rate towards the second."""
        (start, end), steps = self.rate, self.plan.steps
        return (start + (end - start) * np.arange(steps) / max(steps, 1)).astype(np.float32)


def plan_batches(
    rows: Rows, phase: Phase, settings: LocalSettings, epochs: int, seed: Sequence[int]
) -> BatchPlan:
    """Return which rows each step takes, drawn from a seed.

    The longest stream is gone through once an epoch, shorter ones begin again. With DP every step
    draws each row with the same probability (Poisson), as the accountant assumes.

    Examples
    --------
    >>> table = Rows(np.zeros((5, 2), np.float32), np.ones((5, 2), bool), np.ones((5, 2), bool))
    >>> phase = Phase("rounds", ("complete",))
    >>> plan = plan_batches(table, phase, LocalSettings(batch=2), 1, [0])
    >>> plan.steps, sorted(plan.positions["complete"].ravel().tolist())
    (3, [-1, 0, 1, 2, 3, 4])
    """
    rng = np.random.default_rng(list(seed))
    streams = phase.rows(rows)
    longest = max((len(stream) for stream in streams.values()), default=0)
    steps = math.ceil(longest / settings.batch)
    if settings.dp is not None:
        ((name, stream),) = streams.items()  # `Design.make_learner` refuses several
        return _plan_poisson(rng, name, stream, settings.batch, steps * epochs)
    positions = {}
    for name, stream in streams.items():
        order = np.full((epochs, steps * settings.batch), -1, dtype=np.int32)
        for epoch in range(epochs if len(stream) else 0):
            turns = math.ceil(longest / len(stream))
            drawn = np.concatenate([rng.permutation(stream) for _ in range(turns)])
            order[epoch, :longest] = drawn[:longest]
        positions[name] = order.reshape(epochs * steps, settings.batch)
    return BatchPlan(positions, epochs * steps)


def _plan_poisson(
    rng: np.random.Generator, name: str, stream: np.ndarray, batch: int, steps: int
) -> BatchPlan:
    rate = min(1.0, batch / max(len(stream), 1))
    slots = max(sample_capacity(len(stream), rate), 1) if len(stream) else 1
    positions = np.full((steps, slots), -1, dtype=np.int32)
    for step in positions:
        drawn = stream[rng.random(len(stream)) < rate][:slots]
        step[: len(drawn)] = drawn
    return BatchPlan({name: positions}, steps, float(max(rate * len(stream), 1.0)))


def train_sites(
    learner: AbstractLearner,
    phase: Phase,
    settings: LocalSettings,
    work: Sequence[LocalWork],
    *,
    changing: bool = False,
) -> list[LocalResult]:
    """Return every site's copy of the model, all trained as one batch.

    A site's copy is the one it would have alone, up to the rounding of sums that are taken in
    another order. With ``changing``, other sites come next time: programs are made for some steps
    more than these need, so that those of other sizes can use them.
    """
    if not work:
        return []
    steps = max(w.plan.steps for w in work)
    steps = round_up(steps) if changing else steps
    size = round_up(max(len(w.rows) for w in work))  # more rows are no more work
    planned = np.arange(steps) < np.array([w.plan.steps for w in work])[:, None]
    plans = [w.plan.positions for w in work]
    fresh = _optimizer_in_turns(learner, phase, settings).init(work[0].weights)
    moments = [fresh if w.moments is None else w.moments for w in work]
    controls: list[Any] = [w.control for w in work]
    sites = {
        "weights": np.stack([w.weights for w in work]),
        "moments": jax.tree.map(lambda *leaves: np.stack(leaves), *moments),
        **_stack_tables(tuple(w.rows for w in work), size),
        "index": {name: _stack([p[name] for p in plans], steps, -1) for name in phase.streams},
        "rates": _stack([w.rates for w in work], steps, 0),
        "planned": planned,
        "keys": jnp.stack([w.key for w in work]),
        "control": None if controls[0] is None else np.stack(controls),
        "expected": np.array([w.plan.expected for w in work], dtype=np.float32),
    }
    weights, moments, figures = jax.tree.map(
        np.asarray, _train_stack(learner, phase, settings, sites)
    )
    results = []
    for k in range(len(work)):
        with np.errstate(invalid="ignore", over="ignore"):  # of training that diverged
            means = {name: float(values[k][planned[k]].mean()) for name, values in figures.items()}
        site_moments = jax.tree.map(lambda leaf, at=k: leaf[at], moments)
        results.append(LocalResult(weights[k], site_moments, means))
    return results


@lru_cache(maxsize=4)
def _stack_tables(tables: tuple[Rows, ...], size: int) -> dict[str, Array]:
    """Return the rows of sites as one batch on the device, cached for the next round's sites."""
    return {
        name: jax.device_put(_stack([getattr(rows, name) for rows in tables], size, 0))
        for name in ("cells", "known", "present")
    }


def _stack(arrays: Sequence[np.ndarray], size: int, fill: int) -> np.ndarray:
    widths = tuple(max(sizes) for sizes in zip(*(a.shape[1:] for a in arrays), strict=True))
    stack = np.full((len(arrays), size, *widths), fill, dtype=arrays[0].dtype)
    for slot, array in zip(stack, arrays, strict=True):
        slot[tuple(slice(0, length) for length in array.shape)] = array
    return stack


@jax.jit(static_argnums=(0, 1, 2))
def _train_stack(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings, sites: Mapping[str, Any]
) -> tuple[Array, Any, dict[str, Array]]:
    axes = {name: (None if value is None else 0) for name, value in sites.items()}
    train = partial(_train_site, learner, phase, settings)
    return jax.vmap(train, in_axes=(axes,))(sites)


def _train_site(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings, site: Mapping[str, Any]
) -> tuple[Array, Any, dict[str, Array]]:
    unravel = make_unravel(learner)
    start = site["weights"]
    turns = _turns(learner, phase, settings)

    def loss_of_turn(moving: tuple[str, ...], weights: Array, batches: Any, key: Array) -> Any:
        params = unravel(weights)
        if moving:
            hold = jax.lax.stop_gradient
            params = {n: p if n in moving else jax.tree.map(hold, p) for n, p in params.items()}
        total, figures = learner.loss(phase.name, params, batches, key)
        return total, {"loss": total, **figures}

    def loss(weights: Array, memory: Any, rows: Any, key: Array) -> Any:
        if settings.dp is not None:  # rows are mapped over one by one
            total, figures = loss_of_turn((), weights, rows, key)
            return total, (memory, figures)
        batches, turn = rows
        losses = [partial(loss_of_turn, moving) for moving in turns]
        total, figures = jax.lax.switch(turn, losses, weights, batches, key)
        return total, (memory, figures)

    def gather(index: Array) -> Batch:
        at = jnp.maximum(index, 0)
        weight = (index >= 0).astype(start.dtype)
        return Batch(
            site["cells"][at],
            site["known"][at].astype(start.dtype),
            site["present"][at].astype(start.dtype) * weight[:, None],
            weight,
        )

    def draw(step: Array) -> nets.Batch:
        number, turn = step // len(turns), step % len(turns)
        batches = {name: gather(positions[number]) for name, positions in site["index"].items()}
        drawn = None
        if settings.dp is not None:
            (batch,) = batches.values()
            drawn = batch.weight > 0
        key = jax.random.fold_in(site["keys"], number)
        rows = batches if settings.dp is not None else (batches, turn)
        return nets.Batch(rows, key, settings.learning_rate * site["rates"][number], drawn)

    def corrected(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if settings.proximal:
            updates = updates + settings.proximal * (params - start)
        if site["control"] is not None:
            updates = updates + site["control"]
        return optimizer.update(updates, state, params)

    optimizer = _optimizer_in_turns(learner, phase, settings)
    trainer = Trainer(
        loss,
        optax.GradientTransformation(optimizer.init, corrected),
        draw,
        # A private step whose sample is empty is a step: without its noise, it would show itself.
        active=lambda step, _: site["planned"][step // len(turns)],
        dp=settings.dp,
        expected=site["expected"],
    )
    steps = site["rates"].shape[0] * len(turns)
    state, figures = advance(trainer, State(start, site["moments"]), steps)
    figures = {name: values[len(turns) - 1 :: len(turns)] for name, values in figures.items()}
    if settings.dp is not None:
        figures = {"loss": figures["loss"]}
    return state.weights, state.moments, figures


def _turns(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings
) -> tuple[tuple[str, ...], ...]:
    """Return which parameters each turn moves: one turn of all unless the learner has several.

    A private step is counted once, so that it has one turn.
    """
    return (() if settings.dp is not None else learner.turns(phase.name)) or ((),)


def _optimizer_in_turns(
    learner: AbstractLearner, phase: Phase, settings: LocalSettings
) -> optax.GradientTransformation:
    """Return the optimiser; each turn moves its own parameters and their moments only."""
    optimizer, turns = settings.make_optimizer(), _turns(learner, phase, settings)
    if len(turns) == 1:
        return optimizer
    shapes = jax.eval_shape(learner.init, jax.random.key(0))
    masks = np.stack([_flags(shapes, moving) for moving in turns])

    def init(params: Any) -> Any:
        return optimizer.init(params), jnp.zeros((), jnp.int32)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        before, turn = state
        updated: tuple[Any, Any] = optimizer.update(updates, before, params)
        moves, after = updated
        mask, is_last = jnp.asarray(masks)[turn], turn == len(turns) - 1

        def moment(new: Array, old: Array) -> Array:
            # Adam counts a step once, however many turns it has.
            return jnp.where(mask if new.shape == mask.shape else is_last, new, old)

        moments = jax.tree.map(moment, after, before)
        return jnp.where(mask, moves, 0), (moments, (turn + 1) % len(turns))

    return optax.GradientTransformation(init, update)


def _flags(shapes: Mapping[str, Any], moving: tuple[str, ...]) -> np.ndarray:
    """Return for each weight of the flat vector whether it is of one of the named parameters."""
    parts = [
        np.full(leaf.size, name in moving)
        for name in sorted(shapes)  # the order in which JAX takes a dictionary apart
        for leaf in jax.tree.leaves(shapes[name])
    ]
    return np.concatenate(parts)
