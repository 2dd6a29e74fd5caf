"""A coordinator wants one site's vector: a threshold of its own, old keys, different stories."""

from dataclasses import replace

import numpy as np
import pytest
from tests.network.conftest import ROUNDS, row_sites

from cofill.errors import DataError
from cofill.network._policy import PlainRule, SitePolicy
from cofill.privacy import (
    FixedPoint,
    Member,
    Roster,
    SealedShares,
    advertise_keys,
    mask_vector,
    share_secrets,
    signing_public_key,
)

IDENTITIES = {name: bytes([k]) * 32 for k, name in enumerate("abcde", start=1)}
KNOWN = {name: signing_public_key(key) for name, key in IDENTITIES.items()}


def member(name: str, run: str = "run 1", least: int = 4) -> Member:
    return Member(name, identity=IDENTITIES[name], known=KNOWN, run=run, least=least)


def roster_of(runs: dict[str, str], threshold: int) -> tuple[Member, Roster]:
    """Return site a, and the roster of sites that have signed keys for some run each."""
    begun = {name: advertise_keys(member(name, run), 1) for name, run in runs.items()}
    keys = tuple(keys for _, keys in begun.values())
    roster = Roster(sender="coordinator", receiver="a", round=1, keys=keys, threshold=threshold)
    return begun["a"][0], roster


def test_the_sites_policy_says_how_few_may_be_summed():
    site, roster = roster_of(dict.fromkeys("abcde", "run 1"), threshold=3)
    with pytest.raises(DataError, match=r"sums of 4 sites or more.*threshold is 3; refused"):
        share_secrets(site, roster)
    share_secrets(site, replace(roster, threshold=4))


def test_keys_that_were_signed_for_another_run_are_refused():
    site, roster = roster_of({**dict.fromkeys("abcd", "run 1"), "e": "run 2"}, threshold=4)
    with pytest.raises(DataError, match="keys of site 'e' are not signed"):
        share_secrets(site, roster)


def test_a_site_signs_for_its_run_and_asks_for_its_participants(rows_at):
    plain = {kind: PlainRule(people=5) for kind in ("columns", "column-summary", "masked-vector")}
    policy = SitePolicy(smallest_group=5, participants=3, without_guarantee=plain)
    settings = {**ROUNDS, "secure": {"threshold": 3}}
    federation = rows_at("federate", settings, policy, held=row_sites())
    (site,) = federation.place("a").parties.values()
    assert (site.member.run, site.member.least) == (federation.order.run, 3)


# --- two stories ----------------------------------------------------------------------------------


def two_stories(second: dict) -> tuple[Member, SealedShares]:
    """Return site a after it has shared, and its boxes, where site b was told something else."""
    begun = {name: advertise_keys(member(name, least=3), 1) for name in "abcde"}
    keys = {name: keys for name, (_, keys) in begun.items()}
    story = {"round": 1, "sender": "coordinator", "receiver": ""}
    common = Roster(keys=tuple(keys[n] for n in "abcd"), threshold=3, **story)
    other = {"keys": tuple(keys[n] for n in "abcd"), "threshold": 3, **story} | second
    other["keys"] = tuple(keys[k] if isinstance(k, str) else k for k in other["keys"])
    states = {name: state for name, (state, _) in begun.items()}
    shared = {n: share_secrets(states[n], common if n != "b" else Roster(**other)) for n in "abcd"}
    boxes = {n: sent.boxes["a"] for n, (_, sent) in shared.items() if n != "a"}
    return shared["a"][0], SealedShares(sender="coordinator", receiver="a", round=1, boxes=boxes)


@pytest.mark.parametrize("second", [{"keys": "abce"}, {"keys": "abcde"}, {"threshold": 4}])
def test_two_sites_that_are_told_different_participants_notice_it(second):
    site, boxes = two_stories(second)
    with pytest.raises(DataError, match="site 'b' was told of other participants, keys or"):
        mask_vector(site, boxes, np.ones(3), FixedPoint(10.0, 4))


def test_new_keys_of_one_site_for_another_are_noticed():
    # Site c signs keys twice for the coordinator, which gives a and b one each.
    again = advertise_keys(member("c", least=3), 1)[1]
    site, boxes = two_stories({"keys": ("a", "b", again, "d")})
    with pytest.raises(DataError, match="site 'b' was told of other participants, keys or"):
        mask_vector(site, boxes, np.ones(3), FixedPoint(10.0, 4))


def test_one_story_opens():
    site, boxes = two_stories({})
    mask_vector(site, boxes, np.ones(3), FixedPoint(10.0, 4))
