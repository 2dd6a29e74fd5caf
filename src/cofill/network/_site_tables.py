"""The tables that a site's configuration names, read by the rules it states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.errors import DataError
from cofill.network._config import FederationConfig, SiteConfig
from cofill.views import Kind, MultiView, Source, TableSchema, View, conform, read_ids, read_view


def read_site_views(
    config: SiteConfig,
    federation: FederationConfig,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, View]:
    """Return a site's views by name, in the federation's order.

    ``columns`` are those that may take part, by view; all of a view that is not in it.
    """
    views: dict[str, View] = {}
    for name, source in config.views.items():
        rules = source.rules(federation.id_type)
        agreed = federation.categories.get(name, {})
        kinds = {**source.kinds, **dict.fromkeys(agreed, "categorical")}
        rules = replace(rules, kinds=kinds)
        options = {"id": source.id, "image": source.image}
        views[name] = read_view(name, source.source, rules=rules, **options)
        if columns is not None and name in columns:
            held = views[name].feature_names
            unknown = sorted(set(columns[name]) - set(held))
            if unknown:
                raise DataError(
                    f"view {name!r} has no column {unknown[0]!r}, which the site's policy names; "
                    "correct the policy"
                )
            left_out = tuple(column for column in held if column not in columns[name])
            kinds = {column: kind for column, kind in kinds.items() if column in columns[name]}
            rules = replace(rules, ignore=(*rules.ignore, *left_out), kinds=kinds)
            views[name] = read_view(name, source.source, rules=rules, **options)
        views[name] = with_agreed_categories(views[name], agreed)
    # The federation's order, whatever the order in the file.
    order = (*federation.shared, *federation.views)
    return {name: views[name] for name in order if name in views}


def with_agreed_categories(view: View, agreed: Mapping[str, Sequence[Any]]) -> View:
    """Return a view whose columns have the categories that the federation agreed on.

    Raises a `DataError` where somebody has another value: the list is to be extended by everybody,
    for a value that one site adds would tell the others that somebody has it.
    """
    features = tuple(
        replace(f, kind=Kind.CATEGORICAL, categories=tuple(agreed[f.name]), ordered=False)
        if f.name in agreed
        else f
        for f in view.features
    )
    if features == view.features:
        return view
    schema = TableSchema.of(view)
    spellings = {n: texts for n, texts in schema.spellings.items() if n not in agreed}
    schema = replace(schema, features=features, spellings=spellings)
    conformed = conform(MultiView([view]), {view.name: schema}).views[view.name]
    for feature, later in zip(features, conformed.features, strict=True):
        more = len(later.categories) - len(feature.categories)
        if more:
            raise DataError(
                f"column {feature.name!r} of view {view.name!r} has {more} values that the "
                "federation's list of categories does not have; extend the list at every party, "
                "join the values to others, or ignore the column"
            )
    return conformed


def require_common_categories(
    views: Mapping[str, View],
    fewest: int,
    agreed: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> None:
    """Raise a `DataError` if some column has a category that fewer people have than may be told of.

    Sites that hold the same views tell each other the categories of their columns: a category of
    one person is that person's cell. Those of an agreed list are nobody's.
    """
    for view in views.values():
        for at, feature in enumerate(view.features):
            if feature.kind is Kind.NUMERIC or feature.name in (agreed or {}).get(view.name, {}):
                continue
            cells = view.cells[:, at]
            known = cells[~np.isnan(cells)].astype(int)
            people = np.bincount(known, minlength=len(feature.categories))
            rare = int((people < fewest).sum())
            if rare:
                raise DataError(
                    f"column {feature.name!r} of view {view.name!r} has {rare} categories that "
                    f"fewer than {fewest} people have, and categories would be told to others; "
                    "join them to others, agree on a list ([categories] in federation.toml), "
                    "ignore the column, or leave it out in the policy"
                )


def read_people(config: SiteConfig, federation: FederationConfig) -> np.ndarray | None:
    """Return the ids whom a site may name beside those of its views."""
    people = config.people
    if people is None:
        return None
    source = Source(people.source)
    rules = replace(people.rules(federation.id_type), **source.rules)
    table = source.read(rules)
    if people.id not in table.column_names:
        raise DataError(f"{source.label} has no id column {people.id!r}")
    return np.unique(read_ids(table, people.id, source.label, rules))
