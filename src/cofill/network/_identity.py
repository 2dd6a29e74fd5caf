"""A party's identity: its private keys, and the pinned public keys of everybody else.

FLARE's certificates say who may connect; whoever holds the key of the certificate authority can
forge them. These keys are the sites' own: an X25519 key that seals, an Ed25519 key that signs. The
kit holds the public keys of all, so that no message can change them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import SettingError, StoreError
from cofill.files import read_document, write_document
from cofill.privacy import sealing_public_key, signing_public_key

_IDENTITY_FORMAT = "cofill.identity"
_DIRECTORY_FORMAT = "cofill.directory"


@dataclass(frozen=True)
class PartyKeys:
    """A party's two public keys."""

    seal: bytes
    sign: bytes

    def digits(self, name: str) -> str:
        """Return six groups of digits that both ends of a telephone call can compare.

        They are of the party's name and both keys. 100 bits: whoever wants to put keys of their own
        in place of these has to find others with the same digits.

        Examples
        --------
        >>> PartyKeys(bytes(32), bytes(32)).digits("lab")
        '98105 73000 98451 19522 29472 09112'
        """
        content = json.dumps([name, self.seal.hex(), self.sign.hex()]).encode()
        words = hashlib.blake2b(content, digest_size=32, person=b"cofill digits").digest()
        number = int.from_bytes(words) % 10**30
        return " ".join(f"{number:030}"[k : k + 5] for k in range(0, 30, 5))

    def to_json(self) -> dict[str, str]:
        """Return the keys as texts."""
        return {"seal": self.seal.hex(), "sign": self.sign.hex()}

    @classmethod
    def from_json(cls, value: Any, where: str) -> PartyKeys:
        """Return the keys of `to_json`'s texts."""
        try:
            keys = cls(bytes.fromhex(value["seal"]), bytes.fromhex(value["sign"]))
        except (TypeError, KeyError, ValueError):
            raise StoreError(f"{where} must hold the public keys 'seal' and 'sign'") from None
        if len(keys.seal) != 32 or len(keys.sign) != 32:
            raise StoreError(f"{where}: a public key must have 32 bytes")
        return keys


@dataclass(frozen=True)
class Identity:
    """A party with its private keys, and everybody's public ones."""

    name: str
    seal: bytes = field(repr=False)
    sign: bytes = field(repr=False)
    others: Mapping[str, PartyKeys] = field(default_factory=dict)

    @classmethod
    def fresh(cls, name: str) -> Identity:
        """Return new keys from the operating system's source of randomness.

        Examples
        --------
        >>> Identity.fresh("lab")
        Identity(name='lab', others={})
        """
        return cls(name, os.urandom(32), os.urandom(32))

    @property
    def public(self) -> PartyKeys:
        """The public halves."""
        return PartyKeys(sealing_public_key(self.seal), signing_public_key(self.sign))

    def of(self, name: str) -> PartyKeys:
        """Return the pinned keys of another party, or raise a `SettingError`."""
        if name not in self.others:
            raise SettingError(
                f"no public keys of {name!r} are pinned at {self.name!r}; it is no member of this "
                "federation"
            )
        return self.others[name]

    def save(self, folder: Path) -> None:
        """Write the private keys, readable by their owner alone, and the pinned public ones."""
        private = {"name": self.name, "seal": self.seal.hex(), "sign": self.sign.hex()}
        write_document(folder / "identity.json", _IDENTITY_FORMAT, private, private=True)
        pinned = {name: keys.to_json() for name, keys in self.others.items()}
        write_document(folder / "directory.json", _DIRECTORY_FORMAT, pinned)

    @classmethod
    def load(cls, folder: Path) -> Identity:
        """Read what `save` wrote."""
        private = read_document(folder / "identity.json", _IDENTITY_FORMAT)
        pinned = read_document(folder / "directory.json", _DIRECTORY_FORMAT)
        where = str(folder / "directory.json")
        others = {name: PartyKeys.from_json(keys, where) for name, keys in pinned.items()}
        try:
            seal, sign = bytes.fromhex(private["seal"]), bytes.fromhex(private["sign"])
            if len(seal) != 32 or len(sign) != 32:
                raise ValueError
            return cls(private["name"], seal, sign, others)
        except (KeyError, ValueError, TypeError):
            raise StoreError(
                f"{folder / 'identity.json'} must hold a party's private keys; get its kit again"
            ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object that FLARE wrote into a kit."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing; this is no whole kit, get it again") from None
    except (OSError, ValueError):
        raise StoreError(f"{path} cannot be read as JSON; get the kit again") from None
    if not isinstance(value, dict):
        raise StoreError(f"{path} must be a JSON object")
    return value
