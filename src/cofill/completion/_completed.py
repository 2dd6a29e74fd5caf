"""The result of completing: everyone in every view, observed cells untouched, origins kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, UInt8

from cofill.views import FilledTable, MultiView, View, to_frame

_ORIGINS = ("observed", "reconstructed", "missing")


@dataclass(frozen=True, repr=False)
class Completed:
    """Views in which the missing rows and cells have been filled.

    Made by `Completed.merge`, the one place where predictions meet observations: a cell that was
    observed keeps its value, whatever the method predicts for it.

    Parameters
    ----------
    source
        The views as they were given.
    cells
        Per view, one row per individual of ``source.ids``; NaN where nothing could be said.
    method
        Name of the method that predicted.
    lower, upper
        Per view, the ends of an interval for every reconstructed cell (NaN elsewhere), when the
        method gives intervals.
    notes
        What the user should know, in sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from cofill.views import MultiView, View
    >>> people = MultiView([View("a", [1, 2], [[5.0], [6.0]]), View("b", [2], [[1.0]])])
    >>> done = Completed.merge(people, {"a": np.zeros((2, 1)), "b": np.full((2, 1), 9.0)})
    >>> done.views["a"].cells.ravel(), done.views["b"].cells.ravel()
    (array([5., 6.]), array([9., 1.]))
    >>> done
    Completed by ?: 2 individuals × 2 views, 1 of 4 cells reconstructed (25.0 %)
    """

    source: MultiView
    cells: Mapping[str, Float[np.ndarray, "individuals _"]]
    method: str = "?"
    lower: Mapping[str, Float[np.ndarray, "individuals _"]] = field(default_factory=dict)
    upper: Mapping[str, Float[np.ndarray, "individuals _"]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def merge(
        cls,
        source: MultiView,
        predicted: Mapping[str, Float[np.ndarray, "individuals _"]],
        *,
        method: str = "?",
        lower: Mapping[str, Float[np.ndarray, "individuals _"]] | None = None,
        upper: Mapping[str, Float[np.ndarray, "individuals _"]] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Completed:
        """Fill what is not observed in `source` with what was predicted, and only that.

        Numbers are rounded to their column's decimals, whole numbers among them.
        """
        cells = {}
        ends: tuple[dict[str, np.ndarray], dict[str, np.ndarray]] = ({}, {})
        for name in source:
            merged = source.aligned(name)
            unknown = np.isnan(merged)
            if name in predicted:
                for k, feature in enumerate(source[name].features):
                    filled = feature.rounded(predicted[name][:, k])
                    np.copyto(merged[:, k], filled, where=unknown[:, k], casting="same_kind")
            merged.setflags(write=False)
            cells[name] = merged
            for predicted_ends, merged_ends in zip((lower, upper), ends, strict=True):
                if predicted_ends is not None and name in predicted_ends:
                    merged_ends[name] = np.where(unknown, predicted_ends[name], np.nan)
        return cls(source, cells, method, ends[0], ends[1], notes)

    def __repr__(self) -> str:
        filled = sum(int((self.origin(n) == 1).sum()) for n in self.cells)
        total = sum(c.size for c in self.cells.values())
        share = f"{filled / max(total, 1):.1%}".replace("%", " %")
        return (
            f"Completed by {self.method}: {self.source.n_individuals:,} individuals × "
            f"{len(self.cells)} views, {filled:,} of {total:,} cells reconstructed ({share})"
        )

    @property
    def views(self) -> MultiView:
        """The completed views. An individual of whom a view knows nothing is not in that view."""
        return MultiView([self._view(name) for name in self.source])

    def _view(self, name: str) -> View:
        return self.source[name].with_rows(self.source.ids, self.cells[name])

    def origin(self, name: str) -> UInt8[np.ndarray, "individuals _"]:
        """Where each cell of a view comes from: 0 observed, 1 reconstructed, 2 missing."""
        observed = ~np.isnan(self.source.aligned(name))
        known = ~np.isnan(self.cells[name])
        return np.where(observed, 0, np.where(known, 1, 2)).astype(np.uint8)

    def beside(
        self, truth: MultiView, name: str, hidden: Bool[np.ndarray, "people ..."]
    ) -> tuple[Float[np.ndarray, "hidden _"], Float[np.ndarray, "hidden _"]]:
        """Return the true and the completed cells of rows or cells that were hidden from a view.

        `hidden` marks individuals of ``truth.ids``, or cells of theirs. All individuals that it
        marks are known to `truth` in this view; true cells that were not hidden are NaN.
        """
        rows = hidden if hidden.ndim == 1 else hidden.any(axis=1)
        ids, view = truth.ids[rows], truth[name]
        completed = self.cells[name][np.searchsorted(self.source.ids, ids)]
        actual = view.cells[view.positions(ids)]
        if hidden.ndim > 1:
            actual = np.where(hidden[rows], actual, np.nan)
        return actual, completed

    def counts(self, name: str) -> dict[str, int]:
        """Count a view's rows and cells by where they come from."""
        origin = self.origin(name)
        filled = (origin == 1).any(axis=1) & ~self.source.present(name)
        return {
            "observed_rows": len(self.source[name]),
            "reconstructed_rows": int(filled.sum()),
            "reconstructed_cells": int((origin == 1).sum()),
            "missing_cells": int((origin == 2).sum()),
            "features": self.source[name].n_features,
        }

    def filled(self, name: str, order: str = "source") -> FilledTable:
        """Return a completed view as its source with the holes filled, for `write_table`.

        Rows stand as in the source, new people after them by id; ``order="id"`` sorts all by id.
        The ends of an interval are in columns ``<feature>_low`` and ``<feature>_high``, with a
        number behind where the table has such a column already; they have the column's decimals.
        """
        view = self._view(name)
        beside: dict[str, np.ndarray] = {}
        if name in self.lower and name in self.upper:
            at = np.searchsorted(self.source.ids, view.ids)
            columns = set(view.source.columns if view.source else view.feature_names)
            columns |= {view.id_name}
            for k, feature in enumerate(view.features):
                ends = feature.around(self.lower[name][at, k], self.upper[name][at, k])
                if not all(np.isnan(end).all() for end in ends):
                    names = _free_names(feature.name, columns)
                    columns |= set(names)
                    beside |= zip(names, ends, strict=True)
        return FilledTable(view, beside, order)

    def table(self, name: str, order: str = "source") -> pa.Table:
        """Return a completed view as an Arrow table in the user's types; see `filled`."""
        return self.filled(name, order).to_arrow()

    def origin_table(self, name: str, order: str = "source") -> pa.Table:
        """Return ``observed``, ``reconstructed`` or ``missing`` for each cell of `table`."""
        filled = self.filled(name, order)
        view, (source_rows, view_rows) = filled.view, filled.rows()
        words = pa.array(_ORIGINS)
        origin = self.origin(name)[np.searchsorted(self.source.ids, view.ids)]
        origin = np.append(origin, np.full((1, view.n_features), 2, np.uint8), axis=0)[view_rows]
        columns: list[tuple[str, Any]] = [
            (f.name, pa.DictionaryArray.from_arrays(pa.array(origin[:, k].astype(np.int8)), words))
            for k, f in enumerate(view.features)
        ]
        if view.id_name:
            ids = filled.ids(source_rows, view_rows)
            columns.insert(view.id_position, (view.id_name, pa.array(ids)))
        return pa.table(dict(columns))

    def to_frames(self, backend: str | None = None) -> dict[str, Any]:
        """Return the completed views as data frames (pandas where installed, or as asked)."""
        return {name: to_frame(self.table(name), backend) for name in self.source}


def _free_names(feature: str, columns: set[str]) -> tuple[str, str]:
    """Return names for the ends of a feature's interval that no column has."""
    for number in count(1):
        tail = "" if number == 1 else f"_{number}"
        names = f"{feature}_low{tail}", f"{feature}_high{tail}"
        if not columns & set(names):
            return names
    raise AssertionError
