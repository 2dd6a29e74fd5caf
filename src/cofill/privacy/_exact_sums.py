"""Whole numbers of any size and flags, as words of which a secure sum tells the totals only.

A fixed point in one word needs to know how large numbers are, and that alone tells something of
whoever has the largest. So a number is as many digits as the widest one may need, a word each, and
nobody says how many of them it uses. Words are added one by one, and the sums of single digits
would tell how many sites carried at each of them. Therefore every site moves a random amount from
each digit to the one before it: the total stays, and the carries cannot be told from these amounts
but for a chance below 2^-40 times the square of the number of sites.

A flag is one word: 0, or a word drawn anew where it is raised. In the sum of a round it is 0 if
nobody raised it and random otherwise, so that who did, and how many, is not told.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, UInt64

from cofill.errors import DataError
from cofill.privacy._checks import require_whole
from cofill.privacy._masks import ImpossibleSumError

_DIGIT = 16  # bits of a digit; the rest of its word is for carries, and for hiding them


@dataclass(frozen=True, eq=False)
class NumbersAndFlags:
    """What one site adds, or what all have added: whole numbers, and whether flags are raised."""

    numbers: Sequence[int]
    flags: Bool[np.ndarray, " flags"]


@dataclass(frozen=True)
class ExactSums:
    """An encoding of numbers and flags for sums over up to ``sites`` sites, without rounding.

    Parameters
    ----------
    numbers, flags
        How many there are of each.
    digits
        Words of a number, of 16 bits each: numbers lie within ±2^(16 · digits − 1).
    sites
        How many vectors are added up at most.

    Examples
    --------
    >>> code = ExactSums(numbers=2, flags=2, digits=8, sites=3)
    >>> one = NumbersAndFlags([7, -(10**30)], np.array([True, False]))
    >>> other = NumbersAndFlags([-9, 3], np.array([True, False]))
    >>> total = code.decode(code.encode(one) + code.encode(other))
    >>> total.numbers, total.flags.tolist()
    ([-2, -999999999999999999999999999997], [True, False])
    """

    numbers: int
    flags: int
    digits: int = 32
    sites: int = 10_000

    def __post_init__(self) -> None:
        for name in ("numbers", "flags"):
            require_whole(name, getattr(self, name), 0)
        for name in ("digits", "sites"):
            require_whole(name, getattr(self, name), 1)

    @property
    def length(self) -> int:
        """Words of a vector."""
        return self.numbers * self.digits + self.flags

    def encode(self, values: NumbersAndFlags) -> UInt64[np.ndarray, " length"]:
        """Return words of which only sums tell the numbers and flags."""
        size = _DIGIT // 8 * self.digits
        try:
            content = b"".join(n.to_bytes(size, "little", signed=True) for n in values.numbers)
        except OverflowError:
            raise DataError(
                f"numbers must lie within ±2^{8 * size - 1} to be added up exactly; refused"
            ) from None
        digits = np.frombuffer(content, "<u2").reshape(-1, self.digits).astype(np.int64)
        digits[:, -1] -= (digits[:, -1] >> (_DIGIT - 1)) << _DIGIT  # the last one has the sign
        # As many bits as leave room for the sum of all sites' words below the sign.
        room = 63 - _DIGIT - 1 - self.sites.bit_length()
        moved = (_random_words(digits[:, 1:].size) >> np.uint64(64 - room)).astype(np.int64)
        moved = moved.reshape(digits[:, 1:].shape)
        digits[:, :-1] += moved << _DIGIT
        digits[:, 1:] -= moved
        flags = np.where(values.flags, _random_words(len(values.flags)), np.uint64(0))
        return np.concatenate([digits.ravel().view(np.uint64), flags])

    def decode(self, words: UInt64[np.ndarray, " length"]) -> NumbersAndFlags:
        """Return the sums of numbers, and which flags anybody raised.

        Raises an `ImpossibleSumError` for words that no sum of so many can have.
        """
        end = self.numbers * self.digits
        digits = words[:end].view(np.int64).reshape(-1, self.digits).astype(object)
        values = np.array([1 << (_DIGIT * k) for k in range(self.digits)], dtype=object)
        numbers = [int(n) for n in digits @ values]
        if any(abs(n) > self.sites << (_DIGIT * self.digits - 1) for n in numbers):
            raise ImpossibleSumError
        return NumbersAndFlags(numbers, words[end:] != 0)


def _random_words(count: int) -> UInt64[np.ndarray, " count"]:
    return np.frombuffer(secrets.token_bytes(8 * count), "<u8").astype(np.uint64)
