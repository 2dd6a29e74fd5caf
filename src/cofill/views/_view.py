"""A view: what one source knows about the individuals it has seen, one row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from cofill.errors import DataError, SettingError
from cofill.views._feature import Feature, Kind
from cofill.views._ids import as_ids, positions, require_unique

if TYPE_CHECKING:
    from cofill.views._source_table import SourceTable


@dataclass(frozen=True, eq=False, repr=False, init=False)
class View:
    """A feature set over the individuals that were observed in it.

    Rows are kept in the order of their ids, whatever order they came in, so that nothing that is
    computed from a view depends on the order of a file. Cells are floats: numeric cells as they
    are, binary and categorical cells as positions in their feature's categories, NaN where a cell
    of an observed row is not known. A row without any known cell is no observation and is dropped.

    Parameters
    ----------
    name
        The view's name.
    ids
        One id per row: whole numbers or text, unique.
    cells
        Array of rows × features (more axes are flattened into `image_shape`).
    features
        `Feature` or names, one per column; numbered when left out.
    image_shape
        Shape of one row as an image, such as ``(28, 28)``; its product is the number of features.
    id_name, id_position
        The name and position of the id column when the view is written; no name, no column.
    source
        The table that the view was read from, if any: what is still as it was is written as it was.
        It is no part of what `same_as` compares, and is neither stored nor sent.

    Examples
    --------
    >>> lab = View("lab", ids=[7, 3], cells=[[1.0, 2.0], [3.0, float("nan")]])
    >>> lab.ids
    array([3, 7])
    >>> lab
    View('lab', 2 individuals × 2 features, 1 missing cell)
    """

    name: str
    ids: np.ndarray
    cells: Float[np.ndarray, "n d"]
    features: tuple[Feature, ...] = ()
    image_shape: tuple[int, ...] | None = None
    id_name: str = "id"
    id_position: int = 0
    source: SourceTable | None = None

    def __init__(
        self,
        name: str,
        ids: Any,
        cells: Any,
        features: Sequence[Feature | str] | None = None,
        *,
        image_shape: tuple[int, ...] | None = None,
        id_name: str = "id",
        id_position: int = 0,
        source: SourceTable | None = None,
    ) -> None:
        where = f"view {name!r}"
        if not name:
            raise SettingError("a view must have a name, got an empty one")
        try:
            array = np.asarray(cells)
        except ValueError:  # rows of different lengths
            raise DataError(f"{where}: cells must be rows × features, all of one length") from None
        if array.ndim > 2 and image_shape is None:
            image_shape = tuple(int(s) for s in array.shape[1:])
        if array.ndim < 2:
            raise DataError(f"{where}: cells must be rows × features, got shape {array.shape}")
        matrix = array.reshape(array.shape[0], int(np.prod(array.shape[1:])))
        matrix = np.asarray(matrix, dtype=_cell_dtype(matrix.dtype, where))
        if features is None:
            features = [f"{name}_{k}" for k in range(matrix.shape[1])]
        columns = tuple(f if isinstance(f, Feature) else Feature(f) for f in features)
        row_ids = as_ids(ids, where)
        _check_shapes(where, row_ids, matrix, columns, image_shape)
        require_unique(row_ids, where)
        if np.isinf(matrix).any():
            k = int(np.isinf(matrix).any(axis=0).argmax())
            raise DataError(
                f"{where}: column {columns[k].name!r} holds infinite values; "
                "replace them by numbers or leave them empty"
            )
        for k, column in enumerate(columns):
            if fault := column.code_fault(matrix[:, k]):
                raise DataError(f"{where}: {fault} in its categories")
        seen = np.asarray((~np.isnan(matrix)).any(axis=1))
        order = np.argsort(row_ids, kind="stable")
        if seen.all() and (order[1:] > order[:-1]).all():
            shared = np.may_share_memory(matrix, array)
            sorted_ids, sorted_cells = row_ids.copy(), matrix.copy() if shared else matrix
        else:
            order = order[seen[order]]
            sorted_ids, sorted_cells = row_ids[order], matrix[order]
        for array in (sorted_ids, sorted_cells):
            array.setflags(write=False)
        for attribute, value in {
            "name": name,
            "ids": sorted_ids,
            "cells": sorted_cells,
            "features": columns,
            "image_shape": image_shape,
            "id_name": id_name,
            "id_position": id_position,
            "source": source,
        }.items():
            object.__setattr__(self, attribute, value)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        missing = self.n_missing_cells
        holes = f", {missing:,} missing cell{'s' * (missing != 1)}" if missing else ""
        shape = f" ({'×'.join(map(str, self.image_shape))} images)" if self.image_shape else ""
        return (
            f"View({self.name!r}, {len(self):,} individuals × "
            f"{self.n_features} features{shape}{holes})"
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in column order."""
        return tuple(f.name for f in self.features)

    @property
    def n_missing_cells(self) -> int:
        """How many cells of observed rows are not known."""
        return int(np.isnan(self.cells).sum())

    def typical(self) -> Float[np.ndarray, " d"]:
        """Return the mean of each numeric feature and the commonest value of each coded one.

        NaN where no cell is known; ties go to the first category.
        """
        values = np.full(self.n_features, np.nan)
        for k, feature in enumerate(self.features):
            known = self.cells[~np.isnan(self.cells[:, k]), k]
            if not len(known):
                continue
            if feature.kind is Kind.NUMERIC:
                values[k] = known.mean(dtype=np.float64)
            else:
                values[k] = np.bincount(known.astype(np.int64)).argmax()
        return values

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """Return the row of each id, −1 where the view does not know it."""
        return positions(self.ids, np.asarray(ids))

    def take(self, rows: Bool[np.ndarray, " n"] | np.ndarray | Iterable[int]) -> View:
        """Return the view with only these rows (a boolean mask or positions)."""
        index = rows if isinstance(rows, np.ndarray) else np.asarray(list(rows))
        index = index if index.dtype == bool else index.astype(int)
        source = None if self.source is None else self.source.without_blank_rows()
        return replace(self, ids=self.ids[index], cells=self.cells[index], source=source)

    def with_rows(self, ids: np.ndarray, cells: Float[np.ndarray, "m d"]) -> View:
        """Return a view with the same features over other rows."""
        return replace(self, ids=ids, cells=cells)

    def select(self, names: Sequence[str]) -> View:
        """Return the view with only these features, in this order."""
        known = {f.name: k for k, f in enumerate(self.features)}
        unknown = [n for n in names if n not in known]
        if unknown:
            raise SettingError(f"view {self.name!r} has no feature {unknown[0]!r}")
        index = [known[n] for n in names]
        return replace(
            self,
            cells=self.cells[:, index],
            features=tuple(self.features[k] for k in index),
            image_shape=None,
            id_position=min(self.id_position, len(index)),
            source=None if self.source is None else self.source.select(tuple(names)),
        )

    def same_as(self, other: View) -> bool:
        """Whether both views hold the same ids, cells (NaN equal to NaN) and features."""
        return (
            self.features == other.features
            and self.image_shape == other.image_shape
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.cells, other.cells, equal_nan=True)
        )


def _cell_dtype(dtype: np.dtype, where: str) -> type[np.floating]:
    if dtype.kind not in "fiub":
        raise DataError(f"{where}: cells must be numbers, got {dtype}; build it from a data frame")
    narrow = (dtype.kind == "f" and dtype.itemsize <= 4) or (
        dtype.kind in "iub" and dtype.itemsize <= 2
    )
    return np.float32 if narrow else np.float64


def _check_shapes(
    where: str,
    ids: np.ndarray,
    cells: np.ndarray,
    features: tuple[Feature, ...],
    image_shape: tuple[int, ...] | None,
) -> None:
    if len(ids) != len(cells):
        raise DataError(f"{where}: {len(ids)} ids for {len(cells)} rows; give one id per row")
    if cells.shape[1] == 0:
        raise DataError(f"{where} has no columns beside the id; give it at least one feature")
    if cells.shape[1] != len(features):
        raise DataError(f"{where}: {len(features)} features for {cells.shape[1]} columns")
    names = [f.name for f in features]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DataError(f"{where}: column {twice!r} occurs more than once; rename one of them")
    if image_shape is not None and int(np.prod(image_shape)) != cells.shape[1]:
        raise DataError(
            f"{where}: images of shape {image_shape} have {int(np.prod(image_shape))} pixels, "
            f"got {cells.shape[1]} features"
        )
