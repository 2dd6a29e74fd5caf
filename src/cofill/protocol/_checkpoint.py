"""A checkpoint of a federation that runs in one process: saved between steps, resumed later.

The folder is laid out like a run's (`RunFolder`). ``state.safetensors`` holds the state of every
party, the releases that were not read yet, the next step and the ledger: what was spent stays
spent. ``run.json`` tells the same without the parties, for people who follow a run. A checkpoint
belongs to one run: a fingerprint of settings and rows keeps others from resuming it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cofill import codec
from cofill.errors import StoreError
from cofill.privacy import Ledger, LedgerEntry, digest_of
from cofill.protocol._driver import Federation
from cofill.protocol._folders import RunFolder
from cofill.protocol._protocol import COORDINATOR, AbstractProtocol, LocalData
from cofill.views import View

_FORMAT = "cofill.checkpoint"


def digest_views(views: Mapping[str, View]) -> dict[str, str]:
    """Return a hash of each view's columns and rows, by which a changed table is noticed."""
    return {
        name: _hash(([astuple(f) for f in view.features], digest_of(view.ids, view.cells)))
        for name, view in views.items()
    }


def _hash(content: Any) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a federation of one process is saved, and which run it must be.

    ``settings`` are what the run depends on beside its rows; their ``repr`` goes into the
    fingerprint. ``data`` is what each site brings, by site.
    """

    folder: Path
    protocol: AbstractProtocol
    settings: Any
    data: Mapping[str, LocalData]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the protocol's name, the settings and every site's rows."""
        digests = {site: digest_views(data.views) for site, data in self.data.items()}
        return _hash((self.protocol.name, self.settings, digests))

    def save(self, federation: Federation[Any]) -> None:
        """Write where a federation stands; each file appears whole or not at all."""
        folder, steps = RunFolder(self.folder), self.protocol.steps
        folder.make()
        number = federation.next_step
        ledger = json.loads(
            json.dumps(federation.ledger.to_list(), default=lambda value: value.item())
        )
        state = {
            "fingerprint": self.fingerprint,
            "next_step": number,
            "parties": {
                n: self.protocol.state_of(federation.party(n)) for n in federation.party_names
            },
            "inboxes": {name: list(inbox) for name, inbox in federation.inboxes.items()},
            "ledger": ledger,
        }
        codec.save(folder.state, state, format=_FORMAT, private=True)
        over = number >= len(steps)
        result = self.protocol.summarise(federation.coordinator)
        folder.write_note(
            {
                "state": "finished" if over else "running",
                "next": number,
                "at": self.protocol.count_steps(number),
                "steps": self.protocol.count_steps(len(steps)),
                "step": "end" if over else steps[number].name,
                "notes": result.get("notes", []),
                "result": result,
                "ledger": ledger,
            }
        )

    def restore(self, federation: Federation[Any]) -> bool:
        """Bring a new federation to where the saved one stands; False if nothing was saved.

        A file that is damaged or belongs to a run with other settings or rows is a `StoreError`.
        """
        path = RunFolder(self.folder).state
        if not path.exists():
            return False
        state = codec.load(path, format=_FORMAT)
        if state.get("fingerprint") != self.fingerprint:
            raise StoreError(
                f"{path} belongs to a run with other settings or other rows; give another folder, "
                "or remove it to start anew"
            )
        sites = self.protocol.party_sites
        for name, content in state["parties"].items():
            data = None if name == COORDINATOR else self.data[sites[name]]
            party = self.protocol.restore_party(name, content, data)
            if data is None:
                federation.coordinator = party
            else:
                federation.sites[name] = party
        federation.next_step = state["next_step"]
        federation.inboxes = state["inboxes"]
        federation.ledger = Ledger([LedgerEntry.from_json(entry) for entry in state["ledger"]])
        return True
