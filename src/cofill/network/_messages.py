"""Messages of a run: all releases of one step for one receiver, sealed, with the address in front.

There is a message even when there is nothing to release: it marks that the sender has ended the
step, and whether somebody had something to say is not told. The coordinator reads the address and
the size; what is sealed (`cofill.privacy.seal_message`) only the receiver can open.
"""

from __future__ import annotations

import json

from cofill.errors import DataError
from cofill.network._identity import Identity
from cofill.privacy import MessageAddress, open_message, seal_message, sealed_size

MAGIC = b"cofill-message-1\n"
_LONGEST_ADDRESS = 2000  # bytes: it is read before anything shows that the sender is honest
_LONGEST_HEADER = len(MAGIC) + 4 + _LONGEST_ADDRESS


def write_message(
    content: bytes, address: MessageAddress, identity: Identity, *, limit: int
) -> bytes:
    """Return a message that only its receiver can open; refuse one that is too large."""
    where = {"run": address.run, "step": address.step, "from": address.sender}
    where |= {"to": address.receiver, "bytes": sealed_size(content, is_signed=True)}
    header = json.dumps(where, separators=(",", ":")).encode()
    return seal_message(
        content,
        address,
        sealing_key=identity.seal,
        receiver_key=identity.of(address.receiver).seal,
        signing_key=identity.sign,
        limit=limit - _LONGEST_HEADER,
        front=b"".join([MAGIC, len(header).to_bytes(4, "little"), header]),
    )


def read_address(message: bytes, *, limit: int) -> MessageAddress:
    """Return the address in front of a message; raise a `DataError` if that is not sound."""
    if len(message) > limit:
        raise DataError(f"a message of {len(message):,} bytes is larger than {limit:,}; refused")
    return _split(message)[0]


def read_message(
    message: bytes, expected: MessageAddress, identity: Identity, *, limit: int
) -> bytes:
    """Return a message's content; raise a `DataError` unless it is the expected one, untouched."""
    address = read_address(message, limit=limit)
    if address != expected:
        raise DataError(
            f"{expected} was expected, and another one came (of step {address.step}, from "
            f"{address.sender!r} to {address.receiver!r}); refused"
        )
    sender = identity.of(address.sender)
    return open_message(
        _split(message)[1],
        address,
        sealing_key=identity.seal,
        sender_key=sender.seal,
        verify_key=sender.sign,
        limit=limit,
    )


def _split(message: bytes) -> tuple[MessageAddress, memoryview]:
    """Return the address and the sealed part of a message."""
    start = len(MAGIC) + 4
    try:
        size = int.from_bytes(message[len(MAGIC) : start], "little")
        if not message.startswith(MAGIC) or size > _LONGEST_ADDRESS:
            raise ValueError
        header = json.loads(message[start : start + size])
        run, step, sender, receiver, length = (
            header[name] for name in ("run", "step", "from", "to", "bytes")
        )
        sealed = memoryview(message)[start + size :]
        texts = all(isinstance(text, str) for text in (run, sender, receiver))
        if not texts or not isinstance(step, int) or len(sealed) != length:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise DataError(
            "the bytes are no message of cofill (cut short or malformed); refused"
        ) from None
    return MessageAddress(run, step, sender, receiver), sealed
