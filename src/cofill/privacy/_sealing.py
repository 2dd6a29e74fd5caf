"""Keys, boxes and masks of a secure sum, from the primitives of the cryptography package.

X25519 for agreement, HKDF-SHA256 for one key a purpose and round, AES-256-GCM for boxes, AES-256 in
counter mode for masks, Ed25519 for signatures, BLAKE2b for commitments. The package is imported
when a function needs it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt64

from cofill.errors import DataError

__all__ = [
    "check_signature",
    "commitment_of",
    "expand",
    "identity_of",
    "open_box",
    "pair_mask",
    "public_of",
    "seal",
    "sign",
]

Route = tuple[str, str, int]  # from, to, round


def identity_of(identity: bytes) -> bytes:
    """Return the public half of a 32-byte Ed25519 private key.

    Examples
    --------
    >>> len(identity_of(bytes(32)))
    32
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(identity).public_key().public_bytes_raw()


def sign(identity: bytes, name: str, number: int, keys: tuple[bytes, bytes]) -> bytes:
    """Return a signature under a site's keys of a round."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(identity)
    return key.sign(_signed(name, number, keys))


def check_signature(
    known: bytes | None, signature: bytes, name: str, number: int, keys: tuple[bytes, bytes]
) -> None:
    """Raise a `DataError` unless a site's known identity has signed its keys of the round."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        if known is None:
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(known).verify(signature, _signed(name, number, keys))
    except InvalidSignature as error:
        raise DataError(
            f"the keys of site {name!r} are not signed by an identity that is known of it; refused"
        ) from error


def public_of(secret: bytes) -> bytes:
    """Return the public half of a 32-byte X25519 private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(secret: bytes, public: bytes, content: bytes, route: Route, nonce: bytes) -> bytes:
    """Return a box that the holder of the other key opens, and only on the same route."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(_agreed(secret, public, f"boxes of round {route[2]}"))
    return nonce + cipher.encrypt(nonce, content, _label(route))


def open_box(secret: bytes, public: bytes, box: bytes, route: Route) -> bytes:
    """Return what is in a box; raise a `DataError` if it was sealed by or for somebody else."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(_agreed(secret, public, f"boxes of round {route[2]}"))
    try:
        return cipher.decrypt(box[:12], box[12:], _label(route))
    except (InvalidTag, ValueError) as error:
        sender, receiver, number = route
        raise DataError(
            f"the box from site {sender!r} was not sealed for {receiver!r} in round {number}; "
            "refused"
        ) from error


def commitment_of(seed: bytes) -> bytes:
    """Return a hash that binds to a random seed without telling it."""
    return hashlib.blake2b(seed, digest_size=32, person=b"cofill own mask").digest()


def expand(seed: bytes, purpose: str, number: int, size: int) -> UInt64[np.ndarray, " size"]:
    """Return words that look random to whoever lacks the seed.

    Examples
    --------
    >>> a, b = (expand(bytes(32), "own mask", number, 2) for number in (0, 1))
    >>> bool((a == b).any())
    False
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = _derived(seed, f"{purpose} of round {number}")
    # A key is used for one stream only, so that the counter may begin at 0.
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)


def pair_mask(secret: bytes, public: bytes, route: Route, size: int) -> UInt64[np.ndarray, " size"]:
    """Return what a site adds for another: their mask, or its negative for the later name."""
    name, other, number = route
    seed = _agreed(secret, public, f"pair mask of round {number}")
    words = expand(seed, "pair mask", number, size)
    return words if name < other else np.uint64(0) - words


def _signed(name: str, number: int, keys: tuple[bytes, bytes]) -> bytes:
    return b"cofill keys\0" + name.encode() + b"\0%d\0" % number + b"".join(keys)


def _label(route: Route) -> bytes:
    return "\0".join(map(str, route)).encode()


def _agreed(secret: bytes, public: bytes, purpose: str) -> bytes:
    """Return the 32 bytes that only the holders of the two keys know, for one purpose."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )

    try:
        agreed = X25519PrivateKey.from_private_bytes(secret).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError as error:
        raise DataError("a site's public key must be a point of Curve25519; refused") from error
    return _derived(agreed, purpose)


def _derived(secret: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"cofill secure sum: {purpose}".encode()
    return HKDF(SHA256(), 32, salt=None, info=info).derive(secret)
