"""Losses: how far a network's outputs are from the cells it should predict.

A loss is a function ``loss(network, inputs, targets, key)`` that returns one value a row, or a
pair ``(total, count)`` a row; the batch's loss is then the sum of the totals over the sum of the
counts. All are hashable, so that a compiled training program is found again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PyTree
from scipy.special import expit, softmax

from cofill.codec import storable
from cofill.errors import SettingError
from cofill.nets._networks import PRNGKey, apply_rows
from cofill.views import EncodedBlock, Kind

BlockKind = Literal["squared", "bernoulli", "categorical"]
Loss = Callable[..., Any]
Table = Float[Array, "rows columns"]
TotalAndCount = tuple[Float[Array, " rows"], Float[Array, " rows"]]


@storable
@dataclass(frozen=True)
class Block:
    """Columns ``start:stop`` of the encoded table whose cells are of one kind.

    Parameters
    ----------
    kind
        ``"squared"`` (numbers), ``"bernoulli"`` (0 or 1 a column; outputs are logits) or
        ``"categorical"`` (the block is one cell in one-hot code; outputs are logits).
    start, stop
        First column and the column after the last.
    weight
        How much a cell of this block counts against a cell of another.
    """

    kind: BlockKind
    start: int
    stop: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(BlockKind):
            kinds = ", ".join(get_args(BlockKind))
            raise SettingError(f"kind must be one of {kinds}, got {self.kind!r}.")
        if not 0 <= self.start < self.stop:
            raise SettingError(
                f"start must be 0 or more and below stop, got {self.start} and {self.stop}."
            )
        if not self.weight >= 0:
            raise SettingError(f"weight must be 0 or more, got {self.weight}.")

    def score(self, outputs: Table, targets: Table) -> TotalAndCount:
        """Return each row's summed loss over its observed cells, and how many those are."""
        output, target = outputs[:, self.start : self.stop], targets[:, self.start : self.stop]
        observed = ~jnp.isnan(target)
        if self.kind == "categorical":
            observed = observed.all(axis=1, keepdims=True)
        # The missing target is replaced before the loss is taken: a NaN times zero is a NaN, and
        # so would the gradient be.
        target = jnp.where(observed, target, 0.0)
        if self.kind == "squared":
            cell = (output - target) ** 2
        elif self.kind == "bernoulli":
            cell = optax.sigmoid_binary_cross_entropy(output, target)
        else:
            cell = -(target * jax.nn.log_softmax(output, axis=1)).sum(axis=1, keepdims=True)
        total = jnp.where(observed, cell, 0.0).sum(axis=1)
        return self.weight * total, observed.sum(axis=1).astype(total.dtype)


@dataclass(frozen=True)
class CellLoss:
    """The mean loss of the observed cells of a table whose columns are of several kinds.

    Columns in no block are ignored. A NaN in the targets is a missing cell: it has no loss and no
    gradient. A categorical block is one cell, missing when any of its columns is.

    Examples
    --------
    >>> from cofill.nets import MLP
    >>> loss = CellLoss((Block("squared", 0, 2), Block("bernoulli", 2, 3)))
    >>> network = MLP((3, 3), key=jax.random.key(0))
    >>> total, count = loss(network, jnp.ones((5, 3)), jnp.ones((5, 3)), None)
    >>> count.tolist()
    [3.0, 3.0, 3.0, 3.0, 3.0]
    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise SettingError("blocks must hold at least one Block, got none.")

    def __call__(
        self, network: Any, inputs: PyTree, targets: Array, key: PRNGKey | None
    ) -> TotalAndCount:
        """Return each row's summed loss over its observed cells, and how many those are."""
        return self.score(apply_rows(network, inputs, key=key), targets)

    def score(self, outputs: Table, targets: Table) -> TotalAndCount:
        """Return the same for outputs already computed."""
        totals, counts = zip(*(block.score(outputs, targets) for block in self.blocks), strict=True)
        return jnp.stack(totals).sum(axis=0), jnp.stack(counts).sum(axis=0)


@dataclass(frozen=True)
class SquaredError:
    """The mean squared error of the observed cells, whatever the number of columns."""

    def __call__(
        self, network: Any, inputs: PyTree, targets: Array, key: PRNGKey | None
    ) -> TotalAndCount:
        """Return each row's summed squared error over its observed cells, and their number."""
        outputs = apply_rows(network, inputs, key=key)
        return Block("squared", 0, outputs.shape[1]).score(outputs, targets)


class Grouped(NamedTuple):
    """Rows for `GroupDropout`: their columns, and the patterns each may be shown with.

    Patterns are data, not part of the program, so that problems with other patterns share it.
    """

    columns: Table | Float[np.ndarray, "rows columns"]
    patterns: Bool[Array, "rows draws groups"] | Bool[np.ndarray, "rows draws groups"]


@dataclass(frozen=True)
class GroupDropout:
    """A loss whose network sees, in each step, each row with one of the row's patterns of groups.

    A group is a view's (or a code's) columns together with the column that says whether it is
    present; a group that is not shown is all zeros. Validation rows (no key) show all groups.
    ``groups`` are the columns ``(start, stop)`` of each; together they are all columns.

    Examples
    --------
    >>> from cofill.nets import MLP, SquaredError
    >>> loss = GroupDropout(SquaredError(), ((0, 1), (1, 3)))
    >>> rows = Grouped(jnp.ones((4, 3)), jnp.ones((4, 1, 2), bool).at[:, :, 0].set(False))
    >>> loss.thin(jax.random.key(0), rows)[0]
    Array([0., 1., 1.], dtype=float32)
    """

    loss: Any
    groups: tuple[tuple[int, int], ...]

    def __call__(self, network: Any, inputs: Grouped, targets: Any, key: PRNGKey | None) -> Any:
        """Return the loss of the rows, each with the groups of one of its patterns."""
        if key is None:
            return self.loss(network, inputs.columns, targets, None)
        draw_key, key = jax.random.split(key)
        return self.loss(network, self.thin(draw_key, inputs), targets, key)

    def thin(self, key: PRNGKey, rows: Grouped) -> Table:
        """Return the columns with the groups outside each row's drawn pattern set to zero."""
        count, draws, _ = rows.patterns.shape
        # One key a row: a row's draw does not depend on how many rows are padded behind it.
        keys = jax.random.split(key, count)
        drawn = jax.vmap(lambda k: jax.random.randint(k, (), 0, draws))(keys)
        shown = jnp.asarray(rows.patterns)[jnp.arange(count), drawn]
        group_of = [g for g, (a, b) in enumerate(self.groups) for _ in range(a, b)]
        return jnp.where(shown[:, jnp.array(group_of)], rows.columns, 0.0)


_KIND_OF_LOSS: dict[Kind, BlockKind] = {
    Kind.NUMERIC: "squared",
    Kind.BINARY: "bernoulli",
    Kind.CATEGORICAL: "categorical",
}


def expectations(
    outputs: Float[np.ndarray, "rows columns"] | Table, blocks: Sequence[Block]
) -> Float[np.ndarray, "rows columns"]:
    """Return expected cells from raw outputs: logits as probabilities, numbers unchanged.

    Done on the host: a compiled version would compile anew for every number of rows.
    """
    cells = np.array(outputs)
    for block in blocks:
        part = slice(block.start, block.stop)
        if block.kind == "bernoulli":
            cells[:, part] = expit(cells[:, part])
        elif block.kind == "categorical":
            cells[:, part] = softmax(cells[:, part], axis=1)
    return cells


def loss_blocks(encoded: Sequence[EncodedBlock]) -> tuple[Block, ...]:
    """Return the losses of a scaler's columns, neighbours of one kind put together.

    Examples
    --------
    >>> from cofill.views import EncodedBlock, Kind
    >>> loss_blocks([EncodedBlock(0, Kind.NUMERIC, 0, 1), EncodedBlock(1, Kind.NUMERIC, 1, 2)])
    (Block(kind='squared', start=0, stop=2, weight=1.0),)
    """
    blocks: list[Block] = []
    for block in encoded:
        kind = _KIND_OF_LOSS[block.kind]
        if blocks and kind != "categorical" and blocks[-1].kind == kind:
            blocks[-1] = Block(kind, blocks[-1].start, block.stop)
        else:
            blocks.append(Block(kind, block.start, block.stop))
    return tuple(blocks)
