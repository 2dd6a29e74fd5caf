"""The ledger of what a federation has released: entries that only grow, chained by their hashes.

Each entry carries the BLAKE2b hash of the hash before it and of its own content, so that a changed
or removed line is found by whoever reads the file (`Ledger.verify`). A chain cannot tell that its
*last* lines were cut off, nor that it was written anew from the start: for that, keep its `head`
somewhere else. The ledger holds no ids and no values: kinds, names of parties, sizes and costs.
Between the releases it notes which orders a site took, which it refused and why, in the same chain.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cofill.errors import StoreError
from cofill.privacy._events import Event

_START = "0" * 64  # what the first entry is linked to


@dataclass(frozen=True)
class LedgerEntry:
    """One release: what, in which step, from whom to whom, how much, at what privacy cost.

    ``epsilon`` at ``delta`` is what this release costs alone, None where it carries no guarantee;
    ``event`` is what the accountant composes with the site's other releases. ``digest`` tells the
    very same noisy values again, and ``chain`` is the entry's link to the ones before it.
    """

    step: str
    kind: str
    sender: str
    receiver: str
    individuals: int
    bytes: int
    epsilon: float | None
    facts: Mapping[str, Any]
    delta: float | None = None
    event: Event | None = None
    digest: str | None = None
    chain: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON-able value."""
        event = None if self.event is None else self.event.to_json()
        return {**vars(self), "facts": dict(self.facts), "event": event}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LedgerEntry:
        """Return the entry that `to_json` wrote."""
        event = None if value["event"] is None else Event.from_json(value["event"])
        facts = MappingProxyType(value["facts"])
        return LedgerEntry(**{**value, "facts": facts, "event": event})


@dataclass(frozen=True)
class LedgerNote:
    """What a site decided about an order: ``what`` is taken, refused or approved, ``at`` when.

    ``run`` and ``experiment`` are the order's, ``by`` is who gave it or approved of it, ``policy``
    the digest of the policy that was in force, and ``why`` a sentence for each refusal.
    """

    what: str
    at: str
    run: str
    experiment: str
    by: str = ""
    policy: str = ""
    why: tuple[str, ...] = ()
    chain: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the note as a JSON-able value."""
        values = {**vars(self), "why": list(self.why)}
        # Under a name of its own, by which lines of the two kinds are told apart.
        return {"note": values.pop("what"), **values}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LedgerNote:
        """Return the note that `to_json` wrote."""
        values = {**value, "why": tuple(value["why"])}
        return LedgerNote(what=values.pop("note"), **values)


@dataclass
class Ledger:
    """What a federation has released, in order. Entries can be added, never changed.

    Iterating gives the releases; ``notes`` are what was decided about orders in between.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.write(LedgerEntry("send", "codes", "lab", "clinic", 3, 144, None, {}))
    >>> ledger.verify() is None, ledger
    (True, Ledger(1 codes, 144 bytes))
    """

    _lines: list[LedgerEntry | LedgerNote] = field(default_factory=list)

    def __post_init__(self) -> None:
        unlinked, self._lines = self._lines, []
        for entry in unlinked:
            # Entries that were read keep their link, so that `verify` can find a changed one.
            self.write(entry) if not entry.chain else self._lines.append(entry)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter([line for line in self._lines if isinstance(line, LedgerEntry)])

    def __len__(self) -> int:
        return sum(isinstance(line, LedgerEntry) for line in self._lines)

    def __repr__(self) -> str:
        kinds = Counter(entry.kind for entry in self)
        words = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "nothing"
        return f"Ledger({words}, {sum(e.bytes for e in self):,} bytes)"

    @property
    def notes(self) -> tuple[LedgerNote, ...]:
        """What was decided about orders, in order."""
        return tuple(line for line in self._lines if isinstance(line, LedgerNote))

    @property
    def chain(self) -> tuple[str, ...]:
        """The hash after each line."""
        return tuple(line.chain for line in self._lines)

    @property
    def head(self) -> str:
        """The hash that stands for all lines, in their order."""
        return self._lines[-1].chain if self._lines else _START

    def write(self, entry: LedgerEntry | LedgerNote) -> None:
        """Add an entry, linked to the last one."""
        self._lines.append(replace(entry, chain=_link(self.head, entry)))

    def verify(self, head: str | None = None) -> int | None:
        """Return the number (from 1) of the first entry that is not as it was written, or None.

        With the `head` that was noted elsewhere it also finds out that last entries were cut off
        (the number after the last one) or that all were written anew.
        """
        before = _START
        for number, entry in enumerate(self._lines, start=1):
            if _link(before, entry) != entry.chain:
                return number
            before = entry.chain
        return None if head is None or head == before else len(self._lines) + 1

    def to_list(self) -> list[dict[str, Any]]:
        """Return the releases as JSON-able values."""
        return [entry.to_json() for entry in self]

    def save(self, path: Path | str) -> None:
        """Append the entries that a file of JSON lines does not have yet.

        A file that is damaged or holds other entries is left as it is, with a `StoreError`.
        """
        path = Path(path)
        known = Ledger.load(path).chain if path.exists() else ()
        if known != self.chain[: len(known)]:
            raise StoreError(
                f"{path} holds the ledger of another federation or more entries than this one; "
                "save to another file"
            )
        lines = "".join(_line(e.to_json()) + "\n" for e in self._lines[len(known) :])
        # Made for its owner only: it says who sent what to whom.
        with open(path, "a", encoding="utf-8", newline="\n", opener=_private) as file:
            file.write(lines)
            file.flush()
            # The release may already have left: its entry must survive a power cut.
            os.fsync(file.fileno())

    @staticmethod
    def load(path: Path | str) -> Ledger:
        """Return the ledger that `save` wrote.

        A `StoreError` names the line, if one was changed, removed or only half written.
        """
        try:
            content, _, half_line = Path(path).read_bytes().rpartition(b"\n")
        except OSError as error:
            raise StoreError(f"{path} must be a readable ledger: {error.strerror}") from error
        ledger = Ledger.parse(content, str(path))
        if half_line:
            raise StoreError(
                f"{path}, line {len(ledger.chain) + 1}: the last line is only half written; its "
                "release may have left the site: note it, then remove the line"
            )
        return ledger

    @staticmethod
    def parse(content: bytes, name: str) -> Ledger:
        """Return the ledger of whole lines; a `StoreError` has the name and the faulty line."""
        entries: list[LedgerEntry | LedgerNote] = []
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                value = json.loads(line)
                kind = LedgerNote if "note" in value else LedgerEntry
                entries.append(kind.from_json(value))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StoreError(f"{name}, line {number}: this is no entry of a ledger") from error
        ledger = Ledger(entries)
        wrong = ledger.verify()
        if wrong is not None:
            raise StoreError(
                f"{name}, line {wrong}: the entry was changed, or one before it was removed"
            )
        return ledger


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _link(before: str, entry: LedgerEntry | LedgerNote) -> str:
    """Return the hash of the hash before a line and of its own content."""
    linked = {name: value for name, value in entry.to_json().items() if name != "chain"}
    return hashlib.blake2b((before + _line(linked)).encode(), digest_size=32).hexdigest()


def _line(value: Mapping[str, Any]) -> str:
    """Return JSON on one line, the same for the same content: its hash is part of the chain."""
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    return json.dumps(value, sort_keys=True, default=_plain, **compact)


def _plain(value: Any) -> Any:
    """Return numpy's numbers as Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    raise TypeError(f"facts must be plain figures and words, got {type(value).__name__}")
