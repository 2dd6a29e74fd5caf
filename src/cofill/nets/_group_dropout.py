"""Dropout of groups of inputs in training, so that one network serves every pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cofill.nets._networks import PRNGKey

__all__ = ["GroupDropout", "Grouped"]


class Grouped(NamedTuple):
    """Rows for `GroupDropout`: their columns, and the patterns each may be shown with.

    Patterns are data, not part of the program, so that problems with other patterns share it.
    """

    columns: Float[Array, "rows columns"] | Float[np.ndarray, "rows columns"]
    patterns: Bool[Array, "rows draws groups"] | Bool[np.ndarray, "rows draws groups"]


@dataclass(frozen=True)
class GroupDropout:
    """A loss whose network sees, in each step, each row with one of the row's patterns of groups.

    A group is a view's (or a code's) columns together with the column that says whether it is
    present; a group that is not shown is all zeros. Validation rows (no key) show all groups.

    Parameters
    ----------
    loss
        The loss to take, as for `train`.
    groups
        Columns ``(start, stop)`` of each group; together they are all columns.

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

    def thin(self, key: PRNGKey, rows: Grouped) -> Float[Array, "rows columns"]:
        """Return the columns with the groups outside each row's drawn pattern set to zero."""
        count, draws, _ = rows.patterns.shape
        # One key a row: a row's draw does not depend on how many rows are padded behind it.
        keys = jax.random.split(key, count)
        drawn = jax.vmap(lambda k: jax.random.randint(k, (), 0, draws))(keys)
        shown = jnp.asarray(rows.patterns)[jnp.arange(count), drawn]
        group_of = [g for g, (a, b) in enumerate(self.groups) for _ in range(a, b)]
        return jnp.where(shown[:, jnp.array(group_of)], rows.columns, 0.0)
