"""A run's order, and its schedule: who sends to whom in which step, the same at every machine."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from cofill.errors import SettingError
from cofill.network._config import FederationConfig
from cofill.protocol import COORDINATOR, PROTOCOLS, AbstractProtocol, Membership, Step

OUTCOME_FORMAT = "cofill.outcome"  # of the file in which the coordinator leaves how a run went
# The only classes that a job may name.
CONTROLLER = "cofill.network._controller.CoordinatorController"
EXECUTOR = "cofill.network._executor.SiteExecutor"
TOLERATES_ABSENCE = "cofill_tolerates_absence"  # in a job of FLARE: it goes on without a site
SITE_CONFIG = "COFILL_SITE_CONFIG"  # in a site's environment: where its site.toml is
SITE_KIT = "COFILL_SITE_KIT"  # and where its kit is
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


def new_run() -> str:
    """Return a name for a run: when it was ordered, and eight random digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class RunOrder:
    """Which protocol, with which settings, under which name."""

    run: str
    experiment: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise SettingError(f"a run must be named like {new_run()}, got {self.run!r}")
        if self.experiment not in PROTOCOLS.names:
            raise SettingError(
                f"experiment must be one of {', '.join(PROTOCOLS.names)}, got {self.experiment!r}"
            )
        if not isinstance(self.settings, Mapping):
            raise SettingError(f"settings must be a table, got {type(self.settings).__name__}")

    def make_protocol(self, members: Membership) -> AbstractProtocol:
        """Return the protocol object, or raise a `SettingError` for settings that are wrong."""
        return PROTOCOLS.load(self.experiment).from_settings(dict(self.settings), members)

    @property
    def tolerates_absence(self) -> bool:
        """Whether the run goes on without a site that is lost."""
        return PROTOCOLS.load(self.experiment).tolerates_absence

    @property
    def splits_by_view(self) -> bool:
        """Whether sites hold other views of the same people."""
        return PROTOCOLS.load(self.experiment).splits_by_view

    def to_json(self) -> dict[str, Any]:
        """Return what `RunOrder(**…)` takes."""
        return {"run": self.run, "experiment": self.experiment, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Schedule:
    """The steps of a run, who acts in each, and which messages each step needs.

    After the protocol's own steps comes one more, in which sites write their results and report
    figures to the coordinator.
    """

    order: RunOrder
    protocol: AbstractProtocol
    federation: FederationConfig

    @cached_property
    def steps(self) -> tuple[Step[Any], ...]:
        """The protocol's steps."""
        return self.protocol.steps

    @property
    def report(self) -> int:
        """The number of the last step, in which sites report to the coordinator."""
        return len(self.steps)

    def position(self, number: int) -> int:
        """Return how many steps come before one, those that may be left out not counted."""
        last = min(number, self.report)
        return self.protocol.count_steps(last) + number - last

    def name(self, number: int) -> str:
        """Return a step's name."""
        return "report" if number == self.report else self.steps[number].name

    def actors(self, number: int) -> tuple[str, ...]:
        """Return the machines that act in a step: sites, or the coordinator."""
        return self._all_actors[number]

    @cached_property
    def _all_actors(self) -> tuple[tuple[str, ...], ...]:
        """Who acts in each step; there may be thousands, most of which are left out."""
        names = self.federation.names
        return (
            *(
                (COORDINATOR,) if step.at == "coordinator" else self._only(names, step.actors)
                for step in self.steps
            ),
            names,
        )

    def _only(self, machines: tuple[str, ...], parties: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return the machines at which some parties are, or all where none are named."""
        if parties is None:
            return machines
        homes = {COORDINATOR: COORDINATOR, **self.protocol.party_sites}
        chosen = {homes[party] for party in parties}
        return tuple(name for name in machines if name in chosen)

    @cached_property
    def has_coordinator_party(self) -> bool:
        """Whether the coordinator has a party of its own, beside sequencing steps."""
        return self.protocol.start_coordinator() is not None

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """The machines that have a party: all sites, and the coordinator where it has one."""
        return (*self.federation.names, *((COORDINATOR,) if self.has_coordinator_party else ()))

    @cached_property
    def is_star(self) -> bool:
        """Whether sites talk to the coordinator's party only, and never to each other."""
        return self.protocol.is_star

    def receivers(self, number: int, sender: str) -> tuple[str, ...]:
        """Return the machines to which a sender owes a message in a step."""
        if number == self.report or (self.is_star and sender != COORDINATOR):
            return (COORDINATOR,)
        others = tuple(name for name in self.machines if name != sender)
        return self._only(others, self.steps[number].receivers)

    def last_acted(self, number: int, name: str) -> int:
        """Return the last step before one in which a machine acted; the first if it never did."""
        earlier = (k for k in range(number - 1, -1, -1) if name in self.actors(k))
        return next(earlier, 0)

    def needed_messages(self, number: int, receiver: str) -> tuple[tuple[int, str], ...]:
        """Return step and sender of the messages a machine needs before it acts, without a star.

        Those are all that were sent since it last acted, and in that step.
        """
        if number == self.report:
            return ()  # a report needs nothing from others
        since = range(self.last_acted(number, receiver), number)
        return tuple(
            (k, sender)
            for k in since
            for sender in self.actors(k)
            if receiver in self.receivers(k, sender)
        )

    def possible_messages(self, number: int, receiver: str, done: int) -> set[tuple[int, str]]:
        """Return step and sender of the messages that may arrive for a step.

        In a star these are all since a machine last acted: it cannot know what it has missed,
        because sites are left out, and empty steps too.
        """
        if not self.is_star:
            return set(self.needed_messages(number, receiver))
        missed = [k for k in range(done + 1, number) if receiver not in self.actors(k)]
        return {(k, sender) for k in missed for sender in self.actors(k)}


def schedule_of(order: RunOrder, federation: FederationConfig) -> Schedule:
    """Return the schedule of an order, or raise a `SettingError` for settings that are wrong."""
    return Schedule(order, order.make_protocol(federation.membership), federation)
