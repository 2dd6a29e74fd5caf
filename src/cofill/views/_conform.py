"""Views as a model knows them: its views, its columns in its order, its categories.

Views that come after the fit may lack a view or a column, have others, list columns in another
order, or hold a category that the model never saw. `conform` returns them twice: with every
observed value, to be written back, and as the model sees them, where what it never saw is a hole.
"""

# pyarrow.compute makes its functions at run time, where a type checker cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cofill.errors import DataError
from cofill.views._arrow import arrow_type
from cofill.views._feature import Feature, Kind
from cofill.views._multiview import MultiView
from cofill.views._schema import TableSchema, with_source
from cofill.views._source_table import SourceTable
from cofill.views._text import TextTable
from cofill.views._view import View


@dataclass(frozen=True)
class ConformedViews:
    """Later views with all that was observed, and as the model sees them.

    Both have the same individuals; `notes` say what is not as it was at the fit.
    """

    views: MultiView
    seen: MultiView
    notes: tuple[str, ...] = ()


def conform(views: MultiView, schemas: Mapping[str, TableSchema]) -> ConformedViews:
    """Return later views as a model of these schemas knows them.

    Raises
    ------
    DataError
        For a view that the model does not know, or a column whose cells are of another kind.

    Examples
    --------
    >>> from cofill.views import Feature, Kind
    >>> colour = Feature("colour", Kind.CATEGORICAL, ("blue", "red"), dtype="string")
    >>> schemas = {"a": TableSchema((Feature("x"), colour)), "b": TableSchema((Feature("y"),))}
    >>> green = Feature("colour", Kind.CATEGORICAL, ("green",), dtype="string")
    >>> later = conform(MultiView([View("a", [7], [[0.0, 1.5]], [green, "x"])]), schemas)
    >>> later.views["a"].cells, later.seen["a"].cells, later.seen["b"].cells.shape
    (array([[1.5, 2. ]]), array([[1.5, nan]]), (0, 1))
    """
    for name in views:
        if name not in schemas:
            raise DataError(
                f"the method was fitted on the views {', '.join(schemas)} and cannot complete "
                f"{', '.join(views)}; fit it again"
            )
    notes: list[str] = []
    later, seen = {}, {}
    for name, view in views.items():
        later[name], seen[name], view_notes = conform_view(view, schemas[name])
        notes += view_notes
    absent = [name for name in schemas if name not in views]
    notes += [f"view {n!r} is not there and is completed for everybody" for n in absent]
    if not absent and all(seen[name] is view for name, view in views.items()):
        return ConformedViews(views, views)
    id_name = next(view.id_name for view in views.values())
    for name in absent:
        later[name] = seen[name] = schemas[name].empty_view(name, views.ids, id_name)
    order = list(schemas) if absent else list(views)
    return ConformedViews(
        MultiView([later[name] for name in order], more_ids=views.ids),
        MultiView([seen[name] for name in order], more_ids=views.ids),
        tuple(notes),
    )


def conform_view(view: View, schema: TableSchema) -> tuple[View, View, list[str]]:
    """Return a view with all that was observed, as the model sees it, and notes."""
    known = [f.name for f in schema.features]
    if _is_as_learned(view.features, schema.features):
        return view, view, []
    if not set(view.feature_names) & set(known):
        raise DataError(
            f"view {view.name!r} has other features than at fit ({view.n_features} now, "
            f"{len(known)} then, none of the same name); give the same columns"
        )
    source = view.source
    missing = [name for name in known if name not in view.feature_names]
    notes = _notes(view, missing, [n for n in view.feature_names if n not in known])
    tables = [(view.features, view.cells)]
    if source is not None:
        _require_unread(view, source, missing)
        tables.insert(0, (source.view_features, source.view_cells))
    targets = tuple(_target(view.name, feature, tables) for feature in schema.features)
    cells = _translated(view.features, view.cells, targets)
    later = View(
        view.name,
        view.ids,
        cells,
        targets,
        image_shape=schema.image_shape,
        id_name=view.id_name,
        id_position=min(view.id_position, len(targets)),
    )
    if source is not None:
        with_source(later, _conformed_source(source, schema, targets))
    unseen = np.zeros(later.cells.shape, dtype=bool)
    for k, feature in enumerate(schema.features):
        if feature.kind is not Kind.NUMERIC:
            unseen[:, k] = later.cells[:, k] >= len(feature.categories)
            if count := int(unseen[:, k].sum()):
                notes.append(
                    f"view {view.name!r}: column {feature.name!r} has values in {count:,} rows "
                    "that the model never saw; they are written as they are and tell it nothing"
                )
    hidden = np.where(unseen, np.nan, later.cells)
    seen = replace(later, cells=hidden, features=schema.features, source=None)
    return later, seen, notes


def with_categories(
    feature: Feature, values: Sequence[Any], where: str
) -> tuple[Feature, list[float]]:
    """Return a coded feature that has these values too, and the code of each.

    Raises
    ------
    DataError
        If a value is of another type than the feature's categories.
    """
    codes = {value: code for code, value in enumerate(feature.categories)}
    learned = feature.categories[0]
    for value in values:
        if value not in codes:
            if isinstance(learned, bool) or _family(value) is not _family(learned):
                raise DataError(
                    f"{where} holds values of type {type(value).__name__}, and the model learned "
                    f"{type(learned).__name__}; store it as at the fit or leave it out"
                )
            codes[value] = len(codes)
    if len(codes) > len(feature.categories):
        feature = replace(feature, kind=Kind.CATEGORICAL, categories=tuple(codes))
    return feature, [float(codes[value]) for value in values]


def _family(value: Any) -> type:
    return float if isinstance(value, bool | int | float) else type(value)


def _is_as_learned(features: Sequence[Feature], learned: Sequence[Feature]) -> bool:
    if features is learned:
        return True
    same = tuple(features) == tuple(learned)
    return same and all(a.decimals == b.decimals for a, b in zip(features, learned, strict=True))


def _values(feature: Feature, cells: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Return the different known cells of a column and the values they stand for."""
    different = np.unique(cells[~np.isnan(cells)])
    if feature.kind is Kind.NUMERIC:
        return different, different.tolist()
    return different, [feature.categories[int(code)] for code in different]


def _target(
    view: str, learned: Feature, tables: Sequence[tuple[Sequence[Feature], np.ndarray]]
) -> Feature:
    """Return the feature of the fit, with the categories that later cells have beside its own."""
    target, where = learned, f"view {view!r}: column {learned.name!r}"
    for features, cells in tables:
        for k, feature in enumerate(features):
            if feature.name != learned.name:
                continue
            if learned.kind is not Kind.NUMERIC:
                target, _ = with_categories(target, _values(feature, cells[:, k])[1], where)
            elif feature.kind is not Kind.NUMERIC:
                numbers = [isinstance(c, bool | int | float) for c in feature.categories]
                if not all(numbers):
                    raise DataError(
                        f"{where} is {feature.kind}, and the model learned numbers; store it as "
                        "at the fit or leave it out"
                    )
            elif feature.dtype != learned.dtype and (feature.is_temporal or learned.is_temporal):
                raise DataError(
                    f"{where} is of type {feature.dtype}, and the model learned {learned.dtype}; "
                    "store it as at the fit or leave it out"
                )
    return target


def _translated(
    features: Sequence[Feature], cells: np.ndarray, targets: Sequence[Feature]
) -> np.ndarray:
    """Return cells in the columns and codes of other features; NaN where there is no column."""
    places = {feature.name: k for k, feature in enumerate(features)}
    translated = np.full((len(cells), len(targets)), np.nan)
    for k, target in enumerate(targets):
        if target.name not in places:
            continue
        feature, column = features[places[target.name]], cells[:, places[target.name]]
        if feature.kind is target.kind is Kind.NUMERIC:
            translated[:, k] = column
            continue
        different, values = _values(feature, column)
        if target.kind is not Kind.NUMERIC:
            values = with_categories(target, values, target.name)[1]
        known = np.flatnonzero(~np.isnan(column))
        at = np.searchsorted(different, column[known])
        translated[known, k] = np.array(values, dtype=np.float64)[at]
    return translated


def _require_unread(view: View, source: SourceTable, missing: Sequence[str]) -> None:
    """Refuse to fill a column that the table has and the view passes through."""
    for name in missing:
        if name in source.data.column_names and not _is_empty(source, name):
            raise DataError(
                f"view {view.name!r}: column {name!r} was passed through when it was read, and the "
                "model fills it; declare its kind (kinds={...}) or remove it"
            )


def _is_empty(source: SourceTable, name: str) -> bool:
    if isinstance(source.data, TextTable):
        texts = source.data.column(source.data.fields(), source.data.column_names.index(name))
        return bool(pc.all(pc.equal(pc.utf8_trim_whitespace(texts), "")).as_py())
    return bool(pc.all(pc.is_null(source.data.column(name), nan_is_null=True)).as_py())


def _conformed_source(
    source: SourceTable, schema: TableSchema, targets: tuple[Feature, ...]
) -> SourceTable:
    """Return the source of a conformed view: with its columns, and its codes as they were read."""
    missing = [f.name for f in targets if f.name not in source.data.column_names]
    data: Any = source.data
    if isinstance(data, TextTable):
        data = data.with_columns(missing) if missing else data
    else:
        for feature in targets:
            empty = pa.nulls(data.num_rows, arrow_type(feature.dtype))
            if feature.name in missing:
                data = data.append_column(feature.name, empty)
            elif pa.types.is_null(data.column(feature.name).type):
                # An empty column has no type that filled cells could be written in.
                at = data.column_names.index(feature.name)
                data = data.set_column(at, feature.name, empty)
    cells = _translated(source.view_features, source.view_cells, targets)
    known = ~np.isnan(cells).all(axis=1)
    styles, spellings = dict(source.styles), {}
    if isinstance(data, TextTable):
        styles = {**schema.styles, **styles}
        read = {f.name: f for f in source.view_features}
        for target in targets:
            if target.kind is not Kind.NUMERIC:
                spellings[target.name] = schema.spelled(target, data)
                feature, written = read.get(target.name), source.spellings.get(target.name, {})
                if feature is not None and feature.kind is not Kind.NUMERIC:
                    values = [feature.categories[code] for code in written]
                    codes = with_categories(target, values, target.name)[1]
                    spellings[target.name] |= {
                        int(code): field
                        for code, field in zip(codes, written.values(), strict=True)
                    }
    return replace(
        source,
        data=data,
        view_ids=source.view_ids[known],
        view_cells=cells[known],
        view_features=targets,
        columns=(*source.columns, *missing),
        styles=styles,
        spellings=spellings,
    )


def _notes(view: View, missing: Sequence[str], extra: Sequence[str]) -> list[str]:
    notes = []
    if missing:
        named = ", ".join(map(repr, missing[:10])) + ", …" * (len(missing) > 10)
        notes.append(f"view {view.name!r} has no value of {named}; filled for everybody")
    if extra:
        named = ", ".join(map(repr, extra[:10])) + ", …" * (len(extra) > 10)
        fate = "left out" if view.source is None else "passed through"
        notes.append(f"view {view.name!r}: the model does not know {named}; {fate}")
    return notes
