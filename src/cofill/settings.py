"""Settings as people write them: names, types, defaults and meanings of what a class takes.

A class says what it takes by its annotations and the section Parameters of its docstring. From
those come the check of what a file or a command line holds (`typed`, `typed_settings`: tables
become settings objects, lists tuples, and what does not fit is one sentence) and what is shown to
people (`describe_settings`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from cofill.errors import SettingError
from cofill.registry import require_settings

__all__ = [
    "Setting",
    "describe_settings",
    "require_above_zero",
    "require_at_least",
    "require_in",
    "typed",
    "typed_settings",
    "types_of",
]

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_WORDS |= {NoneType: "null"}


@dataclass(frozen=True)
class Setting:
    """A setting of a class for people: its name, its type in words, its default, its meaning."""

    name: str
    type: str
    default: Any
    meaning: str


def typed_settings(
    owner: str, target: Any, settings: Mapping[str, Any], *, leave: Collection[str] = ()
) -> dict[str, Any]:
    """Return settings of a class or function with the types that it declares.

    Parameters
    ----------
    owner
        Whose settings they are, in error messages.
    target
        The class or function; or its types by name.
    settings
        Values as a file or a command line has them, or objects.
    leave
        Names that are not settings, though the target has them.

    Examples
    --------
    >>> def blur(width: float, passes: int = 1) -> None: ...
    >>> typed_settings("blur", blur, {"width": 3, "passes": 2})
    {'width': 3.0, 'passes': 2}
    >>> typed_settings("blur", blur, {"passes": "two"})
    Traceback (most recent call last):
    ...
    cofill.errors.SettingError: blur: passes must be a whole number, got 'two'
    """
    types = dict(target) if isinstance(target, Mapping) else types_of(target)
    require_settings(owner, settings, [name for name in types if name not in leave])
    return {name: typed(value, types[name], f"{owner}: {name}") for name, value in settings.items()}


def typed(value: Any, annotation: Any, name: str) -> Any:
    """Return a value as an annotation wants it; tables become objects and lists tuples.

    Raises
    ------
    SettingError
        If it does not fit, in a sentence that begins with `name`.

    Examples
    --------
    >>> typed([3, 4], tuple[int, ...] | None, "hidden")
    (3, 4)
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    options = _options(annotation)
    classes: list[Any] = [option for option in options if is_dataclass(option)]
    if any(isinstance(value, option) for option in classes):
        return value
    if isinstance(value, Mapping) and classes and not _takes_tables(options):
        return _instance(classes[0], value, name)
    item = getattr(value, "item", None)
    if callable(item) and not getattr(value, "shape", ()):
        value = item()  # NumPy's numbers are what Python's are
    rest = tuple(option for option in options if option not in classes)
    if rest:  # else it takes a table or an object only, and this is neither
        union: Any = Union[rest]  # noqa: UP007
        adapter = TypeAdapter(union, config=ConfigDict(arbitrary_types_allowed=True))
        with suppress(ValidationError):
            return adapter.validate_python(_tuples(value), strict=True)
    raise SettingError(f"{name} must be {_in_words(annotation)}, got {value!r}")


def describe_settings(target: Any, *, leave: Collection[str] = ()) -> tuple[Setting, ...]:
    """Return what a class or function can be told, in the order in which it declares it.

    Examples
    --------
    >>> def blur(width: float, passes: int = 1) -> None:
    ...     '''Blur a picture.
    ...
    ...     Parameters
    ...     ----------
    ...     width
    ...         Of the kernel.
    ...     '''
    >>> describe_settings(blur)[0]
    Setting(name='width', type='a number', default=None, meaning='Of the kernel.')
    """
    meanings = _meanings(target)
    defaults = {n: p.default for n, p in inspect.signature(target).parameters.items()}
    if is_dataclass(target):
        factories = ((f.name, f.default_factory) for f in fields(target))
        defaults |= {name: make() for name, make in factories if make is not MISSING}
    return tuple(
        Setting(
            name,
            _in_words(annotation),
            None if defaults[name] is inspect.Parameter.empty else defaults[name],
            meanings.get(name, ""),
        )
        for name, annotation in types_of(target).items()
        if name not in leave
    )


def types_of(target: Any) -> dict[str, Any]:
    """Return the annotation of each parameter; Any where there is none."""
    # A class may name types that it imports late, when it is used.
    late = getattr(target, "late_types", dict)()
    owner = target if is_dataclass(target) or not inspect.isclass(target) else target.__init__
    hints = get_type_hints(owner, localns=late, include_extras=True)
    signature: Any = inspect.signature(cast(Callable[..., Any], target))
    parameters = signature.parameters.values()
    named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {name: hints.get(name, Any) for name in named}


def _options(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, UnionType):
        return tuple(o for part in get_args(annotation) for o in _options(part))
    return (annotation,)


def _takes_tables(options: Collection[Any]) -> bool:
    origins = [get_origin(option) or option for option in options]
    return any(inspect.isclass(o) and issubclass(o, Mapping) for o in origins)


def _instance(settings_class: Any, values: Mapping[str, Any], name: str) -> Any:
    arguments = typed_settings(name, settings_class, values)
    for field in fields(settings_class):
        needs = field.default is MISSING and field.default_factory is MISSING and field.init
        if needs and field.name not in arguments:
            raise SettingError(f"{name} needs the setting {field.name!r} in its table")
    try:
        return settings_class(**arguments)
    except SettingError as error:
        raise SettingError(f"{name}: {error}") from None


def _tuples(value: Any) -> Any:
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {name: _tuples(part) for name, part in value.items()}
    return value


def _in_words(annotation: Any) -> str:
    words = list(dict.fromkeys(w for o in _options(annotation) if (w := _option_in_words(o))))
    if "a number" in words and "a whole number" in words:
        words.remove("a whole number")
    if "null" in words:
        words.remove("null")
        words.append("null")
    return " or ".join(words) or str(getattr(annotation, "__name__", annotation))


def _option_in_words(option: Any) -> str:
    """Return what people can write; empty for objects that only Python can make."""
    origin = get_origin(option)
    if origin is Annotated:
        inner, *bounds = get_args(option)
        return _in_words(inner) + "".join(map(_bound_in_words, bounds))
    if origin is Literal:
        return " or ".join(map(repr, get_args(option)))
    if is_dataclass(option):
        return f"a table of {', '.join(f.name for f in fields(option) if f.init)}"
    if option in _WORDS:
        return _WORDS[option]
    if origin in (tuple, list) or option in (tuple, list):
        inner = [a for a in get_args(option) if a is not Ellipsis]
        return f"a list, each {_in_words(inner[0])}" if inner else "a list"
    if _takes_tables([option]):
        return "a table"
    return "any value" if option is Any else ""


def _bound_in_words(bound: Any) -> str:
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    return "".join(
        f" {text} {getattr(bound, name)}"
        for name, text in words.items()
        if getattr(bound, name, None) is not None
    )


def _meanings(target: Any) -> dict[str, str]:
    """Return what the section Parameters of docstrings says, of base classes where needed."""
    meanings: dict[str, str] = {}
    for owner in reversed(target.__mro__ if inspect.isclass(target) else (target,)):
        names: list[str] = []
        _, _, section = inspect.cleandoc(owner.__doc__ or "").partition("Parameters\n----------\n")
        lines = section.splitlines()
        for number, line in enumerate(lines):
            if lines[number + 1 :] and lines[number + 1].startswith("---"):
                break  # the heading of the next section
            if line and not line.startswith(" "):
                names = [name.strip() for name in line.partition(" : ")[0].split(",")]
                meanings |= dict.fromkeys(names, "")
            for name in names if line.startswith(" ") else ():
                meanings[name] = f"{meanings[name]} {line.strip()}".strip().replace("`", "")
    return meanings


def require_at_least(settings: Any, **least: int) -> None:
    """Raise a `SettingError` unless the named settings are finite and at least so much, or None."""
    for name, smallest in least.items():
        value = getattr(settings, name)
        if value is not None and not (value >= smallest and math.isfinite(value)):
            raise SettingError(f"{name} must be at least {smallest}, got {value}")


def require_above_zero(settings: Any, *names: str) -> None:
    """Raise a `SettingError` unless the named settings are finite and above 0, or None."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise SettingError(f"{name} must be above 0, got {value}")


def require_in(settings: Any, interval: str, *names: str) -> None:
    """Raise a `SettingError` unless settings are in an interval such as ``"[0, 1)"``, or None."""
    low, high = map(float, interval[1:-1].split(","))
    for name in names:
        value: Any = getattr(settings, name)
        at_end = (value == low and interval[0] == "[") or (value == high and interval[-1] == "]")
        if value is not None and not (at_end or low < value < high):
            raise SettingError(f"{name} must be in {interval}, got {value}")
