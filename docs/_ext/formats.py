"""Tables of the reference that come from the code: releases and strategies."""

from __future__ import annotations

import inspect

from cofill import privacy
from cofill.federate import STRATEGIES


def releases() -> str:
    """Return a table of the types of release."""
    found = [
        made
        for made in map(vars(privacy).get, privacy.__all__)
        if inspect.isclass(made) and issubclass(made, privacy.Release) and hasattr(made, "kind")
    ]
    lines = ["| kind | type | what it is |", "| --- | --- | --- |"]
    lines += [
        f"| `{made.kind}` | {{py:obj}}`{made.__name__} <cofill.privacy.{made.__name__}>` | "
        f"{_first(made)} |"
        for made in sorted(found, key=lambda made: made.kind)
    ]
    return "\n".join(lines)


def strategies() -> str:
    """Return a table of the strategies."""
    lines = ["| name | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {_first(made)} |" for name, made in STRATEGIES.items()]
    return "\n".join(lines)


def _first(made: type) -> str:
    """Return the first sentence of a docstring."""
    return inspect.cleandoc(made.__doc__ or "").partition("\n")[0].replace("`", "")
