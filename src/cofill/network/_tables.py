"""A site's own tables: its views and the people it may name, read where they lie."""

from __future__ import annotations

import numpy as np

from cofill.errors import DataError
from cofill.network._config import FederationConfig, SiteConfig
from cofill.views import Source, View, read_views
from cofill.views._frames import ColumnRules, _read_ids

__all__ = ["read_people", "read_site_views"]


def read_site_views(config: SiteConfig, federation: FederationConfig) -> dict[str, View]:
    """Read a site's views; a fault is told here and only named elsewhere."""
    views = {}
    for name, given in config.views.items():
        read = read_views(
            {name: given.source},
            id=given.id,
            kinds=given.kinds,
            ignore=given.ignore,
            id_type=federation.id_type,
        )
        views[name] = read[name]
    # The federation's order, whatever the order in the file.
    return {name: views[name] for name in federation.views if name in views}


def read_people(config: SiteConfig, federation: FederationConfig) -> np.ndarray | None:
    """Return the ids whom a site may name beside those of its views."""
    given = config.people
    if given is None:
        return None
    source = Source(given.source)
    table = source.read(given.id)
    if given.id not in table.column_names:
        raise DataError(f"{source.label} has no id column {given.id!r}")
    rules = ColumnRules(id_type=federation.id_type, **source.rules)
    return np.unique(_read_ids(table.column(given.id), source.label, rules))
