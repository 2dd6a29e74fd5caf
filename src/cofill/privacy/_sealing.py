"""Sealed messages: what one party sends another, of no use to whoever carries it.

Two X25519 keys agree on a secret, HKDF-SHA256 makes of it the key of one address (run, step,
sender, receiver), and ChaCha20-Poly1305 encrypts the content with the address as associated data.
So only the two key holders can seal and open, and a message opens for one receiver in one step of
one run. A sender with an Ed25519 key also signs address and ciphertext: agreement alone is
symmetric, and whoever stole the *receiver's* key could write to it in anybody's name. Keys are 32
raw bytes. The cryptography package is imported when a function needs it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass

from cofill.errors import DataError

_NONCE = 12  # bytes, as ChaCha20-Poly1305 has them
_TAG = 16  # of Poly1305
_SIGNATURE = 64  # of Ed25519


@dataclass(frozen=True)
class MessageAddress:
    """Where a sealed message belongs: the step of a run, its sender and its receiver."""

    run: str
    step: int
    sender: str
    receiver: str

    @property
    def label(self) -> bytes:
        """The address as bytes, different for different addresses."""
        parts = ["cofill message", 1, self.run, self.step, self.sender, self.receiver]
        return json.dumps(parts, separators=(",", ":")).encode()

    def __str__(self) -> str:
        return f"the message from {self.sender!r} to {self.receiver!r} in step {self.step}"


def seal_message(
    content: bytes,
    address: MessageAddress,
    *,
    sealing_key: bytes,
    receiver_key: bytes,
    signing_key: bytes | None = None,
    limit: int,
    front: bytes = b"",
) -> bytes:
    """Return the content encrypted for the receiver: nonce, ciphertext, tag and any signature.

    ``sealing_key`` is the sender's private, ``receiver_key`` the receiver's public X25519 key;
    ``signing_key`` the sender's private Ed25519 key, or None where the sealing key itself is
    signed. A sealed message of more than ``limit`` bytes is refused. ``front`` stands before it as
    it is, put there at once, since a message may have hundreds of megabytes.

    Examples
    --------
    >>> a, b = bytes(31) + b"a", bytes(31) + b"b"
    >>> address = MessageAddress("run 1", 0, "a", "b")
    >>> sealed = seal_message(
    ...     b"hello", address, sealing_key=a, receiver_key=sealing_public_key(b), limit=100
    ... )
    >>> open_message(sealed, address, sealing_key=b, sender_key=sealing_public_key(a), limit=100)
    b'hello'
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    size = sealed_size(content, is_signed=signing_key is not None)
    if size > limit:
        raise DataError(
            f"{address} would be {size - limit:,} bytes larger than a message may be; send fewer "
            "individuals or raise the limit (limits.message_megabytes in federation.toml)"
        )
    key = agree_on_key(sealing_key, receiver_key, address.label)
    nonce = os.urandom(_NONCE)
    ciphertext = ChaCha20Poly1305(key).encrypt(nonce, content, address.label)
    signature = b""
    if signing_key is not None:
        signature = sign(signing_key, _signed_part(address, nonce, ciphertext))
    return b"".join([front, nonce, ciphertext, signature])


def sealed_size(content: bytes, *, is_signed: bool) -> int:
    """Return how many bytes `seal_message` makes of a content, without a front."""
    return _NONCE + len(content) + _TAG + (_SIGNATURE if is_signed else 0)


def open_message(
    sealed: bytes | memoryview,
    address: MessageAddress,
    *,
    sealing_key: bytes,
    sender_key: bytes,
    verify_key: bytes | None = None,
    limit: int,
) -> bytes:
    """Return the content of a message, or refuse it unless it was sealed for exactly this address.

    ``sealing_key`` is the receiver's private, ``sender_key`` the sender's public X25519 key. With
    the sender's public Ed25519 key as ``verify_key``, a message without its signature is refused.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if len(sealed) > limit:
        raise DataError(
            f"{address} is {len(sealed) - limit:,} bytes larger than a message may be; refused"
        )
    key = agree_on_key(sealing_key, sender_key, address.label)
    # Views, because a message may have hundreds of megabytes.
    view = memoryview(sealed)
    end = len(view) - (0 if verify_key is None else _SIGNATURE)
    nonce, ciphertext, signature = view[:_NONCE], view[_NONCE : max(end, 0)], view[max(end, 0) :]
    changed = f"{address} was changed on its way or sealed by somebody else; refused"
    if verify_key is not None and not has_signed(
        verify_key, bytes(signature), _signed_part(address, nonce, ciphertext)
    ):
        raise DataError(changed)
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(nonce), ciphertext, address.label)
    except (InvalidTag, ValueError):
        raise DataError(changed) from None


def _signed_part(
    address: MessageAddress, nonce: bytes | memoryview, ciphertext: bytes | memoryview
) -> bytes:
    digest = hashlib.sha256(nonce)  # by the processor's own instructions, twice as fast as BLAKE2
    digest.update(ciphertext)
    return address.label + digest.digest()


# --- keys ---------------------------------------------------------------------------------------


def sealing_public_key(sealing_key: bytes) -> bytes:
    """Return the public half of an X25519 private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(sealing_key).public_key().public_bytes_raw()


def signing_public_key(signing_key: bytes) -> bytes:
    """Return the public half of an Ed25519 private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(signing_key).public_key().public_bytes_raw()


def sign(signing_key: bytes, content: bytes) -> bytes:
    """Return the Ed25519 signature of the content."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(signing_key).sign(content)


def has_signed(verify_key: bytes, signature: bytes, content: bytes) -> bool:
    """Return whether the signature under the content is by the holder of the key's private half."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(verify_key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def agree_on_key(private_key: bytes, public_key: bytes, purpose: bytes) -> bytes:
    """Return the 32 bytes that only the holders of two X25519 keys can compute, for one purpose."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    private = X25519PrivateKey.from_private_bytes(private_key)
    try:
        secret = private.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError:
        raise DataError("a public key must be a point of Curve25519; refused") from None
    both = sorted((private.public_key().public_bytes_raw(), public_key))
    return derive_key(secret, b"".join(both) + purpose)


def derive_key(secret: bytes, purpose: bytes) -> bytes:
    """Return 32 bytes made of a secret, unrelated to those for any other purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=b"cofill: " + purpose).derive(secret)
