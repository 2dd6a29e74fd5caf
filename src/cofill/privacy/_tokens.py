"""Blinded ids as arrays of tokens, 32 hexadecimal digits each.

Tokens are keyed hashes, so an integer made of their first 16 digits tells them apart but for
chance. Sorting and searching integers instead of strings keeps alignment of millions of
individuals at a fraction of a second; whole tokens are compared before two count as one.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable

import numpy as np
from jaxtyping import Int

_BYTES = 16  # two of a billion ids have one hash by a chance below 1e-20
_MANY = 10_000  # tokens from which their order is worth remembering
_ORDERS: dict[int, tuple[weakref.ref[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {}


def blind(ids: np.ndarray, secret: bytes) -> np.ndarray:
    """Return a keyed hash of each id (BLAKE2b, 16 bytes), in the order of the ids.

    Sites that share the secret (at most 64 bytes) find the individuals they have in common;
    whoever lacks it cannot tell who they are. Sites that have it can test any id they can think
    of: this is the weaker way of alignment, and private set intersection the stronger.

    Examples
    --------
    >>> blind(np.array([1, 2]), b"secret").dtype
    dtype('S32')
    """
    keyed = hashlib.blake2b(key=secret, digest_size=_BYTES)
    tokens = []
    for value in ids.tolist():
        token = keyed.copy()
        token.update(f"{type(value).__name__}:{value}".encode())
        tokens.append(token.hexdigest())
    return np.array(tokens, dtype=f"S{2 * _BYTES}")


def no_tokens() -> np.ndarray:
    """Return an empty array of tokens."""
    return np.empty(0, f"S{2 * _BYTES}")


def in_order(tokens: np.ndarray) -> np.ndarray:
    """Return the tokens in an order that depends on their values only."""
    return tokens[_ordered(tokens)[0]]


def rows_of(tokens: np.ndarray, wanted: np.ndarray) -> Int[np.ndarray, " wanted"]:
    """Return the position of each wanted token among different tokens, −1 where it is missing.

    Examples
    --------
    >>> tokens = blind(np.array(["ann", "bob"]), b"secret")
    >>> rows_of(tokens, blind(np.array(["bob", "eve"]), b"secret"))
    array([ 1, -1])
    """
    if not len(tokens) or not len(wanted):
        return np.full(len(wanted), -1)
    order, ordered = _ordered(tokens)
    by_words = ordered.dtype == np.uint64
    by, sought = _remembered(wanted) or (None, None)
    if by is None or sought is None or not by_words or sought.dtype != np.uint64:
        by, sought = slice(None), _words(wanted) if by_words else wanted
    # Searching from small to large stays within the processor's cache: in a remembered order.
    nearest = order[np.minimum(np.searchsorted(ordered, sought), len(tokens) - 1)]
    rows = np.empty(len(wanted), order.dtype)
    # Two tokens may begin alike: whole ones decide.
    rows[by] = np.where(tokens[nearest] == wanted[by], nearest, -1)
    return rows


def union(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the tokens that are in any of the parts, each once, in order."""
    everyone = no_tokens()
    for part in parts:
        everyone = np.concatenate([everyone, part[rows_of(everyone, part) < 0]])
    return in_order(everyone)


def _words(tokens: np.ndarray) -> np.ndarray:
    """Return the first 16 digits of each token as the number they write."""
    digits = np.ascontiguousarray(tokens).view(np.uint8).reshape(len(tokens), tokens.itemsize)
    values = (digits[:, :16] & 0xF) + 9 * (digits[:, :16] >> 6)
    pairs = np.ascontiguousarray(values[:, ::2] << 4 | values[:, 1::2])
    return pairs.view(">u8")[:, 0].astype(np.uint64)


def _ordered(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of tokens, and their numbers in it; whole tokens where two begin alike.

    Arrays of tokens do not change. The order of a large one is remembered as long as it exists,
    because it is searched with every peer and step.
    """
    known = _remembered(tokens)
    if known is not None:
        return known
    order = _sort(tokens)
    if len(tokens) >= _MANY:
        key = id(tokens)
        _ORDERS[key] = weakref.ref(tokens, lambda _: _ORDERS.pop(key, None)), order
    return order


def _remembered(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    known = _ORDERS.get(id(tokens))
    return known[1] if known is not None and known[0]() is tokens else None


def _sort(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    words = _words(tokens)
    if (words[1:] > words[:-1]).all():
        return np.arange(len(tokens)), words
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    if (ordered[1:] != ordered[:-1]).all():
        return order, ordered
    order = np.argsort(tokens, kind="stable")
    return order, tokens[order]
