"""What crosses in a secure sum: keys, sealed shares, masked vectors, survivors, opened shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt64

from cofill.privacy._release import Release, checked
from cofill.privacy._wire import is_count, is_integer, is_key, is_text, is_words, map_of, tuple_of

_SHARE_BYTES = 33  # of one opened share: an element of the field


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfRound(Release):
    """A message of one round that was not made from anybody's records."""

    personal: ClassVar[bool] = False
    round: int = checked(is_count)

    def facts(self) -> dict[str, Any]:
        return {"round": self.round}


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicKeys(_OfRound):
    """A site's two X25519 public keys of a round, signed if it has an identity."""

    kind: ClassVar[str] = "public-keys"
    seal_key: bytes = checked(is_key)
    mask_key: bytes = checked(is_key)
    signature: bytes = checked(is_key, default=b"")


def _are_sound_keys(value: Any) -> bool:
    return isinstance(value, PublicKeys) and value.fault() is None


@dataclass(frozen=True, eq=False, kw_only=True)
class Roster(_OfRound):
    """All sites' keys of a round and how many must stay, from the coordinator to a site."""

    kind: ClassVar[str] = "roster"
    keys: tuple[PublicKeys, ...] = checked(tuple_of(_are_sound_keys))
    threshold: int = checked(is_count)

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "sites": len(self.keys), "threshold": self.threshold}


@dataclass(frozen=True, eq=False, kw_only=True)
class SealedShares(_OfRound):
    """Encrypted shares: a site's for each other site, or, passed on, from each other site.

    ``commitment`` binds a site to the seed of its own mask; passed on, it is empty.
    """

    kind: ClassVar[str] = "sealed-shares"
    boxes: Mapping[str, bytes] = checked(map_of(is_key))
    commitment: bytes = checked(is_key, default=b"")


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedVector(Release):
    """A vector under masks: words that look random until a threshold of sites opens the sum.

    ``rows`` is how many individuals it was made from. ``event`` is what the *sum* costs its people
    where sites put noise under their masks.
    """

    kind: ClassVar[str] = "masked-vector"
    individuals_in: ClassVar[str] = "rows"
    noised: ClassVar[bool] = True
    round: int = checked(is_count)
    words: UInt64[np.ndarray, " size"] = checked(is_words)
    rows: int = checked(is_count, default=0)

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "size": len(self.words)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Survivors(_OfRound):
    """The sites whose masked vectors arrived, from the coordinator to a site."""

    kind: ClassVar[str] = "survivors"
    names: tuple[str, ...] = checked(tuple_of(is_text))

    @property
    def n_bytes(self) -> int:
        """Size of the names."""
        return sum(len(name.encode()) for name in self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class RevealedShares(_OfRound):
    """A site's shares of others' secrets: of survivors' own masks, of dropped sites' keys."""

    kind: ClassVar[str] = "revealed-shares"
    own_masks: Mapping[str, int] = checked(map_of(is_integer))
    mask_keys: Mapping[str, int] = checked(map_of(is_integer))

    @property
    def n_bytes(self) -> int:
        """Size of the shares."""
        return _SHARE_BYTES * (len(self.own_masks) + len(self.mask_keys))
