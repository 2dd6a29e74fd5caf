"""Tasks, and how they are put together: grouped by structure, padded, stacked, cut into chunks.

Padding never changes a result: padded rows repeat a task's first row with zero weight and come
last in every order; padded units have zero weights and so zero gradients. Shuffles and dropout
draw their random numbers by row and unit, not by table.
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
from cofill.nets._flat import Form, flatten_networks, form_of
from cofill.nets._loop import Material, Plan
from cofill.nets._losses import BatchLoss, Loss
from cofill.nets._networks import AbstractNetwork, PRNGKey, Recipe
from cofill.nets._private import capacity
from cofill.nets._settings import TrainSettings

__all__ = ["Group", "Task", "prepare", "split_keys"]

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
    inputs
        Array of shape (rows, ...), or a pytree of them.
    targets
        The same number of rows; None where the network is to make its inputs again.
    key
        Random key of this task: initial weights, validation rows, order of rows, dropout. For
        many tasks, `split_keys` is much faster than a loop over JAX keys.
    weights
        A weight of 0 or more a row; None for equal ones.
    weight_decay
        This network's own decay in place of the settings' (adamw only).
    name
        What errors call the task; its position where empty.

    Examples
    --------
    >>> import jax
    >>> from cofill.nets import MLP, recipe
    >>> Task(recipe(MLP, (3, 2, 3)), jax.numpy.ones((8, 3)), key=jax.random.key(0)).rows
    8
    """

    network: PyTree | Recipe
    inputs: PyTree
    targets: PyTree = None
    key: PRNGKey | UInt32[np.ndarray, "2"] | None = None
    weights: Any = None
    weight_decay: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.key is None:
            raise SettingError(f"key must be a JAX random key in task {self.name!r}, got None.")
        counts = {leaf.shape[0] for leaf in jax.tree.leaves((self.inputs, self.targets))}
        if self.weights is not None:
            counts.add(np.shape(self.weights)[0])
            if not (np.asarray(self.weights) >= 0).all():
                raise DataError(f"weights must be 0 or more in task {self.name!r}, got others.")
        if self.weight_decay is not None and not self.weight_decay >= 0:
            raise SettingError(
                f"weight_decay must be 0 or more in task {self.name!r}, got {self.weight_decay}."
            )
        if len(counts) != 1 or counts == {0}:
            raise DataError(
                "inputs, targets and weights must have the same number of rows, 1 or more, in "
                f"task {self.name!r}, got {sorted(counts)}."
            )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return jax.tree.leaves(self.inputs)[0].shape[0]


def split_keys(key: PRNGKey, count: int) -> list[UInt32[np.ndarray, "2"]]:
    """Split a key into keys on the host, one a task (a loop over JAX keys takes 4 ms a key).

    Examples
    --------
    >>> import jax
    >>> len(split_keys(jax.random.key(0), 3))
    3
    """
    return list(_raw(jax.random.split(key, count)))


@dataclass(frozen=True)
class _Part:
    # A task taken apart on the host.
    position: int
    form: Form
    theta: np.ndarray
    task: Task
    used: np.ndarray  # training rows
    kept: np.ndarray  # validation rows
    key: np.ndarray


@dataclass(frozen=True)
class Group:
    """Tasks that are trained by one program, stacked with the task axis first, on the host."""

    positions: tuple[int, ...]
    forms: tuple[Form, ...]
    plan: Plan
    material: Material


def prepare(
    tasks: Sequence[Task], loss: Loss, settings: TrainSettings, pad_widths: bool
) -> list[Group]:
    """Group tasks that can share a program and stack each group."""
    parts = _take_apart(tasks, settings)
    groups: dict[Hashable, list[_Part]] = {}
    for part in parts:
        groups.setdefault(_kind(part, settings, pad_widths), []).append(part)
    if pad_widths:
        _check_padding(tasks, loss, settings)
    return [_stack(group, loss, settings, pad_widths) for group in groups.values()]


def _take_apart(tasks: Sequence[Task], settings: TrainSettings) -> list[_Part]:
    forms, thetas = _initial(tasks)
    keys = np.stack([_raw(task.key) for task in tasks])
    parts = []
    for position, task in enumerate(tasks):
        kept = math.ceil(settings.validation_fraction * task.rows)
        if kept >= task.rows:
            raise DataError(
                f"task {task.name or position} must have a row left to train on, got {task.rows} "
                f"rows and validation_fraction {settings.validation_fraction}."
            )
        if settings.dp is not None and task.weights is not None:
            raise SettingError(
                f"weights must be None with dp, because they change what one row can do, got some "
                f"in task {task.name or position}."
            )
        if task.weight_decay is not None and settings.optimizer != "adamw":
            raise SettingError(
                "weight_decay must be None in a task unless the optimizer is adamw, got "
                f"{task.weight_decay} in task {task.name or position}."
            )
        order = np.arange(task.rows)
        if kept:
            order = np.random.default_rng(keys[position] ^ VALIDATION).permutation(task.rows)
        parts.append(
            _Part(
                position,
                forms[position],
                thetas[position],
                task,
                np.sort(order[kept:]),
                np.sort(order[:kept]),
                keys[position] ^ TRAINING,
            )
        )
    return parts


def _initial(tasks: Sequence[Task]) -> tuple[list[Form], list[np.ndarray]]:
    # Networks of one recipe are made in one compiled call: eagerly, 450 take longer than training.
    forms: list[Any] = [None] * len(tasks)
    thetas: list[Any] = [None] * len(tasks)
    same: dict[Recipe, list[int]] = {}
    for position, task in enumerate(tasks):
        if isinstance(task.network, Recipe):
            same.setdefault(task.network, []).append(position)
        else:
            forms[position] = form_of(task.network)
            thetas[position] = np.asarray(flatten_networks(task.network))
    for made, positions in same.items():
        form = form_of(jax.eval_shape(made, jax.random.PRNGKey(0)))
        keys = np.stack([_raw(tasks[position].key) for position in positions])
        stack = np.asarray(_make(made, keys))
        for row, position in enumerate(positions):
            forms[position], thetas[position] = form, stack[row]
    return forms, thetas


@jax.jit(static_argnums=0)
def _make(made: Recipe, keys: Any) -> Any:
    return jax.vmap(lambda key: flatten_networks(made(key)))(keys)


def _raw(key: Any) -> np.ndarray:
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    return np.asarray(key)


def _kind(part: _Part, settings: TrainSettings, pad_widths: bool) -> Hashable:
    def table(leaf: Any) -> Hashable:
        return (leaf.ndim if pad_widths else leaf.shape[1:]), np.dtype(leaf.dtype)

    data = part.task.inputs, part.task.targets
    shapes = tuple(table(leaf) for leaf in jax.tree.leaves(data))
    # A network waits for the one with most steps; within a power of two that is at most half.
    batch = settings.batch_size or len(part.used)
    scale = (math.ceil(len(part.used) / batch) - 1).bit_length()
    if settings.batch_size is None:
        scale = (len(part.used) - 1).bit_length()
    form = part.form.ranks if pad_widths else part.form
    return form, shapes, jax.tree.structure(data), scale


def _stack(parts: list[_Part], loss: Loss, settings: TrainSettings, pad_widths: bool) -> Group:
    form = parts[0].form.widened([part.form for part in parts[1:]])
    rows = [len(part.used) for part in parts]
    batch = min(settings.batch_size or max(rows), max(rows))
    steps = [math.ceil(count / batch) for count in rows]
    most = _rounded(max(steps))
    size = most * batch
    if settings.dp is not None:
        # Fewer places than rows: the sample of a step, not a slice of an order.
        batch = max(capacity(count, min(1.0, batch / count)) for count in rows)
    kept = max(len(part.kept) for part in parts)

    def stacked(trees: list[PyTree], picks: list[np.ndarray], size: int, fill: float) -> PyTree:
        def leaf(*leaves: Any) -> np.ndarray:
            return _stack_rows([np.asarray(a) for a in leaves], picks, size, fill)

        return jax.tree.map(leaf, *trees)

    used = [part.used for part in parts]
    held = [part.kept if len(part.kept) else np.zeros(1, int) for part in parts]
    inputs = [part.task.inputs for part in parts]
    targets = [part.task.targets for part in parts]
    if pad_widths and targets[0] is None:
        targets = inputs  # padded inputs are zero, padded targets missing: no longer the same
    weights = [
        np.ones(part.task.rows, np.float32)
        if part.task.weights is None
        else np.asarray(part.task.weights, np.float32)
        for part in parts
    ]
    plan = Plan(
        form=form,
        loss=loss,
        settings=replace(
            settings,
            learning_rate=1.0,
            weight_decay=0.0 if settings.optimizer == "adamw" else settings.weight_decay,
            memory_limit=1,
        ),
        batch=batch,
        steps=most,
        ragged=min(steps) < most,
        validated=kept > 0,
    )
    material = Material(
        key=np.stack([part.key for part in parts]),
        start=np.stack([part.form.resize(part.theta, form) for part in parts]),
        learning_rate=np.full(len(parts), settings.learning_rate, np.float32),
        weight_decay=np.array(
            [
                settings.weight_decay if p.task.weight_decay is None else p.task.weight_decay
                for p in parts
            ],
            np.float32,
        ),
        rows=np.array(rows, np.int32),
        steps=np.array(steps, np.int32),
        inputs=stacked(inputs, used, size, 0.0),
        targets=stacked(targets, used, size, np.nan),
        weights=_mask(weights, used, size),
        kept_inputs=stacked(inputs, held, max(kept, 1), 0.0),
        kept_targets=stacked(targets, held, max(kept, 1), np.nan),
        kept_weights=_mask(weights, [part.kept for part in parts], max(kept, 1)),
    )
    return Group(
        tuple(part.position for part in parts), tuple(part.form for part in parts), plan, material
    )


def _rounded(count: int) -> int:
    # Up to three leading bits: programs of nearly equal sizes are one program, compiled once.
    step = 1 << max(0, count.bit_length() - 4)
    return math.ceil(count / step) * step


def _stack_rows(
    tables: list[np.ndarray], picks: list[np.ndarray], size: int, fill: float
) -> np.ndarray:
    shape = tuple(np.max([table.shape[1:] for table in tables], axis=0).astype(int))
    kind = np.float32 if np.issubdtype(tables[0].dtype, np.floating) else tables[0].dtype
    out = np.full((len(tables), size, *shape), fill if shape else 0, kind)
    for slot, table, pick in zip(out, tables, picks, strict=True):
        within = tuple(slice(0, width) for width in table.shape[1:])
        slot[(slice(0, len(pick)), *within)] = table[pick]
        # Padding repeats a real row, so that a loss that is finite on the data is finite on it.
        slot[len(pick) :] = slot[0]
    return out


def _mask(weights: list[np.ndarray], picks: list[np.ndarray], size: int) -> np.ndarray:
    out = np.zeros((len(weights), size), np.float32)
    for slot, weight, pick in zip(out, weights, picks, strict=True):
        slot[: len(pick)] = weight[pick]
    return out


def _check_padding(tasks: Sequence[Task], loss: Loss, settings: TrainSettings) -> None:
    if settings.dp is not None:
        raise SettingError(
            "pad_widths must be False with dp, because noise would fill the padding."
        )
    if isinstance(loss, BatchLoss) or not getattr(loss, "ignores_padding", False):
        raise SettingError(
            f"pad_widths must be False with a loss that scores padded columns, got {loss!r}."
        )
    for position, task in enumerate(tasks):
        network = task.network
        if isinstance(network, Recipe):
            network = jax.eval_shape(network, jax.random.PRNGKey(0))
        if not (isinstance(network, AbstractNetwork) and network.pads_exactly):
            raise SettingError(
                "pad_widths must be False for networks whose padded units would learn (an "
                f"activation that is not zero at zero), got one in task {task.name or position}."
            )
