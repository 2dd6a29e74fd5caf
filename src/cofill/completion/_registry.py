"""The completion methods by name, imported only when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from cofill.completion._completer import AbstractCompleter
from cofill.errors import SettingError

__all__ = ["Method", "check_settings", "find", "make", "methods", "register"]


@dataclass(frozen=True)
class Method:
    """A registered method.

    Parameters
    ----------
    name
        What the user types.
    target
        ``"module:Class"`` of an `AbstractCompleter`.
    summary
        One line for lists and help.
    pools_rows
        Whether the method needs all rows in one place, which breaks the rule that no row leaves
        its owner: a yardstick, not something a consortium may run.
    settings
        Constructor settings that make this method out of its class.
    """

    name: str
    target: str
    summary: str
    pools_rows: bool
    settings: Mapping[str, Any]


_METHODS: dict[str, Method] = {}


def register(name: str, target: str, summary: str, *, pools_rows: bool, **settings: Any) -> None:
    """Add a method under a name that is still free.

    Examples
    --------
    >>> register("mean", "my_package:Mean", "the mean", pools_rows=False)
    Traceback (most recent call last):
    ...
    cofill.errors.SettingError: there is a method 'mean' already; choose another name
    """
    if name in _METHODS:
        raise SettingError(f"there is a method {name!r} already; choose another name")
    _METHODS[name] = Method(name, target, summary, pools_rows, settings)


def methods() -> tuple[Method, ...]:
    """Return every registered method, in the order of registration."""
    return tuple(_METHODS.values())


def find(name: str) -> Method:
    """Return a registered method, or raise a `SettingError` with the nearest name."""
    if name not in _METHODS:
        close = get_close_matches(name, _METHODS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(_METHODS)}"
        raise SettingError(f"there is no method {name!r}; {hint}")
    return _METHODS[name]


def make(name: str, **settings: Any) -> AbstractCompleter:
    """Make a completer by its registered name."""
    method = find(name)
    module, _, class_name = method.target.partition(":")
    return getattr(import_module(module), class_name)(**{**method.settings, **settings})


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raise a `SettingError` for a setting that a method does not have.

    Examples
    --------
    >>> check_settings("knn", {"neighbors": 3})
    Traceback (most recent call last):
    ...
    cofill.errors.SettingError: method 'knn' has no setting 'neighbors'; did you mean 'n_neighbors'?
    """
    if not settings:
        return
    known = set(make(name).get_params(deep=False)) - {"seed"}
    for setting in settings:
        if setting not in known:
            close = get_close_matches(setting, known, n=1)
            names = ", ".join(sorted(known)) or "none"
            hint = f"did you mean {close[0]!r}?" if close else f"its settings: {names}"
            raise SettingError(f"method {name!r} has no setting {setting!r}; {hint}")


register(
    "cooperative",
    "cofill.cooperate:CooperativeReconstruction",
    "codes of the other sites, links, masks or a fusion (only codes cross a border)",
    pools_rows=False,
)
register(
    "federated",
    "cofill.federate:FederatedCompletion",
    "one model that sites with other individuals train together (only updates cross a border)",
    pools_rows=False,
)
register("mean", "cofill.baselines:MeanCompleter", "mean or commonest value", pools_rows=False)
register(
    "knn",
    "cofill.baselines:NeighboursCompleter",
    "k nearest neighbours over pooled rows (scikit-learn)",
    pools_rows=True,
)
register(
    "iterative",
    "cofill.baselines:IterativeCompleter",
    "iterative imputer over pooled rows (scikit-learn)",
    pools_rows=True,
)
register(
    "central-ridge",
    "cofill.baselines:CentralCompleter",
    "ridge regression on pooled raw views",
    pools_rows=True,
    model="ridge",
)
register(
    "central",
    "cofill.baselines:CentralCompleter",
    "network on pooled raw views: the ceiling",
    pools_rows=True,
    model="mlp",
)
