"""What a machine keeps of its parties between two steps, on disk.

A party's state is a mapping. Large values in it (shares of a long computation, a model) mostly stay
as they are from step to step: each has a file of its own, which is written when the value is new
and removed when no state names it any more. The rest is in one file, whose rename is the moment at
which a step is done.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cofill.codec import decode, encode_buffers, storable
from cofill.errors import StoreError
from cofill.files import draft_of
from cofill.protocol import RunFolder

_STATE_FORMAT = "cofill.state"
_PART_FORMAT = "cofill.state.part"
_MESSAGE = ".sealed"
_LEAST_BYTES = 2**20  # below that a file costs more than writing the value again


@storable
@dataclass(frozen=True)
class StoredPart:
    """A value in a file of its own."""

    file: str


class PartyState:
    """The files in which a run's folder keeps a state."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        # By identity: values are never changed in place. They are held, so that none is reused.
        self._written: dict[int, tuple[Any, StoredPart]] = {}
        self._drafts: list[Path] = []

    @property
    def exists(self) -> bool:
        """Whether a state was kept."""
        return self.folder.state.exists()

    def write(self, state: Mapping[str, Any]) -> None:
        """Keep a state, whose ``parties`` may hold large values, in the place of the last one."""
        parts: dict[int, tuple[Any, StoredPart]] = {}
        parties = {name: self._stored(party, parts) for name, party in state["parties"].items()}
        sent = self._stored(state["sent"], parts)
        content = encode_buffers({**state, "parties": parties, "sent": sent}, format=_STATE_FORMAT)
        _write(self.folder.state, content, sync=True)
        self._written, self._drafts = parts, []
        self._remove_all_but({part.file for _, part in parts.values()})

    def _stored(self, value: Any, parts: dict[int, tuple[Any, StoredPart]]) -> Any:
        """Return a value with large ones below it replaced by their files, which are written."""
        if isinstance(value, Mapping):
            return {key: self._part(item, parts) for key, item in value.items()}
        return value

    def _part(self, value: Any, parts: dict[int, tuple[Any, StoredPart]]) -> Any:
        if type(value) is tuple:
            return tuple(self._part(item, parts) for item in value)
        if isinstance(value, Path):
            # A message: its receiver knows by the signature whether it is still as it was sent.
            parts[id(value)] = value, StoredPart(value.name)
        if id(value) not in parts and _size(value) >= _LEAST_BYTES:
            parts[id(value)] = self._written.get(id(value)) or (value, self._write_part(value))
        return parts[id(value)][1] if id(value) in parts else value

    def _write_part(self, value: Any) -> StoredPart:
        part = StoredPart(f"{uuid.uuid4().hex}.safetensors")
        self.folder.parts.mkdir(exist_ok=True, mode=0o700)
        # Not forced to disk: after a power cut a run that lacks a part must be started anew, and
        # forcing hundreds of megabytes would take longer than the step.
        _write(
            self.folder.parts / part.file, encode_buffers(value, format=_PART_FORMAT), sync=False
        )
        return part

    def new_message(self) -> Path:
        """Return where a large message can be written that the next state is to keep."""
        self._drafts.append(self.folder.parts / f"{uuid.uuid4().hex}{_MESSAGE}")
        return self._drafts[-1]

    def drop_messages(self) -> None:
        """Remove messages that were written since the last state."""
        for path in self._drafts:
            path.unlink(missing_ok=True)
        self._drafts = []

    def _remove_all_but(self, names: set[str]) -> None:
        if not names:
            shutil.rmtree(self.folder.parts, ignore_errors=True)
        elif self.folder.parts.exists():
            for path in self.folder.parts.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)

    def read(self) -> dict[str, Any]:
        """Return the state as it was kept; a `StoreError` or `KeyError` says that it is damaged."""
        state = decode(_without_digest(self.folder.state.read_bytes()), format=_STATE_FORMAT)
        for kept in ("parties", "sent"):
            state[kept] = {name: self._loaded(value) for name, value in state[kept].items()}
        return state

    def _loaded(self, value: Any) -> Any:
        if isinstance(value, StoredPart):
            path = self.folder.parts / value.file
            try:
                content = path.read_bytes() if path.suffix != _MESSAGE else b""
                path.stat()
            except OSError:
                raise StoreError(
                    "a file of what was kept between two steps is lost; start a new run"
                ) from None
            if path.suffix == _MESSAGE:
                return path
            return decode(_without_digest(content), format=_PART_FORMAT)
        if isinstance(value, dict):
            return {key: self._loaded(item) for key, item in value.items()}
        return tuple(map(self._loaded, value)) if type(value) is tuple else value


def _digest(content: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()  # by the processor's own instructions
    for buffer in content:
        digest.update(buffer)
    return digest.digest()


def _write(path: Path, content: Sequence[memoryview], *, sync: bool) -> None:
    """Write content behind its hash: a disk that changes a bit must not change a share."""
    with draft_of(path, private=True, sync=sync) as draft, draft.open("wb") as file:
        file.write(_digest(content))
        file.writelines(content)


def _without_digest(stored: bytes) -> memoryview:
    """Return what `_write` was given, or raise a `StoreError` if it was changed."""
    content = memoryview(stored)[32:]
    if stored[:32] != _digest([content]):
        raise StoreError("what was kept between two steps is damaged; start a new run")
    return content


def _size(value: Any) -> int:
    """Return about how many bytes a value has."""
    if isinstance(value, np.ndarray | bytes):
        return value.nbytes if isinstance(value, np.ndarray) else len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    if is_dataclass(value):
        return sum(_size(getattr(value, field.name)) for field in fields(value))
    return int(getattr(value, "nbytes", 0))
