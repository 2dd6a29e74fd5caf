"""Shamir's sharing of a secret: any threshold of the shares give it back, fewer tell nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from cofill.errors import DataError

Entropy = Callable[[int], bytes]

# The least prime above 2^256: every 32-byte secret is a number of its field.
PRIME = 2**256 + 297


def share_secret(
    secret: bytes, places: int, threshold: int, entropy: Entropy = secrets.token_bytes
) -> tuple[int, ...]:
    """Return the shares of a 32-byte secret for places 1, 2, …: a polynomial's values there.

    Examples
    --------
    >>> shares = share_secret(b"x" * 32, places=5, threshold=3)
    >>> open_shares({2: shares[1], 5: shares[4], 1: shares[0]}, 3) == b"x" * 32
    True
    """
    coefficients = [int.from_bytes(secret, "big")]
    # 48 random bytes modulo a number of 33 are uniform but for a chance of 2^-127.
    coefficients += [int.from_bytes(entropy(48), "big") % PRIME for _ in range(threshold - 1)]
    shares = []
    for place in range(1, places + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * place + coefficient) % PRIME
        shares.append(value)
    return tuple(shares)


def open_shares(shares: Mapping[int, int], threshold: int) -> bytes:
    """Return the secret of at least a threshold of shares, by place (Lagrange at 0)."""
    if len(shares) < threshold:
        raise DataError(f"a secret must be opened by {threshold} shares, got {len(shares)}")
    places = sorted(shares)[:threshold]
    value = 0
    for place in places:
        top = bottom = 1
        for other in places:
            if other != place:
                top = top * other % PRIME
                bottom = bottom * (other - place) % PRIME
        value = (value + shares[place] * top * pow(bottom, -1, PRIME)) % PRIME
    if value >= 2**256:
        raise DataError("shares do not fit together: they are not of one secret")
    return value.to_bytes(32, "big")
