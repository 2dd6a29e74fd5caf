"""How sites that hold the same views agree on columns and scales, before anything else is done.

Each site describes the columns of its views; the coordinator, which has no row to look at, checks
that they are the same and sends the agreed columns to every site, so that a site that lacks a view
altogether knows its columns too. Only names, kinds, categories and shapes are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from cofill.errors import DataError
from cofill.privacy import Columns, Release
from cofill.protocol._protocol import COORDINATOR, Inbox, Outbox, Step, one_by_one
from cofill.views import Feature, MultiView, View

_Description = tuple[str, tuple[Feature, ...], tuple[int, ...]]  # site, columns, image's shape


def _describe_columns(site: Any, inbox: Inbox) -> tuple[Any, Outbox]:
    """Send what a site, which has a name and views, tells the coordinator of its columns."""
    features = {name: view.features for name, view in site.views.items()}
    shapes = {n: tuple(view.image_shape) for n, view in site.views.items() if view.image_shape}
    columns = Columns(sender=site.name, receiver=COORDINATOR, features=features, shapes=shapes)
    return site, [columns]


DESCRIBE_COLUMNS: Step[Any] = Step("describe columns", one_by_one(_describe_columns))
"""The first step of sites that hold the same views."""


def agree_on_columns(
    sites: Sequence[str], view_order: Sequence[str], inbox: Sequence[Release]
) -> list[Columns]:
    """Return the common columns, one release a site, views in a given order.

    Raises a `DataError` that names two sites where they disagree, or one that sent nothing.
    """
    descriptions = {r.sender: r for r in inbox if isinstance(r, Columns)}
    common: dict[str, _Description] = {}
    for site in sites:
        if site not in descriptions:
            raise DataError(f"site {site!r} has not said what columns it has; start again")
        for view, features in descriptions[site].features.items():
            description = (site, features, descriptions[site].shapes.get(view, ()))
            if view not in common:
                common[view] = description
                continue
            _require_alike(view, common[view], description)
            first, known, shape = common[view]
            common[view] = (first, tuple(map(_joint_feature, known, features)), shape)
    absent = [view for view in view_order if view not in common]
    if absent:
        raise DataError(f"no site has the view {absent[0]!r}, which the federation names")
    columns = Columns(
        sender=COORDINATOR,
        receiver="",
        features={view: common[view][1] for view in view_order},
        shapes={view: common[view][2] for view in view_order if common[view][2]},
    )
    return [replace(columns, receiver=site) for site in sites]


def _require_alike(view: str, first: _Description, second: _Description) -> None:
    """Raise a `DataError` unless two sites have the same columns of a view."""
    (site, features, shape), (other_site, other_features, other_shape) = first, second
    if shape != other_shape or [f.name for f in features] != [f.name for f in other_features]:
        raise DataError(
            f"site {other_site!r}: {view!r} has other columns or another shape "
            f"({other_shape or len(other_features)}) than at site {site!r} "
            f"({shape or len(features)})"
        )
    kinds, other_kinds = ([(f.kind, f.categories) for f in fs] for fs in (features, other_features))
    if kinds != other_kinds:
        raise DataError(
            f"site {other_site!r}: {view!r} has other kinds or categories of columns than at "
            f"site {site!r}; give both the same kinds and categories"
        )


def _joint_feature(feature: Feature, other: Feature) -> Feature:
    """Return a column that both sites' cells fit: whole numbers and others are numbers."""
    if feature.dtype == other.dtype:
        return feature
    return replace(feature, dtype="double", dictionary=False)


def agreed_columns(inbox: Sequence[Release]) -> Columns:
    """Return the common columns that came from the coordinator."""
    columns = [release for release in inbox if isinstance(release, Columns)]
    if len(columns) != 1:
        raise DataError(f"the coordinator must send the common columns once, got {len(columns)}")
    return columns[0]


def views_with_columns(views: Mapping[str, View], columns: Columns) -> MultiView:
    """Return a site's views, with an empty one for each that it lacks."""
    first = next(iter(views.values()), None)
    no_ids, id_name = (np.zeros(0, int), "id") if first is None else (first.ids[:0], first.id_name)
    complete = []
    for name, features in columns.features.items():
        view = views.get(name)
        if view is None:
            no_rows = np.zeros((0, len(features)))
            shape = columns.shapes.get(name)
            view = View(name, no_ids, no_rows, features, image_shape=shape, id_name=id_name)
        complete.append(view)
    return MultiView(complete)


def pool_moments(
    counts: Float[np.ndarray, "sites _"],  # a column each, or one for all columns
    sums: Float[np.ndarray, "sites columns"],
    squares: Float[np.ndarray, "sites columns"],
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """Return mean and variance of all sites' rows (Chan et al. 1979).

    They follow exactly from each site's count, sum and sum of squares about the site's own mean, so
    that it does not matter who holds which rows. A column without rows has mean and variance 0.

    Examples
    --------
    >>> pool_moments(np.array([[1.0], [3.0]]), np.array([[0.0], [12.0]]), np.array([[0.0], [8.0]]))
    (array([3.]), array([5.]))
    """
    total = np.maximum(counts.sum(axis=0), 1.0)
    mean = sums.sum(axis=0) / total
    between_sites = counts * (sums / np.maximum(counts, 1.0) - mean) ** 2
    return mean, (squares.sum(axis=0) + between_sites.sum(axis=0)) / total


def usable_scale(
    center: Float[np.ndarray, " columns"], scale: Float[np.ndarray, " columns"]
) -> Float[np.ndarray, " columns"]:
    """Return the scale of each column, 1 where it is so small that rounding alone explains it."""
    return np.where(scale > 1e-12 * np.maximum(np.abs(center), 1e-300), scale, 1.0)
