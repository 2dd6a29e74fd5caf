"""Fixed-point numbers as words of 64 bits, and their matrix products.

A number x is the word round(x · 2^f) modulo 2^64, negative ones as two's complement. Sums and
products of words are exact modulo 2^64: a result is right as long as its own magnitude stays below
2^63, whatever happened on the way, which is why shares may be uniform. A product of two words has
2f fractional bits.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt64

from cofill.errors import DataError

_LIMB = 22
_LIMBS = 3
# |limb| ≤ 2^21, so that so many products of two add up to less than 2^53, exactly in a float64.
_ROWS_AT_ONCE = 2**11
_MASK = np.uint64(2**_LIMB - 1)


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


def multiply(
    left: UInt64[np.ndarray, "rows inner"], right: UInt64[np.ndarray, "inner columns"]
) -> UInt64[np.ndarray, "rows columns"]:
    """Return a matrix product modulo 2^64, by the processor's products of floating-point matrices.

    Words are cut into three signed limbs of 22 bits; six products of limb matrices are exact in
    float64, the other three are multiples of 2^64. NumPy's own product of integers is about ten
    times slower.

    Examples
    --------
    >>> multiply(np.array([[3, 2**63]], np.uint64), np.array([[5], [2]], np.uint64))
    array([[15]], dtype=uint64)
    """
    product = np.zeros((left.shape[0], right.shape[1]), np.uint64)
    for start in range(0, left.shape[1], _ROWS_AT_ONCE):
        inner = slice(start, start + _ROWS_AT_ONCE)
        rows, columns = _limbs(left[:, inner]), _limbs(right[inner])
        for weight in range(_LIMBS):
            for first in range(weight + 1):
                part = rows[first] @ columns[weight - first]
                product += part.astype(np.int64).view(np.uint64) << np.uint64(_LIMB * weight)
    return product


def _limbs(words: UInt64[np.ndarray, ...]) -> list[Float[np.ndarray, ...]]:
    """Return signed limbs whose sum, each times 2^22 more than the last, is the word mod 2^64."""
    limbs, rest = [], words
    for _ in range(_LIMBS):
        low = (rest & _MASK).astype(np.int64)
        # The upper half of a limb's range becomes negative and carries into the next limb.
        low -= (low >> (_LIMB - 1)) << _LIMB
        limbs.append(low.astype(np.float64))
        rest = (rest - low.view(np.uint64)) >> np.uint64(_LIMB)
    return limbs
