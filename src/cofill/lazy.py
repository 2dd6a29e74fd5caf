"""Names of a package that are imported when they are used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` for names by the module that holds them.

    Modules are named from the package on, as in ``"._masks"``, or in full.

    Examples
    --------
    >>> find, names = lazy_names("cofill", {".errors": ("DataError",)})
    >>> find("DataError").__name__, "DataError" in names()
    ('DataError', True)
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name], package), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *module_of})

    return find, names
