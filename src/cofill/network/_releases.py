"""Releases on the wire: which types there are, how each is checked when it comes and goes.

A type that is not in the table cannot be sent and cannot be received. Checks are the same at both
ends: the right fields, of the right types, of shapes that fit together, with finite numbers. A
message about a fault names the release and the field and never shows a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cofill.errors import DataError, StoreError
from cofill.network._packing import pack, unpack
from cofill.privacy import (
    BlindedIds,
    BlindingPart,
    Codes,
    CodeSpec,
    Columns,
    ColumnSummary,
    ComposedEvent,
    EncryptedIds,
    Event,
    Figures,
    GaussianEvent,
    GroupSums,
    Guarantee,
    LaplaceEvent,
    MaskedVector,
    Model,
    Needs,
    NoisyMean,
    PublicKeys,
    Release,
    RevealedShares,
    Roster,
    SampledGaussianEvent,
    SealedShares,
    Survivors,
    Update,
)
from cofill.views import Feature, Kind

__all__ = ["RELEASES", "TYPES", "releases_from", "releases_to"]

_TOKEN = np.dtype("S32")
_MOST = 10_000  # releases in one parcel


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and bool(np.isfinite(value))


def _key(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) <= 4096


def _tokens(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == _TOKEN and value.ndim == 1


def _words(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.ndim == 1


def _floats(axes: int) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and value.ndim == axes
            and bool(np.isfinite(value).all())
        )

    return check


def _vector(value: Any) -> bool:
    return _floats(1)(value) or _words(value)


def _told(value: Any) -> bool:
    whole = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.ndim == 1
    return _floats(1)(value) or whole


def _event(value: Any) -> bool:
    return value is None or isinstance(value, Event)


def _map(inner: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, Mapping) and all(_text(k) and inner(v) for k, v in value.items())

    return check


def _spec(value: Any) -> bool:
    return (
        isinstance(value, CodeSpec)
        and _text(value.view)
        and _whole(value.width)
        and _text(value.version)
    )


def _keys(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(k, PublicKeys) and _fault(k) is None for k in value
    )


def _features(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(f, Feature)
        and _text(f.name)
        and isinstance(f.kind, Kind)
        and isinstance(f.categories, tuple)
        and all(v is None or isinstance(v, str | int | float) for v in f.categories)
        and (f.kind is Kind.NUMERIC) == (not f.categories)
        and _text(f.dtype)
        and isinstance(f.dictionary, bool)
        for f in value
    )


def _shape(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_whole(n) and n > 0 for n in value)


_ROUND = {"round": _whole}
RELEASES: dict[type[Release], dict[str, Callable[[Any], bool]]] = {
    BlindedIds: {"tokens": _tokens, "purpose": lambda v: v in ("present", "ask")},
    BlindingPart: {"part": lambda v: _key(v) and len(v) == 32},
    Codes: {
        "spec": _spec,
        "tokens": _tokens,
        "codes": _floats(2),
        "event": _event,
        "table": _text,
    },
    Columns: {"features": _map(_features), "shapes": _map(_shape)},
    ColumnSummary: {"columns": _map(_floats(2)), "rows": _whole},
    EncryptedIds: {
        "purpose": lambda v: v in ("ask", "answer"),
        "content": lambda v: isinstance(v, bytes),
        "own": lambda v: isinstance(v, bytes),
        "individuals": _whole,
    },
    Figures: {"rows": _whole, "figures": _map(_number)},
    GroupSums: {**_ROUND, "sums": _floats(2), "counts": _floats(1), "event": _event},
    MaskedVector: {**_ROUND, "words": _words, "rows": _whole, "event": _event},
    Model: {**_ROUND, "weights": _floats(1), "extras": _map(_told)},
    Needs: {"spec": _spec, "directions": _floats(2), "people": _whole},
    NoisyMean: {
        "mean": _floats(1),
        "rows": lambda v: isinstance(v, int),
        "noise": _text,
        "scale": _floats(1),
        "guarantee": lambda v: isinstance(v, Guarantee),
        "event": _event,
    },
    PublicKeys: {**_ROUND, "seal_key": _key, "mask_key": _key, "signature": _key},
    RevealedShares: {
        **_ROUND,
        "own_masks": _map(lambda v: isinstance(v, int)),
        "mask_keys": _map(lambda v: isinstance(v, int)),
    },
    Roster: {**_ROUND, "keys": _keys, "threshold": _whole},
    SealedShares: {**_ROUND, "boxes": _map(_key), "commitment": _key},
    Survivors: {
        **_ROUND,
        "names": lambda v: isinstance(v, tuple) and all(map(_text, v)),
    },
    Update: {
        **_ROUND,
        "change": _vector,
        "rows": _whole,
        "extras": _map(_vector),
        "metrics": _map(_number),
        "event": _event,
    },
}
"""Every type that may travel, and what each of its fields must be."""

_PARTS = (
    CodeSpec,
    ComposedEvent,
    Feature,
    GaussianEvent,
    Guarantee,
    Kind,
    LaplaceEvent,
    SampledGaussianEvent,
)
TYPES: dict[str, type] = {t.__name__: t for t in (*RELEASES, *_PARTS)}

_FITS: dict[type[Release], tuple[Callable[[Any], bool], str]] = {
    Codes: (
        lambda r: r.codes.shape == (len(r.tokens), r.spec.width),
        "one row a token, as wide as announced",
    ),
    Columns: (
        lambda r: all(
            view in r.features and np.prod(shape) == len(r.features[view])
            for view, shape in r.shapes.items()
        ),
        "images with a pixel a column",
    ),
    ColumnSummary: (
        lambda r: bool(r.columns) and all(len(v) == 5 for v in r.columns.values()),
        "five figures a column",
    ),
    GroupSums: (lambda r: len(r.sums) == len(r.counts), "one sum a group"),
    Needs: (lambda r: len(r.directions) == r.spec.width, "one row a number of the code"),
    NoisyMean: (lambda r: len(r.mean) == len(r.scale), "one scale a feature"),
}


def _fault(release: Release) -> str | None:
    """Return what is wrong with a release, or None."""
    checks = RELEASES.get(type(release))
    if checks is None:
        return f"{type(release).__name__} is no type of release that may travel"
    if not (_text(release.sender) and _text(release.receiver)):
        return "its sender and receiver must be names"
    for name, check in checks.items():
        if not check(getattr(release, name)):
            return f"its field {name!r} is not of the right type and shape, or not finite"
    fits, must = _FITS.get(type(release), (None, ""))
    return None if fits is None or fits(release) else f"it must have {must}"


def releases_to(releases: list[Release]) -> bytes:
    """Return releases as bytes; raise a `DataError` for one that may not travel."""
    for release in releases:
        fault = _fault(release)
        if fault is not None:
            raise DataError(
                f"a release from {release.sender!r} to {release.receiver!r} may not leave: {fault}"
            )
    return pack(releases, TYPES)


def releases_from(content: bytes, sender: str) -> list[Release]:
    """Return the releases in a message; raise a `DataError` that names the sender."""
    try:
        found = unpack(content, TYPES)
    except StoreError as error:
        raise DataError(f"a message from site {sender!r} is malformed: {error}; refused") from None
    if not isinstance(found, list) or len(found) > _MOST:
        raise DataError(f"a message from site {sender!r} is no list of releases; refused")
    for release in found:
        fault = (
            _fault(release)
            if isinstance(release, Release)
            else f"{type(release).__name__} is no type of release that may travel"
        )
        if fault is not None:
            raise DataError(f"a release from site {sender!r} is refused: {fault}")
    return found
