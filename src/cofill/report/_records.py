"""The records of a folder, recognised by what they say they are.

Only JSON is opened. Tables of rows, keys and models are left alone: a report is made from figures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, DataError
from cofill.metrics import ResultRecord
from cofill.pages import Part, Section, heading
from cofill.privacy import Ledger

_MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class Record:
    """A file that was recognised: its name in the folder, its kind and its content."""

    name: str
    kind: str
    content: Any

    @property
    def folder(self) -> str:
        """The folder of the file, empty for the report's own."""
        return self.name.rpartition("/")[0]

    @property
    def title(self) -> str:
        """What the record is about, to be read above its figures."""
        if self.kind == "result":
            experiment = self.content.settings.get("experiment")
            return str(experiment or self.content.name.replace("_", " "))
        if self.kind == "audit":
            return str(self.content["title"])
        return self.name if self.kind == "attack" else self.folder or self.name


@dataclass(frozen=True)
class Records:
    """Everything in a folder: recognised files, and names of JSON of another kind.

    ``damaged`` has, per file that could not be read, the reason.
    """

    root: Path
    known: tuple[Record, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> list[Record]:
        """Return the records of a kind; ledgers only where they hold an entry."""
        return [r for r in self.known if r.kind == kind and (kind != "ledger" or len(r.content))]

    def extras(self, name: str) -> Iterator[tuple[Record, Mapping[str, Any]]]:
        """Yield the result records that have something under a name of their ``extra``."""
        for record in self.of("result"):
            extra = record.content.extra.get(name)
            if isinstance(extra, Mapping) and extra:
                yield record, extra

    def inside(self, folder: str) -> Records:
        """Return only the records in a folder below."""
        return Records(self.root, tuple(r for r in self.known if r.name.startswith(f"{folder}/")))

    def outside(self, folders: Sequence[str]) -> Records:
        """Return only the records in none of some folders."""
        roots = tuple(f"{folder}/" for folder in folders)
        return Records(self.root, tuple(r for r in self.known if not r.name.startswith(roots)))

    def beside(self, record: Record, name: str) -> Path | None:
        """Return a file in the folder of a record, None where there is none."""
        path = self.root / record.folder / name
        return path if path.is_file() else None


def headed_section(
    title: str, anchor: str, lead: str, parts: Iterable[tuple[str, Sequence[Part]]]
) -> Section | None:
    """Return a section of ``(title, body)`` parts, each under its title where there are several.

    Without any part there is nothing to show, and None is returned.
    """
    bodies = list(parts)
    if not bodies:
        return None
    if len(bodies) == 1:
        return Section(title, bodies[0][1], anchor, lead)
    body = [piece for name, pieces in bodies for piece in (heading(name), *pieces)]
    return Section(title, body, anchor, lead)


def find_records(folder: Path | str) -> Records:
    """Return the records in a folder and below, by kind; raise a `DataError` for no folder."""
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the one that a command wrote its results to")
    known, unknown, damaged = [], [], {}
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        try:
            recognised = _read(path)
        except CofillError as error:
            damaged[name] = str(error).replace(str(root), root.name)
            continue
        if recognised is None:
            unknown.append(name)
        else:
            known.append(Record(name, *recognised))
    return Records(root, tuple(known), tuple(unknown), damaged)


def _files(root: Path) -> Iterator[Path]:
    for location, folders, names in os.walk(root):
        folder = Path(location)
        if {"cofill", "startup"} <= set(folders):
            folders.clear()  # a party's kit: keys and the engine's settings are not for a report
            yield from sorted(folder.glob("cofill/ledger.jsonl"))
            yield from sorted(folder.glob("cofill/runs/*/run.json"))
            continue
        # What was sent is for its owner and the audit, not for a report that is handed on.
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "sent")
        for name in sorted(names):
            if name.endswith((".json", ".jsonl")) and not name.startswith("."):
                yield folder / name


def _read(path: Path) -> tuple[str, Any] | None:
    """Return the kind of a file and its content, None for another kind of JSON."""
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
    by_keys = next((kind for kind, keys in _KEYS.items() if keys <= content.keys()), None)
    kind = _FORMATS.get(str(content.get("format")), by_keys)
    return None if kind is None else (kind, content)


_FORMATS = {f"cofill-{kind}": kind for kind in ("completion", "clustering", "audit", "story")}
# Objects without a format are recognised by their keys.
_KEYS = {
    "attack": {"method", "records", "features", "expected_accuracy", "outcome"},
    "run": {"order", "state", "next", "at", "steps"},
    "outcome": {"run", "experiment", "state", "metrics"},
}
