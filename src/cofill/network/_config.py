"""What people write down: `federation.toml` for all, `site.toml` for one site; checked when read.

Every fault is one sentence that names the file, the key, what it must be and what it was. A value
that could be a password (a database's URL) is shown without it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cofill.errors import SettingError
from cofill.privacy import Budget
from cofill.protocol import PROTOCOLS, Membership
from cofill.views import Source, is_database

__all__ = [
    "ROLES",
    "FederationConfig",
    "Limits",
    "Member",
    "Person",
    "SiteConfig",
    "ViewSource",
]

ROLES = ("submit", "look")
COORDINATOR = "coordinator"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+\.[A-Za-z]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_KINDS = ("numeric", "binary", "categorical")


class _Table:
    """A TOML table that is read key by key; whatever is left over was not meant to be there."""

    def __init__(self, values: Any, where: str, at: str = "") -> None:
        if not isinstance(values, Mapping):
            raise SettingError(f"{where}: {at or 'it'} must be a table, got {_shown(values)}")
        self.values, self.where, self.at = dict(values), where, at

    def name(self, key: str) -> str:
        return f"{self.at}.{key}" if self.at else key

    def fault(self, key: str, must: str, got: Any) -> SettingError:
        return SettingError(f"{self.where}: {self.name(key)} must be {must}, got {_shown(got)}")

    def take(self, key: str, kind: type | tuple[type, ...], must: str, default: Any = ...) -> Any:
        if key not in self.values:
            if default is ...:
                raise SettingError(f"{self.where}: {self.name(key)} is missing; it must be {must}")
            return default
        value = self.values.pop(key)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
            raise self.fault(key, must, value)
        return value

    def text(self, key: str, must: str, default: Any = ...) -> Any:
        value = self.take(key, str, must, default)
        if value == "":
            raise self.fault(key, must, value)
        return value

    def texts(self, key: str, must: str, default: Any = ...) -> tuple[str, ...]:
        value = self.take(key, list, must, default)
        if not all(isinstance(v, str) and v for v in value):
            raise self.fault(key, must, value)
        return tuple(value)

    def whole(self, key: str, least: int, most: int, default: Any = ...) -> int:
        must = f"a whole number from {least:,} to {most:,}"
        value = self.take(key, int, must, default)
        if not least <= value <= most:
            raise self.fault(key, must, value)
        return value

    def table(self, key: str, *, needed: bool = False) -> _Table:
        if key not in self.values and needed:
            raise SettingError(f"{self.where}: the table [{self.name(key)}] is missing")
        return _Table(self.values.pop(key, {}), self.where, self.name(key))

    def end(self) -> None:
        if self.values:
            first = next(iter(self.values))
            raise SettingError(
                f"{self.where}: {self.name(first)} is no setting that is known here; check its "
                "spelling or remove it"
            )


def _shown(value: Any) -> str:
    """Return a value as an error may show it."""
    if isinstance(value, str) and is_database(value):
        return repr(f"{value.partition(':')[0]}://…")
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


@dataclass(frozen=True)
class Member:
    """A site of the federation: its name, its organisation, the views it holds."""

    name: str
    organisation: str
    views: tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """Somebody with a kit: may submit and stop runs (``"submit"``), or see them (``"look"``)."""

    name: str
    organisation: str
    role: str


@dataclass(frozen=True)
class Limits:
    """What no message, step or federation may exceed."""

    message_megabytes: int = 256
    step_minutes: int = 60
    runs_at_once: int = 2

    @property
    def message_bytes(self) -> int:
        """The largest message."""
        return self.message_megabytes * 2**20


@dataclass(frozen=True)
class FederationConfig:
    """Who takes part, where the coordinator is, who may submit, what every site agrees on.

    Parameters
    ----------
    name
        Of the federation.
    address, port
        Where sites and submitters reach the coordinator.
    sites
        The sites in their order; results depend on it as they do on the order of views.
    people
        Who has a kit to submit runs or to look at them.
    id_type
        ``"text"`` when ids are read as text at every site, so that 007 is not 7.
    budget
        What a site may spend that names no budget of its own.
    limits
        Sizes and times.
    shared
        Views that sites hold alike, of other individuals each: these are split by row. Every other
        view is at one site, which is split by view. A federation may have both.
    """

    name: str
    address: str
    port: int
    sites: tuple[Member, ...]
    people: tuple[Person, ...] = ()
    id_type: str | None = None
    budget: Mapping[str, Any] | None = None
    limits: Limits = field(default_factory=Limits)
    shared: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> FederationConfig:
        """Read `federation.toml`, or raise a `SettingError`."""
        table = _Table(_toml(path), str(path))
        name = table.text("name", "a short name", "cofill")
        if not _NAME.fullmatch(name):
            raise table.fault("name", "letters, digits, '-' or '_'", name)
        place = table.table("coordinator", needed=True)
        address = place.text("address", "a host name that every site can reach")
        if not _HOST.fullmatch(address):
            raise place.fault("address", "a host name or an IP address, without a port", address)
        port = place.whole("port", 1, 65_535, 8002)
        place.end()
        shared = _shared(table)
        sites = _members(table, shared)
        people = _people(table)
        id_type = table.text("id_type", "'text', or left out", None)
        if id_type not in (None, "text"):
            raise table.fault("id_type", "'text', or left out", id_type)
        budget = _budget(table)
        limits = table.table("limits")
        limited = Limits(
            limits.whole("message_megabytes", 1, 2000, Limits.message_megabytes),
            limits.whole("step_minutes", 1, 10_000, Limits.step_minutes),
            limits.whole("runs_at_once", 1, 100, Limits.runs_at_once),
        )
        limits.end()
        table.end()
        return cls(name, address, port, sites, people, id_type, budget, limited, shared)

    @property
    def views(self) -> dict[str, str]:
        """The site of each view that sites do not share, views in their order."""
        return {
            view: site.name for site in self.sites for view in site.views if view not in self.shared
        }

    @property
    def membership(self) -> Membership:
        """What a protocol knows of who takes part."""
        return Membership({site.name: site.views for site in self.sites}, self.shared)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites, in order."""
        return tuple(site.name for site in self.sites)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FederationConfig:
        """Return what `to_json` gave."""
        return cls(
            **{
                **value,
                "sites": tuple(Member(**{**s, "views": tuple(s["views"])}) for s in value["sites"]),
                "people": tuple(Person(**p) for p in value["people"]),
                "limits": Limits(**value["limits"]),
                "shared": tuple(value.get("shared", ())),
            }
        )


@dataclass(frozen=True)
class ViewSource:
    """Where a view's rows are, and how its columns are read."""

    source: str
    id: str
    kinds: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    image: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SiteConfig:
    """What one site brings, allows and wants.

    Parameters
    ----------
    views
        Where each view is read from.
    results
        Folder for what runs make here.
    agrees
        Experiments this site takes part in.
    people, people_id
        A table of ids whom this site may name in its results, beside those of its views.
    budget
        What its releases may cost; the federation's where it is None.
    only_psi
        Whether to refuse runs that align ids by keyed hashing.
    """

    views: Mapping[str, ViewSource]
    results: Path
    agrees: tuple[str, ...] = PROTOCOLS.names
    people: ViewSource | None = None
    budget: Mapping[str, Any] | None = None
    only_psi: bool = False

    @classmethod
    def read(cls, path: Path) -> SiteConfig:
        """Read `site.toml`, or raise a `SettingError`; paths are relative to the file's folder."""
        table = _Table(_toml(path), str(path))
        base = path.resolve().parent
        given = table.table("views", needed=True)
        views = {}
        for name in tuple(given.values):
            if not _NAME.fullmatch(name):
                raise given.fault(name, "named by letters, digits, '-' or '_'", name)
            views[name] = _source(given.table(name), base)
        if not views:
            raise SettingError(f"{path}: [views] must hold at least one view, got none")
        people = None
        if "people" in table.values:
            people = _source(table.table("people"), base, columns=False)
        agreed = table.table("agrees")
        must = f"a list of experiments among {', '.join(PROTOCOLS.names)}"
        agrees = agreed.texts("experiments", must, list(PROTOCOLS.names))
        for name in agrees:
            if name not in PROTOCOLS.names:
                raise agreed.fault("experiments", must, name)
        only_psi = agreed.take("only_psi", bool, "true or false", False)
        agreed.end()
        wanted = table.table("results")
        folder = wanted.text("folder", "a folder", "results")
        wanted.end()
        budget = _budget(table)
        table.end()
        return cls(views, base / folder, agrees, people, budget, only_psi)

    def check_against(self, federation: FederationConfig, site: str, where: Path) -> None:
        """Raise a `SettingError` unless this is what the federation expects of a site."""
        member = next(one for one in federation.sites if one.name == site)
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


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise SettingError(f"{path} is a folder; give a .toml file") from None
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        where = re.search(r"\(at .*\)", str(error))
        raise SettingError(
            f"{path} must be TOML; it cannot be read {where[0] if where else ''}".rstrip()
        ) from None


def _shared(table: _Table) -> tuple[str, ...]:
    must = "names of the views that sites hold alike"
    views = table.texts("views", must, [])
    for view in views:
        if not _NAME.fullmatch(view) or views.count(view) > 1:
            raise table.fault("views", f"{must}: letters, digits, '-' or '_', each once", view)
    return views


def _members(table: _Table, shared: tuple[str, ...]) -> tuple[Member, ...]:
    given = table.take("sites", list, "two or more [[sites]]")
    sites, seen = [], {}
    for number, values in enumerate(given, start=1):
        one = _Table(values, table.where, f"sites {number}")
        name = one.text("name", "a site's name")
        if not _NAME.fullmatch(name) or name == COORDINATOR:
            raise one.fault("name", f"letters, digits, '-' or '_', and not {COORDINATOR!r}", name)
        if name in (s.name for s in sites):
            raise one.fault("name", "another name than every other site's", name)
        organisation = one.text("organisation", "the organisation's name", name)
        if not re.fullmatch(r"\w+", organisation):
            organisation = re.sub(r"\W+", "_", organisation)
        views = one.texts("views", "names of views", list(shared) or [name])
        if not views:
            raise one.fault("views", "names of at least one view", list(views))
        for view in views:
            if not _NAME.fullmatch(view) or view == COORDINATOR:
                raise one.fault("views", "named by letters, digits, '-' or '_'", view)
            if view in seen and view not in shared:
                raise one.fault("views", f"at one site only ({seen[view]} has it)", view)
            seen[view] = name
        one.end()
        sites.append(Member(name, organisation, views))
    if len(sites) < 2:
        raise table.fault("sites", "two or more [[sites]]", f"{len(sites)} sites")
    return tuple(sites)


def _people(table: _Table) -> tuple[Person, ...]:
    people: list[Person] = []
    for number, values in enumerate(table.take("people", list, "[[people]]", []), start=1):
        one = _Table(values, table.where, f"people {number}")
        name = one.text("name", "an e-mail address")
        if not _PERSON.fullmatch(name):
            raise one.fault("name", "an e-mail address", name)
        if name in (p.name for p in people):
            raise one.fault("name", "another address than everybody else's", name)
        organisation = one.text("organisation", "the organisation's name", "cofill")
        role = one.text("role", f"one of {', '.join(ROLES)}", "look")
        if role not in ROLES:
            raise one.fault("role", f"one of {', '.join(ROLES)}", role)
        one.end()
        people.append(Person(name, re.sub(r"\W+", "_", organisation), role))
    return tuple(people)


def _budget(table: _Table) -> dict[str, Any] | None:
    if "budget" not in table.values:
        return None
    given = table.table("budget")
    found: dict[str, Any] = {"epsilon": given.take("epsilon", (float, int), "a positive number")}
    for key, kind, must in (
        ("delta", (float, int), "a number between 0 and 1"),
        ("neighbours", str, "'replace one' or 'add or remove one'"),
        ("unit", str, "'record' or 'site'"),
        ("only_guaranteed", bool, "true or false"),
    ):
        value = given.take(key, kind, must, None)
        if value is not None:
            found[key] = value
    given.end()
    try:
        Budget(**found)
    except SettingError as error:
        raise SettingError(f"{table.where}: {given.at}.{error}") from None
    return found


def _source(table: _Table, base: Path, *, columns: bool = True) -> ViewSource:
    text = table.text("source", "a .csv or .parquet file, or a database as URL#table")
    text = _VARIABLE.sub(lambda found: _variable(found, table), text)
    if not is_database(text):
        text = str(base / Path(text).expanduser())
    try:
        Source(text)
    except SettingError as error:
        raise SettingError(f"{table.where}: {table.name('source')}: {error}") from None
    column = table.text("id", "the name of the id column")
    if not columns:
        table.end()
        return ViewSource(text, column)
    ignore = table.texts("ignore", "a list of columns", [])
    given = table.table("kinds")
    kinds = {}
    for name in tuple(given.values):
        kind = given.text(name, f"one of {', '.join(_KINDS)}")
        if kind not in _KINDS:
            raise given.fault(name, f"one of {', '.join(_KINDS)}", kind)
        kinds[name] = kind
    must = "height and width of the images that its columns are"
    image = tuple(table.take("image", list, must, []))
    if image and (len(image) != 2 or not all(type(n) is int and n > 0 for n in image)):
        raise table.fault("image", must, list(image))
    table.end()
    return ViewSource(text, column, kinds, ignore, image or None)


def _variable(found: re.Match[str], table: _Table) -> str:
    """Put an environment variable in its place, so that no password stands in the file."""
    value = os.environ.get(found[1])
    if value is None:
        raise SettingError(
            f"{table.where}: {table.name('source')} needs the environment variable {found[1]}, "
            "which is not set"
        )
    return value
