"""Two protocols of cofill that only carry bytes: out and back in rounds, and from site to site."""

from __future__ import annotations

import os

import numpy as np

from cofill.codec import decode, encode
from cofill.network._experiment import AbstractExperiment
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
    """A model to every site, an update of the same size back."""

    name = "mean"

    @property
    def coordinator(self):
        return np.zeros(self.size // 4, np.float32)

    @property
    def steps(self):
        def invite(parties, inboxes, report_progress):
            letters = [
                ModelWeights(sender=COORDINATOR, receiver=name, round=0, weights=parties[0])
                for name in self.federation.names
            ]
            return [(parties[0], letters)]

        def answer(parties, inboxes, report_progress):
            made = []
            for party, (model,) in zip(parties, inboxes, strict=True):
                change = model.weights + 1
                made.append(
                    (
                        party,
                        [
                            Update(
                                sender=party, receiver=COORDINATOR, round=0, change=change, rows=1
                            )
                        ],
                    )
                )
            return made

        def gather(parties, inboxes, report_progress):
            return [(np.mean([r.change for r in inboxes[0]], axis=0), [])]

        one = (
            Step("invite", invite, "coordinator"),
            Step("train", answer),
            Step("aggregate", gather, "coordinator"),
        )
        return one * self.rounds


class Relay(Carrying):
    """Bytes from each site to the next, end to end encrypted, some times."""

    name = "cluster"

    @property
    def steps(self):
        names = self.federation.names

        def send(parties, inboxes, report_progress):
            made = []
            for party in parties:
                to = names[(names.index(party) + 1) % len(names)]
                content = os.urandom(self.size)
                letter = EncryptedIds(sender=party, receiver=to, purpose="ask", content=content)
                made.append((party, [letter]))
            return made

        def take(parties, inboxes, report_progress):
            assert all(len(inbox) == 1 for inbox in inboxes)
            return [(party, []) for party in parties]

        return (Step("send", send), Step("take", take)) * self.rounds
