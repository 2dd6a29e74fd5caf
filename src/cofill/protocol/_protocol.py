"""A protocol as one object: its steps, its parties, who may be absent, and what comes out.

A step is a pure function of parties and their inboxes. It is written over a *list* of parties,
because all networks of one kind train as one program: the in-process driver hands it every site of
every federation (repeats are federations), a network driver hands it the one site that lives
there. A step must treat each party alone; nothing but releases goes from one to another. A step
belongs either to the sites or to the coordinator, which sequences, adds up and sees no data; a
party's inbox holds what has arrived since it last acted.

The same protocol object is driven in one process (`run_protocol`) and over a network, where every
machine makes it from the same settings. Steps read what they need from the parties that they are
given, never from the protocol object, so that federations with other seeds run as one batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa

from cofill.errors import SettingError
from cofill.privacy import Release, RunFigures
from cofill.protocol._demands import Demands
from cofill.registry import Registry
from cofill.views import FilledTable, View

COORDINATOR = "coordinator"

Site = TypeVar("Site")
Kind = TypeVar("Kind", bound=Release)
Inbox = tuple[Release, ...]
Outbox = Sequence[Release]
ReportProgress = Callable[[float], None]


@dataclass(frozen=True)
class Step(Generic[Site]):
    """A named step: parties and inboxes in, new parties and outboxes out, one of each per party.

    ``at`` says whose step it is: every site's, or the coordinator's. ``actors`` are the sites'
    parties that have something to do in it, and ``receivers`` the parties that may be sent
    something; everybody unless stated. Over a network nobody else is asked or sent a message.
    """

    name: str
    run: Callable[[Sequence[Site], Sequence[Inbox], ReportProgress], Sequence[tuple[Site, Outbox]]]
    at: Literal["sites", "coordinator"] = "sites"
    actors: tuple[str, ...] | None = None
    receivers: tuple[str, ...] | None = None


def one_by_one(
    act: Callable[[Any, Inbox], tuple[Any, Outbox]],
) -> Callable[[Sequence[Any], Sequence[Inbox], ReportProgress], list[tuple[Any, Outbox]]]:
    """Return the function of a step whose parties act alone: ``(party, inbox) → (party, outbox)``.

    Examples
    --------
    >>> step = Step("count", one_by_one(lambda party, inbox: (party + len(inbox), [])))
    >>> step.run([1, 2], [(), ()], print)
    [(1, []), (2, [])]
    """

    def run(
        parties: Sequence[Any], inboxes: Sequence[Inbox], report_progress: ReportProgress
    ) -> list[tuple[Any, Outbox]]:
        return [act(party, inbox) for party, inbox in zip(parties, inboxes, strict=True)]

    return run


def first_of_type(inbox: Iterable[Release], kind: type[Kind]) -> Kind | None:
    """Return the first release of a type, None where there is none."""
    return next((release for release in inbox if isinstance(release, kind)), None)


PROTOCOLS = Registry("cofill.protocols", "protocol")
"""Protocols that a run can be ordered with, by name."""

PROTOCOLS.add(
    "cooperate",
    "cofill.cooperate:CooperativeProtocol",
    "split by view: each site reconstructs the rows it lacks from the others' codes",
)
PROTOCOLS.add(
    "private",
    "cofill.cooperate:PrivateProtocol",
    "split by view, on secret shares: each site gets the cells it asks for, and nothing else",
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
    "deep-cluster",
    "cofill.cluster:DeepClusterProtocol",
    "split by row: groups of all sites' individuals by a network that learns without labels",
)
PROTOCOLS.add(
    "mean", "cofill.means:MeanProtocol", "each site releases the mean of a view's rows, with noise"
)


@dataclass(frozen=True)
class Membership:
    """Who takes part, and which views each site holds; sites and views in the order all know.

    Of ``shared_views`` several sites hold rows: these are split by row. Every other view is at one
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
    def parties(self) -> dict[str, tuple[str, str]]:
        """View and site of each party of a run by view, which may be split by row as well.

        The party of a view at one site has the view's name, those of a view at several are
        ``view@site``.

        Examples
        --------
        >>> held = {"north": ("clinic",), "south": ("clinic",), "fund": ("claims",)}
        >>> list(Membership(held, ("clinic",)).parties)
        ['clinic@north', 'clinic@south', 'claims']
        """
        holders = Counter(view for views in self.site_views.values() for view in views)
        return {
            view if holders[view] == 1 else f"{view}@{site}": (view, site)
            for site, views in self.site_views.items()
            for view in views
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

    ``people`` are ids of individuals whom it may name although no view of it has them, or None;
    ``signing_key`` and ``known_keys`` its private Ed25519 key and the public ones of the other
    sites, where they have identities; ``run`` is what it signs for, and ``least_summed`` the fewest
    sites in a sum that it lets be opened; ``informs``, by own view and other view, the columns that
    may inform it, all where nothing is said.
    """

    site: str
    views: Mapping[str, View]
    people: np.ndarray | None = None
    signing_key: bytes | None = field(default=None, repr=False)
    known_keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    run: str = ""
    least_summed: int = 2
    informs: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SiteResult:
    """What a party has produced at the end: tables and texts for its site, figures for all.

    Tables are by the stem, texts by the name of their file. ``figures`` are what the coordinator is
    told; None where every figure would tell more than was paid for.
    """

    tables: Mapping[str, pa.Table | FilledTable]
    texts: Mapping[str, str] = field(default_factory=dict)
    figures: RunFigures | None = None


class AbstractProtocol(ABC):
    """A protocol: a fixed sequence of steps over the parties of a federation.

    A subclass is made by `from_settings`, defines its steps and parties, and says what a party
    produces. Where `start_coordinator` returns a party, sites talk to the coordinator only, unless
    `is_star` says otherwise.
    """

    name: ClassVar[str]
    splits_by_view: ClassVar[bool] = False
    """Whether sites hold other views of the same people, and not the same views of others."""
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
    def is_star(self) -> bool:
        """Whether sites talk to the coordinator's party only, and never to each other."""
        return self.start_coordinator() is not None

    @property
    def patience(self) -> float | None:
        """Seconds after which a run goes on without a site's answer; None for the step's limit."""
        return None

    @property
    def demands(self) -> Demands:
        """What a run would have a site send, as far as its settings say."""
        return Demands()

    def may_lack_sites(self, number: int) -> bool:
        """Return whether a run goes on when a site does not answer in a step."""
        return False

    def may_be_missed(self, number: int) -> bool:
        """Return whether a site that has missed a step can go on with a later one."""
        return self.may_lack_sites(number)

    def next_step(self, number: int, coordinator: Any) -> int:
        """Return the step after one of the coordinator's; a protocol can leave empty ones out."""
        return number + 1

    def is_optional(self, number: int) -> bool:
        """Return whether a step, with its messages, is left out where nothing is to be done."""
        return False

    def count_steps(self, stop: int) -> int:
        """Return how many steps before one there are at least, to say how far a run has come."""
        return sum(not self.is_optional(number) for number in range(stop))

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

    def audit_keys(self, party: Any) -> Mapping[str, bytes]:
        """Return, by name, what finds a party's people in what it has sent.

        It is kept with what the site has sent, for the audit of its owner.
        """
        return {}

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
