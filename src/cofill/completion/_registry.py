"""The completion methods by name, imported only when one is made."""

from __future__ import annotations

from typing import Any

from cofill.completion._completer import AbstractCompleter
from cofill.registry import Entry, Registry
from cofill.settings import typed_settings

METHODS = Registry("cofill.methods", "method", facts=("pools_rows", "settings"))
"""Subclasses of `AbstractCompleter`.

The fact ``pools_rows`` is the class attribute of that name; ``settings`` are constructor settings
that make this method out of its class.
"""

METHODS.add(
    "cooperative",
    "cofill.cooperate:CooperativeReconstruction",
    "codes of the other sites, links, masks or a fusion (only codes cross a border)",
    pools_rows=False,
)
METHODS.add(
    "private",
    "cofill.cooperate:PrivateCompletion",
    "regression on secret shares: no row and no code leaves a site",
    pools_rows=False,
)
METHODS.add(
    "federated",
    "cofill.federate:FederatedCompletion",
    "one model that sites with other individuals train together (only updates cross a border)",
    pools_rows=False,
)
METHODS.add(
    "pooled",
    "cofill.impute:PooledCompleter",
    "every cell from all that is known of its person, in one place (the best where rows may meet)",
    pools_rows=True,
)
METHODS.add("mean", "cofill.impute:MeanCompleter", "mean or commonest value", pools_rows=False)
METHODS.add(
    "knn",
    "cofill.impute:NeighboursCompleter",
    "k nearest neighbours over pooled rows (scikit-learn)",
    pools_rows=True,
)
METHODS.add(
    "iterative",
    "cofill.impute:IterativeCompleter",
    "iterative imputer over pooled rows (scikit-learn)",
    pools_rows=True,
)
METHODS.add(
    "central-ridge",
    "cofill.impute:CentralCompleter",
    "ridge regression on pooled raw views",
    pools_rows=True,
    settings={"model": "ridge"},
)
METHODS.add(
    "central",
    "cofill.impute:CentralCompleter",
    "network on pooled raw views",
    pools_rows=True,
    settings={"model": "mlp"},
)


def methods() -> tuple[Entry, ...]:
    """Return every method, cofill's first, then those that other packages install."""
    return tuple(METHODS)


def make(name: str, **settings: Any) -> AbstractCompleter:
    """Return a completer by the name of its method; tables become the settings objects they are.

    Raises
    ------
    SettingError
        For a setting that the method does not have, or a value of another type than it takes.

    Examples
    --------
    >>> make("knn", neighbors=3)
    Traceback (most recent call last):
    ...
    cofill.errors.SettingError: method 'knn' has no setting 'neighbors'; did you mean 'n_neighbors'?
    >>> make("cooperative", defence={"width": 3}).defence.width
    3
    """
    method = METHODS.find(name)
    implementation = method.load()
    stated = method.facts.get("settings", {})
    chosen = typed_settings(f"method {name!r}", implementation, settings)
    return implementation(**{**stated, **chosen})
