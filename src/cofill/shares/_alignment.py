"""Ids under several sites' secret exponents: equal ids meet, and nobody can test a guess.

An id becomes a point of Curve25519 (a hash that lies on the curve; on its twist it would keep one
bit of the id in the open, since no multiplication leads from one to the other). A site multiplies
points by its secret number, a multiple of the cofactor, so that what leaves is in the subgroup of
prime order; multiplications commute, and only x coordinates travel, on which they do, too (X25519,
RFC 7748). An id that every site has multiplied is the same token wherever it came from, and nobody
who lacks one of the numbers can make the token of a guessed id.

P-256 would do as well and is slower: its points have to be decompressed for each multiplication.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

from cofill.errors import DataError

_WIDTH = 32  # bytes of an x coordinate
_LEAST_A_PROCESS = 20_000  # points, about a second; a process starts in half of one
_PRIME = 2**255 - 19
_COEFFICIENT = 486662  # of y² = x³ + 486662 x² + x


def points_of(ids: np.ndarray) -> bytes:
    """Return a point for each id, by hashing until an x coordinate lies on the curve.

    Examples
    --------
    >>> points_of(np.array(["ann", "bob"])) == points_of(np.array(["ann", "bob"]))
    True
    """
    return b"".join(_point_of(text) for text in _texts_of(ids))


def blind_ids(ids: np.ndarray, secret: bytes) -> bytes:
    """Return each id's point times a number that follows from a secret.

    Examples
    --------
    >>> ids = np.array([7, 8])
    >>> blind_ids(ids, b"secret") == multiply_points(points_of(ids), b"secret")
    True
    """
    return _in_processes(_texts_of(ids), secret)


def multiply_points(points: bytes, secret: bytes) -> bytes:
    """Return each point times a number that follows from a secret; refuse what is no point.

    Examples
    --------
    >>> a, b, x = b"secret of one", b"secret of another", points_of(np.array([7]))
    >>> multiply_points(multiply_points(x, a), b) == multiply_points(multiply_points(x, b), a)
    True
    """
    return _in_processes(split_points(points), secret)


def _texts_of(ids: np.ndarray) -> list[str]:
    return [f"{type(value).__name__}:{value}" for value in ids.tolist()]


def _point_of(text: str) -> bytes:
    for attempt in range(256):  # each is on the curve with probability one half
        digest = hashlib.sha256(f"cofill id {attempt}:{text}".encode()).digest()
        x = int.from_bytes(digest, "little") % 2**255
        if x < _PRIME and _is_square(x * (x * (x + _COEFFICIENT) + 1) % _PRIME):
            return x.to_bytes(_WIDTH, "little")
    raise DataError("an id could not be mapped to the curve; rename it")


def _is_square(number: int) -> bool:
    """Return whether a number has a root modulo the prime.

    By Jacobi's symbol and Euclid's steps, five times faster than Python's power by half the order.
    """
    top, bottom, sign = number, _PRIME, 1
    while top:
        zeros = (top & -top).bit_length() - 1
        top >>= zeros
        if zeros & 1 and bottom & 7 in (3, 5):
            sign = -sign
        if top & bottom & 3 == 3:
            sign = -sign
        top, bottom = bottom % top, top
    return sign == 1 == bottom


def _multiply(items: list[str] | list[bytes], secret: bytes) -> bytes:
    """Return ids' points (of texts), or points, times the number of a secret."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    number = hashlib.sha512(secret).digest()[:_WIDTH]
    exchange, point = (
        X25519PrivateKey.from_private_bytes(number).exchange,
        X25519PublicKey.from_public_bytes,
    )
    try:
        return b"".join(
            exchange(point(_point_of(item) if isinstance(item, str) else item)) for item in items
        )
    except ValueError:  # the product is zero: a point of the small subgroup
        raise DataError("a list of blinded ids holds something that is no point; refused") from None


def _in_processes(items: list[str] | list[bytes], secret: bytes) -> bytes:
    """Return `_multiply` of all items, on all processors where they are many.

    Threads would not do: `cryptography` holds Python's lock while it multiplies. What a process
    needs goes through its standard input, since others can read its arguments.
    """
    count = min(os.cpu_count() or 1, len(items) // _LEAST_A_PROCESS)
    if count < 2:
        return _multiply(items, secret)
    size = -(-len(items) // count)
    shares = [items[k : k + size] for k in range(0, len(items), size)]
    program = f"from {__name__} import multiply_from_input; multiply_from_input()"
    with ExitStack() as stack:
        helpers = []
        for share in shares[1:]:
            values = [item if isinstance(item, str) else [item.hex()] for item in share]
            process = stack.enter_context(
                subprocess.Popen(  # noqa: S603  no word of it is anybody's input
                    [sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            )
            stack.callback(process.kill)
            assert process.stdin is not None  # noqa: S101
            process.stdin.write(json.dumps([secret.hex(), values]).encode())
            process.stdin.close()
            process.stdin = None
            helpers.append(process)
        parts = [_multiply(shares[0], secret)]
        for process, share in zip(helpers, shares[1:], strict=True):
            part, _ = process.communicate()
            # What is wrong with the items, if anything is, this process says itself.
            is_whole = process.returncode == 0 and len(part) == _WIDTH * len(share)
            parts.append(part if is_whole else _multiply(share, secret))
    return b"".join(parts)


def multiply_from_input() -> None:
    """Do a share of `_in_processes`: items in JSON from standard input, points to the output."""
    secret, values = json.load(sys.stdin)
    items: Any = [v if isinstance(v, str) else bytes.fromhex(v[0]) for v in values]
    sys.stdout.buffer.write(_multiply(items, bytes.fromhex(secret)))


def split_points(points: bytes) -> list[bytes]:
    """Return the points of a list one by one."""
    if len(points) % _WIDTH:
        raise DataError(f"a list of blinded ids must have {_WIDTH} bytes an id; refused")
    return [points[k : k + _WIDTH] for k in range(0, len(points), _WIDTH)]
