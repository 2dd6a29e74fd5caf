"""The tables that a site's configuration names, read by the rules it states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cofill.errors import DataError
from cofill.network._config import FederationConfig, SiteConfig
from cofill.views import Source, View, read_ids, read_view


def read_site_views(config: SiteConfig, federation: FederationConfig) -> dict[str, View]:
    """Return a site's views by name, in the federation's order."""
    views = {
        name: read_view(
            name,
            source.source,
            id=source.id,
            rules=source.rules(federation.id_type),
            image=source.image,
        )
        for name, source in config.views.items()
    }
    # The federation's order, whatever the order in the file.
    order = (*federation.shared, *federation.views)
    return {name: views[name] for name in order if name in views}


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
