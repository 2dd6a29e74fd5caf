"""Ids under several sites' secret exponents: equal ids meet, and nobody can test a guess.

An id becomes a point of the curve P-256, whose order is prime (on Curve25519 a point keeps one bit
of the id in the open: whether it lies on the curve or its twist). A site multiplies points by its
secret number; multiplications commute, and only x coordinates travel, on which they do, too. An id
that every site has multiplied is the same token wherever it came from, and nobody who lacks one of
the numbers can make the token of a guessed id.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from cofill.errors import DataError

_WIDTH = 32  # bytes of an x coordinate
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def points_of(ids: np.ndarray) -> bytes:
    """Return a point for each id, by hashing until an x coordinate lies on the curve.

    Examples
    --------
    >>> points_of(np.array(["ann", "bob"])) == points_of(np.array(["ann", "bob"]))
    True
    """
    return b"".join(_point_of(f"{type(value).__name__}:{value}") for value in ids.tolist())


def _point_of(text: str) -> bytes:
    for attempt in range(256):  # each is on the curve with probability one half
        x = hashlib.sha256(f"cofill id {attempt}:{text}".encode()).digest()
        try:
            _public(x)
        except ValueError:
            continue
        return x
    raise DataError("an id could not be mapped to the curve; rename it")


def multiply_points(points: bytes, secret: bytes) -> bytes:
    """Return each point times a number that follows from a secret; refuse what is no point.

    Examples
    --------
    >>> a, b, x = b"secret of one", b"secret of another", points_of(np.array([7]))
    >>> multiply_points(multiply_points(x, a), b) == multiply_points(multiply_points(x, b), a)
    True
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    # 512 bits modulo a number of 256 are uniform but for a chance of 2^-256.
    number = 1 + int.from_bytes(hashlib.sha512(secret).digest(), "big") % (_ORDER - 1)
    key = ec.derive_private_key(number, ec.SECP256R1())
    exchange, ecdh = key.exchange, ec.ECDH()
    try:
        return b"".join(exchange(ecdh, _public(x)) for x in split_points(points))
    except ValueError:
        raise DataError("a list of blinded ids holds something that is no point; refused") from None


def split_points(points: bytes) -> list[bytes]:
    """Return the points of a list one by one."""
    if len(points) % _WIDTH:
        raise DataError(f"a list of blinded ids must have {_WIDTH} bytes an id; refused")
    return [points[k : k + _WIDTH] for k in range(0, len(points), _WIDTH)]


def _public(x: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x02" + x)
