"""Two protocols of cofill that only carry bytes: out and back in rounds, and from site to site."""

from __future__ import annotations

import os

import numpy as np
from cofill.network._experiment import AbstractExperiment

from cofill.codec import decode, encode
from cofill.privacy import EncryptedIds, ModelWeights, Update
from cofill.protocol import COORDINATOR, Step


class Carrying(AbstractExperiment):
    def __init__(self, order, federation):
        super().__init__(order, federation)
        self.size = int(order.settings["megabytes"] * 1e6)
        self.rounds = order.settings["rounds"]

    @property
    def homes(self):
        return {name: name for name in self.federation.names}

    def begin(self, views, people, me):
        return {me.name: me.name}

    def keep(self, party):
        return encode(party, format="cofill.state")

    def restore(self, name, kept, views, people, me):
        return decode(kept, format="cofill.state")

    def finish(self, party, people, folder, form):
        return None


class Echo(Carrying):
    """Send a model to every site and an update of the same size back."""

    name = "mean"

    @property
    def coordinator(self):
        return np.zeros(self.size // 4, np.float32)

    @property
    def steps(self):
        def invite(parties, inboxes, report_progress):
            releases = [
                ModelWeights(sender=COORDINATOR, receiver=name, round=0, weights=parties[0])
                for name in self.federation.names
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
            return [(np.mean([r.change for r in inboxes[0]], axis=0), [])]

        round_steps = (
            Step("invite", invite, "coordinator"),
            Step("train", answer),
            Step("aggregate", gather, "coordinator"),
        )
        return round_steps * self.rounds


class Relay(Carrying):
    """Send bytes from each site to the next, encrypted end to end, for some rounds."""

    name = "cluster"

    @property
    def steps(self):
        names = self.federation.names

        def send(parties, inboxes, report_progress):
            outcomes = []
            for party in parties:
                to = names[(names.index(party) + 1) % len(names)]
                content = os.urandom(self.size)
                release = EncryptedIds(sender=party, receiver=to, purpose="ask", content=content)
                outcomes.append((party, [release]))
            return outcomes

        def take(parties, inboxes, report_progress):
            assert all(len(inbox) == 1 for inbox in inboxes)
            return [(party, []) for party in parties]

        return (Step("send", send), Step("take", take)) * self.rounds
