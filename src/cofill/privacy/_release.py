"""The types of things that may leave a site; whatever is not one of these cannot be sent."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.privacy._events import Event

__all__ = ["BlindedIds", "CodeSpec", "Codes", "EncryptedIds", "Release", "digest_of"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """Something that leaves a site, from a sender to a receiver.

    ``personal`` says whether it was made from people's records; keys and shares were not.
    """

    kind: ClassVar[str]
    personal: ClassVar[bool] = True
    sender: str
    receiver: str

    @property
    def n_individuals(self) -> int:
        """How many individuals it tells something about."""
        raise NotImplementedError

    @property
    def n_bytes(self) -> int:
        """Size of what is sent."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what the ledger keeps of it beside sizes: no value, no id."""
        return {}

    @property
    def event(self) -> Event | None:
        """What it costs in differential privacy; None where it carries no guarantee."""
        return None

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Names of what is in it that the event does not pay for."""
        return ()

    @property
    def digest(self) -> str | None:
        """A hash by which the gate knows the very same noisy values again; None without event."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class BlindedIds(Release):
    """Who is here, or whose codes are asked for, as keyed hashes."""

    kind: ClassVar[str] = "blinded-ids"
    tokens: np.ndarray
    purpose: str

    @property
    def n_individuals(self) -> int:
        """How many individuals are named."""
        return len(self.tokens)

    @property
    def n_bytes(self) -> int:
        """Size of the tokens."""
        return self.tokens.nbytes

    def facts(self) -> dict[str, Any]:
        """Return what the ids are for."""
        return {"purpose": self.purpose}


@dataclass(frozen=True, eq=False, kw_only=True)
class EncryptedIds(Release):
    """One message of a private set intersection: ids under a key that stays with its maker.

    ``content`` is a request, or the answer to one with ``own``, the answering site's own ids.
    """

    kind: ClassVar[str] = "encrypted-ids"
    purpose: str
    content: bytes
    own: bytes = b""
    individuals: int = 0

    @property
    def n_individuals(self) -> int:
        """How many ids the sender has put in."""
        return self.individuals

    @property
    def n_bytes(self) -> int:
        """Size of the encrypted ids."""
        return len(self.content) + len(self.own)

    def facts(self) -> dict[str, Any]:
        """Return whether it asks or answers."""
        return {"purpose": self.purpose}


@dataclass(frozen=True)
class CodeSpec:
    """What a receiver may rely on: the view, the width and the version of its encoder."""

    view: str
    width: int
    version: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Codes(Release):
    """Codes of individuals, one row a token."""

    kind: ClassVar[str] = "codes"
    spec: CodeSpec
    tokens: np.ndarray
    codes: Float[np.ndarray, "individuals width"]

    @property
    def n_individuals(self) -> int:
        """How many individuals' codes these are."""
        return len(self.tokens)

    @property
    def n_bytes(self) -> int:
        """Size of tokens and codes."""
        return self.tokens.nbytes + self.codes.nbytes

    def facts(self) -> dict[str, Any]:
        """Return the view, width and version of the codes."""
        return {
            "view": self.spec.view,
            "width": self.spec.width,
            "version": self.spec.version,
        }

    def check(self, expected: CodeSpec | None) -> None:
        """Raise a `DataError` unless these are sound codes of the expected kind."""
        where = f"codes from {self.sender!r} to {self.receiver!r}"
        if len(self.tokens) != len(self.codes):
            raise DataError(
                f"{where}: {len(self.tokens)} individuals for {len(self.codes)} codes; refused"
            )
        if expected is not None and self.spec.view != expected.view:
            raise DataError(
                f"{where} are of view {self.spec.view!r}, which is not known here; refused"
            )
        if self.codes.shape[1] != self.spec.width:
            raise DataError(
                f"{where} have width {self.codes.shape[1]}, announced were {self.spec.width}; "
                "refused"
            )
        if expected is not None and self.spec.width != expected.width:
            raise DataError(
                f"{where} have width {self.spec.width}, the links were trained on "
                f"{expected.width}; refused, fit again"
            )
        if expected is not None and self.spec.version != expected.version:
            raise DataError(
                f"{where} are by another version of the encoder than the links were trained on; "
                "refused, fit again"
            )
        if not np.isfinite(self.codes).all():
            rows = int((~np.isfinite(self.codes)).any(axis=1).sum())
            raise DataError(f"{where}: {rows} codes are not finite numbers; refused")


def digest_of(*arrays: np.ndarray) -> str:
    """Return a BLAKE2b hash of arrays' types, shapes and values.

    Examples
    --------
    >>> digest_of(np.zeros(2)) == digest_of(np.zeros(2)) != digest_of(np.zeros((2, 1)))
    True
    """
    hashed = hashlib.blake2b(digest_size=16)
    for array in arrays:
        hashed.update(f"{array.dtype.str}{array.shape}".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()
