"""Symmetric matrices as upper triangles, and their eigenvalues and eigenvectors as words."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Shaped, UInt64

from cofill.errors import DataError
from cofill.shares._ring import few_threads, halves_shape, pack_halves, unpack_halves

Spectrum = tuple[Float[np.ndarray, " size"], Float[np.ndarray, "size size"]]


def spectrum_of(matrix: Float[np.ndarray, "size size"]) -> Spectrum:
    """Return eigenvalues, none below zero, and eigenvectors of a symmetric matrix."""
    with few_threads(10 * len(matrix) ** 3):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0), vectors


def from_triangle(triangle: Float[np.ndarray, " cells"]) -> Float[np.ndarray, "size size"]:
    """Return the symmetric matrix with an upper triangle.

    Examples
    --------
    >>> from_triangle(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [2., 3.]])
    """
    size = size_of(triangle)
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = triangle
    return matrix + np.triu(matrix, 1).T


def size_of(triangle: Shaped[np.ndarray, " cells"]) -> int:
    """Return how many rows the matrix with an upper triangle has."""
    return (math.isqrt(8 * len(triangle) + 1) - 1) // 2


def pack_spectrum(spectrum: Spectrum) -> UInt64[np.ndarray, " words"]:
    """Return eigenvalues as the bits of their numbers, then vectors of 32 bits, as words."""
    values, vectors = spectrum
    largest = 2.0**31 - 1
    halves = np.clip(np.rint(vectors.ravel() * 2.0**31), -largest, largest).astype(np.int32)
    return np.concatenate([values.view(np.uint64), pack_halves(halves.view(np.uint32))])


def unpack_spectrum(label: str, words: UInt64[np.ndarray, ...], size: int) -> Spectrum:
    """Return the spectrum of a matrix of a size, or raise a `DataError`."""
    values = np.ravel(words)[:size].view(np.float64)
    if words.shape != (size + halves_shape(size**2)[0],) or not np.isfinite(values).all():
        raise DataError(
            f"the spectrum of {label!r} must have {size} finite eigenvalues and eigenvectors, got "
            f"words of the shape {words.shape}; refused"
        )
    halves = unpack_halves(words[size:], (size, size)).view(np.int32)
    return values, halves * 2.0**-31
