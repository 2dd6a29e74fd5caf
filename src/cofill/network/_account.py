"""A site's account: the heads of its ledgers, kept outside the folders that runs write to.

What a site has spent is in its ledgers, one for each federation that it is in. A ledger's chain
shows a changed line, not that its last lines were cut off or that the file is gone; either would
give the budget back. So the account notes the last head of each, under a key that lies in another
folder (`cofill.paths.keys_folder`), and a site whose ledger does not go on from there starts no
run: whoever can write to the account alone can delete it, and not write heads of their own. The
account lies in the folder of `site.toml`: a site that is in several federations, with files of one
folder, has one account, and what it has spent in one of them counts in all.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill.errors import StoreError
from cofill.files import read_document, write_atomically, write_document
from cofill.paths import keys_folder
from cofill.privacy import Ledger
from cofill.protocol import PartyFolder

ACCOUNT_FOLDER = "account"
_FORMAT = "cofill.account"
_NAME = re.compile("account-[0-9a-f]{16}")


@dataclass(frozen=True)
class SiteAccount:
    """The account in a folder, and the site's folder in one federation."""

    folder: Path
    home: PartyFolder

    @contextmanager
    def open(self) -> Iterator[tuple[Ledger, tuple[Ledger, ...]]]:
        """Give the site's ledger to add to, and its ledgers in other federations to read.

        Raises a `StoreError` where a ledger is not, or not all of, what the account has noted.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One lock for all federations of the site: what one spends the others must see.
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            heads = self._read()
            path = str(self.home.ledger.resolve())
            with self.home.open_ledger() as ledger:
                self._require_noted(ledger, heads, path)
                elsewhere = [_load(other, heads[other]) for other in heads if other != path]
                yield ledger, tuple(elsewhere)
            noted = {"lines": len(ledger.chain), "head": ledger.head}
            if heads.get(path) != noted:
                self._write({**heads, path: noted})

    def check(self) -> None:
        """Raise a `StoreError` unless every ledger goes on from where the account noted it."""
        with self.open():
            pass

    def _require_noted(self, ledger: Ledger, heads: dict[str, Any], path: str) -> None:
        """Raise a `StoreError` unless a ledger goes on from a head that is noted."""
        if path in heads:
            _require_head(ledger, heads[path], path)
            return
        if not ledger.chain:
            return
        # A kit that was moved, or a new kit that has got a copy of the old one's ledger.
        origins = [other for other, noted in heads.items() if _goes_on(ledger, noted)]
        if not origins:
            raise StoreError(
                f"{path} has {len(ledger.chain)} lines, and the account in {self.folder} knows "
                "nothing of them; restore the account, without which the budget cannot be known"
            )
        for other in origins:
            if not Path(other).exists():
                del heads[other]

    @property
    def key_file(self) -> Path | None:
        """The file of the key under which heads are noted; None before the first are."""
        path = self.folder / "heads.json"
        name = read_document(path, _FORMAT).get("key") if path.exists() else None
        return keys_folder() / name if isinstance(name, str) and _NAME.fullmatch(name) else None

    def _new_key(self) -> Path:
        path = keys_folder() / f"account-{os.urandom(8).hex()}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, os.urandom(32), private=True)
        return path

    def _seal(self, heads: dict[str, Any], key: Path) -> str:
        try:
            secret = key.read_bytes()
        except OSError:
            raise StoreError(
                f"{key} is the key of the account in {self.folder} and cannot be read; restore it, "
                "without which the budget cannot be known"
            ) from None
        content = json.dumps(heads, sort_keys=True).encode()
        return hashlib.blake2b(content, key=secret[:64], digest_size=32).hexdigest()

    def _read(self) -> dict[str, Any]:
        path = self.folder / "heads.json"
        if not path.exists():
            return {}
        document = read_document(path, _FORMAT)
        heads, key = document.get("heads"), self.key_file
        seal = str(document.get("seal"))
        if (
            not isinstance(heads, dict)
            or key is None
            or not hmac.compare_digest(self._seal(heads, key), seal)
        ):
            raise StoreError(f"{path} was changed by somebody else than this site; restore it")
        return heads

    def _write(self, heads: dict[str, Any]) -> None:
        key = self.key_file or self._new_key()
        document = {"heads": heads, "seal": self._seal(heads, key), "key": key.name}
        write_document(self.folder / "heads.json", _FORMAT, document, private=True)


def _goes_on(ledger: Ledger, noted: dict[str, Any]) -> bool:
    """Return whether a ledger has the noted head where it was, and perhaps more lines."""
    lines = noted["lines"]
    # More lines than noted were written before a crash, and count.
    return lines == 0 or (len(ledger.chain) >= lines and ledger.chain[lines - 1] == noted["head"])


def _require_head(ledger: Ledger, noted: dict[str, Any], path: str) -> None:
    if not _goes_on(ledger, noted):
        raise StoreError(
            f"{path} must go on from the {noted['lines']} lines that the site's account has noted, "
            f"and has {len(ledger.chain)} that do not; lines were removed or written anew: restore "
            "the ledger, without which the budget cannot be known"
        )


def _load(path: str, noted: dict[str, Any]) -> Ledger:
    ledger = Ledger.load(path) if Path(path).exists() else Ledger()
    _require_head(ledger, noted, path)
    return ledger
