"""How sites that hold the same views agree on columns, before anything is made from their rows.

Each site says what columns its views have; the coordinator, which has no row to look at, checks
that they are the same and tells everybody, so that a site that lacks a view altogether knows its
columns too. Only names, kinds, categories and shapes are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.errors import DataError
from cofill.privacy import Columns, Release
from cofill.protocol import COORDINATOR, Step
from cofill.views import Feature, MultiView, View

__all__ = ["INTRODUCE", "SETTLE", "agreed", "columns_of", "told_columns", "whole_views"]


def columns_of(name: str, views: Mapping[str, View]) -> Columns:
    """Return what a site says of its columns."""
    return Columns(
        sender=name,
        receiver=COORDINATOR,
        features={view: own.features for view, own in views.items()},
        shapes={v: tuple(own.image_shape) for v, own in views.items() if own.image_shape},
    )


def agreed(names: Sequence[str], order: Sequence[str], inbox: Sequence[Release]) -> list[Columns]:
    """Return the common columns, one letter a site, views in a given order.

    Raises a `DataError` that names two sites where they disagree, or one that said nothing.
    """
    said = {r.sender: r for r in inbox if isinstance(r, Columns)}
    features: dict[str, tuple[Feature, ...]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    first: dict[str, str] = {}
    for name in names:
        if name not in said:
            raise DataError(f"site {name!r} has not said what columns it has; start again")
        for view, own in said[name].features.items():
            shape = said[name].shapes.get(view, ())
            if view not in features:
                features[view], shapes[view], first[view] = own, shape, name
                continue
            _require_alike(view, (first[view], features[view], shapes[view]), (name, own, shape))
            features[view] = tuple(map(_common, features[view], own))
    absent = [view for view in order if view not in features]
    if absent:
        raise DataError(f"no site has the view {absent[0]!r}, which federation.toml names")
    told = Columns(
        sender=COORDINATOR,
        receiver="",
        features={view: features[view] for view in order},
        shapes={view: shapes[view] for view in order if shapes[view]},
    )
    return [replace(told, receiver=name) for name in names]


Said = tuple[str, tuple[Feature, ...], tuple[int, ...]]


def _require_alike(view: str, one: Said, other: Said) -> None:
    """Raise a `DataError` unless two sites have the same columns of a view."""
    (here, own, shape), (there, others, other_shape) = one, other
    if shape != other_shape or [f.name for f in own] != [f.name for f in others]:
        raise DataError(
            f"site {there!r}: {view!r} has other columns or another shape "
            f"({other_shape or len(others)}) than at site {here!r} ({shape or len(own)})"
        )
    if [(f.kind, f.categories) for f in own] != [(f.kind, f.categories) for f in others]:
        raise DataError(
            f"site {there!r}: {view!r} has other kinds or categories of columns than at site "
            f"{here!r}; give both the same kinds and categories"
        )


def _common(one: Feature, other: Feature) -> Feature:
    """Return a column that both sites' cells fit: whole numbers and others are numbers."""
    return one if one.dtype == other.dtype else replace(one, dtype="double", dictionary=False)


def told_columns(inbox: Sequence[Release]) -> Columns:
    """Return the common columns that came from the coordinator."""
    found = [r for r in inbox if isinstance(r, Columns)]
    if len(found) != 1:
        raise DataError(f"the coordinator must send the common columns once, got {len(found)}")
    return found[0]


def whole_views(views: Mapping[str, View], columns: Columns) -> MultiView:
    """Return a site's views, with one without rows for each that it lacks."""
    known = next(iter(views.values()), None)
    ids, id_name = (np.zeros(0, int), "id") if known is None else (known.ids[:0], known.id_name)
    made = []
    for name, features in columns.features.items():
        own = views.get(name)
        if own is None:
            none = np.zeros((0, len(features)))
            shape = columns.shapes.get(name)
            own = View(name, ids, none, features, image_shape=shape, id_name=id_name)
        made.append(own)
    return MultiView(made)


def _introduce(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
    return [(party, [columns_of(party.name, party.views)]) for party in parties]


def _settle(parties: Sequence[Any], inboxes: Sequence[Any], report_progress: Any) -> list[Any]:
    made = []
    for chair, inbox in zip(parties, inboxes, strict=True):
        letters = agreed(chair.names, chair.order, inbox)
        columns = letters[0]
        made.append((replace(chair, columns=columns, party=chair.make(columns)), letters))
    return made


INTRODUCE = Step("introduce", _introduce)
"""Sites, which have a name and views, say what columns they have."""

SETTLE = Step("settle columns", _settle, "coordinator")
"""The coordinator, which has names and an order of views, settles columns and makes its party."""
