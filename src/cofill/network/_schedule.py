"""Who sends to whom in which step: the same table at every machine of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cofill.network._config import FederationConfig
from cofill.network._order import RunOrder
from cofill.protocol import COORDINATOR, AbstractProtocol


@dataclass(frozen=True)
class Schedule:
    """The steps of a run, who acts in each, and which messages each step needs.

    After the protocol's own steps comes one more, in which sites write their results and report
    figures to the coordinator.
    """

    order: RunOrder
    protocol: AbstractProtocol
    federation: FederationConfig

    @property
    def report(self) -> int:
        """The number of the last step, in which sites report to the coordinator."""
        return len(self.protocol.steps)

    def name(self, number: int) -> str:
        """Return a step's name."""
        return "report" if number == self.report else self.protocol.steps[number].name

    def actors(self, number: int) -> tuple[str, ...]:
        """Return the machines that act in a step: the sites, or the coordinator."""
        if number < self.report and self.protocol.steps[number].at == "coordinator":
            return (COORDINATOR,)
        return self.federation.names

    @cached_property
    def is_star(self) -> bool:
        """Whether sites talk to the coordinator's party only, and never to each other."""
        return self.protocol.start_coordinator() is not None

    def receivers(self, number: int, sender: str) -> tuple[str, ...]:
        """Return the machines to which a sender owes a message in a step."""
        if number == self.report or (self.is_star and sender != COORDINATOR):
            return (COORDINATOR,)
        return tuple(name for name in self.federation.names if name != sender)

    def needed_messages(self, number: int, receiver: str) -> tuple[tuple[int, str], ...]:
        """Return step and sender of the messages a site needs before it acts, without a star."""
        if number in (0, self.report):
            return ()  # a report needs nothing from others
        before = number - 1
        return tuple((before, sender) for sender in self.actors(before) if sender != receiver)

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
