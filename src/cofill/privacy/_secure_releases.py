"""What travels in a secure sum: keys, sealed shares, masked vectors, who is left, opened shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt64

from cofill.privacy._events import Event
from cofill.privacy._release import Release, digest_of

__all__ = [
    "MaskedVector",
    "PublicKeys",
    "RevealedShares",
    "Roster",
    "SealedShares",
    "Survivors",
]


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfRound(Release):
    """A message of one round that was not made from anybody's records."""

    personal: ClassVar[bool] = False
    round: int

    @property
    def n_individuals(self) -> int:
        """Nobody: it was not made from records."""
        return 0

    def facts(self) -> dict[str, Any]:
        """Return the round."""
        return {"round": self.round}


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicKeys(_OfRound):
    """A site's two X25519 public keys of a round, signed if it has an identity."""

    kind: ClassVar[str] = "public-keys"
    seal_key: bytes
    mask_key: bytes
    signature: bytes = b""

    @property
    def n_bytes(self) -> int:
        """Size of keys and signature."""
        return len(self.seal_key) + len(self.mask_key) + len(self.signature)


@dataclass(frozen=True, eq=False, kw_only=True)
class Roster(_OfRound):
    """Everybody's keys of a round and how many must stay, from the coordinator to a site."""

    kind: ClassVar[str] = "roster"
    keys: tuple[PublicKeys, ...]
    threshold: int

    @property
    def n_bytes(self) -> int:
        """Size of the keys."""
        return sum(keys.n_bytes for keys in self.keys)

    def facts(self) -> dict[str, Any]:
        """Return the round, the number of sites and the threshold."""
        return {"round": self.round, "sites": len(self.keys), "threshold": self.threshold}


@dataclass(frozen=True, eq=False, kw_only=True)
class SealedShares(_OfRound):
    """Encrypted shares: a site's for each other site, or, passed on, from each other site.

    ``commitment`` binds a site to the seed of its own mask; passed on, it is empty.
    """

    kind: ClassVar[str] = "sealed-shares"
    boxes: Mapping[str, bytes]
    commitment: bytes = b""

    @property
    def n_bytes(self) -> int:
        """Size of the boxes."""
        return sum(map(len, self.boxes.values())) + len(self.commitment)


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedVector(Release):
    """A vector under masks: words that look random until a threshold of sites opens the sum.

    ``rows`` is how many individuals it was made from. ``event`` is what the *sum* costs its people
    where sites put noise under their masks.
    """

    kind: ClassVar[str] = "masked-vector"
    round: int
    words: UInt64[np.ndarray, " size"]
    rows: int = 0
    # A field where others have a property: a frozen one, and read alike.
    event: Event | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def digest(self) -> str | None:
        """A hash of the words."""
        return digest_of(self.words)

    @property
    def n_individuals(self) -> int:
        """How many individuals the vector was made from."""
        return self.rows

    @property
    def n_bytes(self) -> int:
        """Size of the words."""
        return self.words.nbytes

    def facts(self) -> dict[str, Any]:
        """Return the round and the size."""
        return {"round": self.round, "size": len(self.words)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Survivors(_OfRound):
    """Whose masked vectors arrived, from the coordinator to a site."""

    kind: ClassVar[str] = "survivors"
    names: tuple[str, ...]

    @property
    def n_bytes(self) -> int:
        """Size of the names."""
        return sum(len(name.encode()) for name in self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class RevealedShares(_OfRound):
    """A site's shares of others' secrets: of survivors' own masks, of dropped sites' keys."""

    kind: ClassVar[str] = "revealed-shares"
    own_masks: Mapping[str, int]
    mask_keys: Mapping[str, int]

    @property
    def n_bytes(self) -> int:
        """Size of the shares."""
        return 33 * (len(self.own_masks) + len(self.mask_keys))
