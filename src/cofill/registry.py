"""Named implementations of one interface: cofill's own and those that other packages install.

Each registry has an entry-point group (``cofill.methods``, ``cofill.attacks``, ``cofill.sources``,
``cofill.strategies``, ``cofill.learners``, ``cofill.auditors``, ``cofill.protocols``). A package
that declares an entry point in such a group is found when it is installed, with no change to
cofill; ``docs/how-to/extend.md`` shows how. Implementations are imported when they are used, so
that listing names costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import getdoc
from typing import Any

from cofill.errors import SettingError

__all__ = ["Entry", "Registry"]


@dataclass(frozen=True)
class Entry:
    """A name and what it stands for.

    Parameters
    ----------
    name
        What users write.
    target
        The implementation, or ``"module:attribute"`` from which it is imported when used.
    summary
        One line for lists and help; of a plug-in, the first line of its docstring.
    package
        The distribution that brings it.
    facts
        What the registry's users must know of it without importing it.
    """

    name: str
    target: Any
    summary: str = ""
    package: str = "cofill"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        """Return the implementation."""
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(module), attribute)


class Registry:
    """Implementations of one interface by name.

    Parameters
    ----------
    group
        Entry-point group in which other packages declare theirs.
    noun
        What an entry is, in error messages.

    Examples
    --------
    >>> shapes = Registry("example.shapes", "shape")
    >>> shapes.add("round", "math:pi", "a circle")
    >>> shapes.load("round")
    3.141592653589793
    >>> shapes.find("rond")
    Traceback (most recent call last):
    ...
    cofill.errors.SettingError: there is no shape 'rond'; did you mean 'round'?
    """

    def __init__(self, group: str, noun: str) -> None:
        self.group, self.noun = group, noun
        self._entries: dict[str, Entry] = {}

    def add(self, name: str, target: Any, summary: str = "", **facts: Any) -> None:
        """Add an implementation under a name that is still free."""
        if name in self._entries:
            raise SettingError(f"there is a {self.noun} {name!r} already; choose another name")
        self._entries[name] = Entry(name, target, summary, facts=facts)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Entry points of other packages by name, read once: scanning packages takes time."""
        return {point.name: point for point in entry_points(group=self.group)}

    def __iter__(self) -> Iterator[Entry]:
        yield from self._entries.values()
        for name in self._plugins:
            # A plug-in cannot replace what cofill brings: its users would get something else.
            if name not in self._entries:
                yield self._plugin_entry(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, cofill's first."""
        return tuple(dict.fromkeys([*self._entries, *self._plugins]))

    def find(self, name: str) -> Entry:
        """Return an entry, or raise a `SettingError` that has the nearest name."""
        if name in self._entries:
            return self._entries[name]
        if name in self._plugins:
            return self._plugin_entry(name)
        close = get_close_matches(str(name), self.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(self.names)}"
        raise SettingError(f"there is no {self.noun} {name!r}; {hint}")

    def load(self, name: str) -> Any:
        """Return the implementation of a name."""
        return self.find(name).load()

    def _plugin_entry(self, name: str) -> Entry:
        point = self._plugins[name]
        package = "an unnamed package" if point.dist is None else point.dist.name
        try:
            implementation = point.load()
        except Exception as error:  # noqa: BLE001  a plug-in can fail in any way
            raise SettingError(
                f"the {self.noun} {name!r} of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or remove that package"
            ) from None
        summary = (getdoc(implementation) or "").partition("\n")[0]
        facts = getattr(implementation, "registry_facts", {})
        return Entry(name, implementation, summary, package, facts)
