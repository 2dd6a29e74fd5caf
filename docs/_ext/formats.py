"""Make the reference's tables of packages, releases and strategies from the code."""

from __future__ import annotations

import inspect
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

from cofill.federate import STRATEGIES
from cofill.privacy import release_types

ROOT = Path(__file__).parents[2]
# These print and parse: nobody imports them.
NOT_PUBLIC = frozenset({"__main__", "cli", "demo"})


def packages() -> str:
    """Return a table of the packages in the order in which they may import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == ["cofill"])
    lines = ["| package | contents |", "| --- | --- |"]
    for layer in layers:
        for name in (word.strip() for word in layer.split("|")):
            if name not in NOT_PUBLIC:
                contents = _first_sentence(import_module(f"cofill.{name}"))
                lines.append(f"| {{doc}}`{name}` | {contents} |")
    return "\n".join(lines)


def releases() -> str:
    """Return a table of the types of release."""
    lines = ["| kind | type | what it is |", "| --- | --- | --- |"]
    lines += [
        f"| `{release.kind}` | {{py:obj}}`{release.__name__} <cofill.privacy.{release.__name__}>` "
        f"| {_first_sentence(release)} |"
        for _, release in sorted(release_types().items())
    ]
    return "\n".join(lines)


def strategies() -> str:
    """Return a table of the strategies."""
    lines = ["| name | what it does |", "| --- | --- |"]
    lines += [f"| `{entry.name}` | {_first_sentence(entry.load())} |" for entry in STRATEGIES]
    return "\n".join(lines)


def _first_sentence(documented: type | ModuleType) -> str:
    return inspect.cleandoc(documented.__doc__ or "").partition("\n")[0].replace("`", "")
