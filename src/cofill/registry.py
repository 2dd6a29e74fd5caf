"""Named implementations of one interface: cofill's own and those that other packages install.

Each registry has an entry-point group (``cofill.methods``, ``cofill.attacks``, ``cofill.sources``,
``cofill.strategies``, ``cofill.learners``, ``cofill.auditors``, ``cofill.protocols``,
``cofill.datasets``). A package that declares an entry point in such a group is found when it is
installed, with no change to cofill; ``docs/how-to/extend.md`` shows how. Implementations are
imported when they are used, so that listing names costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import getdoc
from typing import Any

from cofill.errors import SettingError

__all__ = ["Entry", "Registry", "require_settings", "suggest"]

_MOST_NAMES = 20  # listed in a message; a table can have thousands of columns


def suggest(name: str, known: Iterable[str]) -> str:
    """Return how a message about an unknown name ends: with the nearest known one, or a list.

    Examples
    --------
    >>> suggest("Wieght", ["age", "weight"]), suggest("x", ["age", "weight"])
    ("did you mean 'weight'?", "there is 'age', 'weight'")
    """
    by_lower = {option.lower(): option for option in known}
    if close := get_close_matches(name.lower(), by_lower, n=1):
        return f"did you mean {by_lower[close[0]]!r}?"
    options = [repr(option) for option in by_lower.values()]
    more = ["…"] if len(options) > _MOST_NAMES else []
    return f"there is {', '.join(options[:_MOST_NAMES] + more) or 'none'}"


def require_settings(owner: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise a `SettingError` for a setting that its owner does not have."""
    for name in names:
        if name not in known:
            hint = suggest(name, sorted(known))
            raise SettingError(f"{owner} has no setting {name!r}; {hint}")


@dataclass(frozen=True)
class Entry:
    """A name and what it stands for.

    ``target`` is the implementation, or ``"module:attribute"`` from which it is imported when used.
    ``summary`` is one line for lists and help; of a plug-in, its ``description`` if it has one,
    else the first line of its docstring. ``package`` is the distribution that brings it, ``facts``
    are what the registry's users must know of it without importing it. Of a plug-in that cannot be
    loaded, which ``is_broken``, the summary says why.
    """

    name: str
    target: Any
    summary: str = ""
    package: str = "cofill"
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_broken: bool = False

    def load(self) -> Any:
        """Return the implementation."""
        if self.is_broken:
            raise SettingError(self.summary)
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(module), attribute)


class Registry:
    """Implementations of one interface by name.

    Other packages declare theirs in the entry-point ``group``; ``noun`` is what an entry is, in
    error messages; ``facts`` are attributes of a plug-in's implementation that become facts of its
    entry.

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

    def __init__(self, group: str, noun: str, *, facts: tuple[str, ...] = ()) -> None:
        self.group, self.noun, self._facts = group, noun, facts
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
        """Yield cofill's entries, then those of plug-ins; one that is broken says so."""
        yield from self._entries.values()
        for name, point in self._plugins.items():
            # A plug-in cannot replace what cofill brings: its users would get something else.
            if name in self._entries:
                continue
            try:
                yield self._plugin_entry(name)
            except SettingError as error:
                # A list must not fail for all because of one package; `find` raises the error.
                yield Entry(name, None, str(error), _package_of(point), is_broken=True)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, cofill's first."""
        return tuple(dict.fromkeys([*self._entries, *self._plugins]))

    @property
    def packages(self) -> frozenset[str]:
        """Distributions that bring plug-ins; none of them is imported."""
        return frozenset(map(_package_of, self._plugins.values()))

    def find(self, name: str) -> Entry:
        """Return an entry, or raise a `SettingError` that has the nearest name."""
        if name in self._entries:
            return self._entries[name]
        if name in self._plugins:
            return self._plugin_entry(name)
        raise SettingError(f"there is no {self.noun} {name!r}; {suggest(str(name), self.names)}")

    def load(self, name: str) -> Any:
        """Return the implementation of a name."""
        return self.find(name).load()

    def _plugin_entry(self, name: str) -> Entry:
        point = self._plugins[name]
        package = _package_of(point)
        try:
            implementation = point.load()
        except Exception as error:  # noqa: BLE001  a plug-in can fail in any way
            raise SettingError(
                f"the {self.noun} {name!r} of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or remove that package"
            ) from None
        # The docstring of an object that is not a class or function is that of its class.
        description = getattr(implementation, "description", None)
        words = description if isinstance(description, str) else getdoc(implementation) or ""
        summary = words.partition("\n")[0].rstrip(".")
        known = {fact: getattr(implementation, fact, None) for fact in self._facts}
        facts = {fact: value for fact, value in known.items() if value is not None}
        return Entry(name, implementation, summary, package, facts)


def _package_of(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else point.dist.name
