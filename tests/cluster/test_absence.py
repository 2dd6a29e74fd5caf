"""Federated k-means goes on without a site that falls silent in the rounds, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.cluster import ClusterProtocol, FederatedKMeans, KMeansSettings
from cofill.cluster._kmeans import _require_round
from cofill.cluster._parties import AGREE_ON_COLUMNS, ClusterSite, start_federation
from cofill.cluster._rows import gather_rows
from cofill.errors import DataError
from cofill.metrics import ari
from cofill.privacy import GroupCentres, Ledger
from cofill.protocol import COORDINATOR, Membership, run_protocol


def steps_with_silence(protocol, silent, since):
    """Return the protocol's steps, in which a site acts on nothing from a step on."""

    def without(step, number):
        if step.at == "coordinator" or number < since:
            return step

        def run(sites, inboxes, report_progress):
            present = [at for at, site in enumerate(sites) if site.name != silent]
            acted = step.run(
                [sites[at] for at in present], [inboxes[at] for at in present], report_progress
            )
            results = [(site, []) for site in sites]
            for at, result in zip(present, acted, strict=True):
                results[at] = result
            return results

        return replace(step, run=run)

    return [without(step, number) for number, step in enumerate(protocol.steps)]


@pytest.fixture
def protocol(blobs, deal):
    sites, _ = deal(*blobs, "even")
    members = Membership(dict.fromkeys(sites, ("rows",)), ("rows",))
    return ClusterProtocol(members, KMeansSettings(k=4, rounds=8), "standard"), sites


def run(protocol, sites, since):
    federation = start_federation(gather_rows(sites), protocol.settings, "standard", 0, Ledger())
    federation.next_step = len(AGREE_ON_COLUMNS)
    steps = steps_with_silence(protocol, "site_1", since)
    protocol.__dict__["steps"] = tuple(steps)  # where the cached property keeps them
    run_protocol(protocol, [federation])
    return federation


def test_rounds_go_on_without_a_site_that_is_lost(protocol, blobs):
    protocol, sites = protocol
    first_round = [step.name for step in protocol.steps].index("add up groups")
    federation = run(protocol, sites, since=first_round + 2)  # it answers one round
    rest = {name: rows for name, rows in sites.items() if name != "site_1"}
    alone = FederatedKMeans(4, restarts=4).fit(rest)
    for name in rest:
        assert ari(federation.sites[name].labels, alone.labels_by_site_[name]) == 1.0
    assert federation.sites["site_1"].labels is None
    senders = [entry.sender for entry in federation.ledger if entry.sender != COORDINATOR]
    assert senders.count("site_1") < senders.count("site_0")


def test_only_rounds_may_lack_a_site(protocol):
    protocol, sites = protocol
    names = [step.name for step in protocol.steps]
    lacking = {name for number, name in enumerate(names) if protocol.may_lack_sites(number)}
    assert lacking == {"add up groups", "move centres", "assign", "close"}
    with pytest.raises(DataError, match="all sites must take part"):
        run(protocol, sites, since=names.index("summarise"))


def test_a_site_that_was_away_answers_later_rounds_and_none_twice(blobs):
    rows = gather_rows(blobs[0])["site"]
    site = ClusterSite("a", rows.rows, rows.kinds, KMeansSettings(k=4, rounds=8), "none", 0)
    sent = GroupCentres(
        sender=COORDINATOR, receiver="a", round=5, centres=np.zeros((1, 4, 5)),
        running=np.ones(1), best=0,
    )  # fmt: skip
    _require_round(replace(site, answered=2), sent)
    for answered, number in ((6, 5), (2, 9)):
        with pytest.raises(DataError, match="answers every round once"):
            _require_round(replace(site, answered=answered), replace(sent, round=number))
