"""What people write down: `federation.toml` for all, `site.toml` for one site; checked when read.

Pydantic checks the files. Every fault becomes one sentence that names the file, the key, what it
must be and what it was. A value that could be a password (a database's URL) is shown without it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, StrictBool, StrictStr, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.functional_validators import WrapValidator
from pydantic_core import PydanticCustomError

from cofill.errors import SettingError
from cofill.privacy import Budget
from cofill.protocol import COORDINATOR, PROTOCOLS, Membership
from cofill.views import ColumnRules, Source, is_url

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+\.[A-Za-z]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_STRICT = ConfigDict(extra="forbid")
_UNKNOWN = "is no setting that is known here; check its spelling or remove it"
_ROLES = Literal["submit", "look"]
_KINDS = Literal["numeric", "binary", "categorical"]


def _must_be(phrase: str, check: Callable[[Any], Any] | None = None) -> WrapValidator:
    """Return a validator whose fault says what a value must be, whichever check failed."""

    def validate(value: Any, check_type: Callable[[Any], Any]) -> Any:
        try:
            checked = check_type(value)
        except ValidationError:
            raise PydanticCustomError("must", phrase.replace("{", "{{")) from None  # pyright: ignore[reportArgumentType]
        if check is not None and not check(checked):
            raise PydanticCustomError("must", phrase.replace("{", "{{"))  # pyright: ignore[reportArgumentType]
        return checked

    return WrapValidator(validate)


def _whole(least: int, most: int) -> Any:
    number = f"a whole number from {least:,} to {most:,}"
    return Annotated[int, Field(strict=True, ge=least, le=most), _must_be(number)]


def _is_party(name: str) -> Any:
    return _NAME.fullmatch(name) and name != COORDINATOR


def _are_names(names: tuple[str, ...]) -> bool:
    return all(_is_party(name) for name in names) and len(set(names)) == len(names)


def _is_text_or_none(text: str | None) -> bool:
    return text != ""


Text = Annotated[StrictStr, _must_be("a text that is not empty", len)]
OptionalText = Annotated[StrictStr | None, _must_be("a text that is not empty", _is_text_or_none)]
Name = Annotated[StrictStr, _must_be("letters, digits, '-' or '_'", _NAME.fullmatch)]
PartyName = Annotated[
    StrictStr, _must_be(f"letters, digits, '-' or '_', and not {COORDINATOR!r}", _is_party)
]


def _views(which: str) -> Any:
    phrase = f"names of {which}: letters, digits, '-' or '_', each once"
    return Annotated[tuple[StrictStr, ...], _must_be(phrase, _are_names)]


def _one_of(choices: Any) -> Any:
    return Annotated[choices, _must_be(f"one of {', '.join(get_args(choices))}")]


@dataclass(frozen=True, config=_STRICT)
class Member:
    """A site of the federation: its name, its organisation, the views it holds."""

    name: PartyName
    organisation: Text = ""
    views: _views("views") = ()  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True, config=_STRICT)
class Person:
    """A person with a kit: may submit and stop runs (``"submit"``), or see them (``"look"``)."""

    name: Annotated[StrictStr, _must_be("an e-mail address", _PERSON.fullmatch)]
    organisation: Text = "cofill"
    role: _one_of(_ROLES) = "look"  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True, config=_STRICT)
class Limits:
    """What no message, step or federation may exceed.

    A run that has not gone on for ``resume_days`` can no longer be resumed: every party removes the
    states, shares and messages that it has kept for it.
    """

    message_megabytes: _whole(1, 2000) = 256  # pyright: ignore[reportInvalidTypeForm]
    step_minutes: _whole(1, 10_000) = 60  # pyright: ignore[reportInvalidTypeForm]
    runs_at_once: _whole(1, 100) = 2  # pyright: ignore[reportInvalidTypeForm]
    resume_days: _whole(1, 10_000) = 7  # pyright: ignore[reportInvalidTypeForm]

    @property
    def message_bytes(self) -> int:
        """The largest message."""
        return self.message_megabytes * 2**20


@dataclass(frozen=True, config=_STRICT)
class FederationConfig:
    """Who takes part, where the coordinator is, who may submit, what every site agrees on.

    Results depend on the order of ``sites`` as they do on the order of views. ``people`` have a kit
    to submit runs or to look at them. With ``id_type="text"`` ids are read as text at every site,
    so that 007 is not 7. ``budget`` is what a site may spend that names no budget of its own.
    ``shared`` are views that sites hold alike, of other individuals each: these are split by row.
    Every other view is at one site, which is split by view. A federation may have both.
    """

    name: Name
    address: Annotated[
        StrictStr, _must_be("a host name or an IP address, without a port", _HOST.fullmatch)
    ]
    port: _whole(1, 65_535)  # pyright: ignore[reportInvalidTypeForm]
    sites: Annotated[tuple[Member, ...], Field(min_length=1)]
    people: tuple[Person, ...] = ()
    id_type: Annotated[Literal["text"] | None, _must_be("'text', or left out")] = None
    budget: Mapping[str, Any] | None = None
    limits: Limits = field(default_factory=Limits)
    shared: _views("the views that sites hold alike") = ()  # pyright: ignore[reportInvalidTypeForm]

    @classmethod
    def read(cls, path: Path) -> FederationConfig:
        """Read `federation.toml`, or raise a `SettingError`."""
        document, where = _read_toml(path), str(path)
        coordinator = document.pop("coordinator", None)
        if not isinstance(coordinator, Mapping):
            raise SettingError(f"{where}: the table [coordinator] is missing")
        document = {"name": "cofill", "shared": document.pop("views", []), **document}
        document |= {"port": 8002} | {
            key if key in ("address", "port") else f"coordinator.{key}": value
            for key, value in coordinator.items()
        }
        document["budget"] = _checked_budget(document.get("budget"), where)
        config = _validate(cls, document, where, _FEDERATION_KEYS)
        return config._with_defaults(where)

    def _with_defaults(self, where: str) -> FederationConfig:
        """Return the configuration with what sites left out, or raise for names used twice."""
        for table in ("sites", "people"):
            names = [entry.name for entry in getattr(self, table)]
            for number, name in enumerate(names, start=1):
                if name in names[: number - 1]:
                    raise SettingError(
                        f"{where}: {table} {number}.name must be another name than every other's, "
                        f"got {name!r}"
                    )
        sites: list[Member] = []
        holders: dict[str, str] = {}
        for number, site in enumerate(self.sites, start=1):
            views = site.views or self.shared or (site.name,)
            for view in views:
                if view in holders and view not in self.shared:
                    raise SettingError(
                        f"{where}: sites {number}.views must be at one site only "
                        f"({holders[view]} has it), got {view!r}"
                    )
                holders[view] = site.name
            organisation = re.sub(r"\W+", "_", site.organisation or site.name)
            sites.append(Member(site.name, organisation, views))
        if len(sites) < 2:
            raise SettingError(f"{where}: sites must be two or more [[sites]], got {len(sites)}")
        people = tuple(
            Person(p.name, re.sub(r"\W+", "_", p.organisation), p.role) for p in self.people
        )
        return replace(self, sites=tuple(sites), people=people)

    @property
    def views(self) -> dict[str, str]:
        """The site of each view that sites do not share, views in their order."""
        return self.membership.view_sites

    @property
    def membership(self) -> Membership:
        """What a protocol knows of who takes part."""
        return Membership({site.name: site.views for site in self.sites}, self.shared)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites, in order."""
        return tuple(site.name for site in self.sites)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FederationConfig:
        """Return the configuration of its fields, as `dataclasses.asdict` has them."""
        return _validate(cls, dict(value), "the kit's federation")


@dataclass(frozen=True, config=_STRICT)
class ViewSource:
    """Where a view's rows are, and how they are read: the fields of `ColumnRules` for one table."""

    source: Annotated[
        StrictStr, _must_be("a .csv or .parquet file, or a database as URL#table", len)
    ]
    id: Annotated[StrictStr, _must_be("the name of the id column", len)]
    kinds: Mapping[str, _one_of(_KINDS)] = field(default_factory=dict)  # pyright: ignore[reportInvalidTypeForm]
    ignore: Annotated[tuple[StrictStr, ...], _must_be("a list of columns", all)] = ()
    image: (
        Annotated[
            tuple[Annotated[int, Field(strict=True, gt=0)], ...],
            _must_be(
                "height and width of the images that its columns are", lambda v: len(v) in (2, 3)
            ),
        ]
        | None
    ) = None
    na_values: Annotated[tuple[StrictStr, ...], _must_be("a list of texts")] = ()
    decimal: OptionalText = None
    thousands: OptionalText = None
    delimiter: OptionalText = None
    encoding: OptionalText = None

    def rules(self, id_type: str | None) -> ColumnRules:
        """Return what `cofill complete` makes of its options: the same rules, checked the same."""
        return ColumnRules(
            kinds=dict(self.kinds),
            ignore=self.ignore,
            id_type=id_type,
            na_values=self.na_values,
            decimal=self.decimal,
            thousands=self.thousands,
            delimiter=self.delimiter,
            encoding=self.encoding,
        )


def _are_protocols(names: tuple[str, ...]) -> bool:
    return all(name in PROTOCOLS.names for name in names)


Experiments = Annotated[
    tuple[StrictStr, ...],
    _must_be(f"a list of experiments among {', '.join(PROTOCOLS.names)}", _are_protocols),
]


@dataclass(frozen=True, config=_STRICT)
class SiteConfig:
    """What one site brings, allows and wants.

    ``views`` says where each view is read from, ``results`` is the folder for what runs make here,
    ``agrees`` are experiments this site takes part in. ``people`` is a table of ids whom this site
    may name in its results, beside those of its views; ``budget`` what its releases may cost, the
    federation's where it is None. With ``only_psi``, runs that align ids by keyed hashing are
    refused.
    """

    views: Mapping[Name, ViewSource]
    results: Path
    agrees: Experiments = PROTOCOLS.names
    people: ViewSource | None = None
    budget: Mapping[str, Any] | None = None
    only_psi: Annotated[StrictBool, _must_be("true or false")] = False

    @classmethod
    def read(cls, path: Path) -> SiteConfig:
        """Read `site.toml`, or raise a `SettingError`; paths are relative to the file's folder."""
        document, where = _read_toml(path), str(path)
        views = document.get("views")
        if not isinstance(views, Mapping) or not views:
            raise SettingError(f"{where}: [views] must hold at least one view, got none")
        flat: dict[str, Any] = {"results": "results"}
        for table, renamed in _SITE_TABLES.items():
            content = document.pop(table, {})
            if not isinstance(content, Mapping):
                raise SettingError(f"{where}: {table} must be a table, got {_shown(content)}")
            flat |= {renamed.get(key, f"{table}.{key}"): value for key, value in content.items()}
        budget = _checked_budget(document.pop("budget", None), where)
        config = _validate(cls, {**document, **flat, "budget": budget}, where, _SITE_KEYS)
        base, people = path.resolve().parent, config.people
        sources = {
            name: _resolved(view, base, f"{where}: views.{name}")
            for name, view in config.views.items()
        }
        if people is not None:
            people = _resolved(people, base, f"{where}: people")
        return replace(config, views=sources, people=people, results=base / config.results)

    def check_against(self, federation: FederationConfig, site: str, where: Path) -> None:
        """Raise a `SettingError` unless this is what the federation expects of a site."""
        member = next(member for member in federation.sites if member.name == site)
        if tuple(sorted(self.views)) != tuple(sorted(member.views)):
            raise SettingError(
                f"{where}: [views] must hold {', '.join(member.views)}, which is what the "
                f"federation expects of site {member.name!r}, got {', '.join(self.views)}"
            )
        senders = {view for view in self.views if view not in federation.shared}
        senders |= {site} if len(senders) < len(self.views) else set()
        if self.budget is not None and len(senders) > 1:
            raise SettingError(
                f"{where}: budget must be left out when a site sends under several names, got "
                f"{', '.join(sorted(senders))}; give each view a site of its own, named like it"
            )


# The files group keys in tables; the classes are flat. Faults name a key as the file has it.
_FEDERATION_KEYS = {"address": "coordinator.address", "port": "coordinator.port", "shared": "views"}
_SITE_TABLES = {
    "agrees": {"experiments": "agrees", "only_psi": "only_psi"},
    "results": {"folder": "results"},
}
_SITE_KEYS = {
    key: f"{table}.{written}"
    for table, keys in _SITE_TABLES.items()
    for written, key in keys.items()
}


def _validate(cls: Any, document: Any, where: str, keys: Mapping[str, str] | None = None) -> Any:
    """Return a checked object, or raise a `SettingError` about the first fault."""
    try:
        return TypeAdapter(cls).validate_python(document)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    key = ""
    for part in fault["loc"]:
        if isinstance(part, int):
            key += f" {part + 1}"
        elif part not in ("[key]", "tuple[constrained-int, ...]"):
            known = (keys or {}).get(part, part) if not key else part
            key += f".{known}" if key else str(known)
    if fault["type"] == "missing":
        raise SettingError(f"{where}: {key} is missing")
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        raise SettingError(f"{where}: {key} {_UNKNOWN}")
    phrase = fault["msg"] if fault["type"] == "must" else "of another type"
    raise SettingError(f"{where}: {key} must be {phrase}, got {_shown(fault['input'])}")


def _shown(value: Any) -> str:
    """Return a value as an error may show it."""
    text = repr(value)
    if "://" in text:
        return "the URL of a database"
    return text if len(text) <= 80 else f"{text[:77]}…"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise SettingError(f"{path} is a folder; give a .toml file") from None
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        position = re.search(r"\(at .*\)", str(error))
        raise SettingError(
            f"{path} must be TOML; it cannot be read {position[0] if position else ''}".rstrip()
        ) from None


def _checked_budget(table: Any, where: str) -> dict[str, Any] | None:
    """Return a [budget] that `Budget` accepts, or raise a `SettingError`."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise SettingError(f"{where}: budget must be a table, got {_shown(table)}")
    for key in set(table) - {f.name for f in fields(Budget)}:
        raise SettingError(f"{where}: budget.{key} {_UNKNOWN}")
    if "epsilon" not in table:
        raise SettingError(f"{where}: budget.epsilon is missing; it must be a positive number")
    try:
        Budget(**table)
    except SettingError as error:
        raise SettingError(f"{where}: budget.{error}") from None
    except TypeError:
        raise SettingError(f"{where}: budget must hold numbers and texts of Budget") from None
    return dict(table)


def _resolved(view: ViewSource, base: Path, table: str) -> ViewSource:
    """Return a source with variables filled in, its path made absolute and its rules checked."""
    key = f"{table}.source"
    try:
        view.rules(None)
    except SettingError as error:
        raise SettingError(f"{table}.{error}") from None

    def variable(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise SettingError(f"{key} needs the environment variable {match[1]}, which is not set")
        return value

    source = _VARIABLE.sub(variable, view.source)
    if not is_url(source):
        source = str(base / Path(source).expanduser())
    try:
        Source(source)
    except SettingError as error:
        raise SettingError(f"{key}: {error}") from None
    return replace(view, source=source)
