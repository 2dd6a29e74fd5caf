"""The types of things that may leave a site; whatever is not one of these cannot be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.privacy._events import Event
from cofill.views import Feature

__all__ = [
    "BlindedIds",
    "BlindingPart",
    "CodeSpec",
    "Codes",
    "Columns",
    "EncryptedIds",
    "Needs",
    "Release",
    "digest_of",
]


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
class BlindingPart(Release):
    """A site's part of the secret that blinds ids: random bytes, for the other sites alone."""

    kind: ClassVar[str] = "blinding-part"
    personal: ClassVar[bool] = False
    part: bytes = field(repr=False)

    @property
    def n_individuals(self) -> int:
        """Nobody: it was not made from records."""
        return 0

    @property
    def n_bytes(self) -> int:
        """Size of the part."""
        return len(self.part)


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns(Release):
    """What columns there are: per view their names, kinds and categories, and a shape of images.

    Categories are values that somebody has; columns of numbers tell nothing of anybody.
    """

    kind: ClassVar[str] = "columns"
    features: Mapping[str, tuple[Feature, ...]]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def personal(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether categories are told, which come from records."""
        return any(f.categories for own in self.features.values() for f in own)

    @property
    def n_individuals(self) -> int:
        """Nobody in particular."""
        return 0

    @property
    def n_bytes(self) -> int:
        """Size of the names and categories."""
        words = (w for own in self.features.values() for f in own for w in (f.name, *f.categories))
        return sum(len(str(word).encode()) for word in words)

    def facts(self) -> dict[str, Any]:
        """Return the numbers of views, columns and categories."""
        every = [f for own in self.features.values() for f in own]
        return {
            "views": len(self.features),
            "columns": len(every),
            "categories": sum(len(f.categories) for f in every),
        }


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
    """Codes of individuals, one row a token.

    ``event`` is what noisy codes cost, given the encoder. All noisy codes of one ``table`` were
    drawn once a person, so that any part of it, to anybody, is paid for once.
    """

    kind: ClassVar[str] = "codes"
    spec: CodeSpec
    tokens: np.ndarray
    codes: Float[np.ndarray, "individuals width"]
    # A field where others have a property: a frozen one, and read alike.
    event: Event | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    table: str = ""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The training of the encoder that made the codes: noise on codes does not pay for it."""
        return ("encoder training",)

    @property
    def digest(self) -> str | None:
        """The table that noisy codes are a part of."""
        return None if self.event is None else self.table

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Needs(Release):
    """Which directions of a peer's codes a site uses, learned from a pilot: weights, nobody's row.

    A column of ``directions`` is a linear combination of the code's numbers; their squared length
    is the share of the site's variance they explain. They were learned from the pilot's codes and
    the site's own rows and carry no guarantee.
    """

    kind: ClassVar[str] = "needs"
    spec: CodeSpec
    directions: Float[np.ndarray, "width directions"]
    people: int

    @property
    def n_individuals(self) -> int:
        """How many individuals they were learned from."""
        return self.people

    @property
    def n_bytes(self) -> int:
        """Size of the directions."""
        return self.directions.nbytes

    def facts(self) -> dict[str, Any]:
        """Return whose codes are meant, and the number of directions."""
        return {
            "view": self.spec.view,
            "version": self.spec.version,
            "directions": self.directions.shape[1],
        }


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
