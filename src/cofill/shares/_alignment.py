"""Ids under several sites' secret exponents: equal ids meet, and nobody can test a guess.

An id becomes a point of the curve P-256, whose order is prime (on Curve25519 a point keeps one bit
of the id in the open: whether it lies on the curve or its twist). A site multiplies points by its
secret number; multiplications commute, and only x coordinates travel, on which they do, too. An id
that every site has multiplied is the same token wherever it came from, and nobody who lacks one of
the numbers can make the token of a guessed id.
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
_LEAST_A_PROCESS = 10_000  # points, about a second; a process starts in half of one
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def points_of(ids: np.ndarray) -> bytes:
    """Return a point for each id, by hashing until an x coordinate lies on the curve.

    Examples
    --------
    >>> points_of(np.array(["ann", "bob"])) == points_of(np.array(["ann", "bob"]))
    True
    """
    return b"".join(_point_of(text)[0] for text in _texts_of(ids))


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


def _point_of(text: str) -> tuple[bytes, Any]:
    for attempt in range(256):  # each is on the curve with probability one half
        x = hashlib.sha256(f"cofill id {attempt}:{text}".encode()).digest()
        try:
            return x, _public(x)
        except ValueError:
            continue
    raise DataError("an id could not be mapped to the curve; rename it")


def _multiply(items: list[str] | list[bytes], secret: bytes) -> bytes:
    """Return ids' points (of texts), or points, times the number of a secret."""
    from cryptography.hazmat.primitives.asymmetric import ec

    # 512 bits modulo a number of 256 are uniform but for a chance of 2^-256.
    number = 1 + int.from_bytes(hashlib.sha512(secret).digest(), "big") % (_ORDER - 1)
    key = ec.derive_private_key(number, ec.SECP256R1())
    exchange, ecdh = key.exchange, ec.ECDH()
    try:
        return b"".join(
            exchange(ecdh, _point_of(item)[1] if isinstance(item, str) else _public(item))
            for item in items
        )
    except ValueError:
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


def _public(x: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x02" + x)
