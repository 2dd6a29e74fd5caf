"""Several views over the union of their individuals: who is where, and who is missing where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError, SettingError
from cofill.views._feature import Feature
from cofill.views._ids import require_one_type
from cofill.views._picture import presence_html
from cofill.views._view import View


class MultiView(Mapping[str, View]):
    """Named views over the union of their individuals. Immutable.

    Examples
    --------
    >>> clinic = View("clinic", [1, 2], [[5.0], [6.0]])
    >>> people = MultiView([clinic, View("lab", [2, 3], [[1.0], [0.5]])])
    >>> people
    MultiView of 3 individuals
      clinic  2 (66.7 %) × 1 feature
      lab     2 (66.7 %) × 1 feature
      in every view: 1 individual
    >>> people.overlaps()
    {('clinic', 'lab'): 1}

    ``more_ids`` are individuals who are to be completed though no view knows a cell of them.
    """

    def __init__(
        self, views: Sequence[View] | Mapping[str, View], *, more_ids: np.ndarray | None = None
    ) -> None:
        members = list(views.values()) if isinstance(views, Mapping) else list(views)
        if not members:
            raise DataError("there is no view; give at least one")
        names = [v.name for v in members]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise DataError(f"view {twice!r} occurs more than once; give each view its own name")
        require_one_type({v.name: v.ids for v in members})
        self._views = MappingProxyType({v.name: v for v in members})
        # A table's row of which nothing but the id is known makes a person known, to be completed.
        blank = [v.source.blank_ids for v in members if v.source is not None]
        blank += [] if more_ids is None else [more_ids]
        self._ids = _union([ids for ids in (*(v.ids for v in members), *blank) if len(ids)])
        self._presence = np.zeros((len(self._ids), len(members)), dtype=bool)
        for k, view in enumerate(members):
            if len(view):
                self._presence[np.searchsorted(self._ids, view.ids), k] = True
        self._ids.setflags(write=False)
        self._presence.setflags(write=False)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Any],
        *,
        ids: Any = None,
        presence: Mapping[str, Any] | None = None,
        features: Mapping[str, Sequence[Feature | str]] | None = None,
    ) -> MultiView:
        """Build views from arrays whose rows are the same individuals in the same order.

        A row that is all NaN, or that `presence` marks false, is missing from that view.

        Examples
        --------
        >>> import numpy as np
        >>> both = MultiView.from_arrays({"a": np.ones((3, 2)), "b": np.ones((3, 1))},
        ...                              presence={"b": [True, False, True]})
        >>> both.presence.sum(axis=0)
        array([3, 2])
        """
        views = []
        for name in [*(presence or {}), *(features or {})]:
            if name not in arrays:
                raise SettingError(f"there is no array for view {name!r}")
        for name, array in arrays.items():
            cells = np.asarray(array)
            row_ids = np.arange(len(cells)) if ids is None else np.asarray(ids)
            if len(row_ids) != len(cells):
                raise DataError(
                    f"view {name!r}: {len(row_ids)} ids for {len(cells)} rows; "
                    "every array must have one row per id"
                )
            seen = np.ones(len(cells), dtype=bool)
            if presence is not None and name in presence:
                seen = np.asarray(presence[name], dtype=bool)
                if seen.shape != (len(cells),):
                    raise DataError(
                        f"view {name!r}: presence of shape {seen.shape} for {len(cells)} rows; "
                        "give one truth value per row"
                    )
            columns = features.get(name) if features is not None else None
            views.append(View(name, row_ids[seen], cells[seen], columns))
        return cls(views)

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002  the word users have for it
        **rules: Any,
    ) -> MultiView:
        """Build views from data frames (pandas, polars, pyarrow, or whatever narwhals reads).

        Parameters
        ----------
        frames
            A data frame per view.
        id
            The column that identifies an individual. A single frame needs none: its rows are
            individuals then, numbered from 0.
        rules
            Fields of `ColumnRules`: ``kinds={column: "numeric" | "binary" | "categorical"}`` where
            the guess from the column's type is wrong; ``ignore`` and ``drop``, columns to learn
            nothing from, or to delete; ``na_values``, values that mean a missing cell;
            ``id_type="text"`` to read every id as text. ``"view.column"`` addresses one view.
        """
        from cofill.views._frames import frame_to_table, view_from_table
        from cofill.views._rules import ColumnRules

        column_rules = ColumnRules(**rules)
        require_id(id, list(frames))
        tables = {name: frame_to_table(frame, name) for name, frame in frames.items()}
        column_rules.check({name: table.column_names for name, table in tables.items()})
        return cls([view_from_table(n, t, id=id, rules=column_rules) for n, t in tables.items()])

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the columns of tables that views were read from."""
        return tuple(n for v in self.values() if v.source is not None for n in v.source.notes)

    def __getitem__(self, name: str) -> View:
        try:
            return self._views[name]
        except KeyError:
            known = ", ".join(repr(n) for n in self._views)
            raise SettingError(f"there is no view {name!r}; the views are {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __contains__(self, name: object) -> bool:
        return name in self._views

    def __repr__(self) -> str:
        total = len(self._ids)
        width = max(len(n) for n in self)
        lines = [f"MultiView of {total:,} individual{'s' * (total != 1)}"]
        for name, view in self.items():
            share = f"{len(view) / total:.1%}".replace("%", " %") if total else "–"
            plural = "s" * (view.n_features != 1)
            lines.append(
                f"  {name:<{width}}  {len(view):,} ({share}) × {view.n_features} feature{plural}"
            )
        everywhere = int(self._presence.all(axis=1).sum())
        lines.append(f"  in every view: {everywhere:,} individual{'s' * (everywhere != 1)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        counts = {n: len(v) for n, v in self.items()}
        widths = {n: v.n_features for n, v in self.items()}
        return presence_html(counts, widths, self.patterns())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views, in order."""
        return tuple(self._views)

    @property
    def ids(self) -> np.ndarray:
        """Ids of every individual that any view has a row of, in ascending order."""
        return self._ids

    @property
    def n_individuals(self) -> int:
        """How many individuals were seen in any view."""
        return len(self._ids)

    @property
    def presence(self) -> Bool[np.ndarray, "individuals views"]:
        """Which individual (row) was observed in which view (column)."""
        return self._presence

    @property
    def is_complete(self) -> bool:
        """Whether every individual is in every view with every cell known."""
        return bool(self._presence.all()) and not any(v.n_missing_cells for v in self.values())

    def present(self, name: str) -> Bool[np.ndarray, " individuals"]:
        """Which individuals were observed in a view."""
        self[name]
        return self._presence[:, self.names.index(name)]

    def overlaps(self) -> dict[tuple[str, str], int]:
        """Return how many individuals each pair of views shares."""
        return {
            (a, b): int((self.present(a) & self.present(b)).sum())
            for a, b in combinations(self.names, 2)
        }

    def patterns(self) -> dict[tuple[bool, ...], int]:
        """Return how many individuals have each pattern of presence, the commonest first."""
        if not len(self._ids):
            return {}
        # A pattern is a short bit string; packing makes it one sortable value per individual.
        rows, counts = np.unique(np.packbits(self._presence, axis=1), axis=0, return_counts=True)
        bits = np.unpackbits(rows, axis=1)[:, : len(self)].astype(bool)
        order = sorted(range(len(counts)), key=lambda k: (-counts[k], tuple(~bits[k])))
        return {tuple(bool(b) for b in bits[k]): int(counts[k]) for k in order}

    def aligned(self, name: str) -> Float[np.ndarray, "individuals d"]:
        """Return a view's cells, one row per individual of `ids`, NaN where not observed."""
        view = self[name]
        cells = np.full((self.n_individuals, view.n_features), np.nan, dtype=view.cells.dtype)
        cells[self.present(name)] = view.cells
        return cells

    def take(self, individuals: Bool[np.ndarray, " individuals"] | np.ndarray) -> MultiView:
        """Return the same views over some of the individuals (a boolean mask or positions)."""
        keep = np.zeros(self.n_individuals, dtype=bool)
        keep[individuals] = True
        return MultiView([view.take(keep[self.present(name)]) for name, view in self.items()])

    def select(self, names: Sequence[str]) -> MultiView:
        """Return only these views."""
        return MultiView([self[n] for n in names])

    def without_view(self, name: str) -> MultiView:
        """Return these views but one."""
        self[name]
        return MultiView([v for v in self.values() if v.name != name])

    def hide(self, hidden: Mapping[str, Bool[np.ndarray, " individuals"]]) -> MultiView:
        """Return the views without the marked individuals' rows: ``{view: mask over `ids`}``."""
        for name in hidden:
            self[name]
        remaining = []
        for name, view in self.items():
            mask = hidden.get(name)
            remaining.append(view if mask is None else view.take(~mask[self.present(name)]))
        return MultiView(remaining)

    def same_as(self, other: MultiView) -> bool:
        """Whether both hold the same views with the same ids, cells and features."""
        return self.names == other.names and all(v.same_as(other[n]) for n, v in self.items())


def require_id(id: str | None, views: Sequence[str]) -> None:  # noqa: A002
    """Raise a `SettingError` for several views without an id column to link them."""
    if id is None and len(views) > 1:
        raise SettingError(
            f"the views {', '.join(views)} need an id column that links them; name it (--id COLUMN)"
        )


def _union(ids: Sequence[np.ndarray]) -> np.ndarray:
    """Sorted union; ids of one view are sorted and unique already, so equal ones cost nothing."""
    if not ids:
        return np.empty(0, dtype=np.int64)
    union = ids[0]
    for more in ids[1:]:
        if not np.array_equal(union, more):
            union = np.union1d(union, more)
    return union.copy()
