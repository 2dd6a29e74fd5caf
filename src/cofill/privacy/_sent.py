"""What was sent in a run, kept as the bytes that left, so that an audit attacks exactly that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cofill.errors import StoreError
from cofill.files import draft_of, read_document, write_document
from cofill.privacy._release import Release, decode_releases, release_buffers

_FILE = re.compile(r"(\d{5,})-(.+)\.safetensors")
_SECRETS = "cofill.secrets"


class SentStep(NamedTuple):
    """The releases of one step: its number, its name, what was sent."""

    number: int
    step: str
    releases: tuple[Release, ...]


@dataclass(frozen=True)
class SentLog:
    """A folder with one file a step, readable by its owner only; iterating gives the steps.

    Codes are sent under tokens, masked rows in an order that was drawn. So that the owner's audit
    can tell whose they are, the secret that blinded the ids and the places of the owner's rows are
    kept beside them, in `secrets.json`: they tell the owner nothing new, and whoever else could
    read them could read the owner's rows.

    Of releases that belong to a round, only those of the ``last_rounds`` are kept (None for all):
    training for a hundred rounds would fill a disk, and the last rounds tell an attacker most of
    the model that is used. Releases of a secret type are never kept.
    """

    folder: Path
    last_rounds: int | None = 3

    @property
    def exists(self) -> bool:
        """Whether anything was kept."""
        return self.folder.is_dir()

    def write(
        self,
        number: int,
        step: str,
        releases: Sequence[Release],
        content: Sequence[memoryview] | None = None,
    ) -> None:
        """Keep what was sent in a step, but for secrets.

        ``content`` is what `release_buffers` made of the same releases, where somebody has it.
        """
        kept = [release for release in releases if not release.secret]
        if not kept:
            return
        if content is None or len(kept) < len(releases):
            content = release_buffers(kept)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = re.sub(r"[^A-Za-z0-9]+", "-", step)
        path = self.folder / f"{number:05}-{name}.safetensors"
        # Not forced to disk: the ledger is, and a lost copy of what was sent harms no run.
        with draft_of(path, private=True, sync=False) as draft, draft.open("wb") as file:
            file.writelines(content)
        if self.last_rounds is not None and any(hasattr(r, "round") for r in kept):
            # Steps of the same name come back once a round.
            same_name = [path for _, other, path in self._files() if other == name]
            for path in same_name[: -self.last_rounds]:
                path.unlink()

    def _files(self) -> list[tuple[int, str, Path]]:
        """Return the number and name of each step and its file, by number."""
        files = []
        for path in self.folder.glob("*.safetensors"):
            match = _FILE.fullmatch(path.name)
            if match is None:
                raise StoreError(f"{path} is no file of sent releases; remove it")
            files.append((int(match[1]), match[2], path))
        return sorted(files)

    def __iter__(self) -> Iterator[SentStep]:
        for number, name, path in self._files():
            yield SentStep(number, name, tuple(decode_releases(path.read_bytes(), path.name)))

    def keep_keys(self, keys: Mapping[str, bytes]) -> None:
        """Keep, by name, what finds the owner's people in what was sent."""
        kept = self.keys()
        together = {**kept, **keys}
        if together == kept:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = {name: key.hex() for name, key in together.items()}
        write_document(self.folder / "secrets.json", _SECRETS, {"secrets": content}, private=True)

    def keys(self) -> dict[str, bytes]:
        """Return, by name, what finds the owner's people; empty where none was kept."""
        path = self.folder / "secrets.json"
        if not path.exists():
            return {}
        content = read_document(path, _SECRETS).get("secrets", {})
        return {name: bytes.fromhex(key) for name, key in content.items()}
