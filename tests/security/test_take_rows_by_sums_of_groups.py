"""A coordinator wants rows: groups of one member, centres nobody agreed on, rounds without end."""

from dataclasses import replace

import numpy as np
import pytest
from tests.network.conftest import OPEN, row_sites
from tests.network.test_by_row import drive

from cofill.errors import DataError, SettingError
from cofill.network._policy import PlainRule, SitePolicy
from cofill.privacy import Gate, GroupCentres, GroupSums, Ledger
from cofill.protocol import COORDINATOR

# As few people in a group as can be: then a sum is a row.
ALONE = {
    "k": 30,
    "restarts": 1,
    "rounds": 1,
    "seed_group": 1,
    "local_groups": 30,
    "scale": "none",
}
SUMS = {kind: PlainRule() for kind in ("columns", "group-sums")}


def rows_told(federation, site: str) -> set[bytes]:
    """Return the rows that a site has sent as sums of one member."""
    releases = [r for step in federation.place(site).folder.sent for r in step.releases]
    sums = [r for r in releases if isinstance(r, GroupSums) and len(r.counts) > 1]
    width = sum(len(view.features) for view in row_sites(whole=True)[site].values())
    return {
        np.round(row[:width], 3).tobytes()
        for release in sums
        for row, count in zip(release.sums, release.counts, strict=True)
        if count == 1
    }


def rows_of(site: str) -> set[bytes]:
    views = row_sites(whole=True)[site]
    cells = np.concatenate([view.cells for view in views.values()], axis=1)
    return {np.round(row.astype(float), 3).tobytes() for row in cells}


def test_groups_of_one_are_rows_where_a_policy_allows_them(rows_at):
    federation = rows_at("cluster", ALONE, OPEN, held=row_sites(whole=True))
    drive(federation)
    # The attack itself: without it the refusals below would say nothing.
    assert len(rows_told(federation, "a") & rows_of("a")) == len(rows_of("a")) == 30


def test_groups_of_one_are_refused_by_default(rows_at):
    federation = rows_at("cluster", ALONE, held=row_sites(whole=True))
    with pytest.raises(SettingError, match="'group-sums' would leave without a guarantee"):
        drive(federation)
    assert len(Ledger.load(federation.ledger("a"))) == 0


def test_groups_of_one_are_refused_where_sums_are_allowed(rows_at):
    policy = SitePolicy(secure_sums=False, without_guarantee=SUMS)
    federation = rows_at("cluster", ALONE, policy, held=row_sites(whole=True))
    with pytest.raises(SettingError, match=r"seed_group must be at least 10.*min_group must be"):
        drive(federation)
    # The gate does not rely on what settings say.
    alone = GroupSums(
        sender="a", receiver=COORDINATOR, round=0, sums=np.ones((2, 5)), counts=np.array([40.0, 9])
    )
    gate = Gate(Ledger(), {"a": policy.spending})
    assert "fewer than 10 people" in (gate.refusal(alone, "add up groups") or "")
    assert gate.refusal(replace(alone, counts=np.array([40.0, 10])), "add up groups") is None


def rows_at_larger(federation):
    """Return the federation with an order of larger groups."""
    larger = {"k": 2, "scale": "none", "seed_group": 10, "min_group": 10}
    federation.order = replace(federation.order, settings=larger)
    return federation


def test_releases_without_a_guarantee_are_counted(rows_at):
    few = {**SUMS, "group-sums": PlainRule(most=2)}
    policy = SitePolicy(secure_sums=False, without_guarantee=few)
    federation = rows_at_larger(rows_at("cluster", ALONE, policy, held=row_sites(whole=True)))
    with pytest.raises(SettingError, match=r"has sent 2 such releases without a guarantee, of 2"):
        drive(federation)


# --- centres and rounds that nobody agreed on -------------------------------------------------

NOISY = {"k": 2, "scale": "none", "noise": {"epsilon": 0.4, "clip": 1.0, "rounds": 3}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"centres": np.zeros((50, 2, 5)), "running": np.ones(50)}, "got 2 groups for 50"),
        ({"centres": np.zeros((1, 40, 5))}, "got 40 groups for 1"),
        ({"round": 0}, "round 1 of 3 is next, got 0"),
        ({"round": 4}, "round 1 of 3 is next, got 4"),
    ],
)
def test_a_site_answers_the_rounds_that_it_charges_for(rows_at, change, words):
    federation = rows_at("cluster", NOISY, held=row_sites(whole=True))
    office = drive(federation, stop=9)
    runner = federation.place("a")
    (site,) = runner.parties.values()
    assert site.answered == 1
    honest = GroupCentres(
        sender=COORDINATOR,
        receiver="a",
        round=1,
        centres=np.zeros((1, 2, 5)),
        running=np.ones(1),
    )
    step = office.schedule.steps[9]
    ((_, sums),) = step.run([site], [(honest,)], print)
    assert len(sums) == 1
    with pytest.raises(DataError, match=words):
        step.run([site], [(replace(honest, **change),)], print)
