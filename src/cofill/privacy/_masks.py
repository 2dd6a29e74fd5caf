"""Arithmetic of a secure sum: masks from a seed or an agreed key, shared-out seeds, fixed point.

Shares are Shamir's: any threshold of them give a secret back, fewer tell nothing. Real vectors are
words of a finite ring, in which sums of many sites neither round nor wrap.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, UInt64

from cofill.errors import DataError
from cofill.privacy._checks import require_positive, require_whole
from cofill.privacy._sealing import agree_on_key, derive_key

Entropy = Callable[[int], bytes]

# The least prime above 2^256: every 32-byte secret is a number of its field.
PRIME = 2**256 + 297


def commit(seed: bytes) -> bytes:
    """Return a hash that binds to a random seed without telling it."""
    return hashlib.blake2b(seed, digest_size=32, person=b"cofill own mask").digest()


def expand_seed(seed: bytes, number: int, size: int) -> UInt64[np.ndarray, " size"]:
    """Return the words of a seed in a round, which look random to whoever lacks the seed."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = derive_key(seed, b"mask of round %d" % number)
    # A key is used for one stream only, so that the counter may begin at 0.
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)


def pair_mask(
    mask_key: bytes, peer_key: bytes, number: int, size: int, *, subtract: bool
) -> UInt64[np.ndarray, " size"]:
    """Return the mask of two sites in a round, or its negative for the one that subtracts it."""
    seed = agree_on_key(mask_key, peer_key, b"pair mask of round %d" % number)
    words = expand_seed(seed, number, size)
    return np.uint64(0) - words if subtract else words


def share_secret(
    secret: bytes, positions: int, threshold: int, entropy: Entropy = secrets.token_bytes
) -> tuple[int, ...]:
    """Return the shares of a 32-byte secret for positions 1, 2, …: a polynomial's values there.

    Examples
    --------
    >>> shares = share_secret(b"x" * 32, positions=5, threshold=3)
    >>> open_shares({2: shares[1], 5: shares[4], 1: shares[0]}, 3) == b"x" * 32
    True
    """
    coefficients = [int.from_bytes(secret, "big")]
    # 48 random bytes modulo a number of 33 are uniform but for a chance of 2^-127.
    coefficients += [int.from_bytes(entropy(48), "big") % PRIME for _ in range(threshold - 1)]
    shares = []
    for position in range(1, positions + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * position + coefficient) % PRIME
        shares.append(value)
    return tuple(shares)


def open_shares(shares: Mapping[int, int], threshold: int) -> bytes:
    """Return the secret of at least a threshold of shares, by position (Lagrange at 0)."""
    if len(shares) < threshold:
        raise DataError(f"a secret must be opened by {threshold} shares, got {len(shares)}")
    positions = sorted(shares)[:threshold]
    value = 0
    for position in positions:
        top = bottom = 1
        for other in positions:
            if other != position:
                top = top * other % PRIME
                bottom = bottom * (other - position) % PRIME
        value = (value + shares[position] * top * pow(bottom, -1, PRIME)) % PRIME
    if value >= 2**256:
        raise DataError("shares do not fit together: they are not of one secret")
    return value.to_bytes(32, "big")


class ImpossibleSumError(DataError):
    """Words that no vectors of the agreed encoding add up to."""

    def __init__(self) -> None:
        super().__init__(
            "the sum holds numbers that its sites cannot have added: one of them has sent words "
            "that encode nothing"
        )


class SumCode(Protocol):
    """How values are written as words whose sum, modulo 2^64, is read as the sum of the values."""

    @property
    def sites(self) -> int:
        """How many vectors may be added up."""
        ...

    def encode(self, values: Any, /) -> UInt64[np.ndarray, " size"]:
        """Return one site's values as words."""
        ...

    def decode(self, words: UInt64[np.ndarray, " size"], /) -> Any:
        """Return the sum of all sites' values."""
        ...


@dataclass(frozen=True)
class FixedPoint:
    """Numbers from −largest to largest as multiples of a step, in words of 64 bits.

    The step is the smallest power of two at which the sum of up to ``sites`` vectors fits.
    Everybody must use the same settings. Values beyond the largest are an error, not clipped.

    Examples
    --------
    >>> code = FixedPoint(largest=100.0)
    >>> a, b = np.array([1.5, -99.0]), np.array([-2.25, 98.0])
    >>> code.decode(code.encode(a) + code.encode(b)).tolist()
    [-0.75, -1.0]
    >>> code.step < 1e-12
    True
    """

    largest: float | int
    sites: int = 10_000

    def __post_init__(self) -> None:
        require_positive("largest", self.largest)
        require_whole("sites", self.sites, 1)

    @property
    def step(self) -> float:
        """The distance of neighbouring numbers; a sum of n is off by at most n / 2 of it."""
        return 2.0 ** (math.floor(math.log2(self.largest * self.sites)) + 1 - 62)

    def encode(self, vector: np.ndarray) -> UInt64[np.ndarray, " size"]:
        """Return the vector as words; negative numbers wrap around."""
        beyond = ~(np.abs(vector) <= self.largest)
        if beyond.any():
            raise DataError(
                f"the vector must be finite and at most {self.largest:g} in absolute value, got "
                f"{int(beyond.sum())} of {vector.size} values beyond; clip it or choose a larger "
                "largest"
            )
        return np.rint(np.asarray(vector, float) / self.step).astype(np.int64).view(np.uint64)

    def decode(self, words: UInt64[np.ndarray, " size"]) -> Float[np.ndarray, " size"]:
        """Return the vector of a sum of encoded vectors.

        Raises an `ImpossibleSumError` for words that no sum of so many can have.
        """
        values = words.view(np.int64) * self.step
        if (np.abs(values) > self.largest * self.sites * (1 + 1e-9)).any():
            raise ImpossibleSumError
        return values
