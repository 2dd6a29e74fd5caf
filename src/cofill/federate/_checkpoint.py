"""Where a run of rounds stands: saved after each round, taken up again to the same result.

One safetensors file holds the coordinator's weights and strategy, every site's moments and control,
and as JSON the round, the notes, the curve and the ledger: what was spent stays spent. A run is
known by a fingerprint of its settings and rows: a checkpoint of another run is refused, not mixed
in. Which rows a site draws in a round comes from its seed and the round's number, so that nothing
else has to be kept; where noise protects the rows it comes from a secret of the site, which is not
kept, and a resumed run draws anew.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cofill import codec
from cofill.errors import StoreError
from cofill.federate._parties import Coordinator, RowSite
from cofill.privacy import Ledger, LedgerEntry
from cofill.protocol import Federation

__all__ = ["FILE", "fingerprint_of", "restore", "store"]

FILE, FORMAT = "rounds.safetensors", "cofill.rounds"


def fingerprint_of(federation: Federation[RowSite]) -> str:
    """Return a hash of what a run depends on: model, settings, seed, and every site's rows."""
    digest = hashlib.blake2b(digest_size=16)
    party: Coordinator = federation.coordinator
    for name, site in federation.sites.items():
        words = (name, site.learner, site.local, site.settings, site.seed, party.strategy)
        digest.update(repr(words).encode())
        for array in (site.rows.cells, site.rows.known, site.rows.present):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def store(folder: Path | str, federation: Federation[RowSite], fingerprint: str) -> None:
    """Save where a run stands; the file appears whole or not at all."""
    party: Coordinator = federation.coordinator
    arrays = {"weights": party.weights}
    arrays |= {f"state/{name}": array for name, array in party.state.items()}
    for number, site in enumerate(federation.sites.values()):
        if site.control is not None:
            arrays[f"control/{number}"] = site.control
        for k, leaf in enumerate(jax.tree.leaves(site.moments)):
            arrays[f"moments/{number}/{k}"] = np.asarray(leaf)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "arrays": arrays,
        "fingerprint": fingerprint,
        "round": party.round,
        "notes": list(party.notes),
        "curve": [dict(entry) for entry in party.curve],
        "site_notes": [list(site.notes) for site in federation.sites.values()],
        "ledger": [_plain(entry) for entry in federation.ledger],
    }
    codec.save(folder / FILE, content, format=FORMAT)


def restore(folder: Path | str, federation: Federation[RowSite], fingerprint: str) -> bool:
    """Bring a new federation to where its saved run stands; False if nothing was saved.

    Raises
    ------
    StoreError
        If the file is damaged or belongs to a run with other settings or rows.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return False
    content = codec.load(path, format=FORMAT)
    arrays = content["arrays"]
    if content["fingerprint"] != fingerprint:
        raise StoreError(
            f"{path} belongs to a run with other settings or other rows; give another folder, or "
            "remove it to start anew"
        )
    party: Coordinator = federation.coordinator
    like = federation.sites[party.names[0]].local.make_optimizer().init(jnp.asarray(party.weights))
    structure = jax.tree.structure(like)
    site_notes = content["site_notes"]
    for number, (name, site) in enumerate(federation.sites.items()):
        saved = [k for k in range(structure.num_leaves) if f"moments/{number}/{k}" in arrays]
        leaves = [arrays[f"moments/{number}/{k}"] for k in saved]
        moments = jax.tree.unflatten(structure, leaves) if leaves else None
        control = arrays.get(f"control/{number}")
        federation.sites[name] = replace(
            site, moments=moments, control=control, notes=tuple(site_notes[number])
        )
    state = {name: arrays[f"state/{name}"] for name in party.state}
    federation.coordinator = replace(
        party,
        weights=arrays["weights"],
        state=state,
        round=int(content["round"]),
        notes=tuple(content["notes"]),
        curve=tuple(content["curve"]),
    )
    # What the run had released, and after it what was released again to begin anew.
    before = [LedgerEntry.from_json(entry) for entry in content["ledger"]]
    again = [replace(entry, chain="") for entry in federation.ledger]
    federation.ledger = Ledger([*before, *again])
    return True


def _plain(entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry with NumPy's numbers as Python's."""
    return json.loads(json.dumps(entry.to_json(), default=lambda value: value.item()))
