"""What crosses between sites and their coordinator: models, updates, sums, summaries, figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from cofill.privacy._release import Release, checked
from cofill.privacy._wire import (
    is_count,
    is_figures,
    is_vector,
    is_words_or_floats,
    map_of,
    of_floats,
)


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
