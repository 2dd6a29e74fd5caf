"""Masks of a secure sum: words that look random, from a seed or from two sites' agreed key."""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt64

from cofill.privacy._sealing import agree_on_key, derive_key


def commit(seed: bytes) -> bytes:
    """Return a hash that binds to a random seed without telling it."""
    return hashlib.blake2b(seed, digest_size=32, person=b"cofill own mask").digest()


def expand_seed(seed: bytes, number: int, size: int) -> UInt64[np.ndarray, " size"]:
    """Return the words of a seed in a round, which look random to whoever lacks the seed.

    Examples
    --------
    >>> first, second = (expand_seed(bytes(32), number, 2) for number in (0, 1))
    >>> bool((first == second).any())
    False
    """
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
