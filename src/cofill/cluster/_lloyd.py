"""k-means on weighted rows: nearest centres, sums of groups, k-means++, Lloyd's rounds.

Sites run it on their rows, the coordinator on the few centroids they release.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

_CELLS_AT_ONCE = 2**24  # distances held at a time, which bounds the memory
_CELLS_NEAR = 2**20  # cells of rows that several starts read before they leave the cache
_WORTH_MOVING = 2**28  # products of a cell with a centre that are made on an accelerator, if any


def nearest(
    rows: Float[np.ndarray, "n d"], centers: Float[np.ndarray, "k d"]
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return each row's nearest centre and its squared distance."""
    labels = np.empty(len(rows), dtype=np.int64)
    squares = np.empty(len(rows))
    step = max(1, _CELLS_AT_ONCE // max(rows.shape[1], len(centers)))
    half = (centers * centers).sum(axis=1) / 2
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        labels[part] = (half - rows[part] @ centers.T).argmin(axis=1)
        # The winner's distance from the difference: the products above lose digits far from 0.
        away = rows[part] - centers[labels[part]]
        squares[part] = np.einsum("nd,nd->n", away, away)
    return labels, squares


def sum_groups(
    rows: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], k: int
) -> tuple[Float[np.ndarray, "k d"], Float[np.ndarray, " k"]]:
    """Return the sum of each group's rows and how many they are."""
    sums = np.zeros((k, rows.shape[1]))
    for group in np.unique(labels):
        sums[group] = rows[labels == group].sum(axis=0)
    return sums, np.bincount(labels, minlength=k).astype(np.float64)


def sum_groups_of_starts(
    rows: Float[np.ndarray, "n d"], starts: Float[np.ndarray, "starts k d"]
) -> tuple[
    Float[np.ndarray, "starts k d"], Float[np.ndarray, "starts k"], Float[np.ndarray, "starts k"]
]:
    """Return sums, counts and sums of squared distances of the groups around several starts.

    Rows are read once for all starts, as two products of matrices a block, instead of twice for
    each. Distances are taken from the middle of all centres, where the products lose few digits.
    Where there is an accelerator, large products are made there, in the same precision.
    """
    n_starts, k, columns = starts.shape
    middle = starts.mean(axis=(0, 1))
    centers = (starts - middle).reshape(-1, columns)
    large = rows.size * len(centers) >= _WORTH_MOVING
    add_up = _add_up_on_accelerator if large and _has_accelerator() else _add_up
    sums, counts, squares = add_up(rows, middle, centers, n_starts)
    sums += counts[:, None] * middle
    shape = (n_starts, k)
    return sums.reshape(starts.shape), counts.reshape(shape), squares.reshape(shape)


def _add_up(
    rows: np.ndarray, middle: np.ndarray, centers: np.ndarray, n_starts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums of rows from the middle, counts and squares of every start's groups."""
    lengths = (centers * centers).sum(axis=1).reshape(n_starts, -1)
    sums = np.zeros_like(centers)
    counts, squares = np.zeros(len(centers)), np.zeros(len(centers))
    first = len(centers) // n_starts * np.arange(n_starts)
    step = max(1, _CELLS_NEAR // max(centers.shape))
    for begin in range(0, len(rows), step):
        part = rows[begin : begin + step] - middle
        away = lengths - 2 * (part @ centers.T).reshape(len(part), *lengths.shape)
        groups = first + away.argmin(axis=2)
        row_lengths = np.einsum("nd,nd->n", part, part)
        least = np.maximum(row_lengths[:, None] + away.min(axis=2), 0.0)
        members = np.zeros((len(part), len(centers)))
        np.put_along_axis(members, groups, 1.0, axis=1)
        sums += members.T @ part
        counts += members.sum(axis=0)
        squares += np.bincount(groups.ravel(), weights=least.ravel(), minlength=len(centers))
    return sums, counts, squares


def _has_accelerator() -> bool:
    return jax.default_backend() != "cpu"


def _add_up_on_accelerator(
    rows: np.ndarray, middle: np.ndarray, centers: np.ndarray, n_starts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what `_add_up` returns, by JAX: a copy of the rows a call, some at a time."""
    sums = np.zeros_like(centers)
    counts, squares = np.zeros(len(centers)), np.zeros(len(centers))
    step = max(1, _CELLS_AT_ONCE // max(centers.shape))
    with jax.enable_x64(True):
        for begin in range(0, len(rows), step):
            block = _add_up_block(rows[begin : begin + step], middle, centers, n_starts)
            for total, part in zip((sums, counts, squares), block, strict=True):
                total += np.asarray(part)
    return sums, counts, squares


@partial(jax.jit, static_argnums=3)
def _add_up_block(
    rows: Array, middle: Array, centers: Array, n_starts: int
) -> tuple[Array, Array, Array]:
    """Return what `_add_up` returns, of rows that are held at once."""
    rows = rows - middle
    away = (centers * centers).sum(axis=1) - 2 * rows @ centers.T
    away = away.reshape(len(rows), n_starts, -1)
    members = jax.nn.one_hot(away.argmin(axis=2), away.shape[2], dtype=rows.dtype)
    least = jnp.maximum((rows * rows).sum(axis=1)[:, None] + away.min(axis=2), 0.0)
    squares = jnp.einsum("ns,nsk->sk", least, members).ravel()
    members = members.reshape(len(rows), -1)
    return members.T @ rows, members.sum(axis=0), squares


def choose_centers(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    k: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "some d"]:
    """Choose starting centres by greedy k-means++ (Arthur and Vassilvitskii 2007).

    There are fewer than k where fewer rows differ.
    """
    tries = 2 + int(np.log(k))
    first = int(rng.choice(len(rows), p=weights / weights.sum()))
    chosen = [first]
    squares = _squares(rows, rows[first])
    for _ in range(1, k):
        mass = weights * squares
        if not mass.sum() > 0:
            break
        drawn = rng.choice(len(rows), size=tries, p=mass / mass.sum())
        trials = np.array([np.minimum(squares, _squares(rows, rows[at])) for at in drawn])
        best = int((trials @ weights).argmin())
        chosen.append(int(drawn[best]))
        squares = trials[best]
    return rows[chosen]


def lloyd(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, " n"],
    centers: Float[np.ndarray, "k d"],
    *,
    rounds: int = 100,
) -> tuple[Float[np.ndarray, "k d"], Int[np.ndarray, " n"], float]:
    """Improve centres until no row changes its group; an empty group keeps its centre.

    Returns centres, groups, and the weighted sum of squared distances.
    """
    labels, squares = nearest(rows, centers)
    for _ in range(rounds):
        sums, _ = sum_groups(rows * weights[:, None], labels, len(centers))
        mass = np.bincount(labels, weights=weights, minlength=len(centers))
        filled = mass > 0
        centers = np.where(filled[:, None], sums / np.where(filled, mass, 1.0)[:, None], centers)
        before = labels
        labels, squares = nearest(rows, centers)
        if np.array_equal(before, labels):
            break
    return centers, labels, float(weights @ squares)


def _squares(rows: np.ndarray, point: np.ndarray) -> np.ndarray:
    away = rows - point
    return np.einsum("nd,nd->n", away, away)
