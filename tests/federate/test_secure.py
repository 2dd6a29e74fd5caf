"""Secure sums and noise on them: the same result, nobody's own update, what is survived."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import DataError, SettingError
from cofill.federate import FedAvg, LocalSettings, Scaffold, SecureSum
from cofill.federate._aggregation import LocalUpdate, Packing
from cofill.privacy import Budget, GaussianEvent, ImpossibleSumError, SiteNoise, Update
from cofill.protocol import run_steps

KINDS = {  # of a round of four sites that all stay
    "model": 4,
    "public-keys": 4,
    "roster": 4,
    "sealed-shares": 8,
    "masked-vector": 4,
    "survivors": 4,
    "revealed-shares": 4,
}


@pytest.mark.parametrize("strategy", [FedAvg(), FedAvg(by_rows=False), Scaffold()])
def test_the_sum_under_masks_gives_what_plain_updates_give(toy, strategy):
    plain, secure = (toy.federation(rounds=3, strategy=strategy, secure=s) for s in (False, True))
    toy.run_rounds([plain])
    toy.run_rounds([secure])
    one, other = plain.coordinator, secure.coordinator
    assert np.abs(one.weights).max() > 0.5
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-6, atol=1e-7)
    for name, value in one.state.items():
        np.testing.assert_allclose(other.state[name], value, rtol=1e-6, atol=1e-7)
    for mine, theirs in zip(one.curve, other.curve, strict=True):
        assert theirs == pytest.approx(mine, rel=1e-6)


def test_the_coordinator_gets_nothing_but_masked_words(toy):
    seen = []

    def keep(outbox):
        seen.extend(outbox)
        return outbox

    made = toy.federation(secure=True)
    run_steps(toy.tampered(keep, "mask", secure=True), [made])
    plain = toy.federation()
    updates = []
    run_steps(toy.tampered(lambda out: updates.extend(out) or out), [plain])
    assert len(seen) == len(updates) == 4
    code = SecureSum().code(4)
    for masked, update in zip(seen, updates, strict=True):
        # Without the masks the words would be the numbers themselves, small beside 2^64.
        bare = code.encode(made.coordinator.packing.pack(local_update(update)))
        assert (masked.words != bare).all()
        with pytest.raises(ImpossibleSumError):
            code.decode(masked.words)
        assert masked.event is None
    assert Counter(e.kind for e in made.ledger) == KINDS
    assert {e.kind for e in made.ledger if e.sender != "coordinator"} == {
        "public-keys",
        "sealed-shares",
        "masked-vector",
        "revealed-shares",
    }
    for site in made.sites.values():  # secrets and updates are forgotten when the round is over
        assert site.update is None
        assert site.member.round == 2  # the survey was 0
        assert site.member.mask_secret == b""
    assert made.coordinator.sum_state is None


def local_update(update: Update) -> LocalUpdate:
    return LocalUpdate(update.round, update.change, update.rows, update.extras, update.metrics)


@pytest.mark.parametrize("step", ["train", "share", "mask", "reveal"])
def test_a_site_that_leaves_is_survived(toy, step):
    made = toy.federation(toy.sites(4), secure=True)
    run_steps(
        toy.tampered(lambda out: [r for r in out if r.sender != "s2"], step, secure=True), [made]
    )
    held = {n: r for n, r in toy.sites(4).items() if n != "s2" or step == "reveal"}
    plain = toy.federation(held)
    run_steps(toy.tampered(list), [plain])
    np.testing.assert_allclose(made.coordinator.weights, plain.coordinator.weights, rtol=1e-6)
    if step == "reveal":  # its vector is in the sum, the others open it
        assert made.coordinator.notes == ()
    else:
        assert made.coordinator.notes == ("round 1: site 's2' did not answer; left out",)


def test_drop_outs_after_sharing_keys_over_many_rounds(toy):
    held = toy.sites(7)
    settings = {"rounds": 5, "secure": SecureSum(threshold=4), "dropout": 0.25, "seed": 2}
    made = toy.federation(held, **settings)
    toy.run_rounds([made])
    sites = [entry["sites"] for entry in made.coordinator.curve]
    assert min(sites) < 7
    assert min(sites) >= 4
    assert sum(e.kind == "public-keys" for e in made.ledger) == 35  # all had joined
    assert sum(e.kind == "masked-vector" for e in made.ledger) == sum(sites)
    again = toy.federation(held, **settings)
    toy.run_rounds([again])
    np.testing.assert_array_equal(made.coordinator.weights, again.coordinator.weights)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("train", r"no secure sum: .*keys of 3 sites or more.*got 2 sites.*'s0' did not answer"),
        ("share", r"at least 3 of 4 sites must have shared, got 2.*'s0' did not answer"),
        ("mask", r"at least 3 of 4 sites must have sent a masked vector, got 2.*'s1' did not"),
        ("reveal", r"at least 3 of 4 sites must have revealed shares, got 2"),
    ],
)
def test_too_few_sites_end_the_round_and_the_federation_is_as_it_was(toy, step, words):
    made = toy.federation(toy.sites(4), secure=True)
    before, party = dict(made.sites), made.coordinator
    drop = toy.tampered(lambda out: [r for r in out if r.sender > "s1"], step, secure=True)
    with pytest.raises(DataError, match=words) as caught:
        run_steps(drop, [made])
    assert "round 1" in str(caught.value)
    assert made.sites == before
    assert made.coordinator is party
    assert len(made.ledger) == 0
    toy.run_rounds([made])  # and it can begin the round again


def test_a_site_that_diverged_or_is_out_of_range_leaves_the_sum_and_tells_its_owner(toy):
    held = toy.sites(4)
    wild = {"hot": toy.springs([[1e10, 1e10]], h=1e35), "far": toy.springs([[5e6, 0.0]])}
    made, plain = toy.federation({**held, **wild}, secure=True), toy.federation(held)
    toy.run_rounds([made])
    toy.run_rounds([plain])
    np.testing.assert_allclose(made.coordinator.weights, plain.coordinator.weights, rtol=1e-6)
    assert made.coordinator.notes == (
        "round 1: site 'far' did not answer; left out",
        "round 1: site 'hot' did not answer; left out",
    )
    (hot,) = made.sites["hot"].notes
    assert hot.startswith("round 1: site 'hot': training diverged: 2 numbers")
    (far,) = made.sites["far"].notes
    assert "reaches 2.5e+06, and secure sums take at most 1e+06; clip it, or raise largest" in far
    assert made.sites["s0"].notes == ()


def test_a_site_with_nothing_to_teach_is_named_in_a_secure_sum_too(toy):
    held = toy.sites(4)
    alone = held["s0"]
    single = replace(alone, present=alone.present & [True, False])
    made = toy.federation({**held, "single": single}, secure=True)
    toy.run_rounds([made])
    assert made.coordinator.notes == (
        "round 1: site 'single' has no individual that this model can learn from; left out",
    )


@pytest.mark.parametrize(
    ("step", "change", "words"),
    [
        ("mask", lambda r: [replace(r, words=r.words[:3])], r"vector of shape \(3,\) for \(7,\)"),
        ("mask", lambda r: [replace(r, round=9)], "answered another round; left out"),
        ("mask", lambda r: [r, r], "answered twice; the first answer counts"),
        ("share", lambda r: [replace(r, boxes={})], "did not answer"),
        ("train", lambda r: [replace(r, round=0)], "answered another round; left out"),
    ],
)
def test_unsound_messages_of_a_sum_are_named_and_survived(toy, step, change, words):
    made = toy.federation(toy.sites(5), secure=SecureSum(threshold=3))

    def tamper(out):
        return [n for r in out for n in (change(r) if r.sender == "s1" else [r])]

    run_steps(toy.tampered(tamper, step, secure=True), [made])
    assert any("'s1'" in note and re.search(words, note) for note in made.coordinator.notes)
    twice = "twice" in words
    assert made.coordinator.curve[0]["sites"] == (5 if twice else 4)


def test_secure_sums_need_three_sites_and_sound_settings(toy):
    with pytest.raises(SettingError, match="secure sums must have at least 3 sites, got 2"):
        toy.federation(toy.sites(2), secure=True)
    with pytest.raises(SettingError, match="largest must be above 0"):
        SecureSum(largest=0)
    with pytest.raises(SettingError, match="threshold must be at least 2"):
        SecureSum(threshold=1)
    made = toy.federation(toy.sites(5), rounds=1, secure=True, participation=0.2)
    toy.run_rounds([made])
    assert len(made.coordinator.invited) == 3


# --- noise that hides a site --------------------------------------------------------------------


def test_noise_of_the_sites_is_under_the_masks_and_their_events_are_in_the_ledger(toy):
    noise = SiteNoise(clip=0.5, noise_multiplier=1e-6, sites=4)
    made = toy.federation(rounds=2, secure=True, site_noise=noise)
    toy.run_rounds([made])
    # With next to no noise: the mean, sites alike, of changes clipped to a norm of 0.5.
    weights = np.zeros(2)
    for _ in range(2):
        changes = [0.5 * (r.cells[:, :2].mean(axis=0) - weights) for r in toy.sites(4).values()]
        clipped = [c * min(1, 0.5 / np.linalg.norm(c)) for c in changes]
        weights = weights + np.mean(clipped, axis=0)
    np.testing.assert_allclose(made.coordinator.weights, weights, atol=1e-5)
    masked = [e for e in made.ledger if e.kind == "masked-vector"]
    assert len(masked) == 8
    event = GaussianEvent(1e-6, neighbours="add or remove one", unit="site")
    assert all(e.event == event and e.epsilon > 0 for e in masked)
    assert [set(e) for e in made.coordinator.curve] == [{"round", "sites"}] * 2  # no figures


@pytest.mark.parametrize("secure", [True, False])
def test_the_noise_of_the_mean_is_that_of_the_sum_over_the_sites(toy, secure):
    noise = SiteNoise(clip=1e-3, noise_multiplier=3000.0, sites=5)
    made = toy.federation(toy.sites(5), rounds=30, secure=secure, site_noise=noise)
    walk = []
    toy.run_rounds([made], after=lambda _: walk.append(made.coordinator.weights))
    steps = np.diff([np.zeros(2), *walk], axis=0)
    # 60 draws of deviation 3000 · 1e-3 / 5; their own deviation is known to about 1 in 11.
    assert np.std(steps) == pytest.approx(0.6, rel=0.45)


def test_without_secure_sums_the_coordinator_adds_the_noise_and_updates_have_no_guarantee(toy):
    noise = SiteNoise(clip=0.5, noise_multiplier=1e-6, sites=4)
    made = toy.federation(rounds=2, site_noise=noise)
    secure = toy.federation(rounds=2, site_noise=noise, secure=True)
    toy.run_rounds([made])
    toy.run_rounds([secure])
    np.testing.assert_allclose(made.coordinator.weights, secure.coordinator.weights, atol=1e-5)
    updates = [e for e in made.ledger if e.kind == "update"]
    assert all(e.event is None and e.epsilon is None for e in updates)
    assert all(set(e.facts) == {"round", "size"} for e in updates)


def test_a_budget_ends_the_run_and_spends_nothing_more(toy):
    noise = SiteNoise(clip=1.0, noise_multiplier=4.0, sites=4)
    budgets = {name: Budget(2.5, 1e-5, "add or remove one", "site") for name in toy.sites(4)}
    made = toy.federation(rounds=9, secure=True, site_noise=noise, budgets=budgets)
    with pytest.raises(SettingError, match=r"masked-vector from 's0'.*of 2.5 at δ = 1e-05"):
        toy.run_rounds([made])
    # ε of k sums with multiplier 4 is that of one with 4/√k: 2.5 is passed after some rounds.
    done = made.coordinator.round - 1
    assert 1 <= done < 9
    assert sum(e.kind == "masked-vector" for e in made.ledger) == 4 * done
    strict = {"s0": Budget(9.0, only_guaranteed=True)}
    plain = toy.federation(rounds=1, budgets=strict)
    with pytest.raises(SettingError, match=r"update from 's0'.* it has no guarantee"):
        toy.run_rounds([plain])


def test_fewer_sites_than_the_noise_counts_on_end_the_round(toy):
    noise = SiteNoise(clip=1.0, noise_multiplier=1.0, sites=5)
    with pytest.raises(SettingError, match="counts on the noise of 5 sites in a round, and only 4"):
        toy.federation(toy.sites(4), secure=True, site_noise=noise)
    made = toy.federation(toy.sites(5), secure=True, site_noise=noise)
    drop = toy.tampered(lambda out: [r for r in out if r.sender != "s2"], secure=True)
    with pytest.raises(DataError, match="the noise of 5 sites is counted on, and 4 joined"):
        run_steps(drop, [made])
    # A coordinator that would be content with less is not given the shares either.
    easy = replace(noise, sites=1)
    design = made.coordinator.design
    design = replace(design, settings=replace(design.settings, site_noise=easy))
    made.coordinator = replace(made.coordinator, design=design)
    late = toy.tampered(lambda out: [r for r in out if r.sender != "s2"], "mask", secure=True)
    with pytest.raises(DataError, match="must have revealed shares, got 0"):
        run_steps(late, [made])


# --- what is added up ---------------------------------------------------------------------------


def test_a_figure_that_some_sites_lack_is_the_mean_of_those_that_have_it():
    packing = Packing(1, figures=("loss", "cycle"))
    total = packing.pack(LocalUpdate(1, np.ones(1), 3, figures={"loss": 2.0, "cycle": 8.0}))
    total = total + packing.pack(LocalUpdate(1, np.zeros(1), 1, figures={"loss": 6.0}))
    total = total + packing.pack(LocalUpdate(1, np.zeros(1), 4, figures={"loss": np.inf}))
    vectors, figures = packing.means(total, 3)
    assert figures == {"loss": 3.0, "cycle": 8.0}
    assert vectors["change"].tolist() == [3 / 8]


def test_what_a_strategy_asks_for_counts_alike_while_changes_count_by_rows():
    packing = Packing(1, ("control",))
    total = packing.pack(LocalUpdate(1, np.array([4.0]), 3, {"control": np.array([4.0])}))
    total = total + packing.pack(LocalUpdate(1, np.array([0.0]), 1, {"control": np.array([0.0])}))
    vectors, _ = packing.means(total, 2)
    assert vectors["change"].tolist() == [3.0]
    assert vectors["control"].tolist() == [2.0]


def test_clipping_is_of_the_whole_vector_and_kept_by_the_coordinator_too():
    noise = SiteNoise(clip=5.0, noise_multiplier=1e-9, sites=1)
    packing = Packing(2, ("control",), ("loss",), noise=noise)
    update = LocalUpdate(
        1, np.array([6.0, 0.0]), 7, {"control": np.array([0.0, 8.0])}, {"loss": 1.0}
    )
    np.testing.assert_allclose(packing.pack(update), [3.0, 0.0, 0.0, 4.0], rtol=1e-12)
    assert packing.length == 4
    np.testing.assert_allclose(packing.add_up([update, update]), [6, 0, 0, 8], atol=1e-6)
    vectors, figures = packing.means(np.array([6.0, 0.0, 0.0, 8.0]), 2)
    assert vectors["control"].tolist() == [0.0, 4.0]
    assert figures == {}


def test_local_settings_stay_as_they_are_under_noise(toy):
    noise = SiteNoise(clip=1.0, noise_multiplier=1.0, sites=3)
    made = toy.federation(rounds=1, site_noise=noise, local=LocalSettings(batch=8))
    assert not made.coordinator.packing.by_rows
    for site in made.sites.values():
        assert not site.design.packing(site.learner, 2, 1).by_rows
