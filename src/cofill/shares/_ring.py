"""Fixed-point numbers as words of 64 bits, and their matrix products.

A number x is the word round(x · 2^f) modulo 2^64, negative ones as two's complement. Sums and
products of words are exact modulo 2^64: a result is right as long as its own magnitude stays below
2^63, whatever happened on the way, which is why shares may be uniform. A product of two words has
2f fractional bits.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, UInt32, UInt64
from threadpoolctl import ThreadpoolController

from cofill.errors import DataError

_LIMB = 22
_LIMBS = 3
# |limb| ≤ 2^21: so many products of two, twice over, add up to less than 2^53, exact in a float64.
_ROWS_AT_ONCE = 2**10
_REST = np.int64(64 - _LIMB)
_MANY = 2**28  # multiplications: a few hundredths of a second on one core


def to_words(values: Float[np.ndarray, ...], bits: int) -> UInt64[np.ndarray, ...]:
    """Return numbers in fixed point with so many fractional bits; raise where one is too large.

    Examples
    --------
    >>> to_words(np.array([0.5, -1.0]), bits=4)
    array([                   8, 18446744073709551600], dtype=uint64)
    """
    scaled = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), bits))
    if not (np.abs(scaled) < 2.0**62).all():
        raise DataError(
            f"numbers in fixed point must be finite and below 2^{62 - bits} with {bits} fractional "
            "bits; scale the columns first"
        )
    return scaled.astype(np.int64).view(np.uint64)


def from_words(words: UInt64[np.ndarray, ...], bits: int) -> Float[np.ndarray, ...]:
    """Return the numbers that words of so many fractional bits stand for.

    Examples
    --------
    >>> from_words(to_words(np.array([0.5, -1.25]), bits=8), bits=8)
    array([ 0.5 , -1.25])
    """
    return np.ldexp(np.ascontiguousarray(words).view(np.int64).astype(np.float64), -bits)


def halves_shape(size: int) -> tuple[int]:
    """Return the shape of the words that hold so many numbers of 32 bits."""
    return (-(-size // 2),)


def pack_halves(halves: UInt32[np.ndarray, ...]) -> UInt64[np.ndarray, " words"]:
    """Return numbers of 32 bits as words of 64, two each."""
    return np.append(halves.ravel(), np.zeros(halves.size % 2, np.uint32)).view(np.uint64)


def unpack_halves(
    words: UInt64[np.ndarray, " words"], shape: tuple[int, ...]
) -> UInt32[np.ndarray, ...]:
    """Return the numbers that `pack_halves` was given.

    Examples
    --------
    >>> unpack_halves(pack_halves(np.array([[1, 2, 3]], np.uint32)), (1, 3))
    array([[1, 2, 3]], dtype=uint32)
    """
    return words.view(np.uint32)[: math.prod(shape)].reshape(shape)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def few_threads(multiplications: int) -> AbstractContextManager[Any]:
    """Keep matrix libraries to one thread for few multiplications.

    A computation on shares has thousands of small products. On a machine that also does other
    things, such as other sites, threads wait for each other far longer than they compute.
    """
    return _libraries().limit(limits=1) if multiplications < _MANY else nullcontext()


def multiply(
    left: UInt64[np.ndarray, "rows inner"], right: UInt64[np.ndarray, "inner columns"]
) -> UInt64[np.ndarray, "rows columns"]:
    """Return a matrix product modulo 2^64, by the processor's products of floating-point matrices.

    Words are cut into three signed limbs of 22 bits. Limbs of one side lie in order, those of the
    other in reverse, so that the limb products of one weight are one product of longer matrices;
    weights of 2^66 and more are multiples of 2^64. NumPy's own product of integers is about ten
    times slower.

    Examples
    --------
    >>> multiply(np.array([[3, 2**63]], np.uint64), np.array([[5], [2]], np.uint64))
    array([[15]], dtype=uint64)
    """
    product = np.zeros((left.shape[0], right.shape[1]), np.uint64)
    for start in range(0, left.shape[1], _ROWS_AT_ONCE):
        rows, columns = left[:, start : start + _ROWS_AT_ONCE], right[start : start + _ROWS_AT_ONCE]
        first = np.empty((len(rows), _LIMBS, len(columns)))
        second = np.empty((_LIMBS, *columns.shape))
        _split(rows, first.transpose(1, 0, 2))
        _split(columns, second[::-1])
        first, second = first.reshape(len(rows), -1), second.reshape(-1, columns.shape[1])
        with few_threads(2 * _LIMBS * len(rows) * columns.size):
            for weight in range(_LIMBS):
                size = (weight + 1) * len(columns)
                part = first[:, :size] @ second[len(second) - size :]
                product += part.astype(np.int64).view(np.uint64) << np.uint64(_LIMB * weight)
    return product


def _split(
    words: UInt64[np.ndarray, "rows inner"], limbs: Float[np.ndarray, "limbs rows inner"]
) -> None:
    """Write signed limbs whose sum, each times 2^22 more than the last, is the word mod 2^64."""
    rest = words.astype(np.int64)
    for limb in limbs[:-1]:
        # The upper half of a limb's range is negative, and what is left carries it.
        low = rest << _REST
        low >>= _REST
        limb[...] = low
        rest -= low
        rest >>= np.int64(_LIMB)
    limbs[-1] = rest
