"""Parcels: what one party sends another in one step, sealed so that nobody between can read it.

A parcel holds all releases of a step for one receiver, and there is one even when there are none:
it is the mark that the sender has ended the step, and whether somebody had something to say is not
told. The key is agreed between the two (X25519 and the pinned public keys, HKDF-SHA256 with the
run's id), so that only they can seal and open (ChaCha20-Poly1305). Run, step, sender and receiver
are authenticated with it: a parcel opens once, at one place, in one step of one run.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from cofill.errors import DataError
from cofill.network._identity import Identity

__all__ = ["Address", "open_parcel", "read_address", "seal_parcel"]

MAGIC = b"cofill-parcel-1\n"
_NONCE = 12
_LONGEST_ADDRESS = 2000


@dataclass(frozen=True)
class Address:
    """Where a parcel belongs; the part of it that the coordinator reads."""

    run: str
    step: int
    sender: str
    receiver: str

    @property
    def label(self) -> bytes:
        """What is authenticated beside the content."""
        return json.dumps(
            ["cofill parcel", 1, self.run, self.step, self.sender, self.receiver],
            separators=(",", ":"),
        ).encode()

    def __str__(self) -> str:
        return f"the parcel from {self.sender!r} to {self.receiver!r} in step {self.step}"


def seal_parcel(content: bytes, to: Address, me: Identity, *, most: int) -> bytes:
    """Return a parcel that only its receiver can open; refuse one that is too large."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = os.urandom(_NONCE)
    sealed = ChaCha20Poly1305(_key(me, to.receiver, to.run)).encrypt(nonce, content, to.label)
    head = json.dumps(
        {
            "run": to.run,
            "step": to.step,
            "from": to.sender,
            "to": to.receiver,
            "bytes": len(nonce) + len(sealed),
        },
        separators=(",", ":"),
    ).encode()
    # Joined once, and cut by views below: parcels may have many megabytes.
    parcel = b"".join([MAGIC, len(head).to_bytes(4, "little"), head, nonce, sealed])
    if len(parcel) > most:
        raise DataError(
            f"{to} would have {len(parcel):,} bytes, at most {most:,} may be sent; raise "
            "limits.parcel_megabytes in federation.toml or bring fewer individuals"
        )
    return parcel


def read_address(parcel: bytes, *, most: int) -> Address:
    """Return what is written on a parcel; raise a `DataError` if that is not sound."""
    if len(parcel) > most:
        raise DataError(f"a parcel of {len(parcel):,} bytes is larger than {most:,}; refused")
    return _parts(parcel)[0]


def open_parcel(parcel: bytes, expected: Address, me: Identity, *, most: int) -> bytes:
    """Return a parcel's content; raise a `DataError` unless it is the expected one, untouched."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if len(parcel) > most:
        raise DataError(f"{expected} has {len(parcel):,} bytes, more than {most:,}; refused")
    found, box = _parts(parcel)
    if found != expected:
        raise DataError(
            f"{expected} was expected, and another one came (of step {found.step}, from "
            f"{found.sender!r} to {found.receiver!r}); refused"
        )
    cipher = ChaCha20Poly1305(_key(me, expected.sender, expected.run))
    try:
        return cipher.decrypt(bytes(box[:_NONCE]), box[_NONCE:], expected.label)
    except (InvalidTag, ValueError):
        raise DataError(
            f"{expected} was changed on its way or sealed by somebody else; refused"
        ) from None


def _parts(parcel: bytes) -> tuple[Address, memoryview]:
    start = len(MAGIC) + 4
    try:
        if parcel[: len(MAGIC)] != MAGIC:
            raise ValueError
        size = int.from_bytes(parcel[len(MAGIC) : start], "little")
        if size > _LONGEST_ADDRESS:
            raise ValueError
        head = json.loads(parcel[start : start + size])
        address = Address(head["run"], head["step"], head["from"], head["to"])
        box = memoryview(parcel)[start + size :]
        sound = isinstance(address.step, int) and all(
            isinstance(v, str) for v in (address.run, address.sender, address.receiver)
        )
        if not sound or len(box) != head["bytes"] or len(box) < _NONCE:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise DataError(
            "a message is no parcel of cofill (cut short or malformed); refused"
        ) from None
    return address, box


def _key(me: Identity, other: str, run: str) -> bytes:
    """Return the key that two parties share in a run."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    private = X25519PrivateKey.from_private_bytes(me.seal)
    theirs = me.of(other).seal
    try:
        agreed = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:
        raise DataError(f"the pinned key of {other!r} is no point of Curve25519; refused") from None
    mine = private.public_key().public_bytes_raw()
    info = b"cofill parcel key" + b"".join(sorted((mine, theirs)))
    return HKDF(SHA256(), 32, salt=run.encode(), info=info).derive(agreed)
