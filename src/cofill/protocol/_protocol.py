"""A protocol as one object: its steps, its parties, who may be absent, and what comes out.

The same object is driven in one process (`run_protocol`) and over a network, where every machine
makes it from the same settings. Steps read what they need from the parties that they are given,
never from the protocol object, so that federations with other seeds run as one batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cofill.errors import SettingError
from cofill.privacy import RunFigures
from cofill.protocol._driver import Step
from cofill.registry import Registry
from cofill.views import View

PROTOCOLS = Registry("cofill.protocols", "protocol")
"""Protocols that a run can be ordered with, by name."""

PROTOCOLS.add(
    "cooperate",
    "cofill.cooperate:CooperativeProtocol",
    "split by view: each site reconstructs the rows it lacks from the others' codes",
)
PROTOCOLS.add(
    "federate",
    "cofill.federate:FederatedProtocol",
    "split by row: sites train one model in rounds and complete their own individuals",
)
PROTOCOLS.add(
    "cluster",
    "cofill.cluster:ClusterProtocol",
    "split by row: groups of all sites' individuals by k-means",
)
PROTOCOLS.add(
    "mean", "cofill.means:MeanProtocol", "each site releases the mean of a view's rows, with noise"
)


@dataclass(frozen=True)
class Membership:
    """Who takes part in a federation, and which views each site holds.

    Parameters
    ----------
    site_views
        The views of each site; sites and views in the order that all sites know.
    shared_views
        Views of which several sites hold rows: these are split by row. Every other view is at one
        site, which is split by view. A federation may have both.

    Examples
    --------
    >>> Membership({"lab": ("blood",), "ward": ("signs",)}).view_sites
    {'blood': 'lab', 'signs': 'ward'}
    """

    site_views: Mapping[str, tuple[str, ...]]
    shared_views: tuple[str, ...] = ()

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, in order."""
        return tuple(self.site_views)

    @property
    def view_sites(self) -> dict[str, str]:
        """The site of each view that is not shared, views in their order."""
        return {
            view: site
            for site, views in self.site_views.items()
            for view in views
            if view not in self.shared_views
        }

    @property
    def is_by_view(self) -> bool:
        """Whether every site holds a view of its own."""
        return set(self.view_sites.values()) == set(self.sites)

    @property
    def is_by_row(self) -> bool:
        """Whether every site holds some of the shared views."""
        return all(set(views) & set(self.shared_views) for views in self.site_views.values())


@dataclass(frozen=True, eq=False)
class LocalData:
    """What a site brings to a run, and nobody else sees.

    Parameters
    ----------
    site
        Its name.
    views
        Its views by name.
    people
        Ids of individuals whom it may name although no view of it has them, or None.
    signing_key, known_keys
        Its private Ed25519 key and the public ones of the other sites, where they have identities.
    """

    site: str
    views: Mapping[str, View]
    people: np.ndarray | None = None
    signing_key: bytes | None = field(default=None, repr=False)
    known_keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class SiteResult:
    """What a party has produced at the end: tables and texts for its site, figures for all.

    Parameters
    ----------
    tables
        Tables by the stem of their file.
    texts
        Texts by the name of their file.
    figures
        What the coordinator is told; None where every figure would tell more than was paid for.
    """

    tables: Mapping[str, pa.Table]
    texts: Mapping[str, str] = field(default_factory=dict)
    figures: RunFigures | None = None


class AbstractProtocol(ABC):
    """A protocol: a fixed sequence of steps over the parties of a federation.

    A subclass is made by `from_settings`, defines its steps and parties, and says what a party
    produces. Where `start_coordinator` returns a party, sites talk to the coordinator only.
    """

    name: ClassVar[str]
    tolerates_absence: ClassVar[bool] = False
    """Whether a run goes on without a site that is lost."""

    members: Membership

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: Mapping[str, Any], members: Membership) -> AbstractProtocol:
        """Return the protocol that settings of plain types describe, or raise a `SettingError`."""

    @property
    @abstractmethod
    def steps(self) -> tuple[Step[Any], ...]:
        """All steps, in order."""

    @property
    def party_sites(self) -> Mapping[str, str]:
        """The site of each party; one party a site unless a protocol says otherwise."""
        return {site: site for site in self.members.sites}

    @property
    def patience(self) -> float | None:
        """Seconds after which a run goes on without a site's answer; None for the step's limit."""
        return None

    @property
    def shows_keyed_hashes(self) -> bool:
        """Whether sites tell each other whom they have by keyed hashes of ids."""
        return False

    def may_lack_sites(self, number: int) -> bool:
        """Return whether a run goes on when a site does not answer in a step."""
        return False

    def may_be_missed(self, number: int) -> bool:
        """Return whether a site that has missed a step can go on with a later one."""
        return self.may_lack_sites(number)

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's; a protocol can leave empty ones out."""
        return number + 1

    @abstractmethod
    def start_site(self, data: LocalData) -> dict[str, Any]:
        """Return the parties of a site by name, as they are before the first step."""

    def start_coordinator(self) -> Any:
        """Return the coordinator's party, or None where sites need none."""
        return None

    @abstractmethod
    def state_of(self, party: Any) -> Any:
        """Return what a party has become, for `codec.encode`, without rows it can read again."""

    @abstractmethod
    def restore_party(self, name: str, state: Any, data: LocalData | None) -> Any:
        """Return the party with a state; the coordinator has no data."""

    @abstractmethod
    def finish(self, party: Any, data: LocalData) -> SiteResult:
        """Return what a site's party has produced."""

    def blinding_secret(self, party: Any) -> bytes | None:
        """Return the secret under which a site's party sends ids; None where it sends none.

        It is kept with what the site has sent, for the audit of its owner.
        """
        return None

    def summarise(self, coordinator: Any) -> dict[str, Any]:
        """Return what the coordinator's party may tell of a run: figures, no row."""
        return {}

    @classmethod
    def require_by_row(cls, members: Membership) -> None:
        """Raise a `SettingError` unless sites hold the same views of different individuals."""
        if not members.is_by_row:
            raise SettingError(
                f"{cls.name} needs sites that hold the same views of other individuals; name "
                "those views in federation.toml (views = [...])"
            )


def tuples_in(value: Any) -> Any:
    """Return a table of settings with tuples for its lists, as settings classes have them."""
    if isinstance(value, Mapping):
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    return value
