"""Words that look random to whoever lacks a key: AES-256 in counter mode, a key a label."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from jaxtyping import Float, UInt64


def derive(key: bytes, label: str) -> bytes:
    """Return the key of one purpose, from which the key it comes from cannot be found."""
    return hashlib.blake2b(
        label.encode(), key=key, digest_size=32, person=b"cofill shares"
    ).digest()


def random_words(key: bytes, label: str, shape: tuple[int, ...]) -> UInt64[np.ndarray, ...]:
    """Return uniform words that both holders of a key can draw; a label is used once.

    Examples
    --------
    >>> first, second = (random_words(bytes(32), label, (2,)) for label in "ab")
    >>> bool((first == second).any())
    False
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    size = math.prod(shape)
    # A key is used for one stream only, so that the counter may begin at 0.
    stream = Cipher(algorithms.AES256(derive(key, label)), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), np.uint64).reshape(shape)


def random_rotation(key: bytes, label: str, size: int) -> Float[np.ndarray, "size size"]:
    """Return an orthogonal matrix drawn uniformly (Haar): the QR factor of normal numbers."""
    from scipy.special import ndtri

    words = random_words(key, label, (size, size))
    normal = ndtri(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    rotation, upper = np.linalg.qr(normal)
    return rotation * np.where(np.diag(upper) < 0, -1.0, 1.0)
