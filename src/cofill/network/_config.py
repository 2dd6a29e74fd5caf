"""What people write down: `federation.toml` for all, `site.toml` for one site; checked when read.

What may leave a site is in a third file, its policy (`_policy.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr
from pydantic.dataclasses import dataclass

from cofill.errors import SettingError
from cofill.network._account import ACCOUNT_FOLDER
from cofill.network._fields import (
    STRICT,
    UNKNOWN,
    OptionalText,
    Text,
    must_be,
    one_of,
    read_toml,
    shown,
    validate,
    whole,
)
from cofill.network._policy import POLICY_FILE, SitePolicy
from cofill.network._policy_signature import require_signed
from cofill.protocol import COORDINATOR, Membership
from cofill.views import ColumnRules, Source, is_url

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+\.[A-Za-z]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_ROLES = Literal["submit", "look"]
_KINDS = Literal["numeric", "binary", "categorical"]
_FORMULAS = Literal["escape", "keep"]


def _is_party(name: str) -> Any:
    return _NAME.fullmatch(name) and name != COORDINATOR


def _are_names(names: tuple[str, ...]) -> bool:
    return all(_is_party(name) for name in names) and len(set(names)) == len(names)


Name = Annotated[StrictStr, must_be("letters, digits, '-' or '_'", _NAME.fullmatch)]
PartyName = Annotated[
    StrictStr, must_be(f"letters, digits, '-' or '_', and not {COORDINATOR!r}", _is_party)
]


def _are_categories(values: tuple[Any, ...]) -> bool:
    return len(values) >= 2 and len(set(values)) == len(values) and len({*map(type, values)}) == 1


_Categories = Annotated[
    tuple[StrictStr | StrictBool | StrictInt, ...],
    must_be("two values or more of one type, each once", _are_categories),
]


def _views(which: str) -> Any:
    phrase = f"names of {which}: letters, digits, '-' or '_', each once"
    return Annotated[tuple[StrictStr, ...], must_be(phrase, _are_names)]


@dataclass(frozen=True, config=STRICT)
class Member:
    """A site of the federation: its name, its organisation, the views it holds."""

    name: PartyName
    organisation: Text = ""
    views: _views("views") = ()  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True, config=STRICT)
class Person:
    """A person with a kit: may submit and stop runs (``"submit"``), or see them (``"look"``)."""

    name: Annotated[StrictStr, must_be("an e-mail address", _PERSON.fullmatch)]
    organisation: Text = "cofill"
    role: one_of(_ROLES) = "look"  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True, config=STRICT)
class Limits:
    """What no message, step or federation may exceed.

    A run that has not gone on for ``resume_days`` can no longer be resumed: every party removes the
    states, shares and messages that it has kept for it.
    """

    message_megabytes: whole(1, 2000) = 256  # pyright: ignore[reportInvalidTypeForm]
    step_minutes: whole(1, 10_000) = 60  # pyright: ignore[reportInvalidTypeForm]
    runs_at_once: whole(1, 100) = 2  # pyright: ignore[reportInvalidTypeForm]
    resume_days: whole(1, 10_000) = 7  # pyright: ignore[reportInvalidTypeForm]

    @property
    def message_bytes(self) -> int:
        """The largest message."""
        return self.message_megabytes * 2**20

    @property
    def mail_bytes(self) -> int:
        """The most that a party sends or is sent in one step, in all messages together."""
        return 2 * self.message_bytes


@dataclass(frozen=True, config=STRICT)
class FederationConfig:
    """Who takes part, where the coordinator is, who may submit, what every site agrees on.

    Results depend on the order of ``sites`` as they do on the order of views. ``people`` have a kit
    to submit runs or to look at them. With ``id_type="text"`` ids are read as text at every site,
    so that 007 is not 7. ``shared`` are views that sites hold alike, of other individuals each:
    these are split by row. Every other view is at one site, which is split by view. A federation
    may have both. ``categories`` are the agreed values of columns, by view: sites tell each other
    these, and not which of them somebody has.
    """

    name: Name
    address: Annotated[
        StrictStr, must_be("a host name or an IP address, without a port", _HOST.fullmatch)
    ]
    port: whole(1, 65_535)  # pyright: ignore[reportInvalidTypeForm]
    sites: Annotated[tuple[Member, ...], Field(min_length=1)]
    people: tuple[Person, ...] = ()
    id_type: Annotated[Literal["text"] | None, must_be("'text', or left out")] = None
    limits: Limits = field(default_factory=Limits)
    shared: _views("the views that sites hold alike") = ()  # pyright: ignore[reportInvalidTypeForm]
    categories: Mapping[Name, Mapping[StrictStr, _Categories]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> FederationConfig:
        """Read `federation.toml`, or raise a `SettingError`."""
        document, where = read_toml(path), str(path)
        coordinator = document.pop("coordinator", None)
        if not isinstance(coordinator, Mapping):
            raise SettingError(f"{where}: the table [coordinator] is missing")
        document = {"name": "cofill", "shared": document.pop("views", []), **document}
        document |= {"port": 8002} | {
            key if key in ("address", "port") else f"coordinator.{key}": value
            for key, value in coordinator.items()
        }
        config = validate(cls, document, where, _FEDERATION_KEYS)
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
        return validate(cls, dict(value), "the kit's federation")


@dataclass(frozen=True, config=STRICT)
class ViewSource:
    """Where a view's rows are, and how they are read: the fields of `ColumnRules` for one table."""

    source: Annotated[
        StrictStr, must_be("a .csv or .parquet file, or a database as URL#table", len)
    ]
    id: Annotated[StrictStr, must_be("the name of the id column", len)]
    kinds: Mapping[str, one_of(_KINDS)] = field(default_factory=dict)  # pyright: ignore[reportInvalidTypeForm]
    ignore: Annotated[tuple[StrictStr, ...], must_be("a list of columns", all)] = ()
    image: (
        Annotated[
            tuple[Annotated[int, Field(strict=True, gt=0)], ...],
            must_be(
                "height and width of the images that its columns are", lambda v: len(v) in (2, 3)
            ),
        ]
        | None
    ) = None
    na_values: Annotated[tuple[StrictStr, ...], must_be("a list of texts")] = ()
    decimal: OptionalText = None
    thousands: OptionalText = None
    delimiter: OptionalText = None
    encoding: OptionalText = None

    def rules(self, id_type: str | None) -> ColumnRules:
        """Return what `cofill complete` makes of its options: the same rules, checked the same."""
        marks = ("decimal", "thousands", "delimiter", "encoding")
        stated = {name: getattr(self, name) for name in ("ignore", "na_values", *marks)}
        return ColumnRules(kinds=dict(self.kinds), id_type=id_type, **stated)


@dataclass(frozen=True, config=STRICT)
class SiteConfig:
    """What one site brings, and what it allows.

    ``views`` says where each view is read from, ``results`` is the folder for what runs make here.
    ``people`` is a table of ids whom this site may name in its results, beside those of its views.
    ``policy`` is what may leave, whatever an order asks for; ``account`` is the folder in which the
    site remembers what it has spent, beside ``results`` unless stated. ``formulas`` says what
    becomes of texts that a spreadsheet would compute, as in `cofill.views.write_table`.
    """

    views: Mapping[Name, ViewSource]
    results: Path
    people: ViewSource | None = None
    policy: SitePolicy = field(default_factory=SitePolicy)
    account: Path | None = None
    formulas: one_of(_FORMULAS) = "escape"  # pyright: ignore[reportInvalidTypeForm]

    @property
    def has_images(self) -> bool:
        """Whether a view is of images."""
        return any(view.image is not None for view in self.views.values())

    @property
    def account_folder(self) -> Path:
        """Where the site remembers what it has spent."""
        return self.account or self.results.parent / ACCOUNT_FOLDER

    @classmethod
    def read(cls, path: Path, *, is_unsigned: bool = False) -> SiteConfig:
        """Read `site.toml`, or raise a `SettingError`; paths are relative to the file's folder.

        A policy beside it must be the one that its operator has signed, unless it is only looked at
        (``is_unsigned``).
        """
        document, where = read_toml(path), str(path)
        views = document.get("views")
        if not isinstance(views, Mapping) or not views:
            raise SettingError(f"{where}: [views] must hold at least one view, got none")
        results = document.pop("results", {})
        if not isinstance(results, Mapping):
            raise SettingError(f"{where}: results must be a table, got {shown(results)}")
        for key in ("policy", "account", "formulas"):
            if key in document:
                raise SettingError(
                    f"{where}: {key} {UNKNOWN}; a site's policy is in the file {POLICY_FILE}"
                )
        renamed = {_RESULT_KEYS.get(k, f"results.{k}"): v for k, v in results.items()}
        document |= {"results": "results"} | renamed
        config = validate(
            cls, document, where, {v: f"results.{k}" for k, v in _RESULT_KEYS.items()}
        )
        base, people = path.resolve().parent, config.people
        sources = {
            name: _resolved(view, base, f"{where}: views.{name}")
            for name, view in config.views.items()
        }
        if people is not None:
            people = _resolved(people, base, f"{where}: people")
        results, account = base / config.results, base / ACCOUNT_FOLDER
        policy = _read_policy(base / POLICY_FILE, is_unsigned=is_unsigned)
        own_files = {"results": results, "policy": policy, "account": account}
        return replace(config, views=sources, people=people, **own_files)

    def check_against(self, federation: FederationConfig, site: str, where: Path) -> None:
        """Raise a `SettingError` unless this is what the federation expects of a site."""
        member = next(member for member in federation.sites if member.name == site)
        if tuple(sorted(self.views)) != tuple(sorted(member.views)):
            raise SettingError(
                f"{where}: [views] must hold {', '.join(member.views)}, which is what the "
                f"federation expects of site {member.name!r}, got {', '.join(self.views)}"
            )


def _read_policy(path: Path, *, is_unsigned: bool) -> SitePolicy:
    """Return the policy in a file, or the default where there is none."""
    try:
        # Read once: what is checked is what is in force.
        content = path.read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    if not is_unsigned:
        require_signed(path, content)
    return SitePolicy() if content is None else SitePolicy.read(path, content)


# The file groups keys in tables; the class is flat. Faults name a key as the file has it.
_RESULT_KEYS = {"folder": "results", "formulas": "formulas"}
_FEDERATION_KEYS = {"address": "coordinator.address", "port": "coordinator.port", "shared": "views"}


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
