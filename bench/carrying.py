"""Two protocols of cofill that only carry bytes: out and back in rounds, and from site to site."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import numpy as np

from cofill.privacy import EncryptedIds, ModelWeights, Update
from cofill.protocol import COORDINATOR, PROTOCOLS, AbstractProtocol, Membership, SiteResult, Step


@dataclass(frozen=True)
class Carrying(AbstractProtocol):
    """What both share: parties are names, and nothing is produced."""

    members: Membership
    size: int
    rounds: int

    @classmethod
    def from_settings(cls, settings, members):
        return cls(members, int(settings["megabytes"] * 1e6), settings["rounds"])

    def start_site(self, data):
        return {data.site: data.site}

    def state_of(self, party):
        return party

    def restore_party(self, name, state, data):
        return state

    def finish(self, party, data):
        return SiteResult({})


@cache
def random_bytes(size):
    """Return the same bytes in every round: the first round, which is not counted, draws them."""
    return os.urandom(size)


class Echo(Carrying):
    """Send a model to every site and an update of the same size back."""

    name = "echo"

    def start_coordinator(self):
        return np.zeros(self.size // 4, np.float32)

    @property
    def steps(self):
        def invite(parties, inboxes, report_progress):
            releases = [
                ModelWeights(sender=COORDINATOR, receiver=name, round=0, weights=parties[0])
                for name in self.members.sites
            ]
            return [(parties[0], releases)]

        def answer(parties, inboxes, report_progress):
            outcomes = []
            for party, (model,) in zip(parties, inboxes, strict=True):
                update = Update(
                    sender=party,
                    receiver=COORDINATOR,
                    round=0,
                    change=model.weights + 1,
                    rows=1,
                )
                outcomes.append((party, [update]))
            return outcomes

        def gather(parties, inboxes, report_progress):
            total = inboxes[0][0].change.copy()
            for release in inboxes[0][1:]:
                total += release.change
            return [(total / np.float32(len(inboxes[0])), [])]

        round_steps = (
            Step("invite", invite, "coordinator"),
            Step("train", answer),
            Step("aggregate", gather, "coordinator"),
        )
        return round_steps * self.rounds


class Relay(Carrying):
    """Send bytes from each site to the next, encrypted end to end, for some rounds."""

    name = "relay"

    @property
    def steps(self):
        names = self.members.sites

        def send(parties, inboxes, report_progress):
            outcomes = []
            for party in parties:
                to = names[(names.index(party) + 1) % len(names)]
                content = random_bytes(self.size)
                release = EncryptedIds(sender=party, receiver=to, purpose="ask", content=content)
                outcomes.append((party, [release]))
            return outcomes

        def take(parties, inboxes, report_progress):
            assert all(len(inbox) == 1 for inbox in inboxes)
            return [(party, []) for party in parties]

        return (Step("send", send), Step("take", take)) * self.rounds


def register():
    """Let orders name the two protocols in this process."""
    PROTOCOLS.add(Echo.name, Echo)
    PROTOCOLS.add(Relay.name, Relay)
