"""Neighbour graphs of several views as one, its spectral embedding, and the vote of many groupings.

Views are joined where people stand, not in their cells: every view has a graph of those whom it
knows, and the sum of the graphs links everybody who has a view at all. Whoever lacks a view is
reached through the neighbours in the other one, so that no cell has to be guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int

_ITSELF = 1e-6  # weight to oneself, so that nobody is without an edge
_REACH = 7  # the neighbour that sets a row's scale (Zelnik-Manor and Perona 2004)


def neighbour_graph(
    rows: Float[np.ndarray, "n d"], known: Bool[np.ndarray, " n"], neighbours: int
) -> sparse.csr_matrix:
    """Return who is near whom among the rows that are known, as a symmetric n × n matrix.

    An edge weighs exp(−d²/(s t)), where s and t are the distances of its two ends to their seventh
    neighbours: dense and thin regions count alike.
    """
    from sklearn.neighbors import NearestNeighbors

    n, members = len(rows), np.flatnonzero(known)
    count = min(neighbours, len(members) - 1)
    if count < 1:
        return sparse.csr_matrix((n, n))
    search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(rows[members])
    distances, near = search.kneighbors()  # of the rows it was fitted on, without themselves
    reach = np.maximum(distances[:, min(_REACH, count) - 1], np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        weights = np.exp(-((distances / reach[:, None]) * (distances / reach[near])))
    ends = np.repeat(members, count), members[near].ravel()
    graph = sparse.csr_matrix((weights.ravel(), ends), shape=(n, n))
    return graph.maximum(graph.T).tocsr()


def embed_graph(graph: sparse.csr_matrix, dimensions: int) -> Float[np.ndarray, "n dimensions"]:
    """Return the leading eigenvectors of the normalised graph, the smoothest first.

    Examples
    --------
    >>> pairs = sparse.csr_matrix(np.kron(np.eye(2), 1 - np.eye(3)))
    >>> embedding = unit_rows(embed_graph(pairs, 2))
    >>> (embedding @ embedding.T).round(6).tolist()[0]
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    """
    n = int(graph.shape[0])  # pyright: ignore[reportOptionalSubscript]
    graph = graph + _ITSELF * sparse.identity(n)
    roots = sparse.diags(1 / np.sqrt(np.asarray(graph.sum(axis=1)).ravel()))
    normalised = roots @ graph @ roots
    dimensions = min(dimensions, n)
    # A wide basis takes a tenth of the iterations: eigenvalues of such graphs lie close below 1.
    if n <= 6 * dimensions + 1:
        values, vectors = np.linalg.eigh(normalised.toarray())
    else:
        values, vectors = sparse.linalg.eigsh(
            normalised, k=dimensions, v0=np.ones(n), ncv=6 * dimensions, tol=1e-4
        )
    return vectors[:, np.argsort(-values)[:dimensions]]


def unit_rows(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows of length 1; a row of zeros stays."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def group_rows(rows: Float[np.ndarray, "n d"], k: int, seed: int) -> Int[np.ndarray, " n"]:
    """Return groups by k-means."""
    from sklearn.cluster import KMeans

    model = KMeans(k, n_init=5, random_state=seed)  # pyright: ignore[reportArgumentType]
    return model.fit_predict(rows).astype(np.int64)


def vote_on_groups(
    groupings: Sequence[Int[np.ndarray, " n"]], k: int, seed: int
) -> Int[np.ndarray, " n"]:
    """Return the groups on which several groupings agree best, whatever they call them.

    Individuals and the groups that they were put into are the two sides of a graph; people whom
    most groupings keep together lie together in its spectral embedding (Fern and Brodley 2004).

    Examples
    --------
    >>> one, other = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 1, 0, 0, 0])
    >>> voted = vote_on_groups([one, other, np.array([0, 0, 1, 1, 1, 1])], 2, seed=0)
    >>> (voted == voted[0]).tolist()
    [True, True, True, False, False, False]
    """
    members = np.concatenate([np.eye(k)[groups] for groups in groupings], axis=1)
    members /= np.sqrt(np.maximum(members.sum(axis=0), 1.0))
    values, vectors = np.linalg.eigh(members.T @ members)
    return group_rows(unit_rows(members @ vectors[:, np.argsort(-values)[:k]]), k, seed)
