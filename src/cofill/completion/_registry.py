"""The completion methods by name, imported only when one is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cofill.completion._completer import AbstractCompleter
from cofill.completion._saved import read_about, read_model
from cofill.errors import CofillError, StoreError
from cofill.registry import Entry, Registry
from cofill.settings import typed_settings

METHODS = Registry("cofill.methods", "method", facts=("pools_rows", "settings", "saves"))
"""Subclasses of `AbstractCompleter`.

The fact ``pools_rows`` is the class attribute of that name; ``settings`` are constructor settings
that make this method out of its class; ``saves`` is false for a method that `save` cannot store,
so that a job is refused before it is run and not after.
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
    saves=False,
)
METHODS.add(
    "federated",
    "cofill.federate:FederatedCompletion",
    "one model that sites with other individuals train together (only updates cross a border)",
    pools_rows=False,
    saves=False,
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
    saves=False,
)
METHODS.add(
    "iterative",
    "cofill.impute:IterativeCompleter",
    "iterative imputer over pooled rows (scikit-learn)",
    pools_rows=True,
    saves=False,
)
METHODS.add(
    "central-ridge",
    "cofill.impute:CentralCompleter",
    "ridge regression on pooled raw views",
    pools_rows=True,
    settings={"model": "ridge"},
    saves=False,
)
METHODS.add(
    "central",
    "cofill.impute:CentralCompleter",
    "network on pooled raw views",
    pools_rows=True,
    settings={"model": "mlp"},
    saves=False,
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


def load_model(path: str | Path) -> AbstractCompleter:
    """Return the fitted completer that `save` or ``cofill complete --save`` wrote.

    Raises
    ------
    StoreError
        For a folder that is no model, is damaged or changed, or is of another version.
    """
    method = METHODS.find(str(read_about(path).get("method")))
    implementation = method.load()  # importing it makes its types known to the codec
    content = read_model(path)
    try:
        completer = implementation(**content["parameters"])
        completer.schemas_ = dict(content["schemas"])
        completer.restore(content["learned"])
    except CofillError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} is no complete model ({type(error).__name__}); save it again"
        ) from None
    return completer
