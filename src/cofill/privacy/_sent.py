"""What was sent in a run, kept as the bytes that left, so that an audit attacks exactly that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cofill.errors import StoreError
from cofill.files import write_atomically
from cofill.privacy._release import Release, decode_releases, encode_releases

__all__ = ["SentLog", "SentStep"]

_FILE = re.compile(r"(\d{5})-(.+)\.safetensors")


@dataclass(frozen=True, eq=False)
class SentStep:
    """The releases of one step: its number, its name, what was sent."""

    number: int
    step: str
    releases: tuple[Release, ...]


@dataclass(frozen=True)
class SentLog:
    """A folder with one file a step, readable by its owner only.

    Parameters
    ----------
    folder
        Where the files are; made when the first release is kept.
    last_rounds
        Of releases that belong to a round, only so many of the latest rounds are kept: training
        for a hundred rounds would fill a disk. None keeps all of them.
    """

    folder: Path
    last_rounds: int | None = None

    def write(self, number: int, step: str, releases: Sequence[Release]) -> None:
        """Keep what was sent in a step."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = re.sub(r"[^A-Za-z0-9]+", "-", step)
        content = encode_releases(list(releases))
        write_atomically(self.folder / f"{number:05}-{name}.safetensors", content, private=True)
        if self.last_rounds is not None and any(hasattr(r, "round") for r in releases):
            # Steps of the same name come back once a round.
            same = sorted(self.folder.glob(f"*-{name}.safetensors"))
            for path in same[: -self.last_rounds]:
                path.unlink()

    def __iter__(self) -> Iterator[SentStep]:
        for path in sorted(self.folder.glob("*.safetensors")):
            match = _FILE.fullmatch(path.name)
            if match is None:
                raise StoreError(f"{path} is no file of sent releases; remove it")
            releases = decode_releases(path.read_bytes(), path.name)
            yield SentStep(int(match[1]), match[2], tuple(releases))

    def releases(self, kind: str, sender: str | None = None) -> list[Release]:
        """Return the releases of a type, in the order they were sent."""
        return [
            release
            for step in self
            for release in step.releases
            if release.kind == kind and sender in (None, release.sender)
        ]
