"""Rows that sites bring to clustering: all views side by side as numbers, checked to be alike.

Numeric cells stay as they are, a binary cell is 0 or 1, a categorical cell is one column a
category. Scaling comes later, because only all sites together know a column's mean and spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.codec import storable
from cofill.errors import DataError, SettingError
from cofill.protocol import COORDINATOR
from cofill.views import Kind, MultiView, Scaler, View

ONLY_SITE = "site"  # its name where rows are not given by site


@storable
@dataclass(frozen=True)
class ColumnKinds:
    """Names and kinds of columns, on which all sites must agree.

    ``numeric`` says which columns are numbers: only these are scaled. ``shape`` is channels, height
    and width where a row is an image, or several of one size; else None.
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
class SiteRows:
    """A site's individuals, a row of numbers each."""

    rows: Float[np.ndarray, "individuals columns"]
    kinds: ColumnKinds

    def __len__(self) -> int:
        return len(self.rows)


Sites = Mapping[str, SiteRows]


def is_site_mapping(data: Any) -> bool:
    """Return whether data are ``{site name: rows}`` and not the rows of one site."""
    return isinstance(data, Mapping) and not isinstance(data, MultiView)


def gather_rows(data: Any) -> dict[str, SiteRows]:
    """Return every site's rows; data that are no mapping from names to rows are one site."""
    by_site = data if is_site_mapping(data) else {ONLY_SITE: data}
    if not by_site:
        raise DataError("there is no site; give at least one as {name: rows}")
    sites = {str(name): read_rows(rows, str(name)) for name, rows in by_site.items()}
    if len(sites) != len(by_site):
        raise SettingError("two sites have the same name; give each a different one")
    if COORDINATOR in sites:
        raise SettingError(f"no site may be called {COORDINATOR!r}; choose another name")
    first, *others = sites
    for other in others:
        require_same_columns(sites[first].kinds, sites[other].kinds, f"site {other!r}", repr(first))
    return sites


def read_rows(data: Any, site: str = ONLY_SITE) -> SiteRows:
    """Return the rows of an array, a `View` or a `MultiView`, or raise a `DataError`."""
    if isinstance(data, SiteRows):
        return data
    where = f"site {site!r}"
    views = MultiView([data]) if isinstance(data, View) else data
    read = _read_views if isinstance(views, MultiView) else _read_array
    site_rows = read(views, where)
    if not len(site_rows):
        raise DataError(f"{where} has no rows; leave it out or give it individuals")
    incomplete = int((~np.isfinite(site_rows.rows)).any(axis=1).sum())
    if incomplete:
        raise DataError(
            f"{where}: {incomplete:,} of {len(site_rows):,} individuals have cells that are "
            "missing or not finite; complete them first, or leave these individuals out"
        )
    return site_rows


def describe_kinds(views: MultiView) -> ColumnKinds:
    """Return the kinds of all views' columns, side by side; no row is looked at."""
    names, numeric = [], []
    for view in views.values():
        for feature in view.features:
            is_number = feature.kind is Kind.NUMERIC
            # A binary column is 1 for its last category.
            coded = () if is_number else feature.categories[-feature.width :]
            endings = [""] if is_number else [f"={value}" for value in coded]
            names += [f"{view.name}.{feature.name}{ending}" for ending in endings]
            numeric += [is_number] * len(endings)
    return ColumnKinds(tuple(names), tuple(numeric), _common_image_shape(views))


def require_same_columns(
    known: ColumnKinds, kinds: ColumnKinds, where: str, reference: str
) -> None:
    """Raise a `DataError` unless both are the same columns."""
    if known == kinds:
        return
    differing = [a for a, b in zip(known.names, kinds.names, strict=False) if a != b]
    if len(known) != len(kinds):
        fault = f"has {len(kinds)} columns, {reference} has {len(known)}"
    elif differing:
        fault = f"calls column {differing[0]!r} otherwise than {reference}"
    else:
        fault = f"has other kinds of columns than {reference}"
    raise DataError(f"{where} {fault}; all must have the same columns in the same order")


def require_groups(sites: Sites, k: int) -> None:
    """Raise a `SettingError` or `DataError` unless there can be k groups of these individuals."""
    if k < 2:
        raise SettingError(f"k must be at least 2, got {k}")
    total = sum(map(len, sites.values()))
    if k > total:
        raise SettingError(
            f"k must be at most the number of individuals, got {k} groups for {total:,}"
        )
    distinct: set[bytes] = set()
    for site in sites.values():
        for row in site.rows + 0.0:  # -0 and 0 are one value
            distinct.add(row.tobytes())
            if len(distinct) >= k:  # so that many rows cost little
                return
    raise DataError(
        f"k must be at most the number of different rows, got {k} groups for {len(distinct)} "
        f"different rows of {total:,} individuals"
    )


def _read_array(data: Any, where: str) -> SiteRows:
    try:
        array = np.asarray(data)
    except ValueError:
        raise DataError(f"{where}: rows must all have one length") from None
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where}: rows must be numbers, got {array.dtype}; build a MultiView from a data frame"
        )
    if array.ndim in (2, 3) and not len(array):
        raise DataError(f"{where} has no rows; leave it out or give it individuals")
    if array.ndim not in (2, 3) or not array[:1].size:
        raise DataError(
            f"{where}: rows must be individuals × columns, or individuals × height × width, got "
            f"shape {array.shape}"
        )
    shape = (1, int(array.shape[1]), int(array.shape[2])) if array.ndim == 3 else None
    rows = array.reshape(len(array), -1).astype(np.float64)
    names = tuple(f"column_{k}" for k in range(rows.shape[1]))
    return SiteRows(rows, ColumnKinds(names, (True,) * len(names), shape))


def _read_views(views: MultiView, where: str) -> SiteRows:
    incomplete = int((~views.presence.all(axis=1)).sum())
    if incomplete:
        raise DataError(
            f"{where}: {incomplete:,} of {views.n_individuals:,} individuals are not in every "
            "view; complete the views first"
        )
    blocks = [Scaler.fit(view, method="none").encode(view.cells) for view in views.values()]
    return SiteRows(np.concatenate(blocks, axis=1), describe_kinds(views))


def _common_image_shape(views: MultiView) -> tuple[int, int, int] | None:
    shapes = {view.image_shape for view in views.values()}
    shape = next(iter(shapes))
    if shape is None or len(shapes) > 1 or len(shape) != 2:
        return None
    return len(views), int(shape[0]), int(shape[1])
