"""The one gate through which releases leave a site, and the ledger of what passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cofill.errors import SettingError
from cofill.privacy._release import BlindedIds, Codes, Release
from cofill.privacy._updates import GroupSums, Model, Update

__all__ = ["Gate", "Ledger", "LedgerEntry"]

_DECLARED: tuple[type[Release], ...] = (BlindedIds, Codes, GroupSums, Model, Update)


@dataclass(frozen=True)
class LedgerEntry:
    """One release: what, in which step, from whom to whom, how much, at what privacy cost."""

    step: str
    kind: str
    sender: str
    receiver: str
    individuals: int
    bytes: int
    epsilon: float | None
    facts: Mapping[str, Any]


@dataclass
class Ledger:
    """What a federation has released, in order. Entries can be added, never changed."""

    _entries: list[LedgerEntry] = field(default_factory=list)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        kinds = Counter(entry.kind for entry in self._entries)
        words = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "nothing"
        return f"Ledger({words}, {sum(e.bytes for e in self._entries):,} bytes)"

    def write(self, entry: LedgerEntry) -> None:
        """Add an entry."""
        self._entries.append(entry)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the entries as JSON-able values."""
        return [{**vars(entry), "facts": dict(entry.facts)} for entry in self._entries]


@dataclass(frozen=True)
class Gate:
    """Lets declared releases pass and writes each to the ledger; refuses anything else."""

    ledger: Ledger

    def pass_on(self, release: Release, step: str) -> Release:
        """Return the release, now in the ledger, or raise a `SettingError`."""
        if type(release) not in _DECLARED:
            raise SettingError(
                f"step {step!r}: {type(release).__name__} is no declared type of release and may "
                "not leave a site"
            )
        self.ledger.write(
            LedgerEntry(
                step=step,
                kind=release.kind,
                sender=release.sender,
                receiver=release.receiver,
                individuals=release.n_individuals,
                bytes=release.n_bytes,
                # Codes and keyed hashes carry no differential privacy guarantee.
                epsilon=None,
                facts=MappingProxyType(release.facts()),
            )
        )
        return release
