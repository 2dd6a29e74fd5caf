"""The base of everything that may leave a site: a release type is one class that declares itself.

Subclassing registers the type; gate, messages and audits look types up here and refuse whatever is
not registered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from cofill.codec import decode, encode_buffers, storable
from cofill.errors import DataError, StoreError
from cofill.privacy._checks import Check, is_text
from cofill.privacy._events import EVENT_TYPES, Event

_MAX_RELEASES = 10_000  # in one message, which may come from a party that means harm
_TYPES: dict[str, type[Release]] = {}


def checked(check: Check, **options: Any) -> Any:
    """Return a field of a release with the check that its value must pass on the wire.

    Options are those of `dataclasses.field`.
    """
    return field(metadata={"check": check}, **options)


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """Something that leaves a site, from a sender to a receiver.

    ``event`` is what it costs in differential privacy, None where it carries no guarantee. A type
    has a ``kind`` (its name in ledgers, audits and messages) and says in ``individuals_in`` which
    field's number or length is how many individuals it tells of, None for nobody; whether it is
    ``personal``, made from people's records, which keys and shares are not; whether it may be
    ``noised`` and carry an event; whether it is ``masked``, uniform to whoever receives it, so that
    it tells nothing alone; whether it is ``secret``, keys and words that would take masks off if
    they were kept after a run, so that no log keeps it; whether it ``names_each``, so that a figure
    in it is about one individual; and which ``parts``, data classes, occur inside its fields.
    """

    kind: ClassVar[str]
    individuals_in: ClassVar[str | None]
    personal: ClassVar[bool] = True
    noised: ClassVar[bool] = False
    masked: ClassVar[bool] = False
    secret: ClassVar[bool] = False
    names_each: ClassVar[bool] = False
    parts: ClassVar[tuple[type, ...]] = ()
    sender: str
    receiver: str
    event: Event | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            return  # a base of several types
        known = _TYPES.get(cls.kind)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise TypeError(f"{cls.kind!r} is the kind of two release types; rename one of them")
        # No default: a type whose author forgot would enter the ledger as telling of nobody.
        counted = hasattr(cls, "individuals_in") or cls.n_individuals is not Release.n_individuals
        if cls.personal is True and not counted:
            raise TypeError(f"{cls.__name__} must say how many individuals it tells of")
        _TYPES[cls.kind] = storable(cls)

    @property
    def n_individuals(self) -> int:
        """How many individuals it tells something about."""
        name = getattr(self, "individuals_in", None)
        counted: Any = 0 if name is None else getattr(self, name)
        return len(counted) if hasattr(counted, "__len__") else counted

    @property
    def fewest(self) -> int | None:
        """How many individuals one figure in it tells of, at least; None where that is nobody."""
        return 1 if self.names_each else self.n_individuals or None

    @property
    def n_bytes(self) -> int:
        """Size of what is sent: arrays, byte strings and figures."""
        return sum(map(_size, self._values()))

    def facts(self) -> dict[str, Any]:
        """Return what the ledger keeps of it beside sizes: no value of a person, no id."""
        return {}

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Names of what is in it that the event does not pay for."""
        return ()

    @property
    def digest(self) -> str | None:
        """A hash by which the gate knows the same noisy values again; None without event."""
        if self.event is None:
            return None
        return digest_of(*(array for value in self._values() for array in _arrays(value)))

    def misfit(self) -> str | None:
        """Return what does not fit together between the fields, as "must have …"; else None."""
        return None

    def fault(self) -> str | None:
        """Return why the release may not travel, without showing a value; None if it may."""
        if _TYPES.get(getattr(type(self), "kind", "")) is not type(self):
            return f"{type(self).__name__} is no type of release that may travel"
        if not (is_text(self.sender) and is_text(self.receiver)):
            return "its sender and receiver must be names"
        if self.event is not None and not (self.noised and type(self.event) in EVENT_TYPES):
            return "it claims a guarantee that releases of its type do not have"
        for declared in fields(self):
            check: Check | None = declared.metadata.get("check")
            if check is not None and not check(getattr(self, declared.name)):
                return (
                    f"its field {declared.name!r} is not of the right type and shape, or not finite"
                )
        misfit = self.misfit()
        return None if misfit is None else f"it must have {misfit}"

    def _values(self) -> list[Any]:
        names = [declared.name for declared in fields(self)]
        return [getattr(self, n) for n in names if n not in ("sender", "receiver", "event")]


def release_types() -> Mapping[str, type[Release]]:
    """Return every registered release type by its kind."""
    return dict(_TYPES)


def encode_releases(releases: list[Release]) -> bytes:
    """Return releases as bytes; raise a `DataError` for one that may not travel."""
    return b"".join(release_buffers(releases))


def release_buffers(releases: list[Release]) -> list[memoryview]:
    """Return the bytes of `encode_releases` as buffers, in which large arrays are not copied."""
    for release in releases:
        fault = release.fault()
        if fault is not None:
            raise DataError(
                f"a release from {release.sender!r} to {release.receiver!r} may not leave: {fault}"
            )
    return encode_buffers(releases, format="cofill.releases", types=_wire_types())


def decode_releases(content: bytes | memoryview, sender: str) -> list[Release]:
    """Return the releases in a message; raise a `DataError` that names the sender."""
    try:
        releases = decode(content, format="cofill.releases", types=_wire_types())
    except StoreError as error:
        raise DataError(f"a message from site {sender!r} is malformed: {error}; refused") from None
    if not isinstance(releases, list) or len(releases) > _MAX_RELEASES:
        raise DataError(f"a message from site {sender!r} is no list of releases; refused")
    for release in releases:
        # By the class, because a message may hold any type that occurs inside a release.
        fault = Release.fault(release)
        if fault is not None:
            raise DataError(f"a release from site {sender!r} is refused: {fault}")
    return releases


def _wire_types() -> list[type]:
    return [*EVENT_TYPES, *(cls for kind in _TYPES.values() for cls in (kind, *kind.parts))]


def digest_of(*arrays: np.ndarray) -> str:
    """Return a BLAKE2b hash of arrays' types, shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Release):
        return value.n_bytes
    if isinstance(value, Mapping):
        # Named figures are sent as eight bytes each; counts and rounds beside arrays are not told.
        return sum(8 if isinstance(v, int | float) else _size(v) for v in value.values())
    return sum(map(_size, value)) if isinstance(value, tuple) else 0


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, Mapping):
        return [array for name in sorted(value) for array in _arrays(value[name])]
    return [value] if isinstance(value, np.ndarray) else []
