"""Masks that cancel: sums with and without dropped sites, what is refused, what a message shows."""

import hashlib
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cofill.errors import DataError, SettingError
from cofill.privacy import (
    FixedPoint,
    Gate,
    GaussianEvent,
    Ledger,
    Member,
    Survivors,
    advertise_keys,
    deliver_shares,
    make_rosters,
    mask_vector,
    name_survivors,
    reveal_shares,
    share_secrets,
    signing_public_key,
    unmask_sum,
)
from cofill.privacy._masks import PRIME, expand_seed, open_shares, pair_mask, share_secret

CODE = FixedPoint(largest=100.0)
NAMES = ("bank", "clinic", "lab", "shop", "town")


def fixed(name: str):
    """Return a source of bytes that a test can repeat."""
    state = {"calls": 0}

    def entropy(size: int) -> bytes:
        state["calls"] += 1
        return hashlib.shake_256(f"{name} {state['calls']}".encode()).digest(size)

    return entropy


def members(names=NAMES, **more) -> dict[str, Member]:
    return {name: Member(name, entropy=fixed(name), **more) for name in names}


def vectors(names=NAMES, size=6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-100, 100, size) for name in names}


class Round:
    """A round in which sites can be lost on the way; keeps every message."""

    def __init__(self, sites, values, *, number=0, threshold=None, unshared=(), dropped=()):
        self.sites = dict(sites)
        keys = [self.step(name, advertise_keys, number) for name in sites]
        self.rosters = {r.receiver: r for r in make_rosters(keys, threshold=threshold)}
        self.roster = next(iter(self.rosters.values()))
        sharing = [name for name in sites if name not in unshared]
        self.sealed = [self.step(name, share_secrets, self.rosters[name]) for name in sharing]
        self.boxes = {d.receiver: d for d in deliver_shares(self.sealed, self.roster)}
        self.masked = {
            name: self.step(name, mask_vector, self.boxes[name], values[name], CODE)
            for name in sharing
        }
        self.arrived = [m for name, m in self.masked.items() if name not in dropped]
        self.messages = [*keys, *self.rosters.values(), *self.sealed, *self.boxes.values()]

    def step(self, name, function, *arguments):
        self.sites[name], message = function(self.sites[name], *arguments)
        return message

    def finish(self, silent=()):
        survivors = name_survivors(self.arrived, self.roster)
        revealed = [
            self.step(t.receiver, reveal_shares, t) for t in survivors if t.receiver not in silent
        ]
        self.messages += [*self.arrived, *survivors, *revealed]
        return unmask_sum(self.roster, self.sealed, self.arrived, revealed, CODE)


# --- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unshared", "dropped", "silent"),
    [
        ((), (), ()),
        ((), ("lab",), ()),
        ((), ("bank",), ()),
        (("town",), (), ()),
        (("bank",), (), ()),
        ((), (), ("shop",)),
        ((), ("town",), ()),
    ],
)
def test_the_sum_is_that_of_the_sites_that_stayed(unshared, dropped, silent):
    values = vectors()
    total_sum = Round(members(), values, threshold=4, unshared=unshared, dropped=dropped).finish(
        silent
    )
    stayed = [n for n in NAMES if n not in (*unshared, *dropped)]
    expected = np.sum([values[n] for n in stayed], axis=0)
    assert np.abs(total_sum - expected).max() <= len(stayed) * CODE.step


def test_one_may_drop_at_every_step_while_a_threshold_stays():
    values = vectors()
    total_sum = Round(members(), values, threshold=3, unshared=("bank",), dropped=("lab",)).finish()
    expected = values["clinic"] + values["shop"] + values["town"]
    np.testing.assert_allclose(total_sum, expected, atol=1e-9)


def test_the_order_of_sites_does_not_matter():
    values = vectors()
    straight = Round(members(), values).finish()
    turned = Round(members(NAMES[::-1]), values).finish()
    np.testing.assert_array_equal(straight, turned)


def test_rounds_follow_each_other_with_fresh_keys():
    sites, values = members(), vectors()
    keys = []
    for number in (0, 1, 7):
        turn = Round(sites, values, number=number)
        turn.finish()
        sites = turn.sites
        keys.append({k.mask_key for k in turn.roster.keys})
    assert not keys[0] & keys[1]
    assert not keys[1] & keys[2]


def test_every_message_is_a_declared_release_and_only_vectors_are_of_people():
    turn = Round(members(), vectors(), dropped=("lab",))
    turn.finish()
    gate = Gate(Ledger())
    for message in turn.messages:
        assert gate.pass_on(message, "sum") is message
    kinds = {e.kind: e.bytes for e in gate.ledger}
    assert set(kinds) == {
        "public-keys",
        "roster",
        "sealed-shares",
        "masked-vector",
        "survivors",
        "revealed-shares",
    }
    assert all(size > 0 for size in kinds.values())
    assert {m.kind for m in turn.messages if m.personal} == {"masked-vector"}
    assert gate.ledger.verify() is None


def test_a_masked_vector_says_what_its_sum_costs():
    turn = Round(members(), vectors())
    site, event = members()["bank"], GaussianEvent(2.0)
    site, _ = advertise_keys(site, 0)
    site, _ = share_secrets(site, turn.roster)
    _, sent = mask_vector(site, turn.boxes["bank"], np.zeros(3), CODE, rows=12, event=event)
    assert (sent.event, sent.n_individuals) == (event, 12)


# --- what a message shows ---------------------------------------------------------------------


def looks_random(words: np.ndarray) -> bool:
    counts = np.bincount(words.view(np.uint8), minlength=256)
    return chisquare(counts).pvalue > 1e-3


def test_a_masked_vector_looks_uniform_and_unlike_what_is_in_it():
    size = 8192
    plain = CODE.encode(np.linspace(-1, 1, size))
    assert not looks_random(plain)
    values = {name: np.linspace(-1, 1, size) for name in NAMES}
    turn = Round(members(), values)
    for sent in turn.masked.values():
        assert looks_random(sent.words)
        related = np.corrcoef(sent.words.astype(float), values["bank"])[0, 1]
        assert abs(related) < 4 / np.sqrt(size)
    # The same vector at two sites, or of one site in two rounds, is sent as other words.
    assert not (turn.masked["bank"].words == turn.masked["lab"].words).any()
    next_round = Round(turn.sites, values, number=1)
    assert not (turn.masked["bank"].words == next_round.masked["bank"].words).any()


def test_a_late_vector_of_a_dropped_site_stays_masked_by_its_own_mask():
    values = {name: np.zeros(4096) for name in NAMES}
    turn = Round(members(), values, dropped=("lab",))
    turn.finish()
    late = turn.masked["lab"].words.copy()
    # What the coordinator can do: the survivors' shares gave it the dropped site's mask key.
    secret = turn.sites["lab"].mask_secret
    keys = {k.sender: k.mask_key for k in turn.roster.keys}
    for other in NAMES:
        if other != "lab":
            late -= pair_mask(secret, keys[other], 0, 4096, subtract=other < "lab")
    assert looks_random(late)
    np.testing.assert_array_equal(late, expand_seed(turn.sites["lab"].own_mask, 0, 4096))


def test_no_site_reveals_both_secrets_of_a_site():
    turn = Round(members(), vectors(), dropped=("lab",))
    survivors = name_survivors(turn.arrived, turn.roster)
    for message in survivors:
        revealed = turn.step(message.receiver, reveal_shares, message)
        assert not set(revealed.own_masks) & set(revealed.mask_keys)
        assert set(revealed.mask_keys) == {"lab"}


def test_secrets_are_not_shown():
    site, _ = advertise_keys(members()["bank"], 0)
    shown = repr(site)
    assert "secret" not in shown
    assert str(site.mask_secret) not in shown
    assert str(site.own_mask) not in shown


# --- what is refused --------------------------------------------------------------------------


def test_too_few_survivors_end_the_round():
    turn = Round(members(), vectors(), dropped=("lab", "shop"))
    assert turn.roster.threshold == 4
    with pytest.raises(
        DataError, match="at least 4 of 5 sites must have sent a masked vector, got 3"
    ):
        turn.finish()
    with pytest.raises(DataError, match="at least 4 of 5 sites must have revealed shares, got 3"):
        Round(members(), vectors()).finish(silent=("bank", "lab"))
    with pytest.raises(DataError, match="at least 4 of 5 sites must have shared, got 3"):
        Round(members(), vectors(), unshared=("bank", "lab"))


def test_sites_themselves_refuse_to_open_for_too_few():
    turn = Round(members(), vectors())
    few = Survivors(sender="coordinator", receiver="bank", round=0, names=("bank", "lab"))
    with pytest.raises(DataError, match="at least 4 of 5 sites must have stayed, got 2"):
        reveal_shares(turn.sites["bank"], few)
    gone = replace(few, names=("clinic", "lab", "shop", "town"))
    with pytest.raises(SettingError, match="'bank' is said to have dropped out"):
        reveal_shares(turn.sites["bank"], gone)
    strange = replace(few, names=("bank", "clinic", "lab", "nobody"))
    with pytest.raises(DataError, match="survivors must be sites whose shares it holds"):
        reveal_shares(turn.sites["bank"], strange)
    twice = replace(few, names=("bank", "bank", "clinic", "lab"))
    with pytest.raises(DataError, match="each once"):
        reveal_shares(turn.sites["bank"], twice)


def test_a_round_cannot_be_replayed():
    values = vectors()
    turn = Round(members(), values)
    with pytest.raises(SettingError, match="number must be above 0, that of its last one, got 0"):
        advertise_keys(turn.sites["bank"], 0)
    with pytest.raises(SettingError, match="can mask once in round 0"):
        mask_vector(turn.sites["bank"], turn.boxes["bank"], values["bank"], CODE)
    survivors = name_survivors(turn.arrived, turn.roster)
    bank = next(t for t in survivors if t.receiver == "bank")
    turn.step("bank", reveal_shares, bank)
    with pytest.raises(SettingError, match="can reveal once in round 0"):
        reveal_shares(turn.sites["bank"], bank)

    later = Round(turn.sites, values, number=1)
    with pytest.raises(SettingError, match="must be of round 1, got one of round 0"):
        reveal_shares(later.sites["bank"], bank)
    with pytest.raises(DataError, match="must be of round 1, got 1 of another round"):
        name_survivors([turn.masked["bank"], *later.arrived[1:]], later.roster)
    with pytest.raises(DataError, match="must be of round 1, got 5 of another round"):
        deliver_shares(turn.sealed, later.roster)


def test_a_box_for_another_site_or_round_is_not_opened():
    sites = {n: advertise_keys(m, 0)[0] for n, m in members().items()}
    turn = Round(members(), vectors())
    site, _ = share_secrets(sites["bank"], turn.roster)
    mixed = dict(turn.boxes["clinic"].boxes)
    mixed["clinic"] = mixed.pop("bank")
    wrong = replace(turn.boxes["bank"], boxes=mixed)
    with pytest.raises(DataError, match="site 'bank' cannot open the shares of"):
        mask_vector(site, wrong, np.zeros(2), CODE)
    broken = {n: b[:-1] + bytes([b[-1] ^ 1]) for n, b in turn.boxes["bank"].boxes.items()}
    with pytest.raises(DataError, match=r"cannot open the shares of .* they were changed"):
        mask_vector(site, replace(wrong, boxes=broken), np.zeros(2), CODE)
    stranger = {**turn.boxes["bank"].boxes, "nobody": b"x"}
    with pytest.raises(DataError, match="1 boxes are of no site on the roster"):
        mask_vector(site, replace(wrong, boxes=stranger), np.zeros(2), CODE)


def test_shares_that_do_not_fit_are_found():
    for dropped, part in (((), "own_masks"), (("lab",), "mask_keys")):
        turn = Round(members(), vectors(), dropped=dropped)
        survivors = name_survivors(turn.arrived, turn.roster)
        revealed = [turn.step(t.receiver, reveal_shares, t) for t in survivors]
        wrong = {n: (s + 1) % PRIME for n, s in getattr(revealed[0], part).items()}
        revealed[0] = replace(revealed[0], **{part: wrong})
        with pytest.raises(DataError, match="do not fit"):
            unmask_sum(turn.roster, turn.sealed, turn.arrived, revealed, CODE)
        some = [replace(revealed[0], own_masks={}, mask_keys={}), *revealed[1:4]]
        with pytest.raises(DataError, match="must be opened by 4 sites, got the shares of 3"):
            unmask_sum(turn.roster, turn.sealed, turn.arrived, some, CODE)


def test_a_coordinator_with_two_stories_has_too_few_shares_for_either():
    turn = Round(members(), vectors(), threshold=3)
    everyone, without = NAMES, tuple(n for n in NAMES if n != "lab")
    with_mask, with_key = {}, {}
    for at, name in enumerate(NAMES):
        survivors = Survivors(
            sender="coordinator",
            receiver=name,
            round=0,
            names=everyone if at % 2 == 0 else without,
        )
        revealed = turn.step(name, reveal_shares, survivors)
        (with_mask if "lab" in revealed.own_masks else with_key)[name] = revealed
        assert ("lab" in revealed.own_masks) != ("lab" in revealed.mask_keys)
    assert len(with_mask) + len(with_key) == 5
    assert min(len(with_mask), len(with_key)) < 3


@pytest.mark.parametrize("threshold", [2, 6, 0])
def test_the_threshold_must_be_above_half(threshold):
    with pytest.raises(SettingError, match="threshold must be above half of 5 sites"):
        Round(members(), vectors(), threshold=threshold)


def test_rosters_that_are_not_sound_are_refused():
    sent = {name: advertise_keys(site, 0) for name, site in members().items()}
    keys = [message for _, message in sent.values()]
    for wrong in (keys[:2], [*keys, keys[0]], []):
        with pytest.raises(DataError, match="must have keys of 3 sites or more"):
            make_rosters(wrong)
    roster = make_rosters(keys)[0]
    site = sent["bank"][0]
    other = replace(keys[1], sender="bank")
    for bad, words in (
        (replace(roster, keys=roster.keys[1:]), "is not on the roster with its own keys"),
        (replace(roster, keys=(replace(other), *roster.keys[1:])), "the same key"),
        (replace(roster, keys=(replace(keys[0], round=3), *roster.keys[1:])), "all keys must be"),
        (replace(roster, keys=roster.keys[::-1]), "in order"),
    ):
        with pytest.raises(DataError, match=words):
            share_secrets(site, bad)
    with pytest.raises(SettingError, match="threshold must be above half"):
        share_secrets(site, replace(roster, threshold=1))


def test_identities_keep_made_up_keys_out():
    private = {name: hashlib.sha256(name.encode()).digest() for name in NAMES}
    known = {name: signing_public_key(key) for name, key in private.items()}
    sites = {n: Member(n, identity=private[n], known=known, entropy=fixed(n)) for n in NAMES}
    values = vectors()
    total_sum = Round(sites, values).finish()
    np.testing.assert_allclose(total_sum, np.sum(list(values.values()), axis=0), atol=1e-9)

    sent = {name: advertise_keys(site, 1) for name, site in sites.items()}
    _, fake = advertise_keys(Member("lab", entropy=fixed("eve")), 1)
    mixed = [fake if name == "lab" else message for name, (_, message) in sent.items()]
    signed = replace(fake, signature=sent["lab"][1].signature)
    for false in (mixed, [signed if m is fake else m for m in mixed]):
        with pytest.raises(DataError, match="keys of site 'lab' are not signed by an identity"):
            share_secrets(sent["bank"][0], make_rosters(false)[0])
    stranger = advertise_keys(Member("zoo"), 1)[1]
    with pytest.raises(DataError, match="keys of site 'zoo' are not signed"):
        share_secrets(sent["bank"][0], make_rosters([*(m for _, m in sent.values()), stranger])[0])


def test_vectors_of_different_sizes_are_refused():
    values = {**vectors(), "lab": np.zeros(2)}
    with pytest.raises(DataError, match="must be of one size"):
        Round(members(), values).finish()


# --- numbers and secrets ----------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1e-6, 1.0, 100.0, 1e9])
@pytest.mark.parametrize("sites", [1, 7, 10_000])
def test_the_largest_sum_does_not_wrap(largest, sites):
    code = FixedPoint(largest, sites=sites)
    for sign in (-1.0, 1.0):
        words = code.encode(np.array([sign * largest]))
        total = (words * np.uint64(sites)).astype(np.uint64)
        total_sum = code.decode(total)[0]
        assert total_sum == pytest.approx(sign * sites * largest, rel=1e-12)
    # And the step is not needlessly coarse.
    assert sites * largest / code.step > 2**60


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=2), min_size=1, max_size=8))
def test_sums_are_exact_to_the_rounding_of_each(rows):
    total = np.zeros(2, np.uint64)
    for row in rows:
        total += CODE.encode(np.array(row))
    assert np.abs(CODE.decode(total) - np.sum(rows, axis=0)).max() <= len(rows) * CODE.step


@pytest.mark.parametrize("value", [100.001, -101.0, np.inf, np.nan])
def test_values_beyond_the_range_are_refused_without_being_shown(value):
    with pytest.raises(
        DataError, match="at most 100 in absolute value, got 1 of 2 values"
    ) as caught:
        CODE.encode(np.array([value, 55.555]))
    assert "55.555" not in str(caught.value)
    assert "101" not in str(caught.value)


def test_any_threshold_of_shares_opens_a_secret_and_fewer_do_not():
    secret = bytes(range(32))
    shares = share_secret(secret, positions=7, threshold=4, entropy=fixed("a"))
    rng = np.random.default_rng(0)
    for _ in range(10):
        places = rng.choice(7, size=4, replace=False)
        assert open_shares({int(p) + 1: shares[p] for p in places}, 4) == secret
    with pytest.raises(DataError, match="must be opened by 4 shares, got 3"):
        open_shares({1: shares[0], 2: shares[1], 3: shares[2]}, 4)
    # With one share too few, every secret is possible: some fourth share leads to it.
    other = share_secret(secret, positions=7, threshold=4, entropy=fixed("b"))
    assert set(shares).isdisjoint(other)
    three = {place: shares[place - 1] for place in (1, 2, 3)}
    with suppress(DataError):
        assert open_shares(three, 3) != secret


def test_the_field_is_a_prime_that_holds_every_secret():
    assert PRIME > 2**256
    assert all(pow(base, PRIME - 1, PRIME) == 1 for base in (2, 3, 5, 7, 11))
    top = b"\xff" * 32
    shares = share_secret(top, positions=3, threshold=2)
    assert open_shares({1: shares[0], 3: shares[2]}, 2) == top
