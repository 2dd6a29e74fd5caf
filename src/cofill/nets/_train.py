"""Training many networks in one call: chunks that fit in memory, on all cores, with progress."""

import math
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from cofill.errors import SettingError, TrainingError
from cofill.nets._epochs import Program, TaskState, run_block, score_batch, start_tasks
from cofill.nets._flat import Form
from cofill.nets._losses import Loss
from cofill.nets._settings import TrainSettings
from cofill.nets._tasks import Group, Task, group_tasks

BLOCK_SECONDS = 0.5  # how long the host waits at most to report progress or to be interrupted
CPU_CHUNK = 64  # networks whose step still fits a core's cache (16: 6.4 µs, 64: 5.8, 225: 5.2-6)
SMALLEST_CHUNK = 4  # fewer networks are not worth a thread of their own

Progress = Callable[[int, int, np.ndarray], None]
# Positions of tasks with each one's epoch, whether it still learns, and its last training loss.
Reports = queue.SimpleQueue[tuple[list[int], np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Trained:
    """The trained networks and curves of all tasks, in the tasks' order.

    Attributes
    ----------
    parameters, forms
        Of each network.
    train_loss, validation_loss
        Mean loss of each epoch, shape (tasks, epochs); NaN after a network's last epoch, and in
        validation_loss where there are no validation rows.
    epochs_used, restarts_used
        Epochs of the last attempt, and how often a network started again with a smaller step.
    steps
        Optimiser steps over all attempts, for a privacy accountant.
    """

    parameters: tuple[np.ndarray, ...]
    forms: tuple[Form, ...]
    train_loss: Float[np.ndarray, "tasks epochs"]
    validation_loss: Float[np.ndarray, "tasks epochs"]
    epochs_used: Int[np.ndarray, " tasks"]
    restarts_used: Int[np.ndarray, " tasks"]
    steps: Int[np.ndarray, " tasks"]

    @property
    def networks(self) -> list[PyTree]:
        """The trained networks."""
        pairs = zip(self.forms, self.parameters, strict=True)
        # Sliced by NumPy: JAX would compile a program for every shape of a layer.
        return [jax.tree.map(_on_device, form.build(theta)) for form, theta in pairs]

    @property
    def final_loss(self) -> Float[np.ndarray, " tasks"]:
        """Training loss of each network's last epoch."""
        return self.train_loss[np.arange(len(self.forms)), self.epochs_used - 1]


def _on_device(leaf: Any) -> Any:
    return jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf


def train(
    tasks: Sequence[Task], loss: Loss, settings: TrainSettings, *, progress: Progress | None = None
) -> Trained:
    """Return every task's trained network; tasks of one kind train as one compiled program.

    A task's result depends on its own data, key and settings only, not on what else is trained in
    the call.

    Parameters
    ----------
    tasks, settings
        Networks with data and keys, and how to train them.
    loss
        ``loss(network, inputs, targets, key)`` returns one value a row or a pair (total, count) a
        row. The key is None when validation rows are scored. A new function object is a new
        program to compile, so pass the same one (or a frozen dataclass) each time.
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
    groups = group_tasks(tasks, loss, settings)
    states = _run(groups, settings, len(tasks), progress)
    return _collect(tasks, groups, states, settings)


def _run(
    groups: list[Group], settings: TrainSettings, tasks: int, progress: Progress | None
) -> list[list[TaskState]]:
    # Every chunk's blocks run on a worker thread (a compiled CPU program releases Python's lock);
    # this thread reports progress and hears Ctrl-C.
    workers = (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1
    reports: Reports = queue.SimpleQueue()
    stop = threading.Event()
    with ThreadPoolExecutor(workers, thread_name_prefix="cofill-train") as pool:
        futures: list[list[Future[TaskState]]] = []
        for group in groups:
            # A group's first block compiles its program; its other chunks wait for that instead of
            # doing the same.
            run = partial(_train_chunk, group, threading.Lock(), reports, stop)
            chunks = _cut(group, settings, workers)
            futures.append([pool.submit(run, chunk) for chunk in chunks])
        try:
            _follow([*chain(*futures)], reports, settings, tasks, progress)
        except BaseException:
            stop.set()
            raise
    return [[future.result() for future in chunks] for chunks in futures]


def _follow(
    futures: list[Future[TaskState]],
    reports: Reports,
    settings: TrainSettings,
    tasks: int,
    progress: Progress | None,
) -> None:
    done = np.zeros(tasks, int)
    losses = np.full(tasks, np.nan)
    while not (all(future.done() for future in futures) and reports.empty()):
        for future in futures:
            if future.done() and (error := future.exception()) is not None:
                raise error
        try:
            positions, epoch, active, loss = reports.get(timeout=0.05)
        except queue.Empty:
            continue
        if progress is not None:
            done[positions] = np.where(active, epoch, settings.epochs)
            losses[positions] = loss
            progress(int(done.sum()), settings.epochs * tasks, losses.copy())


def _train_chunk(
    group: Group,
    compiling: threading.Lock,
    reports: Reports,
    stop: threading.Event,
    chunk: np.ndarray,
) -> TaskState:
    data = jax.device_put(jax.tree.map(lambda leaf: leaf[chunk], group.data))
    positions = [group.positions[index] for index in dict.fromkeys(chunk.tolist())]
    last = np.arange(len(positions))  # what fills the chunk behind them is no task of its own
    with compiling:
        state = start_tasks(group.program, data)
        state = jax.block_until_ready(run_block(group.program, data, state, np.array(1)))
    epochs = 4
    while bool(np.asarray(state.active).any()) and not stop.is_set():
        began = time.perf_counter()
        state = jax.block_until_ready(run_block(group.program, data, state, np.array(epochs)))
        spent = time.perf_counter() - began
        epoch, active, losses = jax.device_get((state.epoch, state.active, state.train_loss))
        reports.put(
            (positions, epoch[last], active[last], losses[last, np.maximum(epoch[last] - 1, 0)])
        )
        epochs = max(1, min(4 * epochs, int(epochs * BLOCK_SECONDS / spent)))
    return jax.device_get(state)


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
    program, data = group.program, group.data
    rows = 1 if program.settings.dp else program.batch

    def some_rows(leaf: np.ndarray) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((rows, *leaf.shape[2:]), leaf.dtype)

    batch = jax.tree.map(some_rows, (data.inputs, data.targets, data.weights))
    leaves, structure = jax.tree.flatten(batch)
    step = _step_bytes(program, structure, tuple(leaves))
    stored = sum(leaf[0].nbytes for leaf in jax.tree.leaves(data))
    return stored + 10 * 4 * program.form.size + step * (program.batch if rows == 1 else 1)


@lru_cache(maxsize=256)
def _step_bytes(program: Program, structure: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> int:
    """Return the bytes of all values of a step; tracing it takes a fifth of a second."""

    def objective(theta: Any, batch: Any) -> Any:
        inputs, targets, weights = batch
        network, key = program.form.build(theta), jax.random.key(0)
        return score_batch(program.loss, network, inputs, targets, weights, key)[0]

    theta = jax.ShapeDtypeStruct((program.form.size,), np.float32)
    traced = jax.make_jaxpr(jax.grad(objective))(theta, jax.tree.unflatten(structure, leaves))
    values = [out.aval for line in traced.jaxpr.eqns for out in line.outvars]
    return sum(4 * getattr(value, "size", 1) for value in values)


def _collect(
    tasks: Sequence[Task],
    groups: list[Group],
    states: list[list[TaskState]],
    settings: TrainSettings,
) -> Trained:
    count = len(tasks)
    parameters: list[Any] = [None] * count
    forms: list[Any] = [None] * count
    history = np.empty((2, count, settings.epochs))
    epochs, restarts, steps = (np.zeros(count, int) for _ in range(3))
    failed: list[int] = []
    for group, chunks in zip(groups, states, strict=True):
        at = list(group.positions)
        # The last chunk is filled with repeats of the last task, which are cut off.
        real_tasks = slice(len(at))
        stack = jax.tree.map(lambda *parts, s=real_tasks: np.concatenate(parts)[s], *chunks)
        theta = stack.best_theta if settings.patience else stack.network.weights
        for index, position in enumerate(at):
            forms[position], parameters[position] = group.program.form, theta[index]
        history[:, at] = stack.train_loss, stack.validation_loss
        epochs[at], restarts[at], steps[at] = stack.epoch, stack.attempt, stack.steps
        failed += [position for position, bad in zip(at, stack.failed, strict=True) if bad]
    if failed:
        names = ", ".join(tasks[position].name or str(position) for position in sorted(failed))
        raise TrainingError(
            f"{len(failed)} of {count} networks diverged after {settings.restarts} restarts with "
            f"smaller steps: {names}; use a learning_rate below {settings.learning_rate} or scale "
            "the inputs."
        )
    curves = history[0], history[1]
    return Trained(tuple(parameters), tuple(forms), *curves, epochs, restarts, steps)
