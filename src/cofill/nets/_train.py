"""Training many networks in one call: chunks that fit in memory, on all cores, with progress."""

import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from cofill.errors import SettingError, TrainingError
from cofill.nets._flat import Form
from cofill.nets._loop import Plan, State, first_states, row_loss, run_block
from cofill.nets._losses import BatchLoss, Loss
from cofill.nets._settings import TrainSettings
from cofill.nets._tasks import Group, Task, prepare

__all__ = ["Trained", "train"]

BLOCK_SECONDS = 0.5  # how long the host waits at most to report progress or to be interrupted
CPU_CHUNK = 64  # networks whose step still fits a core's cache (16: 6.4 µs, 64: 5.8, 225: 5.2-6)
SMALLEST_CHUNK = 4  # fewer networks are not worth a thread of their own

Progress = Callable[[int, int, np.ndarray], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """What training made of the tasks, in their order.

    Attributes
    ----------
    train_loss, validation_loss
        Mean loss of each epoch, shape (tasks, epochs); NaN after a network's last epoch, and in
        validation_loss where there are no validation rows.
    epochs_used, restarts_used
        Epochs of the last attempt, and how often a network started again with a smaller step.
    steps
        Optimiser steps over all attempts, for a privacy accountant.
    sampling_rate
        Probability with which a step drew a row (Poisson sampling), or the share of the rows a
        step saw.
    settings
        As given.
    """

    parameters: tuple[np.ndarray, ...]
    forms: tuple[Form, ...]
    train_loss: Float[np.ndarray, "tasks epochs"]
    validation_loss: Float[np.ndarray, "tasks epochs"]
    epochs_used: Int[np.ndarray, " tasks"]
    restarts_used: Int[np.ndarray, " tasks"]
    steps: Int[np.ndarray, " tasks"]
    sampling_rate: Float[np.ndarray, " tasks"]
    settings: TrainSettings

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def noise_multiplier(self) -> float:
        """Noise of the private steps in units of the clipping norm; 0 without dp."""
        return self.settings.dp.noise_multiplier if self.settings.dp else 0.0

    @property
    def networks(self) -> list[PyTree]:
        """The trained networks."""
        return [self.network(position) for position in range(len(self))]

    @property
    def final_loss(self) -> Float[np.ndarray, " tasks"]:
        """Training loss of each network's last epoch."""
        return self.train_loss[np.arange(len(self)), self.epochs_used - 1]

    def network(self, position: int) -> PyTree:
        """Return the trained network of one task."""
        return self.forms[position].build(jnp.asarray(self.parameters[position]))

    def stacked(self, positions: Sequence[int] | None = None) -> PyTree:
        """Return networks of one form as one network whose arrays have a leading axis.

        Parameters
        ----------
        positions
            Which tasks; None for all.
        """
        chosen = range(len(self)) if positions is None else positions
        forms = {self.forms[position] for position in chosen}
        if len(forms) != 1:
            raise SettingError(
                f"positions must name networks of one form to be stacked, got {len(forms)} forms."
            )
        theta = jnp.asarray(np.stack([self.parameters[position] for position in chosen]))
        return jax.vmap(forms.pop().build)(theta)


def train(
    tasks: Sequence[Task],
    loss: Loss,
    settings: TrainSettings,
    *,
    pad_widths: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train every task's network; tasks of one kind train as one compiled program.

    A task's result depends on its own data, key and settings only, not on what else is trained in
    the call.

    Parameters
    ----------
    tasks
        Networks, data and keys.
    loss
        ``loss(network, inputs, targets, key)`` returns one value a row or a pair (total, count) a
        row; or a `BatchLoss`. The key is None when validation rows are scored. A new function
        object is a new program to compile, so pass the same one (or a frozen dataclass) each time.
    settings
        How to train.
    pad_widths
        Whether networks that differ only in widths are padded with zeros and trained as one group,
        which saves compilations; needs `SquaredError` and activations that are zero at zero.
    progress
        Called as ``progress(done, total, losses)`` between blocks of epochs, on this thread:
        epochs done and to do, summed over tasks, and each task's last training loss (NaN before
        its first epoch).

    Raises
    ------
    cofill.errors.TrainingError
        If a network diverges even after ``settings.restarts`` starts with smaller steps.

    Examples
    --------
    >>> import jax
    >>> from cofill.nets import MLP, SquaredError, Task, TrainSettings, recipe, train
    >>> x = jax.random.normal(jax.random.key(0), (64, 3))
    >>> keys = jax.random.split(jax.random.key(1), 5)
    >>> tasks = [Task(recipe(MLP, (3, 4, 3)), x, key=key) for key in keys]
    >>> trained = train(tasks, SquaredError(), TrainSettings(epochs=2))
    >>> trained.train_loss.shape
    (5, 2)
    """
    if not tasks:
        raise SettingError("tasks must hold at least one Task, got none.")
    if settings.dp is not None and isinstance(loss, BatchLoss):
        raise SettingError("loss must be a mean over rows with dp, got a BatchLoss.")
    groups = prepare(tasks, loss, settings, pad_widths)
    states = _run(groups, settings, len(tasks), progress)
    return _collect(tasks, groups, states, settings)


def _run(
    groups: list[Group], settings: TrainSettings, tasks: int, progress: Progress | None
) -> list[list[State]]:
    # Every chunk's blocks run on a worker thread (a compiled CPU program releases Python's lock);
    # this thread reports progress and hears Ctrl-C.
    workers = (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1
    chunks = [_cut(group, settings, workers) for group in groups]
    news: queue.SimpleQueue[tuple[Sequence[int], State]] = queue.SimpleQueue()
    stop = threading.Event()
    # A group's first block compiles its program; the others wait for it instead of doing the same.
    locks = [threading.Lock() for _ in groups]
    done = np.zeros(tasks, int)
    losses = np.full(tasks, np.nan)
    with ThreadPoolExecutor(workers, thread_name_prefix="cofill-train") as pool:
        pending = [
            [pool.submit(_train_chunk, group, chunk, first, news, stop) for chunk in cut]
            for group, cut, first in zip(groups, chunks, locks, strict=True)
        ]
        try:
            _follow(
                [one for many in pending for one in many], news, settings, done, losses, progress
            )
        except BaseException:
            stop.set()
            raise
    return [[one.result() for one in many] for many in pending]


def _follow(
    pending: list[Future[State]],
    news: "queue.SimpleQueue[tuple[Sequence[int], State]]",
    settings: TrainSettings,
    done: np.ndarray,
    losses: np.ndarray,
    progress: Progress | None,
) -> None:
    while not (all(one.done() for one in pending) and news.empty()):
        for one in pending:
            if one.done() and (error := one.exception()) is not None:
                raise error
        try:
            positions, state = news.get(timeout=0.05)
        except queue.Empty:
            continue
        if progress is None:
            continue
        where = list(positions)
        last = np.arange(len(where))
        epoch, active = state.epoch[last], state.active[last]
        done[where] = np.where(active, epoch, settings.epochs)
        losses[where] = state.train_loss[last, np.maximum(epoch - 1, 0)]
        progress(int(done.sum()), settings.epochs * len(done), losses.copy())


def _train_chunk(
    group: Group,
    chunk: np.ndarray,
    first: threading.Lock,
    news: "queue.SimpleQueue[tuple[Sequence[int], State]]",
    stop: threading.Event,
) -> State:
    material = jax.device_put(jax.tree.map(lambda leaf: leaf[chunk], group.material))
    positions = [group.positions[index] for index in dict.fromkeys(chunk.tolist())]
    with first:
        state = jax.block_until_ready(
            run_block(group.plan, material, first_states(group.plan, material), np.array(1))
        )
    block = 4
    while bool(np.asarray(state.active).any()) and not stop.is_set():
        began = time.perf_counter()
        state = jax.block_until_ready(run_block(group.plan, material, state, np.array(block)))
        spent = time.perf_counter() - began
        news.put((positions, _summary(state)))
        block = max(1, min(4 * block, int(block * BLOCK_SECONDS / spent)))
    return jax.device_get(state)


def _summary(state: State) -> State:
    part = state.epoch, state.active, state.train_loss
    epoch, active, losses = jax.device_get(part)
    return state._replace(epoch=epoch, active=active, train_loss=losses)


def _cut(group: Group, settings: TrainSettings, workers: int) -> list[np.ndarray]:
    # Equal chunks, so that one program serves all; the last one is filled with repeats.
    count = len(group.positions)
    fits = max(1, settings.memory_limit // (workers * _bytes_each(group)))
    if workers == 1:
        chunks = math.ceil(count / fits)
    else:
        chunks = max(math.ceil(count / min(CPU_CHUNK, fits)), min(workers, count // SMALLEST_CHUNK))
        chunks = chunks if chunks <= 1 else workers * math.ceil(chunks / workers)
    size = math.ceil(count / max(1, chunks))
    starts = range(0, count, size)
    return [np.minimum(np.arange(start, start + size), count - 1) for start in starts]


def _bytes_each(group: Group) -> int:
    # Data, parameters with the optimiser's and the best ones, and every intermediate of one step.
    plan, material = group.plan, group.material
    data = sum(leaf[0].nbytes for leaf in jax.tree.leaves(material))
    step = _step_bytes(plan, jax.tree.map(lambda leaf: leaf[0], material))
    return data + 10 * 4 * plan.form.size + step


def _step_bytes(plan: Plan, one: Any) -> int:
    rows = 1 if plan.settings.dp else plan.batch

    def rows_like(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype)

    inputs = jax.tree.map(rows_like, one.inputs)
    targets = inputs if one.targets is None else jax.tree.map(rows_like, one.targets)
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (one.start, one.key)
    )
    leaves, form = jax.tree.flatten((*shapes, inputs, targets))
    each = _traced_bytes(plan, rows, form, tuple(leaves))
    return each * plan.batch if plan.settings.dp else each


@lru_cache(maxsize=256)
def _traced_bytes(
    plan: Plan, rows: int, form: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]
) -> int:
    """Return the bytes of all values that a step makes; tracing it takes a fifth of a second."""

    def objective(theta: Any, key: Any, inputs: Any, targets: Any) -> Any:
        network = plan.form.build(theta)
        return row_loss(plan.loss, network, inputs, targets, jnp.ones(rows), key)[0]

    traced = jax.make_jaxpr(jax.grad(objective))(*jax.tree.unflatten(form, leaves))
    values = [out.aval for line in traced.jaxpr.eqns for out in line.outvars]
    return sum(4 * getattr(value, "size", 1) for value in values)


def _collect(
    tasks: Sequence[Task],
    groups: list[Group],
    states: list[list[State]],
    settings: TrainSettings,
) -> Trained:
    count = len(tasks)
    parameters: list[Any] = [None] * count
    forms: list[Any] = [None] * count
    history = np.full((2, count, settings.epochs), np.nan)
    epochs, restarts, steps = (np.zeros(count, int) for _ in range(3))
    rate = np.zeros(count)
    failed: list[int] = []
    for group, chunks in zip(groups, states, strict=True):
        whole = jax.tree.map(lambda *parts: np.concatenate(parts), *chunks)
        theta = whole.best_theta if settings.patience else whole.theta
        for index, position in enumerate(group.positions):
            if whole.failed[index]:
                failed.append(position)
            forms[position] = group.forms[index]
            parameters[position] = group.plan.form.resize(theta[index], forms[position])
            used = int(whole.epoch[index])
            history[0, position, :used] = whole.train_loss[index, :used]
            history[1, position, :used] = whole.validation_loss[index, :used]
            epochs[position], restarts[position] = used, whole.attempt[index]
            steps[position] = whole.steps[index]
            rows = int(group.material.rows[index])
            rate[position] = min(1.0, (settings.batch_size or rows) / rows)
    if failed:
        named = ", ".join(tasks[position].name or str(position) for position in sorted(failed))
        raise TrainingError(
            f"{len(failed)} of {count} networks diverged after {settings.restarts} restarts with "
            f"smaller steps: {named}; use a learning_rate below {settings.learning_rate} or scale "
            "the inputs."
        )
    return Trained(
        tuple(parameters),
        tuple(forms),
        history[0],
        history[1],
        epochs,
        restarts,
        steps,
        rate,
        settings,
    )
