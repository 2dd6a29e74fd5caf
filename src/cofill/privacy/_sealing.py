"""Sealed messages: what one party sends another, of no use to whoever carries it.

Two X25519 keys agree on a secret, HKDF-SHA256 makes of it the key of one address (run, step,
sender, receiver), and AES-256-GCM encrypts the content with the address as associated data. So only
the two key holders can seal and open, and a message opens for one receiver in one step of one run.
A sender with an Ed25519 key also signs address and ciphertext: agreement alone is symmetric, and
whoever stole the *receiver's* key could write to it in anybody's name. A message may have hundreds
of megabytes: it is sealed and opened piece by piece, from buffers and files that nobody copies.
Keys are 32 raw bytes. The cryptography package is imported when a function needs it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from cofill.errors import DataError

Buffer = bytes | bytearray | memoryview

_NONCE = 12  # bytes, as GCM has them
_TAG = 16  # by which GCM knows whether a byte was changed
_SIGNATURE = 64  # of Ed25519
_PIECE = 2**18  # bytes: it stays in the processor's cache between encryption, hash and file


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
        parts = ["cofill message", 2, self.run, self.step, self.sender, self.receiver]
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
) -> bytes:
    """Return the content encrypted for the receiver: nonce, ciphertext, tag and any signature.

    ``sealing_key`` is the sender's private, ``receiver_key`` the receiver's public X25519 key;
    ``signing_key`` the sender's private Ed25519 key, or None where the sealing key itself is
    signed. A sealed message of more than ``limit`` bytes is refused.

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
    keys = {"sealing_key": sealing_key, "receiver_key": receiver_key, "signing_key": signing_key}
    return b"".join(seal_pieces([content], address, **keys, limit=limit))


def seal_pieces(
    content: Sequence[Buffer],
    address: MessageAddress,
    *,
    sealing_key: bytes,
    receiver_key: bytes,
    signing_key: bytes | None,
    limit: int,
) -> Iterator[bytes]:
    """Return in pieces what `seal_message` makes of the buffers of a content, one after another."""
    size = sealed_size(content, is_signed=signing_key is not None)
    if size > limit:
        raise DataError(
            f"{address} would be {size - limit:,} bytes larger than a message may be; send fewer "
            "individuals or raise the limit (limits.message_megabytes in federation.toml)"
        )
    key = agree_on_key(sealing_key, receiver_key, address.label)
    return _encrypted(content, address, key, signing_key)


def _encrypted(
    content: Sequence[Buffer], address: MessageAddress, key: bytes, signing_key: bytes | None
) -> Iterator[bytes]:
    nonce = os.urandom(_NONCE)
    cipher = _cipher(key, nonce).encryptor()
    cipher.authenticate_additional_data(address.label)
    digest = hashlib.sha256(nonce)  # by the processor's own instructions, twice as fast as BLAKE2
    yield nonce
    for buffer in content:
        view = memoryview(buffer).cast("B")
        for start in range(0, len(view), _PIECE):
            piece = cipher.update(view[start : start + _PIECE])
            digest.update(piece)
            yield piece
    cipher.finalize()
    digest.update(cipher.tag)
    yield cipher.tag
    if signing_key is not None:
        yield sign(signing_key, address.label + digest.digest())


def sealed_size(content: Sequence[Buffer], *, is_signed: bool) -> int:
    """Return how many bytes `seal_pieces` makes of a content."""
    whole = sum(memoryview(buffer).nbytes for buffer in content)
    return _NONCE + whole + _TAG + (_SIGNATURE if is_signed else 0)


def open_message(
    sealed: bytes,
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
    keys = {"sealing_key": sealing_key, "sender_key": sender_key, "verify_key": verify_key}
    return bytes(open_file(io.BytesIO(sealed), len(sealed), address, **keys, limit=limit))


def open_file(
    file: BinaryIO,
    size: int,
    address: MessageAddress,
    *,
    sealing_key: bytes,
    sender_key: bytes,
    verify_key: bytes | None,
    limit: int,
) -> memoryview:
    """Return the content of a message that is the next ``size`` bytes of a file.

    Parameters and refusals are those of `open_message`. The content can be written to, and nothing
    else as large is in memory; it is given out only once tag and signature are verified.
    """
    from cryptography.exceptions import InvalidTag

    if size > limit:
        raise DataError(
            f"{address} is {size - limit:,} bytes larger than a message may be; refused"
        )
    key = agree_on_key(sealing_key, sender_key, address.label)
    length = size - _NONCE - _TAG - (0 if verify_key is None else _SIGNATURE)
    try:
        if length < 0:
            raise ValueError
        nonce = _read(file, _NONCE)
        cipher = _cipher(key, nonce).decryptor()
        cipher.authenticate_additional_data(address.label)
        digest = hashlib.sha256(nonce)
        # Some room more: older versions of the package ask for a block.
        content, piece = memoryview(bytearray(length + _TAG)), memoryview(bytearray(_PIECE))
        start = 0
        while start < length:
            count = file.readinto(piece[: min(_PIECE, length - start)])  # type: ignore[attr-defined]
            if not count:
                raise ValueError
            digest.update(piece[:count])
            start += cipher.update_into(piece[:count], content[start:])
        tag = _read(file, _TAG)
        digest.update(tag)
        if verify_key is not None:
            signature = _read(file, _SIGNATURE)
            if not has_signed(verify_key, signature, address.label + digest.digest()):
                raise ValueError
        cipher.finalize_with_tag(tag)
    except (InvalidTag, ValueError):
        raise DataError(
            f"{address} was changed on its way or sealed by somebody else; refused"
        ) from None
    return content[:length]


def _cipher(key: bytes, nonce: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import GCM

    return Cipher(AES256(key), GCM(nonce))


def _read(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise ValueError
    return content


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
