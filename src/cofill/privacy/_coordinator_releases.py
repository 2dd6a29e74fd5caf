"""What crosses between sites and their coordinator: models, updates, figures, secure sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt64

from cofill.privacy._checks import (
    is_count,
    is_figures,
    is_integer,
    is_key,
    is_text,
    is_vector,
    is_words,
    is_words_or_floats,
    map_of,
    of_floats,
    tuple_of,
)
from cofill.privacy._release import Release, checked

_SHARE_BYTES = 33  # of one opened share: an element of the field


@dataclass(frozen=True, eq=False, kw_only=True)
class _FromCoordinator(Release):
    """Something that the coordinator, who knows no record, made from sites' releases."""

    individuals_in: ClassVar[str | None] = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelWeights(_FromCoordinator):
    """The common model, from the coordinator to a site: weights as one vector, and its round.

    ``extras`` are further vectors that a strategy or method hands to the sites by name.
    """

    kind: ClassVar[str] = "model"
    round: int = checked(is_count)
    weights: Float[np.ndarray, " size"] = checked(of_floats(1))
    extras: Mapping[str, np.ndarray] = checked(map_of(is_vector), default_factory=dict)

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "size": len(self.weights)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnScales(_FromCoordinator):
    """How every site scales its columns, from the coordinator: a few figures a column.

    ``columns`` holds, for each view, one row of figures per kind of figure (center, scale and,
    where they are agreed on, lowest and highest).
    """

    kind: ClassVar[str] = "column-scales"
    columns: Mapping[str, Float[np.ndarray, "figures features"]] = checked(map_of(of_floats(2)))

    def facts(self) -> dict[str, Any]:
        sizes = [figures.shape[1] for figures in self.columns.values()]
        return {"views": len(sizes), "columns": sum(sizes)}


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupCentres(_FromCoordinator):
    """Centres of groups, from the coordinator to a site, for several starts at once.

    ``running`` says which starts still move, ``best`` which one is the best so far.
    """

    kind: ClassVar[str] = "group-centres"
    round: int = checked(is_count)
    centres: Float[np.ndarray, "starts groups features"] = checked(of_floats(3))
    running: Float[np.ndarray, " starts"] = checked(of_floats(1))
    best: int = checked(is_count, default=0)

    def facts(self) -> dict[str, Any]:
        starts, groups, _ = self.centres.shape
        return {"round": self.round, "starts": starts, "groups": groups}

    def misfit(self) -> str | None:
        fits = len(self.running) == len(self.centres) > self.best
        return None if fits else "one flag a start, and a best start among them"


@dataclass(frozen=True, eq=False, kw_only=True)
class Update(Release):
    """What a site's training changed: new weights less old ones, and how many rows it saw.

    ``extras`` are further vectors that a strategy asks for by name; ``metrics`` are figures such
    as losses. ``event`` is what ``change`` and ``extras`` cost where noise protects them. It does
    not pay for ``metrics``: an update with plain figures carries no guarantee as a whole.
    """

    kind: ClassVar[str] = "update"
    individuals_in: ClassVar[str] = "rows"
    noised: ClassVar[bool] = True
    round: int = checked(is_count)
    change: np.ndarray = checked(is_words_or_floats)
    rows: int = checked(is_count)
    extras: Mapping[str, np.ndarray] = checked(map_of(is_words_or_floats), default_factory=dict)
    metrics: Mapping[str, float] = checked(is_figures, default_factory=dict)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The figures, which have no noise."""
        return tuple(self.metrics)

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "size": len(self.change), **self.metrics}


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupSums(Release):
    """Per group the sum of its members' rows and their number; members stay unnamed.

    ``event`` is what sums and counts cost where noise protects both.
    """

    kind: ClassVar[str] = "group-sums"
    noised: ClassVar[bool] = True
    round: int = checked(is_count)
    sums: Float[np.ndarray, "groups features"] = checked(of_floats(2))
    counts: Float[np.ndarray, " groups"] = checked(of_floats(1))

    @property
    def n_individuals(self) -> int:
        """How many individuals were added up (as released: noise may have changed it)."""
        return max(round(float(self.counts.sum())), 0)

    @property
    def fewest(self) -> int | None:
        """Members of the smallest group that is told of."""
        members = self.counts[(self.counts != 0) | (self.sums != 0).any(axis=1)]
        return int(members.min()) if len(members) else None

    def facts(self) -> dict[str, Any]:
        return {"round": self.round, "groups": len(self.counts)}

    def misfit(self) -> str | None:
        return None if len(self.sums) == len(self.counts) else "one sum a group"


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnSummary(Release):
    """What sites need to scale alike: per column the count, mean, squared deviations and range.

    ``columns`` holds, for each view, those five figures in as many rows. Of a column that few
    individuals have, they say much about each: the ledger keeps the smallest count.
    """

    kind: ClassVar[str] = "column-summary"
    individuals_in: ClassVar[str] = "rows"
    columns: Mapping[str, Float[np.ndarray, "five features"]] = checked(map_of(of_floats(2)))
    rows: int = checked(is_count)

    @property
    def fewest(self) -> int | None:
        """Individuals of the column that the fewest have, of those it tells of."""
        counts = [
            int(f[0, at]) for f in self.columns.values() for at in np.flatnonzero(f.any(axis=0))
        ]
        return min(counts, default=None)

    def facts(self) -> dict[str, Any]:
        counts = [figures[0] for figures in self.columns.values()]
        return {
            "views": len(counts),
            "columns": int(sum(len(count) for count in counts)),
            "smallest_count": int(min(count.min() for count in counts)),
        }

    def misfit(self) -> str | None:
        fits = bool(self.columns) and all(len(figures) == 5 for figures in self.columns.values())
        return None if fits else "five figures a column"


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFigures(Release):
    """How a run went at a site: counts and scores over many rows, nobody's cell.

    They were made from records and have no noise: they carry no guarantee.
    """

    kind: ClassVar[str] = "figures"
    individuals_in: ClassVar[str] = "rows"
    rows: int = checked(is_count)
    figures: Mapping[str, float | int] = checked(is_figures)

    def facts(self) -> dict[str, Any]:
        return dict(self.figures)


# --- messages of a secure sum --------------------------------------------------------------------


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
        return sum(len(name.encode()) for name in self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class RevealedShares(_OfRound):
    """A site's shares of others' secrets: of survivors' own masks, of dropped sites' keys."""

    kind: ClassVar[str] = "revealed-shares"
    own_masks: Mapping[str, int] = checked(map_of(is_integer))
    mask_keys: Mapping[str, int] = checked(map_of(is_integer))

    @property
    def n_bytes(self) -> int:
        return _SHARE_BYTES * (len(self.own_masks) + len(self.mask_keys))
