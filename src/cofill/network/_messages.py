"""Messages of a run: all releases of one step for one receiver, sealed, with the address in front.

There is a message even when there is nothing to release: it marks that the sender has ended the
step, and whether somebody had something to say is not told. The coordinator reads the address and
the size; what is sealed (`cofill.privacy.seal_pieces`) only the receiver can open. A large message
lies in a file wherever it is, and nobody has the whole of it in memory before it is opened.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cofill.errors import DataError, StoreError
from cofill.files import draft_of
from cofill.network._identity import Identity
from cofill.privacy import MessageAddress, open_file, seal_pieces, sealed_size

MAGIC = b"cofill-message-1\n"
_LONGEST_ADDRESS = 2000  # bytes: it is read before anything shows that the sender is honest
_LONGEST_HEADER = len(MAGIC) + 4 + _LONGEST_ADDRESS
_IN_MEMORY = 2**18  # bytes: a larger message is worth a file

Message = bytes | Path
"""A sealed message: its bytes, or the file that holds a large one."""


def write_message(
    content: bytes, address: MessageAddress, identity: Identity, *, limit: int
) -> bytes:
    """Return a message that only its receiver can open; refuse one that is too large."""
    return b"".join(_pieces([content], address, identity, limit))


def write_message_at(
    path: Path,
    content: Sequence[memoryview],
    address: MessageAddress,
    identity: Identity,
    limit: int,
) -> Message:
    """Return a message of a content in buffers: its bytes, or where it is large, the path.

    The file is for its owner only, and may not survive a power cut.
    """
    pieces = _pieces(content, address, identity, limit)
    if sum(buffer.nbytes for buffer in content) < _IN_MEMORY:
        return b"".join(pieces)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    with draft_of(path, private=True, sync=False) as draft, draft.open("wb") as file:
        file.writelines(pieces)
    return path


def _pieces(
    content: Sequence[bytes | memoryview], address: MessageAddress, identity: Identity, limit: int
) -> Iterator[bytes]:
    where = {"run": address.run, "step": address.step, "from": address.sender}
    where |= {"to": address.receiver, "bytes": sealed_size(content, is_signed=True)}
    header = json.dumps(where, separators=(",", ":")).encode()
    sealed = seal_pieces(
        content,
        address,
        sealing_key=identity.seal,
        receiver_key=identity.of(address.receiver).seal,
        signing_key=identity.sign,
        limit=limit - _LONGEST_HEADER,
    )
    return _joined(b"".join([MAGIC, len(header).to_bytes(4, "little"), header]), sealed)


def _joined(front: bytes, sealed: Iterator[bytes]) -> Iterator[bytes]:
    yield front
    yield from sealed


def message_at(path: Path) -> Message:
    """Return the message that a file holds: its bytes, or where it is large, the path."""
    return path if path.stat().st_size >= _IN_MEMORY else path.read_bytes()


def size_of(message: Message) -> int:
    """Return how many bytes a message has."""
    return message.stat().st_size if isinstance(message, Path) else len(message)


def read_address(message: Message, *, limit: int) -> MessageAddress:
    """Return the address in front of a message; raise a `DataError` if that is not sound."""
    with opened(message) as (file, size):
        return _read_address(file, size, limit)[0]


def read_message(
    message: Message, expected: MessageAddress, identity: Identity, *, limit: int
) -> memoryview:
    """Return a message's content; raise a `DataError` unless it is the expected one, untouched."""
    with opened(message) as (file, size):
        address, size = _read_address(file, size, limit)
        if address != expected:
            raise DataError(
                f"{expected} was expected, and another one came (of step {address.step}, from "
                f"{address.sender!r} to {address.receiver!r}); refused"
            )
        sender = identity.of(address.sender)
        return open_file(
            file,
            size,
            address,
            sealing_key=identity.seal,
            sender_key=sender.seal,
            verify_key=sender.sign,
            limit=limit,
        )


@contextmanager
def opened(message: Message) -> Iterator[tuple[BinaryIO, int]]:
    """Give a message as an open file, with its size."""
    if not isinstance(message, Path):
        yield io.BytesIO(message), len(message)
        return
    try:
        file = message.open("rb")
    except OSError:
        raise StoreError("a file with a message is lost; start a new run") from None
    with file:
        yield file, message.stat().st_size


def _read_address(file: BinaryIO, size: int, limit: int) -> tuple[MessageAddress, int]:
    """Return the address in front of a message, and the size of the sealed part behind it."""
    if size > limit:
        raise DataError(f"a message of {size:,} bytes is larger than {limit:,}; refused")
    start = len(MAGIC) + 4
    try:
        front = file.read(start)
        length = int.from_bytes(front[len(MAGIC) :], "little")
        if not front.startswith(MAGIC) or length > _LONGEST_ADDRESS:
            raise ValueError
        header = json.loads(file.read(length))
        run, step, sender, receiver, sealed = (
            header[name] for name in ("run", "step", "from", "to", "bytes")
        )
        texts = all(isinstance(text, str) for text in (run, sender, receiver))
        if not texts or not isinstance(step, int) or size - start - length != sealed:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise DataError(
            "the bytes are no message of cofill (cut short or malformed); refused"
        ) from None
    return MessageAddress(run, step, sender, receiver), sealed
