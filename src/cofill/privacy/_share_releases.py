"""What crosses in a run on secret shares: points, slots, masked rows, shares, selected cells.

Words are uniform to whoever receives them (`cofill.shares` says against whom); points cannot be
tested without every site's secret number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int, UInt8

from cofill.privacy._checks import (
    is_bytes,
    is_count,
    is_key,
    is_text,
    map_of,
    of_floats,
    one_of,
    tuple_of,
    vector_of,
)
from cofill.privacy._release import Release, checked


def _are_words(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.ndim in (1, 2)


def _are_groups(value: Any) -> bool:
    return bool(value) and tuple_of(tuple_of(is_count))(value) and {len(g) for g in value} == {3}


def _are_asked(value: Any) -> bool:
    return tuple_of(tuple_of(is_count))(value) and {len(pair) for pair in value} <= {2}


def _are_counts(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.int64
        and value.ndim == 2
        and not (value < 0).any()
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Words(Release):
    """Words by label, in one round of a run."""

    individuals_in: ClassVar[str | None] = None
    round: int = checked(is_count, default=0)
    words: Mapping[str, np.ndarray] = checked(map_of(_are_words))

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "matrices": len(self.words)}


@dataclass(frozen=True, eq=False, kw_only=True)
class BlindedPoints(Release):
    """A site's ids as points times the secret numbers of the sites they have passed."""

    kind: ClassVar[str] = "blinded-points"
    masked: ClassVar[bool] = True
    individuals_in: ClassVar[str] = "individuals"
    origin: str = checked(is_text)
    points: bytes = checked(is_bytes, repr=False)

    @property
    def individuals(self) -> int:
        """How many points there are."""
        return len(self.points) // 32


@dataclass(frozen=True, eq=False, kw_only=True)
class RowFlags(Release):
    """For each of a site's shuffled points whether it has a row (1) and asks for cells (2).

    The other bits say, when cells are asked for, in which part of the people the site's row was
    learned from, counted from 1; 0 where it was not: that part is left out of what predicts it.
    ``sizes`` are its numbers of features, factors and targets; ``groups`` the features and factors
    that may inform the same views, and which these are, as bits. The coordinator cannot tell whose
    point is whose.
    """

    kind: ClassVar[str] = "row-flags"
    individuals_in: ClassVar[str] = "flags"
    names_each: ClassVar[bool] = True
    flags: UInt8[np.ndarray, " ids"] = checked(vector_of("uint8"))
    sizes: tuple[int, ...] = checked(tuple_of(is_count))
    groups: tuple[tuple[int, ...], ...] = checked(_are_groups)

    def misfit(self) -> str | None:
        if len(self.sizes) != 3:
            return "three sizes"
        sums = tuple(sum(group[k] for group in self.groups) for k in (0, 1))
        return None if sums == self.sizes[:2] else "groups of all features"


@dataclass(frozen=True, eq=False, kw_only=True)
class SlotPlan(Release):
    """Where a site's people are in the common order, how many people there are, and its keys.

    ``patterns`` and ``people`` count people by the set of views that have them, in each fold;
    ``asked`` are the sets of views of people whose cells each view asks for, each beside the part
    of the people that is left out for them (`RowFlags`); ``groups`` say which features of each view
    may inform whom. ``keys`` are those of the site's masks, ``dealer_key`` a computing site's.
    """

    kind: ClassVar[str] = "slot-plan"
    secret: ClassVar[bool] = True
    individuals_in: ClassVar[str] = "slots"
    slots: Int[np.ndarray, " ids"] = checked(vector_of("int64"))
    everyone: int = checked(is_count)
    sizes: Mapping[str, tuple[int, ...]] = checked(map_of(tuple_of(is_count)))
    patterns: Int[np.ndarray, " patterns"] = checked(vector_of("int64"))
    people: Int[np.ndarray, "folds patterns"] = checked(_are_counts)
    asked: Mapping[str, tuple[tuple[int, int], ...]] = checked(map_of(_are_asked))
    groups: Mapping[str, tuple[tuple[int, ...], ...]] = checked(map_of(_are_groups))
    keys: tuple[bytes, ...] = checked(tuple_of(is_key), repr=False)
    dealer_key: bytes = checked(is_key, repr=False, default=b"")

    def facts(self) -> dict[str, Any]:
        return {"everyone": self.everyone, "patterns": len(self.patterns)}


@dataclass(frozen=True, eq=False, kw_only=True)
class CommonFeatures(Release):
    """How several sites of one view make features, from rounded sums over all of their people.

    ``arrays`` are matrices by name; the landmarks among them are drawn and nobody's rows.
    """

    kind: ClassVar[str] = "common-features"
    individuals_in: ClassVar[str | None] = None
    arrays: Mapping[str, np.ndarray] = checked(map_of(of_floats(2)))

    def facts(self) -> dict[str, Any]:
        return {"matrices": len(self.arrays)}


@dataclass(frozen=True, eq=False, kw_only=True)
class DealtWords(_Words):
    """Triples and quotients of random words, from the dealer to a computing site."""

    kind: ClassVar[str] = "dealt-words"
    secret: ClassVar[bool] = True
    personal: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedRows(_Words):
    """A site's rows under masks that no computing site knows; everybody else's rows are zeros."""

    kind: ClassVar[str] = "masked-rows"
    masked: ClassVar[bool] = True
    individuals_in: ClassVar[str] = "rows"
    rows: int = checked(is_count)


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedShares(_Words):
    """Shares under fresh masks, between the computing sites; a rotated covariance once a task."""

    kind: ClassVar[str] = "opened-shares"
    masked: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreShares(_Words):
    """Shares of a view's errors in cross-validation, for its owner."""

    kind: ClassVar[str] = "score-shares"
    masked: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ChosenPenalties(Release):
    """What an owner has chosen for each target column: products or not, and a penalty."""

    kind: ClassVar[str] = "chosen-penalties"
    individuals_in: ClassVar[str] = "rows"
    choices: Int[np.ndarray, "two columns"] = checked(_are_counts)
    rows: int = checked(is_count)


@dataclass(frozen=True, eq=False, kw_only=True)
class PadKey(Release):
    """A key for pads that a receiver of cells shares with a computing site, not the coordinator."""

    kind: ClassVar[str] = "pad-key"
    secret: ClassVar[bool] = True
    personal: ClassVar[bool] = False
    key: bytes = checked(lambda v: is_bytes(v) and len(v) == 32, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddedCells(_Words):
    """Shares of everybody's predicted cells under pads of their receivers, to the coordinator."""

    kind: ClassVar[str] = "padded-cells"
    masked: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectedCells(_Words):
    """The padded shares of the cells a site has asked for, and of nobody else's.

    ``part`` is the number of the computing site they come from, ``ids`` are positions in the
    receiver's own list, ``slots`` those people's places in the common order.
    """

    kind: ClassVar[str] = "selected-cells"
    masked: ClassVar[bool] = True
    individuals_in: ClassVar[str] = "ids"
    part: int = checked(one_of(0, 1))
    ids: Int[np.ndarray, " asked"] = checked(vector_of("int64"))
    slots: Int[np.ndarray, " asked"] = checked(vector_of("int64"))
