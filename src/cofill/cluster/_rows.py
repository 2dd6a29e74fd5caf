"""What sites bring: rows of numbers, all views side by side, checked to be of one kind.

Numeric cells stay as they are, a binary cell is 0 or 1, a categorical cell is one column a
category. Scaling comes later, because only all sites together know a column's mean and spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError, SettingError
from cofill.protocol import COORDINATOR
from cofill.views import Kind, MultiView, Scaler, View

__all__ = ["Kinds", "Table", "gather", "kinds_of", "require_groups", "table_of"]

ONE = "site"


@dataclass(frozen=True)
class Kinds:
    """What the columns are; sites must agree on it.

    Parameters
    ----------
    names
        The columns' names; numbered for plain arrays.
    numeric
        Which columns are numbers: only these are scaled.
    shape
        Channels, height and width where a row is an image, or several of one size; else None.
    """

    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    shape: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_numeric(self) -> Bool[np.ndarray, " columns"]:
        """Which columns are numbers."""
        return np.array(self.numeric, dtype=bool)


@dataclass(frozen=True, eq=False)
class Table:
    """One site's individuals: a row of numbers each, and their ids where they have some."""

    rows: Float[np.ndarray, "individuals columns"]
    kinds: Kinds
    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def table_of(given: Any, name: str = ONE) -> Table:
    """Return the rows of an array, a `View` or a `MultiView`.

    Examples
    --------
    >>> people = MultiView.from_arrays({"a": np.ones((3, 2)), "b": np.zeros((3, 4, 4))})
    >>> table_of(people).rows.shape
    (3, 18)
    >>> table_of(np.ones((3, 4, 4))).kinds.shape
    (1, 4, 4)
    """
    where = f"site {name!r}"
    if isinstance(given, View):
        given = MultiView([given])
    made = _from_views if isinstance(given, MultiView) else _from_array
    table = made(given, where)
    if not len(table):
        raise DataError(f"{where} has no rows; leave it out or give it individuals")
    if not np.isfinite(table.rows).all():
        lacking = int((~np.isfinite(table.rows)).any(axis=1).sum())
        raise DataError(
            f"{where}: {lacking:,} of {len(table):,} individuals have cells that are missing or "
            "not finite; complete them first, or leave these individuals out"
        )
    return table


def gather(given: Any) -> dict[str, Table]:
    """Return every site's table; what is not a mapping from names to sites is one site.

    Examples
    --------
    >>> sites = gather({"north": np.ones((3, 2)), "south": np.zeros((4, 2))})
    >>> {name: len(table) for name, table in sites.items()}
    {'north': 3, 'south': 4}
    """
    named = isinstance(given, Mapping) and not isinstance(given, MultiView)
    if named and not given:
        raise DataError("there is no site; give at least one as {name: rows}")
    tables = {
        str(name): table_of(rows, str(name))
        for name, rows in (given.items() if named else [(ONE, given)])
    }
    if named and len(tables) != len(given):
        raise SettingError("two sites have the same name; give each its own")
    if COORDINATOR in tables:
        raise SettingError(f"no site may be called {COORDINATOR!r}; choose another name")
    first, *others = tables
    for other in others:
        require_same(tables[first].kinds, tables[other].kinds, f"site {other!r}", f"{first!r}")
    return tables


def require_same(known: Kinds, given: Kinds, where: str, than: str) -> None:
    """Raise a `DataError` unless both have the same columns."""
    if known == given:
        return
    if len(known) != len(given):
        raise DataError(
            f"{where} has {len(given)} columns, {than} has {len(known)}; all must have the same "
            "columns in the same order"
        )
    differing = [a for a, b in zip(known.names, given.names, strict=True) if a != b]
    what = f"calls column {differing[0]!r} otherwise" if differing else "has other kinds of columns"
    raise DataError(f"{where} {what} than {than}; all must have the same columns in the same order")


def require_groups(tables: Mapping[str, Table], k: int) -> None:
    """Raise unless there can be k groups of these individuals.

    Distinct rows are counted until there are enough of them, so many rows cost little.
    """
    if k < 2:
        raise SettingError(f"k must be at least 2, got {k}")
    total = sum(map(len, tables.values()))
    if k > total:
        raise SettingError(
            f"k must be at most the number of individuals, got {k} groups for {total:,}"
        )
    seen: set[bytes] = set()
    for table in tables.values():
        for row in table.rows + 0.0:  # -0 and 0 are one value
            seen.add(row.tobytes())
            if len(seen) >= k:
                return
    raise DataError(
        f"k must be at most the number of different rows, got {k} groups for {len(seen)} different "
        f"rows of {total:,} individuals"
    )


def _from_array(given: Any, where: str) -> Table:
    try:
        array = np.asarray(given)
    except ValueError:
        raise DataError(f"{where}: rows must all have one length") from None
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: rows must be numbers, got {array.dtype}; build a MultiView from a data frame"
        )
    if array.ndim not in (2, 3) or not array[:1].size:
        if array.ndim in (2, 3) and not len(array):
            raise DataError(f"{where} has no rows; leave it out or give it individuals")
        raise DataError(
            f"{where}: rows must be individuals × columns, or individuals × height × width, got "
            f"shape {array.shape}"
        )
    shape = (1, int(array.shape[1]), int(array.shape[2])) if array.ndim == 3 else None
    rows = array.reshape(len(array), -1).astype(np.float64)
    names = tuple(f"column_{k}" for k in range(rows.shape[1]))
    return Table(rows, Kinds(names, (True,) * len(names), shape), np.arange(len(rows)))


def _from_views(views: MultiView, where: str) -> Table:
    if not views.presence.all():
        missing = int((~views.presence.all(axis=1)).sum())
        raise DataError(
            f"{where}: {missing:,} of {views.n_individuals:,} individuals are not in every view; "
            "complete the views first"
        )
    blocks = [Scaler.fit(view, method="none").encode(view.cells) for view in views.values()]
    return Table(np.concatenate(blocks, axis=1), kinds_of(views), views.ids)


def kinds_of(views: MultiView) -> Kinds:
    """Return what the columns of views are, side by side; no row is looked at.

    Examples
    --------
    >>> kinds_of(MultiView.from_arrays({"a": np.ones((3, 2))})).names
    ('a.a_0', 'a.a_1')
    """
    names, numeric = [], []
    for view in views.values():
        for feature in view.features:
            number = feature.kind is Kind.NUMERIC
            # Of a binary column the last value is the one that is shown.
            shown = feature.categories[-feature.width :] if not number else ()
            ends = [f"={value}" for value in shown] if not number else [""]
            names += [f"{view.name}.{feature.name}{end}" for end in ends]
            numeric += [number] * len(ends)
    return Kinds(tuple(names), tuple(numeric), _image_shape(views))


def _image_shape(views: MultiView) -> tuple[int, int, int] | None:
    """Return channels, height and width if all views are images of one size."""
    shapes = {view.image_shape for view in views.values()}
    (shape, *others) = shapes
    if shape is None or others or len(shape) != 2:
        return None
    return len(views), int(shape[0]), int(shape[1])
