"""Applying many trained networks to their rows, in bounded memory."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from cofill.errors import DataError, SettingError
from cofill.nets._flat import Form, flatten_networks, form_of
from cofill.nets._networks import apply_rows

__all__ = ["apply_many"]


def apply_many(
    networks: Sequence[PyTree],
    inputs: Sequence[PyTree],
    *,
    function: Callable[[PyTree, PyTree], PyTree] = apply_rows,
    memory_limit: int = 512 * 1024**2,
) -> list[PyTree]:
    """Apply each network to its own table; networks of one form are applied as one batch.

    Parameters
    ----------
    networks, inputs
        As many tables (arrays of shape (rows, ...), or pytrees of them) as networks.
    function
        ``function(network, rows)`` makes the outputs of a table of rows, each from its own row;
        for example ``lambda network, rows: apply_rows(network.encode, rows)``. A new function
        object is a new program to compile.
    memory_limit
        Bytes that one batch of rows, its outputs and as much again may take.

    Returns
    -------
    list
        The outputs as NumPy arrays, in the order given.

    Examples
    --------
    >>> import jax
    >>> from cofill.nets import MLP
    >>> network = MLP((3, 2), key=jax.random.key(0))
    >>> [made.shape for made in apply_many([network, network], [jax.numpy.ones((4, 3))] * 2)]
    [(4, 2), (4, 2)]
    """
    if len(networks) != len(inputs):
        raise SettingError(
            f"inputs must hold one table a network, got {len(inputs)} for {len(networks)}."
        )
    if memory_limit < 1:
        raise SettingError(f"memory_limit must be 1 or more, got {memory_limit}.")
    groups: dict[Any, list[int]] = {}
    for position, (network, table) in enumerate(zip(networks, inputs, strict=True)):
        leaves, structure = jax.tree.flatten(table)
        if len({leaf.shape[0] for leaf in leaves}) != 1:
            raise DataError(f"inputs must have one number of rows a table, see table {position}.")
        shapes = tuple((leaf.shape[1:], np.dtype(leaf.dtype)) for leaf in leaves)
        groups.setdefault((form_of(network), structure, shapes), []).append(position)
    outputs: list[PyTree] = [None] * len(networks)
    for (form, _, _), positions in groups.items():
        thetas = np.stack([np.asarray(flatten_networks(networks[p])) for p in positions])
        tables = [jax.tree.map(np.asarray, inputs[p]) for p in positions]
        made = _apply_group(form, thetas, tables, function, memory_limit)
        for position, table in zip(positions, made, strict=True):
            outputs[position] = table
    return outputs


def _apply_group(
    form: Form,
    thetas: np.ndarray,
    tables: list[PyTree],
    function: Callable[[PyTree, PyTree], PyTree],
    memory_limit: int,
) -> list[PyTree]:
    counts = [jax.tree.leaves(table)[0].shape[0] for table in tables]
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), tables[0]
    )
    out = jax.eval_shape(lambda theta, x: function(form.build(theta), x), thetas[0], one)
    row_bytes = 2 * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((one, out)))
    rows = max(1, min(max(counts), memory_limit // max(1, row_bytes)))
    together = max(1, min(len(tables), memory_limit // max(1, rows * row_bytes)))
    made: list[PyTree] = []
    for start in range(0, len(tables), together):
        some = tables[start : start + together]
        longest = max(counts[start : start + together])
        # Every piece has the same shape, so that one program serves all; surplus rows are cut off.
        theta = np.resize(thetas[start : start + together], (together, thetas.shape[1]))
        pieces = []
        for first in range(0, longest, rows):
            cut = [_rows(table, first, rows) for table in some]
            cut += [cut[-1]] * (together - len(cut))
            stack = jax.tree.map(lambda *leaves: np.stack(leaves), *cut)
            pieces.append(jax.device_get(_apply(form, function, theta, stack)))
        whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *pieces)
        for index in range(len(some)):
            count = counts[start + index]
            made.append(jax.tree.map(lambda leaf, i=index, n=count: leaf[i, :n], whole))
    return made


def _rows(table: PyTree, first: int, rows: int) -> PyTree:
    def cut(leaf: np.ndarray) -> np.ndarray:
        # Past the end the last row is repeated.
        return leaf[np.minimum(np.arange(first, first + rows), len(leaf) - 1)]

    return jax.tree.map(cut, table)


@partial(jax.jit, static_argnums=(0, 1))
def _apply(form: Form, function: Callable[..., Any], thetas: Any, tables: PyTree) -> PyTree:
    return jax.vmap(lambda theta, rows: function(form.build(theta), rows))(thetas, tables)
