"""Names of a package that are imported when they are used."""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` for names of its ``if TYPE_CHECKING:``.

    So names are written once, where type checkers read them: whatever that block imports is
    imported when it is first asked for.

    Examples
    --------
    >>> find, names = lazy_names("cofill")
    >>> find("Kind").__module__, "Kind" in names()
    ('cofill.views._feature', True)
    """

    @cache
    def module_of() -> dict[str, str]:
        loader: Any = getattr(find_spec(package), "loader", None)
        (block,) = (n for n in ast.parse(loader.get_source(package)).body if isinstance(n, ast.If))
        imports = (line for line in block.body if isinstance(line, ast.ImportFrom))
        return {name.name: str(line.module) for line in imports for name in line.names}

    def find(name: str) -> Any:
        if name not in module_of():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of()[name]), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *module_of()})

    return find, names
