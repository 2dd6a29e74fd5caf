"""Large messages between processes of a run: streams of FLARE from a file into a file.

A task or an answer carries small messages itself. Of a large one it says under which name and how
large it lies ready, and who is to have it asks for it: so nobody sends what was not asked for, a
size is refused before a byte of it is on its way, and at both ends a few frames are in memory,
never a whole message. What a task or an answer carries itself FLARE copies several times.

Only FLARE's processes import this module.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message as FlareMessage
from nvflare.fuel.f3.streaming.stream_types import Stream, StreamError, StreamFuture

from cofill.errors import DataError
from cofill.network._messages import Message, opened, size_of

_CHANNEL, _ASK, _MESSAGE = "cofill", "ask", "message"
_NAME = "cofill_name"
_CARRIED = 2**20  # bytes of small messages that a task or an answer carries itself
_FRAME = 2**20  # bytes, as FLARE cuts streams into
_STALLED_S = 20.0  # without a byte, until a message is asked for again
_PATIENCE_S = 150.0  # without a byte, until it is lost: a machine may be cut off for a minute
_LOOK_S = 1.0  # between two looks whether the run was stopped


@dataclass
class _Arrival:
    """A message that was asked for: from whom, how large, where to, and when the last byte came."""

    sender: str
    size: int
    path: Path
    last: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)


class MessageStreams:
    """The messages that a process of a run has ready for others, and those that it has asked for.

    ``cell`` is FLARE's end of all connections; what arrives lies in ``folder``.
    """

    def __init__(self, cell: Any, folder: Path) -> None:
        self.cell, self.folder = cell, folder
        self._offers: dict[str, tuple[str, Message]] = {}
        self._arrivals: dict[str, _Arrival] = {}
        shutil.rmtree(folder, ignore_errors=True)
        cell.register_request_cb(channel=_CHANNEL, topic=_ASK, cb=self._serve)
        cell.register_stream_cb(_CHANNEL, _MESSAGE, self._take)

    # --- handing out --------------------------------------------------------------------------

    def offer(self, messages: Mapping[str, Message], receiver: str) -> dict[str, Any]:
        """Return what a task or an answer to a process says of messages: itself, or a note."""
        wire: dict[str, Any] = {}
        carried = 0
        for key in sorted(messages, key=lambda key: size_of(messages[key])):
            message = messages[key]
            carried += size_of(message)
            if carried <= _CARRIED:
                wire[key] = message if isinstance(message, bytes) else message.read_bytes()
                continue
            name = secrets.token_hex(16)
            self._offers[name] = receiver, message
            wire[key] = {"name": name, "size": size_of(message)}
        return wire

    def withdraw(self, receiver: str) -> None:
        """Offer a process no more what was offered to it; what it is being sent, it gets."""
        self._offers = {name: offer for name, offer in self._offers.items() if offer[0] != receiver}

    def _serve(self, request: FlareMessage) -> FlareMessage:
        """Start to send a message to the process that may have it."""
        asking = str(request.get_header(MessageHeaderKey.ORIGIN))
        name = request.payload.get("name") if isinstance(request.payload, dict) else None
        receiver, message = self._offers.get(str(name), ("", b""))
        if not asking or receiver != asking:
            return make_reply(ReturnCode.INVALID_REQUEST)
        stream = _MessageStream(message, {_NAME: name})
        self.cell.send_stream(
            _CHANNEL,
            _MESSAGE,
            asking,
            FlareMessage({_NAME: name}, stream),
            optional=True,
            reliable=True,  # frames are sent again where a connection was lost and made again
        )
        return make_reply(ReturnCode.OK)

    # --- asking and receiving -----------------------------------------------------------------

    def fetch(
        self, wire: Any, sender: str, *, limit: int, total: int, stopped: Callable[[], bool]
    ) -> dict[str, Message]:
        """Return the messages of `offer` by the same process; a large one as a new file.

        Raises a `DataError` for what is no message, for one of more than ``limit`` bytes or more
        than ``total`` together, before one of them is asked for, and for one that does not come.
        """
        sizes = [_announced(note) for note in wire.values()] if isinstance(wire, Mapping) else [-1]
        if min(sizes, default=0) < 0 or not all(isinstance(key, str) for key in wire):
            raise DataError("the messages are malformed; refused")
        if max(sizes, default=0) > limit or sum(sizes) > total:
            raise DataError(
                f"messages of {sum(sizes):,} bytes are larger than agreed ({limit:,} each, "
                f"{total:,} together); refused"
            )
        messages: dict[str, Message] = {}
        try:
            for key, note in wire.items():
                is_here = isinstance(note, bytes)
                messages[key] = note if is_here else self._ask(note, sender, stopped)
        except BaseException:
            remove_files(messages)
            raise
        return messages

    def _ask(self, note: Mapping[str, Any], sender: str, stopped: Callable[[], bool]) -> Path:
        name, ask_at = note["name"], 0.0
        self.folder.mkdir(exist_ok=True, mode=0o700)
        path = self.folder / f"{secrets.token_hex(16)}.sealed"
        arrival = self._arrivals[name] = _Arrival(sender, note["size"], path)
        try:
            while not arrival.done.is_set():
                now = time.monotonic()
                if stopped() or now > arrival.last + _PATIENCE_S:
                    raise DataError("a message did not arrive; the run can be resumed")
                if now > max(ask_at, arrival.last + _STALLED_S * (ask_at > 0)):
                    ask_at = now + _STALLED_S
                    reply = self.cell.send_request(
                        channel=_CHANNEL,
                        topic=_ASK,
                        target=sender,
                        request=FlareMessage({}, {"name": name}),
                        timeout=_STALLED_S,
                    )
                    code = reply.get_header(MessageHeaderKey.RETURN_CODE) if reply else None
                    if code == ReturnCode.INVALID_REQUEST:
                        raise DataError("a message is no longer ready; the run can be resumed")
                arrival.done.wait(_LOOK_S)
        finally:
            self._arrivals.pop(name, None)
        return path

    def _take(self, future: StreamFuture, stream: Stream, resume: bool, *args: Any) -> int:
        """Write a message that was asked for to a file, as its frames come."""
        headers = stream.get_headers() or {}
        arrival = self._arrivals.get(str(headers.get(_NAME)))
        if arrival is None or headers.get(MessageHeaderKey.ORIGIN) != arrival.sender:
            raise StreamError("nobody has asked for this message")
        if stream.get_size() != arrival.size:
            raise StreamError("a message must have the size that it was announced with")
        draft = arrival.path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            draft.touch(mode=0o600, exist_ok=False)
            with draft.open("r+b", buffering=0) as file:
                read: Any = stream.read
                size = 0
                while frame := read(_FRAME):
                    size += len(frame)
                    if size > arrival.size:
                        raise StreamError("a message is larger than it was announced")
                    file.write(frame)
                    arrival.last = time.monotonic()
            if size < arrival.size:
                raise StreamError("a message is smaller than it was announced")
            if not arrival.done.is_set():  # another attempt may have been faster
                draft.replace(arrival.path)
                arrival.done.set()
        finally:
            draft.unlink(missing_ok=True)
        return 0


class _MessageStream(Stream):
    """A message as FLARE reads it, frame by frame."""

    def __init__(self, message: Message, headers: dict[str, Any]) -> None:
        self._opened = opened(message)
        self._file: BinaryIO
        self._file, size = self._opened.__enter__()
        super().__init__(size, headers)

    def read(self, size: int) -> bytes:
        frame = b"" if self.closed else self._file.read(size)
        if not frame:
            self.close()
        return frame

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            self._opened.__exit__(None, None, None)


def remove_files(messages: Mapping[str, Message]) -> None:
    """Remove the files in which fetched messages lie."""
    for message in messages.values():
        if isinstance(message, Path):
            message.unlink(missing_ok=True)


def _announced(note: Any) -> int:
    """Return the size of a message, or the size that is announced; -1 for what is neither."""
    if isinstance(note, bytes):
        return len(note)
    if not isinstance(note, Mapping) or not isinstance(note.get("name"), str):
        return -1
    return note["size"] if type(note.get("size")) is int else -1
