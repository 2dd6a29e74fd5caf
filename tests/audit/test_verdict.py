"""The scale: both ends, its borders, and what decides between them."""

import numpy as np
import pytest

from cofill.attack import Leak, share_leak
from cofill.audit import SCALE, SCALE_WORDS, Audit, AuditedRelease, Claim, advantage, level_of
from cofill.audit._bound import EpsilonBound
from cofill.audit._verdict import verdict_of, worst_of
from cofill.errors import SettingError

FACTS = {"name": "attack", "threat": "somebody", "figure": "share", "scope": "individual"}


def leak(attack, *, floor=0.0, control=None, gain=None, half=0.02, **rest):
    facts = {**FACTS, **rest}
    interval = (attack - half, attack + half)
    return Leak(**facts, floor=floor, control=control, attack=attack, interval=interval, gain=gain)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (leak(1.0), "near-total"),
        (leak(0.8), "near-total"),
        (leak(0.79), "considerable"),
        (leak(0.2), "considerable"),
        (leak(0.19), "small"),
        (leak(0.03), "small"),
        (leak(0.01), "none seen"),  # the interval covers the floor
        (leak(0.9, floor=0.89), "none seen"),
        (leak(0.9, floor=0.5, control=0.88, gain=(0.01, 0.03)), "small"),
        (leak(0.9, floor=0.1, control=0.88, gain=(-0.01, 0.05)), "none seen"),
        (leak(0.6, floor=0.1, control=0.7), "none seen"),  # worse than without the release
        (leak(1.0, floor=1.0, half=0.0), "none seen"),
    ],
)
def test_the_scale_goes_from_what_the_attacker_has_to_everything(found, level):
    assert level_of(found) == level


def test_the_scale_is_stated_in_words_with_its_borders():
    for word in ("None seen", "Small", "Considerable", "Near-total", "0.2", "0.8"):
        assert word in SCALE_WORDS
    assert worst_of(SCALE) == "near-total"


def test_individuals_and_populations_are_kept_apart():
    one = leak(0.9)
    people = leak(0.3, scope="population")
    release = AuditedRelease(
        kind="mean", sender="a", receiver="b", what="a mean", leaks=(one, people)
    )
    assert (release.individual, release.population) == ("near-total", "considerable")
    assert [k["advantage"] for k in release.to_dict()["leaks"]] == [
        advantage(one),
        advantage(people),
    ]
    assert verdict_of((people,), "individual") is None
    alone = AuditedRelease(kind="mean", sender="a", receiver="b", what="", leaks=(people,))
    assert alone.individual == "not attacked"
    assert "Nothing for the people in it" in alone.change


def test_a_release_is_attacked_or_has_a_reason():
    with pytest.raises(SettingError, match="attacked or have a reason"):
        AuditedRelease(kind="codes", sender="a", receiver="b", what="")


@pytest.mark.parametrize(
    ("claimed", "delta", "refuted"), [(0.01, 0.0, True), (0.6, 0.0, False), (0.01, 1e-5, True)]
)
def test_a_claim_is_refuted_by_a_larger_proof_at_its_delta(claimed, delta, refuted):
    proof = EpsilonBound(
        epsilon=0.5, delta=0.0, confidence=0.99, true_rate=1.0, false_rate=0.5, trials=9
    )
    release = AuditedRelease(
        kind="noisy-mean",
        sender="a",
        receiver="b",
        what="",
        claim=Claim(epsilon=claimed, delta=delta),
        proof=proof,
    )
    assert release.refuted is refuted
    assert ("Do not state" in release.change) is refuted


def test_a_proof_at_a_larger_delta_refutes_nothing():
    proof = EpsilonBound(
        epsilon=0.5, delta=0.1, confidence=0.99, true_rate=1.0, false_rate=0.5, trials=9
    )
    claim = Claim(epsilon=0.1, delta=0.0)
    release = AuditedRelease(
        kind="noisy-mean", sender="a", receiver="b", what="", claim=claim, proof=proof
    )
    assert not release.refuted


def test_advice_names_what_to_do_by_the_kind():
    bad = share_leak(99, 100, **FACTS, floor=0.01)
    for kind, word in (("codes", "narrower"), ("update", "securely"), ("blinded-ids", "psi")):
        release = AuditedRelease(kind=kind, sender="a", receiver="b", what="", leaks=(bad,))
        assert word in release.change
        assert release.change.count(". ") == 0


def test_of_many_attacks_on_noise_hardly_ever_one_is_called_a_leak():
    rng = np.random.default_rng(0)
    called = []
    for _ in range(300):
        hits = rng.binomial(200, 0.5, size=20)
        leaks = tuple(share_leak(int(n), 200, floor=0.5, **FACTS) for n in hits)
        facts = {"kind": "codes", "sender": "a", "receiver": "b", "what": ""}
        halves = [AuditedRelease(**facts, leaks=part) for part in (leaks[:10], leaks[10:])]
        alone = [level_of(one) != "none seen" for one in leaks]
        called.append((any(alone), Audit(title="", releases=tuple(halves)).verdict != "none seen"))
    one_by_one, together = np.mean(called, axis=0)
    assert one_by_one > 0.25
    assert together < 0.05


def test_a_leak_that_is_no_accident_stays_one_among_many_attacks():
    found = leak(0.3, half=0.05, control=0.1, gain=(0.14, 0.26))
    assert level_of(found, attacks=1000) == level_of(found) == "considerable"
    assert not leak(0.025, floor=0.0, half=0.02).excludes_floor(attacks=10)
    assert leak(0.2, control=0.18, gain=(0.005, 0.035)).beats_control(attacks=20) is False
    assert leak(0.2).beats_control(attacks=20) is None
