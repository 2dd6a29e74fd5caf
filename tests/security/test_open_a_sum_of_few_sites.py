"""A coordinator wants one site's vector: a threshold of its own, keys of another run."""

from dataclasses import replace

import pytest
from tests.network.conftest import ROUNDS, row_sites

from cofill.errors import DataError
from cofill.network._policy import PlainRule, SitePolicy
from cofill.privacy import Member, Roster, advertise_keys, share_secrets, signing_public_key

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
