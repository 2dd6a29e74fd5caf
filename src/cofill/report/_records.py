"""What a folder holds: records that are recognised by what they say they are, the rest by name.

Only JSON is opened. Tables of rows, keys and models are left alone: a report is made from figures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, DataError
from cofill.metrics import ResultRecord
from cofill.privacy import Ledger

__all__ = ["Record", "Records", "find_records"]

_MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class Record:
    """A file that was recognised: its name in the folder, its kind and what it says."""

    name: str
    kind: str
    content: Any

    @property
    def folder(self) -> str:
        """The folder it lies in, empty for the report's own."""
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class Records:
    """Everything found in a folder.

    Attributes
    ----------
    root
        The folder.
    known
        Files that were recognised.
    unknown
        Names of JSON files of another kind.
    damaged
        Per file that could not be read, the reason.
    """

    root: Path
    known: tuple[Record, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> list[Record]:
        """Return the records of a kind."""
        return [record for record in self.known if record.kind == kind]

    def inside(self, folder: str) -> Records:
        """Return only what lies in a folder below, and no more of the rest."""
        return Records(self.root, tuple(r for r in self.known if r.name.startswith(f"{folder}/")))

    def outside(self, folders: Sequence[str]) -> Records:
        """Return only what lies in none of some folders."""
        roots = tuple(f"{folder}/" for folder in folders)
        return Records(self.root, tuple(r for r in self.known if not r.name.startswith(roots)))

    def beside(self, record: Record, name: str) -> Path | None:
        """Return a file in the folder of a record, None where there is none."""
        path = self.root / record.folder / name
        return path if path.is_file() else None


def find_records(folder: Path | str) -> Records:
    """Return what the JSON files in a folder and below are.

    Raises
    ------
    DataError
        When there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the one that a command wrote its results to")
    known, unknown, damaged = [], [], {}
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        try:
            found = _read(path)
        except CofillError as error:
            damaged[name] = str(error).replace(str(root), root.name)
            continue
        if found is None:
            unknown.append(name)
        else:
            known.append(Record(name, *found))
    return Records(root, tuple(known), tuple(unknown), damaged)


def _files(root: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(root):
        own = Path(place)
        if {"cofill", "startup"} <= set(folders):
            folders.clear()  # a party's kit: keys and the engine's settings are not for a report
            yield from sorted(own.glob("cofill/ledger.jsonl"))
            yield from sorted(own.glob("cofill/runs/*/run.json"))
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".json", ".jsonl")) and not name.startswith("."):
                yield own / name


def _read(path: Path) -> tuple[str, Any] | None:
    """Return the kind of a file and what it says, None for another kind of JSON."""
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"{path} is larger than {_MOST_BYTES // 10**6} MB and was not read")
    if path.suffix == ".jsonl":
        return ("ledger", Ledger.load(path)) if path.name.startswith("ledger") else None
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path} is not whole JSON") from None
    if not isinstance(content, dict):
        return None
    if content.get("format") == "cofill-result":
        return "result", ResultRecord.read(path)
    for kind, recognised in KINDS.items():
        if recognised(content):
            return kind, content
    return None


def _is(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda content: content.get("format") == name


def _has(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda content: all(key in content for key in keys)


KINDS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "completion": _is("cofill-completion"),
    "clustering": _is("cofill-clustering"),
    "audit": _is("cofill-audit"),
    "story": _is("cofill-story"),
    "attack": _has("method", "records", "features", "expected_accuracy", "outcome"),
    "run": _has("order", "state", "next", "steps"),
    "outcome": _has("run", "experiment", "state", "metrics"),
}
"""How a JSON object is recognised, by kind; result records and ledgers have their own readers."""
