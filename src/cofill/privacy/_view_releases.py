"""What crosses between sites that hold different views: ids, codes, columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.codec import storable
from cofill.errors import DataError
from cofill.privacy._checks import (
    is_bytes,
    is_count,
    is_text,
    is_tokens,
    map_of,
    of_fields,
    of_floats,
    of_type,
    one_of,
    tuple_of,
)
from cofill.privacy._release import Release, checked
from cofill.views import Feature, Kind


@storable
@dataclass(frozen=True)
class CodeSpec:
    """What a receiver of codes relies on: the view, the width and the version of its encoder."""

    view: str
    width: int
    version: str


_is_spec = of_fields(CodeSpec, view=is_text, width=is_count, version=is_text)


@dataclass(frozen=True, eq=False, kw_only=True)
class BlindedIds(Release):
    """The individuals that a site has or asks for, as keyed hashes of their ids."""

    kind: ClassVar[str] = "blinded-ids"
    individuals_in: ClassVar[str] = "tokens"
    names_each: ClassVar[bool] = True
    tokens: np.ndarray = checked(is_tokens)
    purpose: str = checked(one_of("present", "ask"))

    def facts(self) -> dict[str, Any]:
        return {"purpose": self.purpose}


@dataclass(frozen=True, eq=False, kw_only=True)
class BlindingPart(Release):
    """A site's part of the secret that blinds ids: 32 random bytes, for the other sites only."""

    kind: ClassVar[str] = "blinding-part"
    personal: ClassVar[bool] = False
    part: bytes = checked(lambda v: is_bytes(v) and len(v) == 32, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class EncryptedIds(Release):
    """One message of a private set intersection: ids under a key that stays with its maker.

    ``content`` is a request, or the answer to one; with an answer, ``answering_ids`` are the
    answering site's own ids, encrypted.
    """

    kind: ClassVar[str] = "encrypted-ids"
    individuals_in: ClassVar[str] = "individuals"
    names_each: ClassVar[bool] = True
    purpose: str = checked(one_of("ask", "answer"))
    content: bytes = checked(is_bytes)
    answering_ids: bytes = checked(is_bytes, default=b"")
    individuals: int = checked(is_count, default=0)

    def facts(self) -> dict[str, Any]:
        return {"purpose": self.purpose}


_has_fields = of_fields(
    Feature,
    name=is_text,
    kind=of_type(Kind),
    categories=tuple_of(lambda value: value is None or isinstance(value, str | int | float)),
    dtype=is_text,
    dictionary=of_type(bool),
)


def _is_feature(value: Any) -> bool:
    return _has_fields(value) and (value.kind is Kind.NUMERIC) == (not value.categories)


def _is_shape(value: Any) -> bool:
    return bool(value) and tuple_of(is_count)(value) and min(value) > 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns(Release):
    """The columns of each view: names, kinds and categories, and the shape of images.

    Categories are values that somebody has; columns of numbers tell nothing of anybody.
    """

    kind: ClassVar[str] = "columns"
    individuals_in: ClassVar[str | None] = None
    parts: ClassVar[tuple[type, ...]] = (Feature, Kind)
    features: Mapping[str, tuple[Feature, ...]] = checked(map_of(tuple_of(_is_feature)))
    shapes: Mapping[str, tuple[int, ...]] = checked(map_of(_is_shape), default_factory=dict)

    @property
    def personal(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether categories are told, which come from records."""
        return any(f.categories for f in self._all())

    @property
    def fewest(self) -> None:
        """Nobody is counted here; a site counts who has a category before it tells of any."""
        return

    @property
    def n_bytes(self) -> int:
        words = (word for f in self._all() for word in (f.name, *f.categories))
        return sum(len(str(word).encode()) for word in words)

    def _all(self) -> list[Feature]:
        return [feature for features in self.features.values() for feature in features]

    def facts(self) -> dict[str, Any]:
        every = self._all()
        return {
            "views": len(self.features),
            "columns": len(every),
            "categories": sum(len(f.categories) for f in every),
        }

    def misfit(self) -> str | None:
        fits = all(
            view in self.features and np.prod(shape) == len(self.features[view])
            for view, shape in self.shapes.items()
        )
        return None if fits else "images with a pixel a column"


@dataclass(frozen=True, eq=False, kw_only=True)
class Codes(Release):
    """Codes of individuals, one row a token.

    ``event`` is what noisy codes cost, given the encoder. All noisy codes of one ``table`` were
    drawn once a person, so that any part of it, to anybody, is paid for once.
    """

    kind: ClassVar[str] = "codes"
    individuals_in: ClassVar[str] = "tokens"
    noised: ClassVar[bool] = True
    names_each: ClassVar[bool] = True
    parts: ClassVar[tuple[type, ...]] = (CodeSpec,)
    spec: CodeSpec = checked(_is_spec)
    tokens: np.ndarray = checked(is_tokens)
    codes: Float[np.ndarray, "individuals width"] = checked(of_floats(2))
    table: str = checked(is_text, default="")

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The training of the encoder that made the codes: noise on codes does not pay for it."""
        return ("encoder training",)

    @property
    def digest(self) -> str | None:
        """The table that noisy codes are a part of."""
        return None if self.event is None else self.table

    def facts(self) -> dict[str, Any]:
        return vars(self.spec).copy()

    def misfit(self) -> str | None:
        fits = self.codes.shape == (len(self.tokens), self.spec.width)
        return None if fits else "one row a token, as wide as announced"

    def check(self, expected: CodeSpec | None) -> None:
        """Raise a `DataError` unless these are sound codes of the expected view and encoder."""
        spec, known = self.spec, expected or self.spec
        individuals, (rows, width) = len(self.tokens), self.codes.shape
        broken = int((~np.isfinite(self.codes)).any(axis=1).sum())
        links = "the links were trained on; fit again"
        faults = (
            (individuals != rows, f": {individuals} individuals for {rows} codes"),
            (spec.view != known.view, f" are of view {spec.view!r}, which is not known here"),
            (width != spec.width, f" have width {width}, announced were {spec.width}"),
            (width != known.width, f" have width {width} and not the {known.width} that {links}"),
            (spec.version != known.version, f" are by another version of the encoder than {links}"),
            (broken > 0, f": {broken} codes are not finite numbers"),
        )
        for is_wrong, words in faults:
            if is_wrong:
                raise DataError(f"codes from {self.sender!r} to {self.receiver!r}{words}; refused")


@dataclass(frozen=True, eq=False, kw_only=True)
class Needs(Release):
    """Which directions of a peer's codes a site uses, learned from a pilot: weights, nobody's row.

    A column of ``directions`` is a linear combination of the code's numbers; their squared length
    is the share of the site's variance they explain. They were learned from the pilot's codes and
    the site's own rows and carry no guarantee.
    """

    kind: ClassVar[str] = "needs"
    individuals_in: ClassVar[str] = "people"
    parts: ClassVar[tuple[type, ...]] = (CodeSpec,)
    spec: CodeSpec = checked(_is_spec)
    directions: Float[np.ndarray, "width directions"] = checked(of_floats(2))
    people: int = checked(is_count)

    def facts(self) -> dict[str, Any]:
        return {
            "view": self.spec.view,
            "version": self.spec.version,
            "directions": self.directions.shape[1],
        }

    def misfit(self) -> str | None:
        fits = len(self.directions) == self.spec.width
        return None if fits else "one row a number of the code"
