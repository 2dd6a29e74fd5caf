"""Tasks: networks with their rows, grouped by structure, padded and stacked for one program.

Padding never changes a result: padded rows repeat a task's first row with zero weight and come
last in every order. Shuffles and dropout draw their random numbers by row, not by table.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree, UInt32

from cofill.errors import DataError, SettingError
from cofill.nets._epochs import Program, TaskData
from cofill.nets._flat import Form, flatten_network, form_of
from cofill.nets._losses import Loss
from cofill.nets._networks import PRNGKey, Recipe
from cofill.nets._private import sample_capacity
from cofill.nets._settings import TrainSettings

# Flipping bits of a task's key, on the host, keeps the choice of validation rows and training apart
# from the initial weights without a program to compile.
VALIDATION = np.uint32(0x5EED5EED)
TRAINING = np.uint32(0x7EA17EA1)


@dataclass(frozen=True, eq=False)
class Task:
    """One network to train.

    Parameters
    ----------
    network
        The initial network, or a `recipe` that makes it from the key.
    inputs, targets
        Arrays of shape (rows, ...), or pytrees of them; targets None stands for the inputs.
    key
        Random key of this task: initial weights, validation rows, order of rows, dropout. For
        many tasks, `split_keys` is much faster than a loop over JAX keys.
    weight_decay
        Decay of this network in place of the settings' (adamw only).
    name
        What errors call the task; its position where empty.
    """

    network: PyTree | Recipe
    inputs: PyTree
    targets: PyTree = None
    key: PRNGKey | UInt32[np.ndarray, "2"] | None = None
    weight_decay: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.key is None:
            raise SettingError(f"key must be a JAX random key in task {self.name!r}, got None.")
        counts = {leaf.shape[0] for leaf in jax.tree.leaves((self.inputs, self.targets))}
        if self.weight_decay is not None and not self.weight_decay >= 0:
            raise SettingError(
                f"weight_decay must be 0 or more in task {self.name!r}, got {self.weight_decay}."
            )
        if len(counts) != 1 or counts == {0}:
            raise DataError(
                "inputs and targets must have the same number of rows, 1 or more, in task "
                f"{self.name!r}, got {sorted(counts)}."
            )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return jax.tree.leaves(self.inputs)[0].shape[0]


def split_keys(key: PRNGKey, count: int) -> list[UInt32[np.ndarray, "2"]]:
    """Split a key into keys on the host, one a task (a loop over JAX keys takes 4 ms a key)."""
    return list(key_words(jax.random.split(key, count)))


def key_words(key: Any) -> np.ndarray:
    """Return the words of a random key, or of an array of keys, on the host."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    return np.asarray(key)


@dataclass(frozen=True)
class _HostTask:
    """A task taken apart on the host."""

    position: int
    form: Form
    theta: np.ndarray
    task: Task
    training: np.ndarray  # numbers of its rows
    validation: np.ndarray
    key: np.ndarray


@dataclass(frozen=True)
class Group:
    """Tasks that are trained by one program, stacked with the task axis first, on the host."""

    positions: tuple[int, ...]
    program: Program
    data: TaskData


def group_tasks(tasks: Sequence[Task], loss: Loss, settings: TrainSettings) -> list[Group]:
    """Return the tasks in groups that can share a program, each group stacked."""
    groups: dict[Hashable, list[_HostTask]] = {}
    for part in _take_apart(tasks, settings):
        groups.setdefault(_kind(part, settings), []).append(part)
    return [_stack(group, loss, settings) for group in groups.values()]


def _take_apart(tasks: Sequence[Task], settings: TrainSettings) -> list[_HostTask]:
    initial = _initial(tasks)
    parts = []
    for position, task in enumerate(tasks):
        name = task.name or position
        held_out = math.ceil(settings.validation_fraction * task.rows)
        if held_out >= task.rows:
            raise DataError(
                f"task {name} must have a row left to train on, got {task.rows} rows and "
                f"validation_fraction {settings.validation_fraction}."
            )
        if task.weight_decay is not None and settings.optimizer != "adamw":
            raise SettingError(
                "weight_decay must be None in a task unless the optimizer is adamw, got "
                f"{task.weight_decay} in task {name}."
            )
        key = key_words(task.key)
        order = np.arange(task.rows)
        if held_out:
            order = np.random.default_rng(key ^ VALIDATION).permutation(task.rows)
        training, validation = np.sort(order[held_out:]), np.sort(order[:held_out])
        start = initial[position]
        parts.append(_HostTask(position, *start, task, training, validation, key ^ TRAINING))
    return parts


def _initial(tasks: Sequence[Task]) -> dict[int, tuple[Form, np.ndarray]]:
    """Return each task's form and initial parameters, by position."""
    # Networks of one recipe are made in one compiled call: eagerly, 450 take longer than training.
    initial: dict[int, tuple[Form, np.ndarray]] = {}
    by_recipe: dict[Recipe, list[int]] = {}
    for position, task in enumerate(tasks):
        if isinstance(task.network, Recipe):
            by_recipe.setdefault(task.network, []).append(position)
        else:
            initial[position] = form_of(task.network), np.asarray(flatten_network(task.network))
    for recipe, positions in by_recipe.items():
        form = form_of(jax.eval_shape(recipe, jax.random.PRNGKey(0)))
        keys = np.stack([key_words(tasks[position].key) for position in positions])
        for position, theta in zip(
            positions, np.asarray(_initial_stack(recipe, keys)), strict=True
        ):
            initial[position] = form, theta
    return initial


@jax.jit(static_argnums=0)
def _initial_stack(recipe: Recipe, keys: Any) -> Any:
    return jax.vmap(lambda key: flatten_network(recipe(key)))(keys)


def _kind(part: _HostTask, settings: TrainSettings) -> Hashable:
    data = part.task.inputs, part.task.targets
    shapes = tuple((leaf.shape[1:], np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(data))
    # A network waits for the one with most steps; within a power of two that is at most half.
    rows = len(part.training)
    steps = math.ceil(rows / settings.batch_size) if settings.batch_size else rows
    return part.form, shapes, jax.tree.structure(data), (steps - 1).bit_length()


def _stack(parts: list[_HostTask], loss: Loss, settings: TrainSettings) -> Group:
    rows = [len(part.training) for part in parts]
    batch = min(settings.batch_size or max(rows), max(rows))
    steps = [math.ceil(count / batch) for count in rows]
    most = round_up(max(steps))
    size = most * batch
    if settings.dp is not None:
        # Fewer slots than rows: the sample of a step, not a slice of an order.
        batch = max(sample_capacity(count, min(1.0, batch / count)) for count in rows)
    validated = max(len(part.validation) for part in parts)
    decays = [
        settings.weight_decay if part.task.weight_decay is None else part.task.weight_decay
        for part in parts
    ]
    # What differs between networks or does not change the program is no part of its identity.
    decay = 0.0 if settings.optimizer == "adamw" else settings.weight_decay
    program = Program(
        form=parts[0].form,
        loss=loss,
        settings=replace(settings, learning_rate=1.0, weight_decay=decay, memory_limit=1),
        batch=batch,
        steps=most,
        ragged=min(steps) < most,
        validated=validated > 0,
    )
    tables = [(part.task.inputs, part.task.targets) for part in parts]
    data = TaskData(
        np.stack([part.key for part in parts]),
        np.stack([part.theta for part in parts]),
        np.full(len(parts), settings.learning_rate, np.float32),
        np.array(decays, np.float32),
        np.array(rows, np.int32),
        np.array(steps, np.int32),
        *_stack_rows(tables, [part.training for part in parts], size),
        # Without validation rows the program still has a table of them, never scored.
        *_stack_rows(tables, [part.validation for part in parts], max(validated, 1)),
    )
    return Group(tuple(part.position for part in parts), program, data)


def _stack_rows(
    tables: list[tuple[PyTree, PyTree]], picks: list[np.ndarray], size: int
) -> tuple[PyTree, PyTree, np.ndarray]:
    """Return the picked rows of inputs and of targets in `size` slots a task, and their weights."""

    def stack(*leaves: Any) -> np.ndarray:
        first = leaves[0]
        kind = np.float32 if np.issubdtype(first.dtype, np.floating) else first.dtype
        slots = np.empty((len(leaves), size, *first.shape[1:]), kind)
        for slot, leaf, pick in zip(slots, leaves, picks, strict=True):
            table = np.asarray(leaf)
            slot[: len(pick)] = table[pick]
            # Padding repeats a real row, so that a loss that is finite on the data is finite on it.
            slot[len(pick) :] = table[pick[0] if len(pick) else 0]
        return slots

    inputs, targets = jax.tree.map(stack, *tables)
    weights = np.arange(size) < np.array([len(pick) for pick in picks])[:, None]
    return inputs, targets, weights.astype(np.float32)


def round_up(count: int) -> int:
    """Return a count rounded up to four leading bits, at most an eighth more.

    Programs of nearly equal sizes are then one program, compiled once.

    Examples
    --------
    >>> [round_up(count) for count in (0, 5, 16, 17, 33, 1000)]
    [0, 5, 16, 18, 36, 1024]
    """
    step = 1 << max(0, count.bit_length() - 4)
    return math.ceil(count / step) * step
